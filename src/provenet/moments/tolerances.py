"""The numbers of this room. Each is derived (from what is said), measured, or a convention.

Machine precision is eps = 2.2e-16.
"""

from __future__ import annotations

TINY = 1e-300
"""Keeps a denominator from 0. Derived: far below any number that samples give, above underflow."""

RANK_ROUNDING = 1e-9
"""Singular values below this share of the largest are zero. 5e6 eps, a convention."""
SPAN_ROUNDING = 1e-12
"""Eigenvalues of a moment below this share of the largest are rounding: 4500 eps, a convention."""
NULL_VALUE = 1e-14
"""Eigenvalues of a Gram matrix below this share of the largest are zero: 45 eps, a convention."""
CUT_OFF = 1e-13
"""Singular values that least squares leaves out, over the largest: 450 eps, a convention."""
EDGE_FLUCTUATIONS = 4.0
"""Of the largest eigenvalue of noise about its edge, in Tracy and Widom's units `d^(-1/6)`. A
convention."""
STACKED_MARGIN = 1.15
"""Measured: pure noise reaches 0.8 of the edge with it, from (10, 3, 2) to (50, 20, 30)."""
SMALLEST_GAP = 5.0
"""Ratio of neighbouring singular values that may be the rank's. A convention."""

ZERO_LOSS = 1e-24
"""Squared residual of matrices of norm 1 that is rounding: `(4500 eps)^2`, a convention."""
SAME_LOSS = 1e-3
"""Relative difference of two fits that reached the same minimum. A convention."""
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-9, 1e4
"""Of a Levenberg-Marquardt step, over the diagonal. A convention."""
LAST_DECREASE = 1e-6
"""Relative decrease of a loss after which a fit is at rest. A convention."""
RESTING_LOSS, FLAT_LOSS = 1e-29, 1e-27
"""Squared residuals, of matrices of norm 1, that no step can lower: `(14 eps)^2` and
`(140 eps)^2`, conventions."""
NO_DIAGONAL = 1e-30
"""Floor of the diagonal that scales conjugate gradients: a convention."""
STEP_ACCURACY = 1e-6
"""Squared relative residual at which conjugate gradients end: three digits, as many as a damped
step is worth. A convention."""

FIT_RIDGE = 1e-9
"""Over the trace: keeps output weights of parallel units finite. A convention."""
FIT_DECREASE, FIT_SLOPE = 1e-15, 1e-9
"""Where L-BFGS ends: relative decrease near eps, and slope. A convention."""
AT_REST = 1 - 1e-10
"""Cosine of the angle of a step, up to sign, that counts as none. Derived: the cosine is quadratic
in the angle, so this is 1.4e-5 radians, and a cubic step leaves some ten eps of it."""
ACROSS = 1e-9
"""Over the largest weight: floor of what a start has across its unit. A convention."""
NOT_REAL = 1e-9
"""Imaginary part, over the largest eigenvalue, of a pair that is not real. A convention."""
FLATTENING_ROUNDING = 1e-10
"""Singular values of a flattened moment below this share of the largest are rounding: 4.5e5 eps,
a convention."""
SAME_DIRECTION = 1e-5
"""Radians within which two directions are one, however small their errors. A convention."""

LARGEST_BIAS = 8.0
"""Derived: beyond this `phi(b)` is below 1e-14, and a ratio of noise to noise could ask for any
bias."""
SIGNIFICANT = 5.0
"""Standard deviations at which a check on the inputs gives a warning. A convention."""

PENCIL_DRAWS = 100
"""Convention: random pencils, of which the one with the best separated eigenvalues is kept: each is
small and costs little."""
CONGRUENCE_STARTS = 10
"""Convention: starts of a joint diagonalisation; the best value reached twice ends them earlier."""
WHITENINGS = 5
"""Convention: rounds in which matrices are whitened for a start, which need only be near."""
CONGRUENCE_STEPS = 60
"""Convention: Levenberg-Marquardt steps from a start: a fit that still moves then crawls."""
CONGRUENCE_PRODUCTS = 200
"""Convention: of conjugate gradients, for one step; an early end is still a direction of
descent."""
POWER_STARTS = 50
"""Convention: random starts for each unit, half of them for either order, of which the best is
kept."""
POWER_STEPS = 60
"""Convention: of the power iteration, which near a unit converges faster than linearly: a start
that still moves then is near none."""

ERROR_GROUPS = 8
"""Convention: groups of samples between which errors are measured: eight tell them to a quarter,
and each takes the memory of all sums."""
FEWEST_IN_GROUP = 16
"""Convention: samples of a group; with fewer there are fewer groups."""

KEPT_SIGMAS = 5.0
"""Standard errors by which inputs weighted by one over their labels may be off standard normal
ones: chance is below 1e-6 a moment. A convention."""
MOST_CONTROLS = 300
"""Monomials of a polynomial that is taken off: degree 3 in 10 dimensions. A convention."""
CONTROL_ROUNDING = 1e-10
"""Eigenvalues of their normal equations, over the largest, that are rounding: 5e5 eps, a
convention."""

SINGLE_PRECISION_FROM = 1000
"""Convention: samples in a block from which its products of order 3 and 4 are made in single
precision."""
ROWS_IN_CACHE = 2048
"""Measured (benchmarks/moments.py): samples that are added up at once. Of more, what is formed does
not fit into the cache; of fewer, the calls cost as much as the work."""
SAMPLES_A_PRODUCT, ROWS_A_PRODUCT, ENTRIES_A_PRODUCT = 512, 8, 1200
"""Measured (the same): samples, rows and, at most, entries of a matrix product. OpenBLAS multiplies
up to so many entries, and up to a million times samples, without arranging factors anew, at its
full speed; of more rows more entries are computed twice, of fewer samples the calls cost as much as
the work."""
BETWEEN_ROWS = 16
"""Derived: numbers left free between rows of a power of two of samples, which would compete for the
same places in the cache: a line of it, in single precision."""
TABLES_KEPT = 4
"""Convention: of places of distinct entries, 2.5 MB each in 50 dimensions."""
SHORT_BUFFER = 512
"""Measured (the same): numbers of numpy's buffer in a pass. Rows shorter than half of it are copied
there and back, which doubles the time of a product of rows."""
