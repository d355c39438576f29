"""Numbers that decide something in the search, each with its reason, as in `fitting.tolerances`."""

from __future__ import annotations

# ---- Samples and width

ZERO = 1e-9
"""Convention: a residual below this fraction of the labels' spread counts as zero during the
search: above what ill-conditioned units leave after a few steps, far below any bad minimum."""
SMOOTH_ZERO = 1e-12
"""Measured: the same for smooth units, of which a few too many leave down to 4e-10 (softplus,
benchmarks/activations.py)."""
NEAR_ZERO, SMOOTH_NEAR_ZERO = 1e-4, 1e-3
"""Convention: below it a fit is on its way to zero: bad minima leave far more. Smooth units are
slower."""
LAYERED_ZERO, LAYERED_NEAR_ZERO, LITTLE = 1e-10, 5e-3, 2e-2
"""Measured: the same for several layers, of which fits that leave less have all their units
(benchmarks/layers.py); and what they leave at most while units too many are pruned."""
LARGEST_NORM = 6.0
"""Convention: of a unit's weights on standardised inputs while it is searched for: beyond, a smooth
unit is nearly a kink, which moves only where samples are close to it."""
NORMS, BROUGHT_BACK = (0.3, 3.0), (0.7, 3.0)
"""Convention: norms of random units where norms count, and of those whose norm ran away."""
AT_THE_CAP, NEARLY_LINEAR = 0.7, 0.05
"""Convention: of the largest norm, and norm, beyond and below which a unit's norm ran away."""
MOST_SHARE_OF_SAMPLES, MOST_SHARE_OF_KINKED = 0.75, 2 / 3
"""Convention: of the labels that parameters may take up. Measured: the same of one layer of units
with kinks: wider ones learn labels by heart, and hardly ever get to zero (10 units of 20 features,
2.5 samples a parameter: benchmarks/samples.py)."""

# ---- Swaps, growth, pruning

POOL, POOL_ROWS = 400, 3000
"""Convention: random units that are compared, on at most so many samples."""
FAINT = 1e-5
"""Derived: what the others leave of a unit below this fraction of the pool's strongest is rounding
of sums over thousands of samples in single precision."""
SWAP_STEPS, SWAP_TOLERANCE = 30, 1e-3
"""Convention: least squares after a swap: a fit that still falls is worth more steps, one that
crawls is in a bad minimum."""
GROWTH_TOLERANCE = 1e-2
"""Convention: the same where units are added: those that are there need not be at rest."""
WORTHWHILE = 0.8
"""Convention: a swap that leaves this share of the sum of squares or less was no accident."""
PRICE_OF_GROWTH = 0.75
"""Convention: share of Schwarz's price of a parameter that growth must earn: one of many units
explains little as long as the others are missing. benchmarks/recovery.py has the rates with it."""
PRICE_OF_LAYERS = 1.0
"""Measured: the same of several layers, which learn few samples by heart (tanh of 16 and 8 units,
2400 samples, benchmarks/layers.py: chains grew to 32 and 28 units, and took minutes to prune)."""
GROWTH_BEYOND = 1.4
"""Convention: a chain gives up at this multiple of the width that had the least criterion."""
FIRST_WIDTH, MOST_SWAPS = 3, 32
"""Convention: units of the first chain where their number is not known, and failed swaps that the
most patient chain allows."""
MORE_SWAPS, MORE_SWAPS_OF_FEW = 2, 4
"""Convention: how many times as many failed swaps the next chain allows, and where samples are
few."""
SHORT_OF_SAMPLES = 2
"""Convention: samples are few where they determine at most so many times the units, one more
counted, of the best of chains that failed, by Schwarz's criterion: growing on leads to labels
learned by heart, swapping does not."""
MANY_MORE, MORE_THAN_A_FEW = 3, 10
"""Measured: the second chain starts with so many times the units of the first, and so many more (3
or 7 of 25 tanh units in 50 features, benchmarks/activations.py)."""
PRUNE_STEPS, PRUNE_LAST_STEPS, PRUNE_CANDIDATES = 8, 4, 3
"""Convention: a redundant unit leaves a residual near zero behind after a few steps, or never; so
many of the least useful are tried."""
IN_VAIN = 1e3
"""Derived: times what counts as zero, what units in vain leave at most when they go and the rest is
refitted linearly: the ridge of that fit makes so much of equal ones."""
PRUNE_TOLERANCE, PRUNE_ZERO_TOLERANCE = SWAP_TOLERANCE / 10, 0.05
"""Convention: finer than that of swaps, because the criterion compares; where nothing is left, a
fit that falls more slowly does not come back to zero."""
AT_ZERO = 0.1
"""Convention: fits of the search end at this share of what counts as zero."""
GROWING_PAYS = 0.8
"""Convention: share of the narrower width's sum of squares below which the first chain grows on
and does not swap: growth alone finds the way as long as it leaves so little."""

NEAR_STEPS, NEAR_TOLERANCE = 60, 1e-2
"""Convention: least squares on its way to zero, which is slow where units are much alike; one that
falls by less a step does not get there."""

# ---- The dash for zero

