"""The numbers of the judge: each says whether it is derived, or a convention.

A convention is a choice that works and that nothing forces.
"""

from __future__ import annotations

import numpy as np

# ---------------------------------------------------------------- rounding

ROUNDING_MARGIN = 10.0
"""Convention: residuals up to this multiple of the mean rounding error of an evaluation are
rounding: a sum of many terms rounds by a few times its mean."""
UNREFINED = 1e-10
"""Convention: a residual, over the labels' spread, that an answer without least squares may leave.
Linear algebra on ill-conditioned numbers loses digits that least squares would bring back."""
LARGEST_EXACT_ERROR = 1e-7
"""Convention: a relative error of a unit that rounding may hide and the answer still be exact: half
of the digits."""
EXACT_MARGIN = 100.0
"""Convention: without noise a unit is needed if it stands out by so many roundings a label."""

# ---------------------------------------------------------------- samples enough

SPARE_SAMPLES = 5
"""Convention: different inputs beyond the parameters that confirm a fit."""
SPARE_ON_A_PIECE = 3
"""Derived: a linear piece has a constant beside its slopes, and two samples confirm them."""
FEWEST_UNSEEN = 5
"""Convention: different inputs held out that confirm an exact answer."""
SAMPLES_A_PARAMETER = 1.2
"""Convention: with noise, what leaves a sixth of the labels to tell it from a fit of everything."""
VISIBLE = 0.2
"""Convention: share of the residual that a further unit would have to explain to be seen."""
SMALL_RESIDUAL = 1e-3
"""Convention: of the labels' spread; in so little no unit hides by chance."""
HARDLY_NOISE = 1e-4
"""Convention: of the labels' spread; a network that leaves so little of labels that were not fitted
is no other's: a tenth of what rounding may leave."""
UNKNOWN_DIRECTION = 0.5
"""Convention: standard error, in radians or of their norm, beyond which a unit's weights have no
direction to speak of."""
SMOOTH_SIGMAS = 10.0
"""Derived: standard errors by which a smooth unit's largest weight differs from zero, and two units
from each other. A nearly linear unit shows by `a w` and, weaker, by `a w^3`, so its output weight
is known like `1 / w`: with w known to a tenth, three standard errors below are six above."""
MOST_WAVES = 100.0
"""Convention: the largest change of a weight, on inputs of spread one, by which another wave may
pass through the same samples and count as a rival."""
STEP_ROUNDING = 1e-12
"""Convention: of the largest value, what rounding may move a value in equal steps by."""
WELL_KNOWN = 1e-9
"""Convention: a relative error of smooth units that rounding may hide and one search be enough: a
hundredth of what may be called exact at all."""
FEWER_LEAVE = 10.0
"""Convention: times what the search counts as zero that a smooth unit fewer leaves at least: units
that are needed leave far more, and the first width at which the residual vanishes is clear."""

TOLD_APART = 10.0
"""Convention: by how much Schwarz's criterion, twice the log-likelihood, must be higher with an
activation to rule it out: odds of 150 to 1."""

# ---------------------------------------------------------------- noise

MORE_THAN_GIVEN = 1.25
"""Convention: times the noise that was given: what is left beyond that is no noise."""
HEAVY_TAILS = 4.0
"""Convention: excess kurtosis of noise; that of Laplace noise is 3."""
BLURRED = 1.1
"""Derived: in rounding errors, standard deviation of what is left with noise of an eighth of a
step: less does not tell a unit that is missing from noise."""
LABELS_BEYOND = 12.0
"""Derived: labels that noise would put beyond the outermost one; more by chance once in 160,000
times (exp(-12)). Of 400 problems with noise of ten kinds 398 had fewer than 8 and two, with a
lognormal factor on every label, 15 and 47; of 120 whose labels were cut off, or samples kept by
them, none had fewer than 16."""
OFF_AT_THE_END = 0.25
"""Convention: of the noise, what the fit may be off by at the outermost labels."""
FEWEST_AT_THE_END = 30
"""Convention: samples of the outermost predictions whose residuals are looked at."""
MOVES = 0.25
"""Derived: by how many noise variances a parameter least squares may lower the sum of squares of an
answer that was not refined: a quarter means that parameters are off by half a standard error."""

# ---------------------------------------------------------------- searches

