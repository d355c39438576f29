"""The numbers of unions: each says whether it is derived, a convention or measured.

A convention is a choice that works and that nothing forces. A few more numbers stand, each with its
word, beside the code that uses them.
"""

# ---------------------------------------------------------------- samples: passes

BLOCK_ROWS = 4096
"""Convention: samples a block, which is what is taken or left where not all are looked at."""
PROBED_BLOCKS = 8
"""Convention: blocks, or up to twice as many, that tell how many samples a choice will mark."""

# ---------------------------------------------------------------- candidates: a first guess

SHIFT_POWERS = (3, 5)
"""Convention: powers p of the map, which follows the moment of order p + 1; a higher one keeps to
one unit better, a lower one has less variance."""
SHIFT_STARTS = 10
"""Convention: positives that the map starts from."""
SHIFT_STEPS = 8
"""Convention: times that the map is applied; a guess is enough."""
MOST_SHIFTED = 10_000
"""Convention: positives that the mean is taken over; a guess needs no more."""
ABOVE_EDGE = 1.02
"""Convention: times `(1 + sqrt(d / m))^2`, the edge of second moments by chance, which the largest
may exceed by little."""

# ---------------------------------------------------------------- noisy_or: the soft fit

LEAST_FLIPS = 1e-4
"""Convention: least share of flips in the model, so that no single label has a chance of 0."""
MOST_FLIPS = 0.45
"""Convention: largest share of flips in the model; at one half labels would say nothing."""
SOFT_ITERATIONS = 20
"""Convention: steps of Fisher scoring, at most; where a fit ends is a start for the next."""
SMALL_GAIN = 0.05
"""Convention: gain in log likelihood that ends a fit: far less than chance makes, 1/2 a
parameter."""
NO_SLOPE = 1e-3
"""Convention: part of the largest slope below which a sample has no say in a step, and part of a
step below which it is not halved again."""
MOST_LEVERAGE = 0.8
"""Convention: part of its own residual that a sample hides by pulling the fit, at most: residuals
grow five times at most."""

# ---------------------------------------------------------------- search: faces one by one

FLIPS_IN_SEARCH = 0.05
"""Convention: share of silent labels beyond a face that the first fit allows for; later ones
measure it."""
MOST_SEARCHED = 20_000
"""Convention: samples that a face is fitted to by itself, roughly."""
SEARCH_ATTEMPTS = 3
"""Convention: candidates from other starts, before what is unclaimed counts as chance."""

# ---------------------------------------------------------------- sharpen: all faces at once

MOST_ROWS = 60_000
"""Convention: samples near the faces that are held in memory."""
HARDLY_ANY_FLIPS = 1e-3
"""Convention: share of flips up to which the last blur holds a sample a feature only: hardly one of
them is flipped."""
MOST_CHANGES = 4
"""Convention: repairs a stage; the next stage may make more."""

# ---------------------------------------------------------------- version_space: what samples leave

SPACE_ROUNDING = 1e-9
"""Convention: over the longest step or margin, radii and violations that are rounding of the linear
program."""
FEW_ASIDE = 2
"""Convention: samples that may be set aside beside three times the flips expected."""
NO_CHANCE_SPACE = 1e-3
"""Convention: chance of a version space so far below the usual size, below which it is not taken
for chance."""
SMALLEST_SPACE = 0.2
"""Convention: part of the usual errors that it must be below in any case; in many dimensions a
space hardly smaller than usual has so little chance already."""

# ---------------------------------------------------------------- finish: version spaces or errors

MANY_FLIPS = 0.01
"""Convention: share of flips beyond which they are not set aside one by one, and the soft fit
stands."""
FINISH_ROUNDS = 8
"""Convention: rounds, at most, in which samples on the wrong side are given to the faces that they
speak against."""

# ---------------------------------------------------------------- findings: for and against

CLEARLY_APART = 3.0
"""Convention: standard errors, both together, by which two halfspaces are told apart."""
NO_CHANCE_FLIPS = 1e-3
"""Convention: chance of as many contradictions near a face by flips, below which it hides two."""
NO_FLIPS = 1e-6
"""Convention: chance of wrong labels so unlike the others, below which they are not flips; smaller,
as it speaks against the whole answer."""
HARDLY_FLIPS = 1e-3
"""Convention: the same chance, below which they may be those of a halfspace that was missed."""
TOO_MANY_WRONG = 0.4
"""Convention: share of wrong labels far from all faces, beyond which it is no union: nearly that of
guesses, 1/2."""
FEATURES_WRONG = 2.0
"""Convention: times the parameters of a face, samples that its error may put on the wrong side; a
standard error puts about one a feature there."""
FLAT_SIGMAS = 5.0
"""Convention: standard errors by which wrong labels near flat faces may exceed flips."""

# ---------------------------------------------------------------- learn: the recipe

MOST_POSITIVES = 200_000
"""Convention: positives that are held in memory."""
MOST_FACES = 64
"""Convention: faces, or twice as many as were asked for, at which a search ends: such labels are no
union of few halfspaces."""
MOST_SEARCHES = 8
"""Measured: searches from other starts where labels are wrong: with 2 to 4 halfspaces in 2 or 3
features one in three to six finds what the others miss."""
SPLIT_TILT = 0.5
"""Convention: radians by which a face is tilted to either side where it is split to search again.
"""
SEARCHED_AGAIN = 40_000
"""Convention: samples that further searches look at in all: with more, one is enough to see every
face."""
AGREEING_SEARCHES = 3
"""Convention: further searches where no label is wrong, to see whether others explain all as well.
"""
AS_GOOD = 5.0
"""Convention: log likelihood by which another answer may fall short and still be possible: odds of
150; a further wrong label costs `log(samples)`."""