DASH_FACTOR, DASH_ROWS = 2, 3
"""Convention: by which a width grows, and times which it is given the samples that it needs."""
DASH_STEPS, PATIENT_STEPS, DASH_FURTHER = 5, 30, 60
"""Convention: least squares of a width that is to grow, and of the widest: a few steps, or while
they help; and further ones while they help well (`FALLS_WELL`)."""
PATIENT_TOLERANCE = 1e-2
"""Convention: fall of the sum of squares below which a step of the widest does not help."""
DASH_NEAR = (1e-3, 1e-2)
"""Convention: of the labels' spread: where it ends, and what is little enough to try the end from
there: bad minima leave far more."""
DASH_WORTH = (30.0, 3.0)
"""Convention: times what is left that units to spare are worth at most: all that may be, then those
that surely are."""
DASH_FALLS, DASH_FAILURES = 0.95, 2
"""Convention: share of the variance left that a width or an exchange leaves if it helps, and
exchanges in a row that do not before the dash is given up."""
SPAN_FEATURES, SPAN_SHARE = 80, 0.7
"""Convention: features from which on units are first looked for in the span that shows, and the
share of them that it may have: beyond, nothing is gained by it."""
SPAN_FALLS = 0.98
"""Measured: share that an exchange leaves if it helps units that were found there: a few of these
are right at first, and every one that is makes others show (200 features, 100 units: falls of 7, 7,
12 and 53% of one seed, and of 4% where another was given up, benchmarks/README.md)."""
FEW_MISSING = 0.05
"""Convention: of the labels' spread, what is left where few units are missing: growing finds them
at once."""
LAST_STEPS, LAST_FALLS = 40, 0.1
"""Convention: least squares at the end, which falls by whole factors a step: one that falls by less
does not get to zero."""

# ---- Several layers

LAYER_SPREADS, THRESHOLDS_WITHIN = (0.5, 2.0), 0.5
"""Convention: spread of a random unit's argument, and how far out its threshold lies: half way to a
random sample, so that units of every layer bend."""
NEW_FEED = 0.3
"""Measured: size of the weights by which new units feed others (0 leaves chains stuck,
benchmarks/layers.py)."""
FOLD_ROWS, FOLD_RIDGE = 2000, 1e-12
"""Convention: samples on which layers are folded and compared, and the ridge of the regression."""
LAYER_CANDIDATES, REVERSED_WITH = 8, 6
"""Convention: units of a layer that are tried to be dropped, and drops with another unit reversed:
those that cost least."""
USELESS, NEAR_SHARE = 1e-4, 0.2
"""Convention: what dropping a useless unit leaves before any refit, of the labels' spread; and the
share of what is near zero below which all fits are alike."""

AT_FLOOR, FLOOR_FALLS, FLOOR_STEPS = 0.1, 0.4, 8
"""Measured: of the labels' spread, noise beyond which a chain is not asked whether noise is all it
leaves; the share of the narrower fit's variance below which it is on its way down; and steps on all
samples before two widths are compared (ReLU of 8 and 4 units, benchmarks/layers.py: floors are
reached at 14 and 11 units)."""

UNTANGLED_WITHIN = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
"""Measured: of the labels' spread, what units that are dropped while layers are untangled may cost
in all: of fits that leave 1e-12 to 5e-3 each but the first was the right one somewhere
(benchmarks/layers.py, ReLU of 16 and 8 units)."""
SMALL_SHARE = 0.1
"""Convention: of what a fit leaves, that dropped units may cost without being noticed."""
UNTANGLE_ROWS, UNTANGLE_RIDGE = 4000, 1e-13
"""Convention: samples on which layers are untangled, on which units that are seldom on still show;
and the ridge of a regression of many columns of which some are equal."""

# ---- Rivals of an answer under noise

RIVAL_POOLS, RIVALS_OF_A_POOL, RIVAL_POOL_ROWS = 3, 4, 10_000
"""Convention: pools, further units of each that are tried, and samples on which a pool is compared:
under noise a weak unit shows in thousands only."""
FINALISTS = 2
"""Convention: rivals of each kind and width that are refined to the end."""
RIVAL_STEPS, RIVAL_LAST_STEPS = 6, 40
"""Convention: of least squares, for each rival, and for the best of each kind and width."""
RIVAL_TOLERANCE = 1e-3
"""Convention: fall of the sum of squares at which the first steps end; the last ones end where
twice the log-likelihood gains less than one."""
WEAKEST = 2
"""Convention: units that are dropped or exchanged, the least useful, each alone."""
NEAR_KINK = 0.5
"""Convention: distance from a kink, in standard deviations, within which what is left tells how to
split a unit."""
APART = (0.15, 0.4)
"""Convention: how far the halves of a unit are moved to either side, weights having norm 1."""
SPLIT_AT_RANDOM, SPLITS = 3, 4
"""Convention: random directions for each unit beside the likeliest, and splits that are refined,
those of all that explain most before."""
REVERSED = 6
"""Convention: choices of other signs that are refined, those of all a unit or two away that fit
best before."""
SAME_UNIT = 0.98
"""Convention: cosine of two units, bias and all, from which a refit with other signs came back to
the unit that was reversed: the angle is 0.2."""
RIVAL_WORK, SPLIT_WORK = 1e10, 40
"""Convention: multiplications of a round's first steps, about a second of one core, of which one
rival of each kind may take more; and those that ways to split take, a unit, parameter and sample.
"""
RIVAL_SECONDS = 3.0
"""Convention: what rivals may take, at least, beyond a budget that is used up."""
RIVAL_GAIN = 1.0
"""Derived: least squares ends where twice the log-likelihood gains less than one, so that a rival
that gains less is the answer itself."""
MOST_ROUNDS = 4
"""Convention: rounds of rivals, each of which gained on the one before: where more units are
missing the search itself is to be made again."""
