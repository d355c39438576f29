"""The numbers of this room: each says whether it is derived, a convention or measured.

A convention is a choice that works and that nothing forces.
"""

# ---------------------------------------------------------------- auto: which road first

FLOPS_A_SECOND = 5e10
"""Convention: what two cores do; it only forecasts whether lifting fits into the budget."""
LIFTING_SHARE = 0.5
"""Convention: of the budget, what lifting may take by that forecast."""
FEW_SAMPLES_A_FEATURE = 50
"""Convention: with fewer, moments of order 2 are too rough to start from."""
FEW_SAMPLES_A_PARAMETER = 20
"""Convention: with fewer, the search needs less luck than the moments."""
SHORT_SEARCH = 3.0
"""Convention: seconds of search by forecast, below which the search goes first."""
SEARCH_SECONDS, SEARCH_PARAMETERS, SEARCH_POWER = 0.8, 300.0, 1.9
"""Measured once, by no script that remains, at (features, units) = (20, 10), (50, 20), (100, 50): a
search with 300 parameters takes 0.8 s, and its time grows with this power of their number."""

# ---------------------------------------------------------------- what a network must satisfy

ZERO_WEIGHT = 1e-9
"""Convention: weights and biases of canonical networks that are smaller count as zero."""
ORTHONORMAL = 1e-6
"""Convention: inner products over the largest square, and 0/1 weights over their factor, may be off
by this."""
DEPENDENT = 1e-6
"""Convention: vectors of norm 1 whose least singular value is below this count as dependent; the
square root of rounding would be 1.5e-8, and moments of any sample see less."""

# ---------------------------------------------------------------- identifiability

MARGIN = 5.0
"""Convention: sampling errors by which a unit's coefficient must stand out (one in 1.7 million by
chance)."""
NEARLY_PARALLEL = 0.99
"""Convention: cosine from which a pair of units is named as nearly parallel (8 degrees)."""
SAME_KINK = 1e-9
"""Convention: hyperplanes of norm 1 that are nearer are one; some millions of roundings."""
SMOOTHED_ROOM = 0.99
"""Derived: share of an order's room that ATV21, Corollary 3.3, promises to perturbed weights."""
MOST_POWERS = 50
"""Convention: orders that are tried before it is said that none serves."""
SEARCHED = 4.0
"""Measured (`benchmarks/papers/ours.py`): labels a parameter from which the search finds most: 14
of 15 networks of 5 units, 10 of 10 of 10 and 4 of 4 of 20."""
ON_EITHER_SIDE = 8.0
"""Convention: samples a weight of a unit, whatever the outputs: kinks need them on either side. Of
5 units in 10 features three of three networks came from 90 samples of 3 outputs, none from 57 of 6.
"""
CLASSES_A_PARAMETER = 200
"""Convention: class labels a parameter: hundreds, as each tells little."""
ENUMERATED = 2.0
"""Convention: samples a parameter from which sign patterns of few inputs are told apart: of 3
units, 4 features and 4 outputs two of two networks came from 60 samples, one of two from 45."""
ALONE = 2.0
"""Convention: samples with a single unit on, a weight of it, that show its direction."""
DRAWN_INPUTS = 20_000
"""Convention: inputs that tell how often a unit is on alone."""
FEW_OUTPUTS = 2.0
"""Convention: times the samples that show all units, where outputs are fewer than units: of three
networks (10 features, 5 units, 2 outputs) one was partial without it."""
THIN_BANDS = 16.0
"""Convention: the same for thin bands: of two networks one was not found at 4 times."""
ANY_NOISE = 10.0
"""Convention: the same for a start that stands any noise: of 5 units in 10 features and 6 outputs
two of two networks came from 10 times as many, none of three from twice."""
WELL_ABOVE = 3.0
"""Convention: outputs a unit from which corrupted labels stand out of the span of the others: two
of two networks of 5 units and 15 outputs came, none of three with 6."""
SERIES = 40
"""Convention: orders that stand for all where units are not piecewise linear."""
LISTED = 6
"""Convention: pairs, sets and units that the text names; the fields have all."""

# ---------------------------------------------------------------- arbitrary-inputs

MOST_ENUMERATED_UNITS = 3
"""Convention: units whose sign patterns are enumerated: O(n^k) of them for k units, so that a
fourth would cost some n times as much."""
MOST_ENUMERATED_SAMPLES = 60
"""Convention: samples whose sign patterns are enumerated: `7 C(60, 3)`, some 240,000 small systems
for three units."""
BALANCING_ROUNDS = 10
"""Convention: rounds in which samples and features are scaled in turn: sizes need only be
comparable."""

# ---------------------------------------------------------------- arbitrary-noise