MANY_SAMPLES_A_PARAMETER = 30
"""Convention: labels a parameter from which one search is enough: bad minima then show."""
MOST_SEARCHES = 6
"""Convention: searches after which a partial answer is not searched for again."""
FEW_SEARCHES = 4
"""Convention: the same where some of them have at least twice the parameters of the best: each is
more patient than the last, and such learn noise."""
ROUNDED_WORSE = 0.7
"""Derived: where rounding is all that is left, other signs are ruled out by a sum of squares that
is twice as large (the logarithm of two a label), not by odds. Rounding is no noise: a label that is
constant where units are off is wrong by the same amount all over, which preferred false signs of
two units that may be reversed together by up to 0.03 a label (25 networks, 3 and 4 decimals)."""
SECOND_LOOK = 2
"""Convention: searches after which a partial answer is not searched for again where nothing is left
of the labels: units that no sample reaches are out of reach of every search, but one search may
have put a unit too many there."""
CLOSE = 2.0
"""Convention: standard errors by which two searches that agree may differ."""
NO_UNITS = 3
"""Convention: searches, each more patient than the last, that end without a unit: so would others.
"""
SAME_ENDS = 5
"""Convention: the same for searches that end in one place with some units."""
FAR_MORE = 1000.0
"""Convention: times the noise from which a message names no figure."""
IN_VAIN, LONG_IN_VAIN = (6, 0.4), (24, 0.5)
"""Convention: after so many failed searches none is begun if not one left less than this share of
what linear regression leaves of unseen samples: where a narrow network is the best of them, and
where a wide one is."""
NARROW = 0.5
"""Convention: of the parameters of the widest network, what a narrow one has at most. Of six
searches the best had 0.04 to 0.35 of them on sets that no network made (diabetes, wine, friedman1,
breast cancer). Of 20 features and 10 units from 400 exact samples, (10, 5) from 110 and 130, (4, 8)
from 150, 31 of 34 networks were found, none of them after searches that these numbers would end."""
NEAR_ENDS = 3
"""Convention: searches that come next to each other where nothing but samples is lacking."""
NEAR_END = 0.02
"""Convention: relative difference of residuals of such searches. Of 5 units in 10 features, from
300 samples with noise of 0.1, they differed by less than 0.01; from 115 without noise by 0.2 or
more."""
SAME_RESIDUAL = 1e-3
"""Convention: relative difference of residuals that end in the same place."""

# ---------------------------------------------------------------- predictors

SMALL_ERROR = 1e-3
"""Convention: of the labels' spread: an error beyond noise that does no harm to predictions."""
LARGE_ERROR = 0.1
"""Convention: of the labels' spread: an error beyond which nothing is predicted."""
ERROR_SIGMAS = 4.0
"""Convention: standard errors by which a mean of squares on held-out samples may be off."""
MOST_PREDICTORS = 5
"""Convention: searches for a predictor."""
SAME_ERROR = 0.01
"""Convention: relative difference of two predictors' errors below which their searches have met."""
NO_ERROR = 1e-12
"""Convention: of the labels' spread: smaller errors differ by rounding, so fewer units win."""
MUCH_LARGER = 2.0
"""Convention: how much larger the error on fitted samples must be to be worth a sentence."""
ROUNDINGS = 100.0
"""Convention: roundings of an evaluation below which such a difference means nothing."""

# ---------------------------------------------------------------- labels that were repaired

MOST_CORRUPTED = 0.4
"""Convention: share of an output's labels that may be set aside: what explains less than most of
them proves nothing."""
LAST_DIGITS = 1e-8
"""Convention: of an output's spread: what an evaluation with inputs of ordinary size may lose."""
CORRUPTED_SIGMAS = 5.0
"""Convention: standard deviations of the noise beyond which a label is not that of the network."""
DEPENDENT = 6.0
"""Convention: standard deviations at which what is left is not independent of the units; there are
as many tests as units times outputs."""
REGION = 7.0
"""Derived: standard deviations at which labels set aside lie in a region of inputs: a normal sum
is above once in 4e11, one of fifty squares once in 1e7, and there may be ten thousand of them."""
SQUARES_FROM = 50
"""Derived: labels set aside from which on sums of squares are asked too (as for `REGION`)."""
FAR_OFF = 3.0
"""Convention: scales of the noise from which on a label is far off, and counts the same however
far."""
RELATED = 5.0
"""Derived: standard errors; four looks at each output meet up to a thousand polynomials and the
units, of which the best of ten thousand is above 4.9 by chance once in a hundred."""

# ---------------------------------------------------------------- what a layer leaves

MOST_POLYNOMIALS = 1000
"""Convention: polynomials of the inputs that residuals are compared with: a higher degree is left
out; `residual_form.NOT_CHANCE` counts on so many."""
MOST_TESTED = 200_000
"""Convention: samples whose residuals are looked at: a correlation of 1% is 5 standard errors of so
many."""
NEAREST_SAMPLES = 8
"""Convention: fitted neighbours of an unseen sample whose residuals are averaged: their noise falls
to a third, and they are still near."""
NEIGHBOURS_AMONG = 50_000
"""Convention: fitted samples among which these are looked for: in a few features so many are
dense."""
FEWEST_WITHIN = 10
"""Convention: samples near a face, and beside it, without which their residuals are not
compared."""

# ---- Smoothers against what a predictor leaves

