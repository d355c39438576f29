"""Numbers that decide something in robust fits, each with a reason, as in `fitting.tolerances`."""

from __future__ import annotations

from provenet.common.typing import EPS

# ---- Huber

HUBER = 1.345
"""Derived: threshold in standard deviations that keeps 95% of the efficiency when the noise is
Gaussian (Huber 1964)."""
MAD_TO_SIGMA = 1.4826
"""Derived: one over the median of `|g|` for a standard normal g."""
NORMAL_MEDIAN = 0.6745
"""Derived: the median of `|g|` for a standard normal g."""
USUAL_SHARE, USUAL_QUANTILE = 0.5, 0.6
"""Convention: residuals of which half are equal are at least this share of this quantile."""
UPPER_QUANTILE = 0.9
"""Convention: of residuals, whose rounding is the least scale there is."""
FLATTEST = 1e-6
"""Convention: the scale of residuals is at least this fraction of the labels'."""
LEAST_SLOPE = 0.05
"""Convention: at most so small is the share of residuals within the threshold taken to be."""
ROBUST_TOLERANCE, ROBUST_ROUNDS = 1e-3, 40
"""Convention: predictions that move by less than this of the residuals' scale rest; the error
shrinks by the share of clipped residuals a round, so forty are plenty."""
ROUND_STEPS = 3
"""Convention: of least squares a round: two steps and the look at where they lead."""
FRACTION_OF_ERROR = 0.1
"""Convention: predictions rest when they move by a tenth of their standard error."""
SCATTER_ROUNDS, SCATTER_TOLERANCE = 40, 1e-6
"""Convention: of Tyler's iteration, every round of which is a valid weighting."""
SCATTER_FLOOR = 1e-10
"""Convention: variance, over the largest, of a direction that hardly any row has a share in."""
TIGHTER = 0.05
"""Convention: by how much, in the logarithm of the volume and an output, a mixture of outputs must
enclose the data more tightly."""
WEIGHTINGS = 2
"""Convention: rounds of weighting: the second has the weights of a fit that was weighted. Of
robust fits, and of the last fit with several outputs."""
REWEIGHTED_STEPS, REWEIGHTED_TOLERANCE = 10, 1e-9
"""Convention: of least squares on evened labels, from next to the answer."""
UNEVEN = 2.0
"""Convention: noise is uneven if it is so much larger along one direction of the outputs."""

# ---- Directions from signs

SMEARS = (1.0, 3.0)
"""Convention: added noise, in scales of the labels: one that is as large and one that dominates."""
SHUFFLES, CLEARLY_ABOVE = 3, 1.15
"""Convention: shuffles of the labels, and how far above the strongest of theirs a direction must
stand."""
GUESS_BATCH = 256
"""Convention: rows of a left inverse that are guessed together."""
GOLDEN = 0.618
"""Derived: steps of the golden section of a range visit it most evenly."""
DISTINCT, MEANINGLESS, MOST_DIRECTIONS = 0.05, 0.5, 300
"""Convention: radians within which directions are the same, standard error from which they mean
nothing, and how many are kept (all pairs of them are compared)."""
PARALLEL = 1e-6
"""Convention: a Gram determinant below this fraction of its diagonal is that of one direction."""

# ---- Labels of low rank

MOST_PURSUIT_STEPS, PURSUIT_TOLERANCE = 300, 1e-7
"""Convention: of the augmented Lagrangian method; its penalty grows until the parts add up."""
PURSUIT_ROUNDING = 1e-14
"""Convention: of the labels' norm, by which the parts may miss the labels where nothing follows
that would make them exact: some fifty roundings."""
FIRST_PENALTY, PENALTY_GROWTH = 1.25, 1.2
"""Convention: of the penalty, over the largest singular value, and a step (Lin, Chen and Ma 2010
begin at 1.25)."""
PURSUIT_NOISE = 5e-3
"""Convention: singular values below this part of the largest are not looked at."""
GROSS = 10.0
"""Convention: entries this many times the usual size of their output are not used for the column
space."""
ROWS_FOR_SPACE = 3000
"""Convention: rows from which the column space is taken."""
ALTERNATIONS, LOOK_BACK, STANDING = 150, 5, 0.97
"""Convention: rounds of alternating least squares, which stand still when what is left is still so
much of what it was so many rounds ago."""
TRIMMED_SHARES = (0.02, 0.1, 0.25)
"""Convention: of the residuals that trimmed fits leave out."""
MORE_RANKS, PATIENCE, BETTER = 4, 2, 0.5
"""Convention: ranks beyond the pursuit's that are tried, how many in vain, and what share of the
residual a larger rank may leave."""
AGREEMENT = 0.1
"""Convention: fits that leave residuals this close, relatively, agree."""
ABSOLUTE_ROUNDS, LOGARITHM_ROUNDS = 10, 20
"""Convention: of decoding: by `|s|_1`, then by `sum log |s|`."""
ROW_SHARE, WORST_ROWS = 0.5, 0.85
"""Convention: the usual residual of a row is the median of those that are not fitted away; a basis
is judged by all but the worst 15% of rows."""
CUT_RESIDUALS = 3.0
"""Convention: residuals beyond so many medians are cut off where a further direction is sought."""
BLOCK_NUMBERS, FEWEST_BLOCK_ROWS = 2**22, 64
"""Convention: numbers that are worked on at a time, and rows at least."""
FRESH_DECODINGS, CLEAN_ROUNDS = 20, 3
"""Convention: rounds of the completion, and of setting entries apart in each: decoding leaves a
little of the corruption, so a few entries may turn."""
NOISE_STANDING = 3e-3
"""Convention: a space that moves by less than this of the noise stands still."""
SPACE_ROUNDING = 45_000 * EPS
"""Derived: what rounding leaves of residuals and of moves of a space, in units of an output's usual
size: sums over thousands of rows."""
SPACE_AT_REST = SPACE_ROUNDING / 1000
"""Convention: alternating least squares on clean entries goes on to this."""
EXACT_LABELS = 1e-9
"""Convention: residuals below this, in units of an output's usual size, are no noise but
rounding."""
NOISE_MARGIN = 5.0
"""Convention: standard deviations beyond which an entry is corrupted."""
LEAST_GAP, LEAST_ROWS, LEAST_CLEAN = 3.0, 0.5, 0.05
"""Convention: a rank is low if singular values fall so much, so many rows are determined, and so
many entries of every output are clean."""
LEAST_EIGENVALUE, MOST_LEVERAGE = 1e-6, 1 - 1e-6
"""Convention: below and beyond these a row, or an output, is not determined by others."""
LEAST_GRAM = 4.5 * EPS
"""Derived: keeps rows with too little weight solvable; below the rounding of all others."""
LEAST_SQUARE = 1e-30
"""Derived: eigenvalues of a Gram matrix below this fraction of the largest are zero squared."""
