"""Numbers that decide something in this room, each with its reason.

*Derived* follows from what is said; a *convention* could be another number of its size without
changing an answer; *measured* names where.
"""

from __future__ import annotations

# ---- Linear systems

RIDGE_OF_POOL = 1e-10
"""Convention: for residuals by which units of a pool are compared: a few digits are enough."""

# ---- Residuals, polish, signs

ROUNDED = 2.0
"""Convention: residuals up to this multiple of the labels' own rounding are explained by it; so are
residuals up to it times the rounding of the network's evaluation."""
UNLIKELY = 1e-4
"""Convention: level of the tests for what is not noise."""
CLEARLY_WORSE = 15.0
"""Convention: twice the difference in log-likelihood at which a choice of signs is ruled out: odds
of a thousand to one and more."""
NEAREST_SIGNS = 8
"""Convention: signs of all units, those that explain the linear part best, that are compared beside
flips of one or two: units of which none but all may be reversed come in few sets."""
FLIP_WORK = 2e9
"""Convention: multiplications, about a second of one core, that comparing all flips of one sign or
two may take, where more samples than the width needs are there."""
POLISH_STEPS, POLISH_LAST_STEPS = 100, 20
"""Convention: of least squares from a candidate: on as many samples as its width needs, and then on
all. Far more than it takes where a candidate is near."""
POLISH_TOLERANCE, FREE_TOLERANCE = 1e-9, 1e-5
"""Convention: fall of the sum of squares at which it rests: the last fit, and the one up to signs
before it, which is only a start."""

# ---- The last fit with noise

REFIT_TOLERANCE = 1e-8
"""Convention: fall of the sum of squares at which it rests: far below the chance in it."""

# ---- Samples to fit and to hold out

FEWEST_ROWS, ROWS_A_FEATURE, ROWS_A_PARAMETER = 300, 15, 5
"""Convention: samples for a model: at least so many, for several outputs so many a feature, and so
many a parameter."""
SAMPLES_DRAWN = 20_000
"""Convention: samples that are drawn if features do not ask for more: plenty for some hundred
parameters, and quick to fit."""
DRAWN_A_FEATURE = 50
"""Convention: samples a feature that are drawn at least: each unit has a weight for it."""
DRAWN_A_SQUARE, MOST_NUMBERS_DRAWN = ROWS_A_PARAMETER / 2, 2 * 10**7
"""Derived: samples that are drawn for the features squared: half as many units have half as many
weights as that. Convention: numbers that are drawn for their sake at most, a sixth of a gigabyte,
and of 200 features all that are derived."""
MOST_HELD_OUT = 20_000
"""Convention: different inputs that are held out at most; a tenth is less up to 4000 features."""

# ---- Labels that were rounded

FINE = 1e-3
"""Convention: of the labels' spread: rounding errors up to this end a search, for no bad minimum
leaves so little; coarser ones are noise to it."""