SMOOTHER_SIGMAS = 4.0
"""Convention: standard errors from which on a smoother's predictions are no chance: four smoothers
on noise alone reach that once in 8,000 times."""
MOST_SMOOTHED = 4000
"""Convention: samples, given to smoothers and judged together: about two seconds."""
FEWEST_SMOOTHED = 40
"""Convention: with fewer a smoother has nothing to go by, and is not asked."""
MOST_DIRECTIONS = 30
"""Convention: directions of units that smoothers look along, those of the largest units."""
NEIGHBOURS = 8
"""Convention: whose mean is a prediction: enough to tell it from noise, few enough to be near."""
KERNEL_FEATURES, KERNEL_WIDTH = 300, 2.0
"""Convention: Nystroem's features, and 1 / (2 s^2) of the Gaussian kernel, times the features, on
standardised inputs: half of the distance between two samples."""
SPLINE_KNOTS = 20
"""Convention: of a cubic spline along each direction."""
PENALTIES = np.geomspace(1e-3, 1e4, 15)
"""Convention: ridges among which the residuals given choose, by leaving one out."""
TREES, SMALLEST_LEAF = 60, 20
"""Convention: trees whose mean is a prediction, and samples of a leaf: what is left is mostly
noise, and few samples do not tell."""
# ---------------------------------------------------------------- models that may be asked

CONFIDENCE = 0.95
"""Convention: of what random points say of all inputs."""
MOST_OFF = 0.02
"""Convention: part of all inputs that may be off, at CONFIDENCE, of a network that is called exact:
149 random points, all predicted. Without a budget 300 are asked, for half of it."""
SLOPE_BITS = 20.0
"""Convention: bits beyond one a sign from which one slope of all units is believed: a linear term
of ReLU units looks so once in a million."""
FEWEST_TO_PLACE = 3
"""Convention: points that are off from which one may see where."""
MORE_AT_THE_END, OUTLIERS_AT_THE_END = 6.0, 4
"""Convention: deviations of the noise by which answers to questions asked again may be off,
and one question in so many may be off by more, as noise with heavy tails is."""
MORE_BY_STEPS, MORE_IN_FLOATS = 3.5, 10.0
"""Convention: the same where every label is explained by rounding to steps: half a step is 1.7
deviations, and as much again is for the fit; and where rounding is that of floating point, which is
larger where numbers are."""
FURTHER_OUT = 3.0
"""Convention: times what noise allows of an answer to usual inputs that one far out may be off, for
each time that it is as far: errors of the weights of several units add up."""
HALVES_SHOW, HALVES_HIDE = 8.0, 5.0
"""Derived: what the best single kink leaves of two halves of a unit is its slope times their
distance, over the first (`certify.asked_again`). Convention: the second is for parts that are no
halves, and for places where the two happen to be nearer."""
WEIGHT_SHOWS, SHOWN_AT_ONCE = 1e-6, 2**21
"""Convention: an error of a weight beside its row that must show at some point asked (half of the
digits and more), and numbers that are looked at together: 16 MB."""
MOST_NAMED = 12
"""Convention: units whose weights do not show that are named; a screen holds as many."""
MOST_BENDS_UNSEEN = 0.1
"""Convention: part of the units of whole layers at whose kinks no bend is seen: what is above may
be off wherever they switch, while a hyperplane that is none has no bend anywhere."""

# ---------------------------------------------------------------- several layers

DEEP_LABELS_A_PARAMETER = 5
"""Convention: labels a parameter from which noise can be told from a deep network's own bends."""
DEEP_SIGMAS = 5.0
"""Convention: standard errors by which the largest weight of a deep unit differs from zero, as does
the largest by which it feeds others."""
FURTHER_TRIES = 3
"""Convention: starts from which further units of a deep network are tried under noise."""
MOST_REVERSED = 12
"""Convention: units of a layer up to which every set of them is looked at: 4,095 sets."""
REVERSALS = 3
"""Convention: sets a layer, those that leave least, from which least squares is tried."""
NEARLY_REVERSIBLE = 0.1
"""Convention: share of what a set of units feeds on that may be left linear when all of them are
reversed, for least squares to be tried from there."""

NOISE_UNROUNDS = 2.0
"""Derived: noise of so many times the rounding's root mean square, beyond half a step (1.7 times),
makes rounding errors of equal labels independent: their mean is off by less than a percent."""

# ---- Class labels

FLIPS_A_PARAMETER = 10
"""Convention: coin flips' worth of labels a parameter, the usual rule of ten events a variable."""
CLASS_SIGMAS = 5.0
"""Convention: standard errors by which a unit's output weight and its weights differ from none, and
it from any other unit: the likelihood is no parabola further out."""
CLASS_GAIN = 0.4
"""Convention: of Schwarz's price, what a further unit may gain. Chance gives the best of a pool
about a quarter; labels of a product of two inputs, all but explained by four units, give half."""
MOST_OF_DEGREE_TWO = 100
"""Convention: terms of a polynomial of degree two, 12 features: the price of more is far beyond
that of units that show."""
POLYNOMIAL_RIDGE, RIVAL_STEPS = 1e-3, 1000
"""Convention: ridge that keeps its log-odds bounded where it tells all labels apart, and steps of
its fit, of which some twenty are used."""
