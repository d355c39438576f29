"""The numbers of faces: each says whether it is derived, a convention or measured.

A convention is a choice that works and that nothing forces. A few more numbers stand, each with its
word, beside the code that uses them.
"""

from __future__ import annotations

import numpy as np

# ---------------------------------------------------------------- thin_bands: peaks of a scan

WORTH_THINNER = 12.0
"""Convention: standard errors above which thinner bands are tried, and in which a tilt is measured:
twice those that a face has."""
STILL_THERE = 3.0
"""Convention: standard errors that a peak has in the widest bands, to be looked at in thinner ones
at all, and a jump in the thinnest, to be one."""
SCAN_REACH = 2.5
"""Convention: offsets that are scanned, on both sides; 1.2% of normal inputs are beyond."""
FEWEST_IN_FACE_BAND = 10
"""Convention: samples in each band, for the variance within the bands to tell an error; with fewer
the height counts as 0."""
MOST_MOVES = 200
"""Convention: moves and halvings of a pattern search, at most."""

# ---------------------------------------------------------------- tilts: Newton steps

COEFFICIENT_SIGNIFICANT = 3.0
"""Convention: standard errors from which a coefficient of the height along a face is kept, beside
its mean."""

# ---------------------------------------------------------------- model: what units explain

FIT_ROWS = 20_000
"""Convention: samples of a first least squares, and to see whether all is explained without a unit:
a hundred a term or so."""
CONTROL_DEGREE = (0, 10, 10, 8, 6)
"""Convention: degree of the polynomial without units, by number of features: 210 terms at most."""
FIT_DEGREE = (0, 8, 8, 6, 4)
"""Convention: the same with units, lower as each has a polynomial of its own."""
UNIT_DEGREE = 2
"""Convention: degree of the polynomial that multiplies a unit: its height along the face."""
MOST_IN_ALL_PRODUCTS = 4
"""Convention: units up to which all their products are in the model; with more, those of pairs."""
MODEL_RIDGE = 1e-11
"""Convention: added to normal equations of diagonal 1, for terms that are the same as others; some
ten thousand times eps."""
CONTROL_ROWS = 100_000
"""Convention: samples that a model is fitted to; it is taken off the labels of all."""
SAME_ANGLE = 0.1
"""Convention: radians within which two faces are one, below the angles of the net."""
MODEL_ROUNDING = 1e-7
"""Convention: over the spread of the labels, what is rounding where they are explained: normal
equations keep half of the digits."""

# ---------------------------------------------------------------- fit: ReLUs by least squares

MOST_FIT_ROWS = 100_000
"""Convention: samples of the last least squares, where labels have more than rounding left."""
FACE_FIT_ITERATIONS = 25
"""Convention: steps of Levenberg-Marquardt, at most."""
DAMPING_TRIALS = 8
"""Convention: dampings that are tried for a step, each ten times the one before."""
LARGEST_STEP = 0.2
"""Convention: longest step of a unit, in any angle and in its threshold: about the error that a
start may have, 15 degrees."""
FIT_CONVERGED = 1e-4
"""Convention: relative fall of the sum of squares below which a step no longer counts."""

# ---------------------------------------------------------------- search: rounds

FACE_ASKED_ANGLE = 1e-10
"""Convention: radians to which a function that may be asked is asked; some hundred thousand times
eps, so that bands of such a width can be told apart."""
SEARCH_ROUNDS = 6
"""Convention: scans, at most, each on labels less what the units so far explain."""
SEARCH_PATIENCE = 2
"""Convention: rounds in turn without one unit more that end a search."""
CANDIDATES_A_ROUND = {1: 12, 2: 6}
"""Convention: strongest places of a scan that are looked at in a round, by order: 1 for steps, 2
for ReLUs."""

# ---------------------------------------------------------------- sharpen: questions

MOST_ASKED = 60
"""Convention: Newton steps a unit, at most; 34 that halve its error bring it from 1 to
`FACE_ASKED_ANGLE`."""
ASKED_LINES = 400
"""Convention: lines across a face a step, each asked in all eight bands: means are known to a
twentieth of what varies from line to line."""
STALE_STEPS = 6
"""Convention: steps in turn that do not halve the error, after which none is made."""

# ---------------------------------------------------------------- orientation: (w, t) or (-w, -t)

ORIENTATION_ROWS = 50_000
"""Convention: samples on which polynomials of the units are compared."""
MOST_ORIENTED = 6
"""Convention: units up to which all signs are tried: 64 fits."""
CLEARLY_POSITIVE = 3.0
"""Convention: standard errors by which a step's threshold differs from 0, to have a sign."""
CLEARLY_ORIENTED = 6.0
"""Convention: standard errors by which the best signs explain labels better than any with another
sign of the unit."""

# ---------------------------------------------------------------- layer: units with a top

TOP_DEGREE = 4
"""Convention: degree of a polynomial of ReLUs; of steps it is the number of units, which is enough
for every function of them."""
TOP_MOST_UNITS = 6
"""Convention: units up to which a top is fitted: steps have 64 products then."""
TOP_FEWEST_CLEAR = 100
"""Convention: samples on which all units are sure, for a top to be fitted to them."""
LEAST_ERROR = float(np.finfo(float).eps)
"""Derived: eps, below which an error of a direction of norm 1 means nothing."""
