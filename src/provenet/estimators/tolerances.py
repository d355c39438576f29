"""The numbers of this room: each says whether it is derived, or a convention.

A convention is a choice that works and that nothing forces.
"""


# ---------------------------------------------------------------- both estimators

MOST_ROWS_TO_FIT = 20_000
"""Convention: a fit sees at most so many samples, which bounds its memory and its time."""
LEAST_SHARE_TO_FIT = 0.2
"""Convention: of an estimator's time, what a fit may take where a step of the search was long."""
SEARCH_SHARE = 0.5
"""Convention: of an estimator's time, for the search for a hidden network; a fit has the rest."""
CHOICE_SHARE = 0.6
"""Convention: of a fit's time, for the choice of its size; the rest is for the last fit."""
LARGEST_VALUE = 1e70
"""Derived: fourth powers of the data must stay finite (below 1e308)."""
CONSTANT = 1e-10
"""Convention: a column whose spread is this share of its mean is constant; rounding leaves eps."""
TINY_SPREAD = 1e-150
"""Derived: about the square root of the smallest number; the square of a spread must not be 0."""
STILL_EXACT = 1e-9
"""Convention: of the labels' spread, what an exact network may leave of a new batch."""

# ---------------------------------------------------------------- the choice of a width

RIDGES = (0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-6)
"""Convention: penalties that are tried, for inputs and labels of spread 1; half a decade apart
where they matter."""
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
"""Convention: widths that are tried; a mean of fits fills the gaps."""
FOLDS = 5
"""Convention: parts of the samples, of which one at a time is left out."""
PATIENCE = 3
"""Convention: steps without gain after which neither width nor penalty is driven further."""
CLASS_PATIENCE = 1
"""Convention: penalties without gain after which that of class labels falls no further: with too
little of it labels that can be told apart are told too surely, and log-loss rises fast."""
WELL_ABOVE = 10.0
"""Convention: times the penalty that is best of class labels without units, from which on penalties
are tried with units: these want less of it, or as much."""
MOST_ROWS_TO_CHOOSE = 2000
"""Convention: samples that a width is chosen on, which bounds the work of one step."""
SAMPLES_A_UNIT = 5
"""Convention: fewer cannot determine a unit of even one feature (three parameters)."""
ITERATIONS, TOLERANCE = 40, 1e-5
"""Convention: of L-BFGS while a width is chosen; a rough minimum tells which width is best."""
OUTPUT_ITERATIONS = (100, 10)
"""Convention: of L-BFGS for the output layer alone, where it is no least-squares problem: without
units, where that is all, and with some, where all weights follow."""
LAST_ITERATIONS, LAST_TOLERANCE = 300, 1e-9
"""Convention: of L-BFGS for the fit that is kept."""
FITS_TO_AVERAGE = 5
"""Convention: fits whose mean is kept; the gain of one more falls with their number."""
USELESS = 1e-4
"""Convention: a unit that moves the labels by less than this share of their spread is dropped."""
MEMORY = 10
"""Convention: earlier steps that L-BFGS remembers (scipy's default)."""
FLAT = 1e-6
"""Convention: L-BFGS ends where no component of the gradient is larger, for labels of spread 1."""
LEAST_SCALE = 1e-3
"""Convention: scale, at the start, of a unit that has no output weight yet."""

# ---------------------------------------------------------------- the choice of halfspaces

MOST_HALFSPACES = 16
"""Convention: more are not tried."""
SAMPLES_A_PARAMETER = 2
"""Convention: halfspaces of which there are fewer samples are not tried."""
HALFSPACE_PATIENCE = 2
"""Convention: halfspaces more without gain after which growth ends."""
MOST_ROWS_TO_COUNT = 4000
"""Convention: samples that kind and number are chosen on, which bounds the work of one step."""
HALFSPACE_ITERATIONS, HALFSPACE_TOLERANCE = 100, 1e-6
"""Convention: of L-BFGS for a union of halfspaces."""
ROUNDS_OF_CLUSTERING = 5
"""Convention: of Lloyd's algorithm; a start need not be a minimum."""
FIRES = 0.5
"""Derived: halfway between the two labels 0 and 1."""
