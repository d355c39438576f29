"""The numbers of this room: each says whether it is derived, a convention or measured.

A convention is a choice that works and that nothing forces. Numbers of one search (bands, faces,
unions) stand in its own list.
"""

# ---------------------------------------------------------------- candidates

AT_THE_ROUNDING = 10.0
"""Convention: times the rounding error of labels in single precision; a fit that leaves more is no
candidate."""
AT_THE_NOISE = 1.2
"""Convention: the same for the noise given; the judge asks for more."""
MOSTLY_SILENT = 0.5
"""Derived: share of samples that have the silent label, if the median is to show it."""

# ---------------------------------------------------------------- directions: step 1

SETTLED_SLOPE = 1e-10
"""Convention: the slope at which a minimum of the objective is one."""
SETTLED_CURVATURE = 1e-8
"""Convention: the negative curvature that a minimum may have."""
PENALTY = 10.0
"""Convention: lambda over `|u_4| / u_2^2`, and over the largest `1 / c_i` where one is above 1;
Claim 2 asks for a constant, of coefficients near 1."""
FOURTH_ROUNDS = 30
"""Convention: power iterations for that largest: it need not be sharp."""
FIRST_THRESHOLD = 2.0
"""Convention: where the fit in moment space starts if no threshold is given."""

SMALLEST_COEFFICIENT = 1e-6
"""Convention: over the largest, the least coefficient of a unit whose error is taken from it; a
smaller one, or a negative, makes the error as large as it can be."""
PRODUCTS_STAND_OUT = 2.0
"""Convention: sampling errors of an entry of `T_3`, as if labels were independent of inputs, that a
product of units must stand out by; the true ones are up to twice as large."""
ROWS_OF_PAIRS = 2048
"""Convention: samples at once, each with a number for every pair of units."""

# ---------------------------------------------------------------- exclusive: lines of single units

LINE_SAMPLES = 4000
"""Convention: samples nearest to a face that its line is fitted to."""
LINE_ROUNDS = 4
"""Convention: looks at which samples each unit claims alone."""
LINE_REWEIGHTINGS = 60
"""Convention: steps of least absolute deviations, at most."""
LINE_FLOOR = 1e-10
"""Convention: the least deviation that a weight is taken from, over the largest label."""
ON_A_LINE = 1e-5
"""Convention: over the largest label, the deviation of samples that may lie on the line."""
EXACTLY_ON_A_LINE = 1e-9
"""Convention: the same of those that do; a million times eps."""
LINE_SAMPLES_A_PARAMETER = 3
"""Convention: the fewest samples, so that a line through half of them is over-determined."""
ALONG = 0.5
"""Convention: cosine between a slope and the approximate weights, at least."""
CLEAR_OF_OTHERS = (0.3, 0.0)
"""Convention: how far below its threshold every other unit must be, first and last."""

# ---------------------------------------------------------------- fit: a layer and its polynomial

FIT_DEGREE = 3
"""Convention: of the polynomial fitted above a layer where nothing else is asked; for time."""
FIT_SAMPLES_A_PARAMETER = 6
"""Convention: samples of the first fit; all are asked afterwards."""
FIT_FEWEST_A_PARAMETER = 2
"""Convention: the fewest samples; half of the labels are then left to confirm the other half."""
FIT_MOST_PARAMETERS = 1200
"""Convention: beyond it a Jacobian takes too long."""
FIT_MOST_OF_HIGH_DEGREE = 400
"""Convention: the same for polynomials above `FIT_DEGREE`, of which many are tried."""
FIT_MOST_ENTRIES = 2_000_000
"""Convention: of the Jacobian, 16 MB."""
FIT_EVALUATIONS = 150
"""Convention: of residuals, a fit."""
FIT_EXPLAINED = 1e-9
"""Convention: root mean square residual over the spread of the labels that is rounding; a million
times eps."""
FIT_FEWEST_SEEN = 5
"""Convention: samples on which all units of a monomial fire, for it to be fitted."""
FIT_SINGULAR = 1e-9
"""Convention: singular values of the scaled Jacobian below this, relative to the largest, are
zero."""
NO_EFFECT = 1e-6
"""Convention: a column of the Jacobian this small, over the spread of the labels, is that of a unit
without effect."""
WORTH_MONOMIALS = 0.7
"""Convention: more monomials must lessen the residual to this share."""

# ---------------------------------------------------------------- refinement: step 2

ASKED_OF_PAPER = 1e-2
"""Convention: radians to which Algorithm 1 refines; its queries are tens of millions already
there."""
ASKED_ANGLE = 1e-6
"""Convention: radians to which a queried source is refined."""
MOST_FIRING = 400_000
"""Convention: samples that fire and are held in memory."""
SAME_UNIT = 10.0
"""Convention: estimated angles within which two directions are one unit."""
DISTINCT_LABELS = 0.5
"""Convention: share of distinct ones among labels that fire, of continuous units, at least."""

# ---------------------------------------------------------------- top: what lies above

TOP_MOST_DRAWN = 400_000
"""Convention: samples that a top is learned and tried on."""
TOP_MOST_FITTED = 50_000
"""Convention: those on which most units fire, to fit."""
TOP_MOST_TERMS = 2000
"""Convention: monomials of a polynomial that one factorisation holds."""
TOP_FEWEST_SEEN = 5
"""Convention: samples on which a monomial must not vanish, to be fitted."""
STANDS_OUT = 4.0
"""Convention: standard errors by which a coefficient stands out."""
TOP_ROUNDING = 1e-10
"""Convention: over the norm of the labels, what a coefficient must be worth beside rounding."""
TOP_HELD_OUT = 0.2
"""Convention: share of the samples that a top is tried on."""

# ---------------------------------------------------------------- binary: correlations

REGRESSION_TOLERANCE = 1e-11
"""Convention: residual of the normal equations, over the first, at which conjugate gradients end;
some ten thousand times eps."""
REGRESSION_ITERATIONS = 200
"""Convention: of conjugate gradients, a pass over the samples each; if they do not settle by then,
inputs are not normal or too few."""

# ---------------------------------------------------------------- binary: exponential units

EXPONENTIAL_MOST_SAMPLES = 20_000
"""Convention: samples of the last fit of the coefficients."""
RHO_SAMPLES = 2000
"""Convention: samples on which rho is searched for, some thirty a monomial."""
RHO_GRID_SAMPLES = 500
"""Convention: samples of the first grid of rho, which only brackets it; some eight a monomial."""
EXPONENTIAL_MOST_MONOMIALS = 64
"""Convention: monomials at most, if units alone are not more; a degree that would exceed it is left
out."""
RHO_SHARPENINGS = 3
"""Convention: Gauss-Newton steps from where a search ends, which is off by the root of rounding:
the first squares that, where labels are explained."""
