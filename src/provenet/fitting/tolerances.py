"""Numbers that decide something in this room, each with its reason.

*Derived* follows from what is said; a *convention* could be another number of its size without
changing an answer; *measured* names where.
"""

from __future__ import annotations

from provenet.common.typing import EPS

# ---- Linear systems

RIDGE_OF_COVARIANCE = 4.5 * EPS
"""Derived: as little as still makes a rank-deficient system solvable, because standard errors are
read from the inverse and nothing corrects them."""
RIDGE_OF_POOL = 1e-10
"""Convention: for residuals by which units of a pool are compared: a few digits are enough."""

# ---- Levenberg-Marquardt

ALIKE = 1e-3
"""Convention: of the size of K, added to its diagonal before it is inverted: units that are alike
in more than this are one to the preconditioner."""
ROUNDING_ZERO = 4.5 * EPS
"""Derived: a root mean square residual below this fraction of the labels' spread is their own
rounding."""

# ---- Covariance

SINGULAR = 4500 * EPS
"""Derived: eigenvalues of a scaled matrix below this are the rounding of its sums: a direction that
the data do not determine."""
DENSE_LIMIT = 3000
"""Derived: with more nonlinear parameters the matrix takes more than 72 megabytes, and `p^3`
operations to invert; a bound is far cheaper."""
LARGEST_COVARIANCE = 8000
"""Convention: nonlinear parameters up to which standard errors under noise are those of the matrix:
it and its inverse take a gigabyte then, and minutes of one core."""
BOUND_ABOVE = 500
"""Measured: nonlinear parameters from which on a bound is faster than the matrix for an exact
answer of piecewise linear units (benchmarks/calls.py, 50 features: a fifth of a second less)."""
EIGEN_ZERO = 5e-5
"""Convention: smallest eigenvalue that is told from zero: a bound and no more. In single precision
sums over samples are good to a tenth of it and less."""
EIGEN_STILL, EIGEN_PATIENCE, EIGEN_PRODUCTS = 3e-3, 3, 300
"""Convention: share of Rayleigh's quotient that so many products in a row take off less than at its
end, within a tenth of the least (a bound needs one digit); and products after which nothing is
known."""
BOUND_SAMPLES = 3
"""Convention: samples a parameter from which on a bound is trusted: with fewer any combination of
units may be open, and the matrix tells."""

LAYERED_RANK = 1e-13
"""Derived: an eigenvalue of scaled normal equations, of the largest, below which it is rounding:
some hundred times the machine's."""

# ---- Errors that are not those of even noise and a straight model

UNEVEN_NOISE, UNEVEN_ROWS = 1e-3, 5000
"""Convention: level of the test for noise whose size depends on the inputs, and samples it looks
at; the errors that follow from either are close where it decides by chance."""
MOST_DENSE = 1000
"""Convention: parameters of dense matrices for noise of any sizes: a second or two of one core."""
REFITS, REFIT_STEPS, BENT_TOLERANCE = 30, 12, 1e-5
"""Convention: fits of labels made anew, which give a spread to an eighth, their steps, and the fall
of the sum of squares at which they end, a tenth of a standard error and less."""
REFIT_WORK = 2e10
"""Convention: multiplications of all of them: beyond, samples are too many for errors to be bent,
or the network too wide to try."""
SERIAL_ROWS, SERIAL_SIGMAS = 20_000, 4.0
"""Convention: samples, in their order, in which noise is compared with that of the sample before;
and standard errors from which on the two are alike."""
MOST_BENT = 1e12
"""Convention: squared ratio at which scatter and error have nothing to do with each other."""
BENT = 0.03
"""Convention: error of a unit's direction, in radians or over its distance from the nearest unit,
from which a model may not be straight within its errors."""
TOLD_WIDER = 1.25
"""Convention: how much larger errors must get to be worth a sentence."""

# ---- Residuals, polish, signs

ROUNDED = 2.0
"""Convention: residuals up to this multiple of the labels' own rounding are explained by it; so are
residuals up to it times the rounding of the network's evaluation."""
EXPLAINED = 450 * EPS
"""Derived: a network that leaves less of the labels' spread needs no refinement: this is the
rounding of a few hundred terms."""
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
ROUNDING_ROWS = 2000
"""Convention: samples from which the rounding of a network's evaluation is estimated."""
POLISH_STEPS, POLISH_LAST_STEPS = 100, 20
"""Convention: of least squares from a candidate: on as many samples as its width needs, and then on
all. Far more than it takes where a candidate is near."""
POLISH_TOLERANCE, FREE_TOLERANCE = 1e-9, 1e-5
"""Convention: fall of the sum of squares at which it rests: the last fit, and the one up to signs
before it, which is only a start."""
POLISH_DAMPING = 1e-6
"""Convention: the start is next to the answer, so nearly Gauss and Newton's step."""
TOLD_DIGITS = 4
"""Convention: of output weights that name units in a sentence."""

# ---- The last fit with noise

REFIT_TOLERANCE = 1e-8
"""Convention: fall of the sum of squares at which it rests: far below the chance in it."""
LEAST_NOISE = 1e-6
"""Convention: noise of an output over that of the noisiest: weights beyond its inverse would be
rounding's."""
MANY_SAMPLES = 10
"""Convention: times as many samples as were drawn: from there on some of them give the
curvature."""

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
SOFT_AT_FIRST, SOFTER, LEAST_SOFT = 0.5, 0.85, 0.02
"""Convention: by what part of its width an interval is softened at first, by which factor this
falls from round to round, and where it ends: sharper edges gain little and make rounds swing."""
INTERVAL_ROUNDS = 100
"""Convention: rounds of a fit inside intervals; some thirty are usual."""
INTERVAL_STILL = 0.02
"""Convention: of its standard error by which no parameter moves any more."""
LEAST_OWN_SHARE = 1e-3
"""Convention: what all others tell of a value, at least, over what is known of it in all."""
TAIL = 30.0
"""Convention: standard deviations outside of an interval beyond which distance does not count."""
INSIDE = 0.1
"""Derived: of its width by which a value may be outside of its interval: five times what edges are
softened by."""
ROWS_OF_INTERVALS = 3
"""Convention: intervals a parameter that are used at least."""
INTERVAL_COST = 3 * 10**9
"""Convention: products, samples times parameters squared, of a round: about a second."""
FINE_INTERVAL_COST = 5 * 10**8
"""Convention: the same of labels that are finely rounded: some seconds for all rounds. Measured
with `benchmarks/extraction.py --rows 50,20,decimals6`: a round of 1,000 weights takes half a
second, and the fit does not come to lie inside of all intervals."""
INTERVAL_BLOCK = 1024
"""Convention: intervals that are looked at together."""
LATER_ROUNDS = 40
"""Convention: rounds from which each changes less than the one before."""
NARROWEST = 1e-3
"""Convention: of the mean width of the intervals, what each counts as having at least: single
precision knows numbers next to zero too well for sums."""
MAYBE_NEEDLESS = 5.0
"""Convention: times the rounding that a unit may be worth, before the others are refined, and still
be needless."""
MISSING_TRIES = 3
"""Convention: units, each the best of a pool, that are tried where labels are not inside."""

# ---- Class labels
