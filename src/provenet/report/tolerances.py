"""The numbers of this room: each says whether it is derived, a convention or measured.

A convention is a choice that works and that nothing forces.
"""

from __future__ import annotations

# ---- Samples and refits

MOST_DRAWN = 20_000
"""Convention: samples from which pictures and refits are made: as many as a recovery fits."""
REFIT_ROWS_A_PARAMETER = 8
"""Convention: samples a parameter that a refit has however long it takes: with noise, fewer would
show a worse network than the one found."""
MOST_HELD_OUT_SHOWN = 2000
"""Derived: samples held out for the picture: `plotting.MOST_POINTS`, beyond which no more are
drawn."""
SMALLEST_PART = 1 / 16
"""Convention: of the samples, with which the curve of errors begins: errors that fall as
`1/sqrt(n)` are four times as large there."""
CURVE_FITS = 5
"""Derived: points of that curve: from a sixteenth on, each has twice the samples of the one
before."""
LABELS_A_PARAMETER = 1.5
"""Convention: labels a parameter without which a refit is not tried: it would hardly be
determined."""
START_MOVED = 1e-3
"""Convention: relative, by which parameters are moved before a refit: it is to find its way, and
from near."""
REFIT_STEPS = 30
"""Convention: least-squares steps of a refit: from so near a few are enough."""
LEAST_OUTPUT_NOISE = 1e-6
"""Convention: of an output, over that of the noisiest: outputs without noise are not weighted more
than this allows."""

# ---- Pictures

ROW_HEIGHT = 0.16
"""Convention: inches a unit in a heat map: a line of small text."""
HEAT_MAP_HEIGHTS = (1.2, 3.6)
"""Convention: inches of a heat map at least and at most, from a strip to nearly a square."""

MOST_FEATURES_SHOWN = 6
"""Convention: inputs against which residuals are drawn: those on which predictions hang most."""
MOST_BARS = 20
"""Convention: inputs that have a bar: more would be too thin to read."""

# ---- Downloads

LARGEST_DOWNLOAD = 2_000_000
"""Convention: bytes of a network that a page carries: it is to stay light enough to be sent."""

# ---- Tables

MOST_CONSOLE_WEIGHTS = 8
"""Convention: weights a unit in a table of the console: wide terminals hold about so many."""
MOST_CONSOLE_OUTPUTS = 4
"""Convention: outputs that have a column each there; of more a norm is shown."""
EXACT_MATCH = 1e-8
"""Convention: distance of a unit from the true one that is told as exact: half of the digits."""
MOST_PAGE_UNITS, MOST_PAGE_OUTPUTS, MOST_PAGE_WEIGHTS = 60, 10, 50
"""Convention: rows and columns of the page's table of units: what a reader may look through."""
ALL_DECIMALS = 6
"""Convention: decimals of numbers whose errors are not seen; `tables.seen_errors` gives no more."""