SKETCH_ROWS_A_UNIT = 4
"""Convention: rows a unit of Algorithm 8's sketch of the outputs: guesses grow exponentially with
them."""
FINEST_GUESSES = 4
"""Convention: levels of guesses, whose entries are 0 and +-2^-i with i below the level: with eight
rows the last has `9^8` combinations, more than a budget usually lets be tried."""
GUESS_SMEARS = (1.0, 4.0)
"""Convention: noise added before signs are taken, over the usual size of the values: one that is as
large and one that dominates."""
ROBUST_START_ROWS = 100_000
"""Convention: samples that the robust start reads where there are more than are fitted: its
directions average over all of them."""
SPAN_SEARCH_ROWS = 10_000
"""Convention: samples of the fits inside the span: it has few dimensions, and the best fit is
refined later."""
SPAN_SEARCH_TOLERANCE = 3e-3
"""Convention: predictions of these fits that move by less than this of the residuals' scale rest:
three times as coarse as fits that are not only compared."""
RANDOM_SPAN_STARTS = 6
"""Convention: random starts inside the span, after those from moments and signs; the least loss
reached twice ends them earlier."""
SAME_HUBER_LOSS = 1e-4
"""Convention: relative difference of the losses of two fits at rest that are one minimum."""
DRAWN_IN = 3.0
"""Convention: scales from the median to which whitened labels are drawn in where there is no fit
yet: what is farther is an outlier's more likely than a unit's."""
SIGN_STEP_ERRORS = 5.0
"""Convention: standard errors of the sign step within which it finds a direction: in one dimension
one in 1.7 million by chance, in more dimensions less."""
UNSURE_DEGREES = 20.0
"""Convention: standard error of the sign step's directions beyond which it confirms nothing."""

# ---------------------------------------------------------------- binary-cliques

GAPS_TRIED = 20
"""Convention: gaps between correlations, the widest first, that are tried as the threshold: a gap
that shows at all is among the widest."""
MOST_CLIQUES = 1000
"""Convention: maximal cliques up to which supports are read off them: there may be exponentially
many, and far fewer units."""

# ---------------------------------------------------------------- even

EVEN_STARTS = 20
"""Convention: random starts of the ascent for each unit, of which the highest maximum is kept."""
EVEN_ASCENT_STEPS = 500
"""Convention: steps of the shifted power method, which may converge slowly and costs no samples."""
EVEN_SETTLED = 1e-9
"""Convention: change of a direction's entries, and turn in radians, that is none: far below
sampling error, above rounding."""
ROTATION_STEPS = 200
"""Convention: steps of the fit of the rotation, which may converge slowly and costs no samples."""
LARGEST_TURN = 0.3
"""Convention: radians of one such step at most: beyond, entries are not linear in the angle."""
EVEN_ATTEMPTS = 20
"""Convention: further starts of least squares where labels are not explained: pairs turned back,
then random rotations."""
AT_NOISE = 1.02
"""Convention: residual, over the noise that was given, at which a fit has come down to it."""
VANISHING_COEFFICIENT = 1e-9
"""Convention: Hermite coefficients of an activation below this fraction of the largest are zero to
rounding of the quadrature."""
ORTHONORMAL_SIGMAS = 6.0
"""Convention: standard errors, of what standardises the inputs and of the units' angles, by which
products of weights may be off."""

# ---------------------------------------------------------------- exponential

EXPONENTIAL_STEPS = 200
"""Convention: steps of the ascent of g: one that still goes on then has no maximum that sampling
error lets show."""
STEP_HALVINGS = 30
"""Convention: halvings of a step until it gains: of 2^-30 of it only rounding is left."""
EXPONENTIAL_SETTLED = 1e-7
"""Convention: largest change of a feature's mass, over the sum of all, that is no step: evenness is
told to two digits."""
LEAST_EVENNESS = 0.25
"""Convention: of 1 at best and 0 where features could not be told apart: a quarter of the way
leaves sampling error some room."""

# ---------------------------------------------------------------- gradient-search

MOST_SEARCHED_FEATURES = 4
"""Convention: features up to which every direction is looked at: some 1,400 in the first net for 4,
nine times as many for 5."""
FEWEST_SEARCHED = 500
"""Convention: samples to fit without which thin bands hold too few to show a face."""
FEWEST_A_TERM = 10
"""Convention: samples a term of the polynomial that stands for labels before any unit is known, so
that it is well determined."""

# ---------------------------------------------------------------- ica

ICA_STEPS = 300
"""Convention: of FastICA: components that do not settle by then are left to the next contrast."""
ICA_TOLERANCE = 1e-6
"""Convention: change of FastICA's rows, as 1 - |cosine|, that ends it: 1.4e-3 radians, from where a
further step is far smaller still."""
ATOM_SHARE = 0.1
"""Convention: share of the samples in the narrowest interval, which is where a component is zero: a
unit is off more often than that."""
DEPENDENCE = 0.05
"""Convention: third moment of two components of variance 1 that a little noise may leave."""
DEPENDENCE_ERRORS = 5.0
"""Convention: what sampling may add to it, in units of `1/sqrt(n)`: the largest of all pairs'."""

# ---------------------------------------------------------------- landscape

