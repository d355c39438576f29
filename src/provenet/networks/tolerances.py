"""Numbers that decide something in this room, each with its reason.

*Derived* follows from what is said; a *convention* could be another number of its size without
changing an answer; *measured* names where.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(float).eps)
"""Derived: the spacing of floating point numbers at 1. Rounding is given as a multiple of it."""
TINY = 1e-300
"""Convention: in place of zero where something is divided by it, far below any size that occurs and
large enough for the quotient to stay finite."""

# ---- Canonical form

SORTED_DIGITS = 9
"""Convention: digits of sizes and weights by which units are put in order: fewer than rounding
leaves alike, and enough to tell units apart."""

# ---- Conversions

NO_SLOPE = 4.5 * EPS
"""Derived: a linear term below this fraction of the steepest unit is lost in the rounding of the
sum of the two."""

# ---- Signs of units

EXHAUSTIVE_UNITS = 16
"""Derived: up to so many units all `2^16` sign patterns fit into 8 megabytes."""
DEPENDENT = 1e-8
"""Derived: the square root of EPS; below this fraction of their norm the units' terms count as
dependent, because signs read from them would lose half of the digits."""
ONE_SLOPE = 1e-6
"""Convention: one slope explains a linear part that it leaves less of, relatively: far above what
rounding leaves of a fit, far below what a second slope would."""
EXACT_SIGNS = 1e-7
"""Convention: what exact signs may leave of a linear part, relatively: a fit's own rounding, ten
times DEPENDENT."""
MOST_FREE_SIGNS = 16
"""Convention: units that depend on others and whose signs are all tried: 65,536 patterns."""
MOST_SIGN_NUMBERS = 2**24
"""Convention: numbers to hold for that: 128 megabytes."""
MOST_PATTERNS = 64
"""Convention: as many sign patterns are told as a reader may look at."""
EQUALLY_GOOD = 1e-9
"""Convention: misfits within this fraction of the terms' norm are the same: above rounding, below
any difference that flipping a unit makes."""
NO_GAIN = 4500 * EPS
"""Derived: a sum of squares of some thousand terms that falls by less, relatively, is rounding."""

# ---- Signs by reducing a lattice

EQUATION_STEP = 1e-11
"""Measured: of the terms' norm; extraction leaves 6e-13 to 2e-11 in an equation. Steps of 3e-12 do
as well."""
EQUATIONS_AT_ONCE = 10
"""Measured: so many at a time reduce 200 units in 100 features in 40 s, about 10 s for each lot,
and all 100 at once in 110 s; the deadline is looked at in between."""
LATTICE_TRIES = 30
"""Measured: of 100 units in 10 features one try in five finds the signs, in a second: all but one
in a thousand do it in 30. More units have fewer tries, as each takes longer, and one where the bits
are twice what is needed."""
BITS_A_UNIT = 1 / 32
"""Derived: bits a sign and unit without which none is found: vectors of a reduced basis are too
long by about `1.022^m`, and the m-th root of what the equations tell must outweigh that."""
MOST_LATTICE_UNITS = 220
"""Convention: a reduction of 200 units takes most of a minute, and grows with the fifth power."""
SPARE_BITS = 40.0
"""Convention: bits beyond one a sign: other signs solve the equations by chance once in 1e12."""

# ---- Subsets with a given sum

MOST_VECTORS = 40
"""Derived: `2^20` sums a half, 32 megabytes."""
SUM_ROUNDING = 45 * EPS
"""Derived: a sum of up to MOST_VECTORS terms is off by this fraction of their sizes at most."""

# ---- Units that may be flipped

FLIP_TOLERANCE = 1e-9
"""Convention: a sum of `a_i w_i` below this fraction of their sizes is zero: weights that were
recovered exactly are better known, and weights drawn at random miss by far more."""
FLIP_BUDGET = 10.0
"""Convention: seconds for the mixed-integer search."""
MOST_FREE = 20
"""Convention: `2^20` choices, block by block."""
MOST_CANDIDATES = 100_000
"""Derived: so many masks of 40 units are 4 megabytes."""
BIT_BLOCK = 1 << 14
"""Derived: so many choices at a time, times 40 units, are 5 megabytes."""
NULL_SLACK = 1000.0
"""Convention: singular values up to this many tolerances count as zero; they are looked at more
closely."""
NEAR_BINARY = 0.25
"""Convention: within this of 0 or 1 a number is rounded; half of the way to the middle."""
SAME_NETWORK = 1e-6
"""Convention: flips that change parameters by less only exchange units that are alike."""
SOLVER_TOLERANCE = 1e-6
"""Derived: to which HiGHS keeps constraints."""
LARGEST_COEFFICIENT = 1e3
"""Convention: of the integer program, beyond which HiGHS loses digits."""
SOLVER_BINARY = 0.5
"""Derived: the solver's answers are within its tolerance of 0 or 1."""
LINEAR_ODD_PART = 4500 * EPS
"""Derived: ratios that are equal but for the rounding of an activation's own evaluation."""

# ---- Population risk, Hermite coefficients

MOST_ORDERS = 150
"""Derived: beyond it `He_k` and `k!` leave the range of floating point numbers."""
QUADRATURE_REACH = 12.0
"""Derived: so many standard deviations hold all but 1e-32 of the normal mass."""
QUADRATURE_NODES = 200
"""Measured: tests/networks/test_hermite.py compares with closed forms up to rounding."""

# ---- Activations of the user's own

OWN_PROBES = np.geomspace(0.05, 5.0, 25)
"""Convention: where an activation of the user's own is asked, on both sides of zero: as far as
standard inputs and weights usually reach."""
OWN_NEAR_ZERO = np.array([-1e-2, -1e-3, 0.0, 1e-3, 1e-2])
"""Convention: where one that says it is smooth is asked too; a kink shows at zero itself."""
OWN_DIFFERENCE = 1e-5
"""Step of a central difference. Derived: near `eps^(1/3)`, where truncation equals rounding."""
OWN_ROUNDING = 1e-4
"""Of values: a derivative or an inverse off by more is a mistake. Convention: 1e6 times the error
of the difference, and below what a forgotten factor makes."""
OWN_SYMMETRY = 1e-9
"""Of values: a symmetry or a period off by more is not there. Convention: above the rounding of a
function's evaluation; the canonical form rewrites units by it, which must not show."""
