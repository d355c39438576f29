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
MOST_POWERS = 50
"""Convention: orders that are tried before it is said that none serves."""
SERIES = 40
"""Convention: orders that stand for all where units are not piecewise linear."""
LISTED = 6
"""Convention: pairs, sets and units that the text names; the fields have all."""