STAYED = 0.9
"""Convention: product of a unit of norm 1 before and after the last descent beyond which it is the
same: 26 degrees."""
MOMENT_STARTS, LOSS_STARTS = 3, 10
"""Convention: random starts: an objective without bad minima needs one, and two more where sampling
error makes some; losses have bad minima of their own."""
SHARE_OF_DESCENT = 0.8
"""Convention: of the time that is left, for the paper's stochastic descent: the rest is to judge
what it found."""

# ---------------------------------------------------------------- lifting

ROWS_AN_UNKNOWN = 1.3
"""Convention: samples an unknown of the lifted system: some more than it takes, so that no other
singular value is small by chance; time grows with them."""
LIFTING_SPARE_ROWS = 10
"""Convention: samples beyond these; half as many beyond the rank must be there."""
MORE_ROWS = 4
"""Convention: times as many samples where the relations are more than the units: some that hold on
few samples do not on many."""
EXTRA_VECTORS = 5
"""Convention: vectors beyond the null space that the iteration carries: the first shows the gap,
all of them speed it up."""
FINISHED = 1e-6
"""Convention: of the labels' spread: an exact finish that leaves more is none."""
RANK_ONE_STARTS = 20
"""Convention: starts for every unit among more relations than units: most lead to one."""
RANK_ONE_PROJECTIONS, RANK_ONE_NEWTON = 60, 6
"""Convention: rounds of alternating projections, which approach slowly, and of Gauss-Newton steps,
which double the digits of what is near."""
RANK_ONE = 1e-6
"""Convention: share of an element beyond rank one that is rounding: some ten times its error where
the relations hold to 1e-9."""
NEW_UNIT = 1e-4
"""Convention: what is left of a unit vector after those found, that is another: output weights
that are more dependent are not told apart anyway."""
INVERSE_ROUNDS = 12
"""Convention: rounds of inverse iteration, each by the squared ratio of singular values: at the
smallest gap allowed 1.5^24 is 17,000."""
SMALLEST_SOLUTION_GAP = 1.5
"""Convention: ratio of the first singular value beyond the solutions to their last, below which
noise hides where they end."""
LARGEST_SYSTEM_BYTES = 3e9
"""Convention: of the lifted system, at 12 bytes a squared unknown: what fits an ordinary
machine."""

# ---------------------------------------------------------------- other methods

PARALLEL_UNITS = 1 - 1e-12
"""Derived: cosine from which units are parallel: 4500 roundings from 1, 1.4e-6 radians."""
SPARE_LABELS = 3
"""Convention: labels beyond the unknowns of a linear system that confirm its solution: they are
exact, so a few are enough."""
PIECE_TRIES = 40
"""Convention: samples of a line around which a linear function is sought: of two functions each
shows around a third of them or more."""
DEPENDENT_COLUMNS = 1e-12
"""Convention: eigenvalues of a Gram matrix below this fraction of the largest belong to columns
that depend on others: 4500 roundings."""
MOST_CORRUPTED_LABELS = 0.4
"""Convention: share of the labels that may be corrupted, that of the judge: what explains less than
most of them proves nothing."""
MOMENT_FIT_ATTEMPTS = 3
"""Convention: fits of the moments, each refined on samples, until labels are explained; the last
begins at random."""
ZERO_MOMENT = 1e-9
"""Convention: singular values of stacked moments below this fraction of the largest are rounding
where there is no noise."""
LARGEST_START_BIAS = 3.0
"""Convention: of a unit of norm 1 at the start: beyond three standard deviations it hardly ever
switches, and the ratio that gives its bias is noise."""

# ---------------------------------------------------------------- symmetric-inputs

CHECK_STEPS = 20
"""Convention: steps of the least squares that checks an answer: they begin next to it."""
CHECK_TOLERANCE = 1e-3
"""Convention: relative decrease that ends it: only what it leaves is looked at."""
CHECK_ROWS = 5000
"""Convention: samples of this fit: a unit too few shows in so many, or changes little."""
CHECK_EXCESS = 2.0
"""Convention: correlation of what it leaves with the inputs, over what sampling explains, that is a
unit's: the fit itself, ended early, may leave a little more than 1."""
DOUBT = 1e-6
"""Convention: chance that the largest of all means exceeds its bound though each is zero."""
CORRELATION_MARGIN = 1.3
"""Convention: over the edge of pure noise (Marchenko, Pastur), from which a canonical correlation
is a unit's: the largest of noise fluctuates about that edge."""
LIFTED_BLOCK_ROWS = 2048
"""Convention: samples of a block: half of the usual, for each comes with products of pairs."""
SINGULAR_ERRORS = 3.0
"""Convention: sampling errors, in each direction that is free, up to which a smallest singular
value may be that of a singular matrix (one in 370 by chance)."""
SINGULAR_ROUNDING = 1e-12
"""Convention: of the largest singular value: a smallest one below it is zero but for some thousands
of roundings."""
