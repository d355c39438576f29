"""The numbers of bands: each says whether it is derived, a convention or measured.

A convention is a choice that works and that nothing forces. A few more numbers stand, each with its
word, beside the code that uses them.
"""

from __future__ import annotations

import numpy as np
from scipy import special

# ---------------------------------------------------------------- queries: Algorithm 2

LEVELS = (0.4, 0.6)
"""Convention: of GP19, Algorithm 2: shares of a band that fire, whose offsets are looked for."""
LEVELS_WIDTH = float(special.ndtri(LEVELS[1]) - special.ndtri(LEVELS[0]))
"""Derived: how far apart a step of width 1 has these levels (Lemma 3), 0.507."""
FLOOR_ROUNDS = 6
"""Convention: measurements of the floor, at most, each where the one before puts the step."""
FLOOR_SETTLED = 0.02
"""Convention: change of the floor that no longer counts: a tenth of the distance of the levels."""
FLOOR_TOLERANCE = 0.05
"""Convention: part of the distance of the two offsets that bisection may be off by while the floor
is measured, several widths of the step below."""
SCAN_STEP = 0.25
"""Convention: distance of the offsets at which a rise past both levels is first looked for."""
MOST_PROBES = 200
"""Convention: twice the probes with which bisection brings both brackets from `QUERY_REACH` down to
rounding, 50 halvings each."""
FEWEST_IN_BAND = 20
"""Convention: inputs whose share that fires is taken; a band with fewer samples is widened."""
UNRESOLVED = 0.1
"""Convention: over the width of a band, the least angle that it is said to show."""
QUERY_REACH = 8.0
"""Convention: the largest offset asked at; a normal input is beyond it with a chance of 6e-16."""
FEWEST_BEYOND = 50
"""Convention: samples expected beyond the largest offset that is looked at."""
REFERENCE_DRAWS = 2001
"""Convention: inputs asked for the silent label; an odd number, so that their median is a label."""
LABEL_ROUNDING = 1e-12
"""Convention: over the largest label, what may be the same label with other last digits; some
thousands of eps."""
COMMON_LABEL = 0.05
"""Convention: share of the labels that have one value exactly, for it to be common; the lowest of
the common values is the silent label."""

# ---------------------------------------------------------------- profile: one step, or not

SCORING_STEPS = 100
"""Convention: steps of Fisher scoring; what has not settled by then fits no Gaussian step."""
SCORING_HALVINGS = 12
"""Convention: lengths of a step that are tried, from all of it to 1/2048."""
LIKELIHOOD_CLIP = 5e-3
"""Convention: likelihoods are not trusted below this: one stray label must not decide."""
SCORING_RIDGE = 1e-9
"""Convention: added to the Fisher information, to invert it where a parameter shows in no input;
one input within the step adds about 1."""
PROFILE_LOWER = np.array([0.0, -20.0, np.log(1e-3)])
"""Convention: least floor, offset and log width of a fit, in widths of the guess: far outside the
window of 4 widths on each side."""
PROFILE_UPPER = np.array([1 - LIKELIHOOD_CLIP, 20.0, np.log(20.0)])
"""Convention: the largest; a floor of all inputs would leave no step."""
PROFILE_PARAMETERS = 3
"""Derived: floor, offset and width; as many degrees of freedom are lost by the fit."""
INNER_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Convention: levels of the step between which shares are compared with the fitted ones: six shares
leave three degrees of freedom."""
UNLIKELY_STEP = 1e-4
"""Convention: chance of a misfit as large below which it is not taken for chance."""
BENT_STEP = 0.03
"""Convention: difference of shares below which a misfit does not count, however many inputs show
it: the floor is constant only nearly."""
MOST_WINDOWS = 12
"""Convention: windows, at most, each up to 8 times as wide or narrow as the one before."""
FEWEST_IN_WINDOW = 40
"""Convention: samples in a window that tell three parameters: some ten each."""
PAST_THRESHOLD = (0.25, 0.5, 1.0)
"""Convention: offsets past the window, besides 0, at which a monotone P must fire."""
FIRES_PAST = 0.9
"""Convention: share that fires there, at least; it is 1 for a monotone P without noise."""
SURELY_FALLS = 4.0
"""Convention: standard errors below that share at which the label surely falls."""

# ---------------------------------------------------------------- descent: steps to a unit

START_RELATIVE_ERROR = 0.15
"""Convention: standard error of the first tan alpha, over itself: it places a window, which suits
if it is right to a half."""
FIXED_POINT_SETTLED = 1e-3
"""Convention: change of the direction of the error, of norm 1, that no longer counts: far below its
sampling error, which is of the size of `CONTRACTION`."""
FIXED_POINT_ROUNDS = 20
"""Convention: rounds, at most; a direction that has not settled by then still shows the way."""
FEWEST_FOR_DIRECTION = 20
"""Convention: inputs in the middle band, and silent ones below, without which no direction is
told."""
CONTRACTION = 0.2
"""Convention: the part of an angle that a step should leave; inputs a band grow as one over its
square, while steps fall only as one over its logarithm."""
TRIALS_A_DRAW = 4
"""Convention: perturbed directions that are compared on the same draws, lest one is taken that
suits only these."""
SURE_OF_ANGLE = 3.0
"""Convention: standard errors by which an angle is below the one asked, or a strength below that of
a single unit, to be surely so."""
ANGLE_SHRINKS = 0.9
"""Convention: part of the smallest angle so far that one of the last steps must come below."""
DESCENT_PATIENCE = 3
"""Convention: how many last steps those are: an estimated angle may rise by chance."""

# ---------------------------------------------------------------- near: samples about one face

NEAR_WIDTHS = 10.0
"""Convention: widths of the first step below it from which samples are kept: bands reach 5 below,
and a search that turns by the whole angle moves samples by some 3 more."""
MOST_NEAR = 2_000_000
"""Convention: samples near a face that are held in memory."""

# ---------------------------------------------------------------- random_search: Algorithm 1

FIRST_BAND = 0.1
"""Convention: width of the first bands of samples of a descent, for angles of 3 to 6 degrees."""
FIRST_BANDS = (0.02, 0.3)
"""Convention: least and largest width of the first bands of samples of Algorithm 1: those of a half
degree and of 9 degrees."""
BAND_WIDTHS = 2.0
"""Derived: width of bands of samples over the angle; the error of the angle is least from 1.6 to 2
(sensitivity over noise of two levels of a step that is averaged over the band)."""
TRIALS_A_LOOK = 10
"""Convention: times the features, trials between looks at all samples; the angle falls by a fifth
meanwhile, where samples allow it."""
AT_SAMPLING_ERROR = 0.3
"""Measured: standard error of an angle over itself at which Algorithm 1 gains no more from samples:
5 features, 3 units, 4e5 samples, where the true angle stops at about a half degree."""
LOOKS_AT_ERROR = 3
"""Convention: looks in a row at that error: one alone may show a small angle by chance."""
LOOKS_WITHOUT_GAIN = 6
"""Convention: looks whose mean angle is compared with that of as many before: if it is not smaller,
samples show none that is."""
