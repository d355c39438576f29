"""The numbers of this room: where and how finely a model is asked, and what counts as rounding.

Each entry says whether it is derived (from what), a convention, or measured (by which script). The
conventions are those with which `benchmarks/extraction.py` measures successes and queries: whoever
changes one runs it again.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(float).eps)
"""Rounding of double precision. Derived."""
SINGLE = float(np.finfo(np.float32).eps)
"""Rounding of single precision. Derived."""
TINIEST = 1e-300
"""Keeps a division by zero away where sizes may be zero. A convention, near the smallest float."""

# ---------------------------------------------------------------- where to ask

TYPICAL = 3.0
"""Inputs lie about so far from zero in a feature without limits. Derived: three deviations of a
standard normal one."""
UNEVEN = 10.0
"""Convention: ratio of the longest side of a box to the shortest from which it is asked in its own
units."""
HAIR = 1e-9
"""Relative distance to the box's sides that points keep, since sums are rounded. A convention, far
above rounding and far below any distance that matters."""
NUMBERS_AT_ONCE = 2**22
"""Of points that are made, asked or compared together. A convention: 32 MB, of which a step has a
few copies."""

# ---------------------------------------------------------------- what kind of answers

ROUNDED_PLACES = 8
"""Where answers are compared with those to rounded inputs. A convention: a model whose answers
alone are of single precision gives the same at three of four places, at all of eight in one of ten,
and is asked in single precision then, which does it no harm."""
MOVED_BY = 16
"""Roundings by which inputs are moved then. A convention: answers of single precision show it, also
where inputs are small beside them."""
MOVED_ANSWERS = 0.5
"""Share of answers that must change with it. A convention: of flat functions hardly one does, of a
model of single precision nearly all."""
GOLDEN = (1 + 5**0.5) / 2
"""Its multiples have no pattern. Derived."""
ASKED_TWICE = 3
"""Points asked twice to see noise. A convention: noise that differs at none of three is none."""
SEGMENTS = 5
"""Short segments on which answers should be linear. A convention: the median of five is right if
two of them meet a kink."""
MIDDLE = 0.5
"""Part of the box about its centre where these lie, so that none leaves it. A convention."""
SHORT, LONGER = 1e-4, 8.0
"""Length of a segment beside the box's width, and how much longer the second one is. A convention:
a smooth function bends by 1e-8 there, far above rounding, and 64 times as much on the longer."""
DOUBLE = 1e-13
"""Second differences up to this, relatively, are those of double precision. Derived: 500 roundings,
as a sum over some hundred units may have."""
DIGITS = 13
"""Decimals that answers may be rounded to; more are double precision itself. Derived."""
DIGITS_OFF = 1e-15
"""How far, relatively, a rounded decimal may be from itself. Derived: a few roundings."""
DIFFERENT = 4
"""Different answers it takes to see a grid in them. A convention."""
CURVED = 0.5
"""Part of the growth with the square of the length that tells a curve from noise. Derived: a curve
has 1, noise 1/64."""

# ---------------------------------------------------------------- along a line

ROUNDING = 8.0 * EPS
"""Relative error of a value. A convention: a sum over many units has a few roundings."""
TANGENT_STEP = 2e-5
"""Half the width over which a slope is measured, as a part of the room for it. Derived: rounding
over it leaves slopes known to 1e-11, and a kink lies inside once in 25,000."""
COARSER = 0.4
"""Power of the error of values with which that width grows, of what known units leave. A
convention: half of the digits lost are the slope's."""
ROUNDED_COARSER = 0.32
"""The same of answers that are rounded. Measured, on lines of (10, 16) and (50, 20) in single
precision and of 4 to 6 decimals, 20 each: of powers from 0.25 to 0.45 it shows the most kinks, 19
of 20 in single precision and 5 of 6 of 4 decimals, with 5 questions a kink."""
NEAR_AN_END = 0.02
"""Part of an interval: tangents that meet nearer to its end do not split it there. A convention."""
SPLIT = 0.47
"""Where an interval is split otherwise, in orders of magnitude: not quite its middle, which may be
a place of symmetry. A convention."""
AS_EXPECTED = 1e-6
"""Relative distance from where a kink is expected to where tangents meet that makes it that one. A
convention, as `SAME_PLACE` of deeper layers: chance does so once in 10,000 kinks."""
MOST_ROUNDS = 200
"""Rounds of splitting. A convention, far above the 50 after which halving ends."""
MOST_OPEN = 1000
"""Intervals at once: more are rounding that was taken for kinks. A convention."""
NARROW = 1e-9
"""Relative length of an interval that is not split any more. A convention: kinks that near are not
told apart by tangents known to 1e-11."""
NARROW_COARSER, NARROWEST = 0.9, 0.05
"""Power of the error of values with which that length grows, and its most. A convention: in single
precision a hundredth."""
NARROW_ROUNDED = 0.8
"""The same power of answers that are rounded. Measured with `ROUNDED_COARSER`."""
REACH = 1e5
"""How far out kinks are looked for, in distances of a typical one. Derived: a random unit is so
nearly parallel to a line once in 100,000."""
REACH_OF_REST = 30.0
"""The same for what earlier lines left: far out it is rounding. A convention."""
ROUNDING_OF_REST = (1e-12, 1e-6)
"""Least and most relative error of what earlier lines left: as far as their units are known. A
convention."""
KINK_SCALE, KINKS_IN_BOX = 0.1, 20.0
"""Distance of typical kinks: a tenth of the distance of typical inputs, and at most a twentieth of
the line. A convention."""
BESIDE_CENTRE = 1e-2
"""How far the first line passes the centre, where symmetric models have their kinks; beside the
box's width. A convention."""
LINES = 6
"""Lines that are followed without another guiding point explained. A convention: each later one is
for a unit that was missed."""

# ---------------------------------------------------------------- one layer, or more

RECURRING_PLACES, RECURRING_FURTHER = 2, 3
"""Other places of a unit's hyperplane at which the same jump is looked for, and more of them where
one of these does not show it: most must. A convention: a unit of a deeper network shows it only
where the layers above are the same there."""
RECURRING_STEP = 1e-4
"""Beside the box's width: how far from the hyperplane. A convention: it is known far better, and
one of a hundred other hyperplanes is nearer once in a hundred times."""
RECURS = 0.05
"""Relative difference of jumps that are the same. A convention: those of two cells are of any
size."""
TESTED_FIRST, TESTED_LATER = 2, 8
"""Units that are looked at on the first line, until one recurs, and after later ones. A convention:
that two of a network with one layer meet other hyperplanes at most places happens once in 1e8."""

# ---------------------------------------------------------------- gradients between kinks

GRADIENT_STEP = 0.02
"""Of the distance to the nearest kink on the line: how far gradients are measured. A convention:
hyperplanes off the line may be nearer."""
SHORTER, GRADIENT_TRIES = 0.1, 3
"""Factor for a gradient that is not believed, and how often it is tried. A convention."""
ALONG_A_PIECE = np.linspace(0.1, 0.9, 17)
"""Parts of a piece at which there may be room for a gradient. A convention."""
BELIEVED = 1e-13
"""Relative error of a rise along the line that a gradient may leave. Derived: as `DOUBLE`."""
FROM_EDGE, FROM_FAR_EDGE = 3.0, 0.5
"""Distance of a place from the kinks beside it: so many distances of typical kinks and, far out,
this part of the kink's own distance from the origin. A convention."""
ONE_UNIT = 1e-3
"""Of the jump between two places on a line: what it may be at the kink between them, where that of
one unit is zero. A convention: far above the error of gradients, far below what two units make."""
POORLY = 1e-4
"""Relative error of a jump that is no unit yet: another line measures it. A convention: `ROUGHLY`
leaves a hundred of them."""
TYPICAL_ERROR = 0.25
"""Of the largest error of a value: what it is on average. A convention, on which `BOUND` rests."""
ROUGHLY = 1e-2
"""Where guiding points are off by more, a unit is missing: measuring others again would mislead.
A convention."""
SAME_UNIT = 1e-6
"""Hyperplanes that differ by less are taken for one unit's. A convention: where they are two, it
shows at their kinks (`certify.asked`)."""
CANCELLED = 1e-5
"""What is left of two units that were one and its opposite, relatively. A convention."""

# ---------------------------------------------------------------- measuring again

WELL_KNOWN = 1e-10
"""Relative error at which a unit is not measured again. A convention: `BOUND` times it is a third
of what the judge asks for."""
TYPICAL_ROUNDING = 4.0 * EPS
"""Error of a value beside its size, where too few steps tell it. A convention, as `ROUNDING`."""
FEWEST_MET, MET_MARGIN = 6, 3.0
"""Steps along lines whose errors tell how large rounding is, and how many times what they show it
is taken to be. Derived: the root mean square of 6 is below a third of what it stands for once in
300 times; `BOUND` is for the rest."""
ROUNDING_MET = (0.1 * EPS, 1e4 * EPS)
"""Least and most that it is taken to be, beside the sizes of all terms of a value. A convention: a
value itself is rounded to 0.3, and is a part of these; above, answers are not those of double
precision."""
SAFE = 0.5
"""Steps go so far towards the nearest hyperplane. A convention."""
CERTAIN = 20.0
"""Hyperplanes are farther away than so many times what the error of their units is worth there.
A convention."""
STRANGE = 1e-3
"""Of the smallest unit: a gradient that differs by more from that of the units known, where these
explain the function, was measured over a kink. A convention: far above errors, and such a step has
this little of its length beyond the kink once in a thousand times."""
SIGNIFICANT, TINY = 0.01, 1e-6
"""A unit of larger relative error and, beside the largest, of smaller size is rounding. A
convention."""
WORTH_IT = 0.02
"""Part of the worst variance that a place must take away. A convention."""
PLACES, PLACES_A_UNIT = 2000, 40
"""Random places to choose from, and those about each hyperplane. A convention: cost against choice.
"""
SHARPENINGS = 4
"""Rounds of choosing places, measuring, fitting. A convention."""
LONGEST = 1.0
"""Longest step, beside the box's width. A convention."""
PRIOR = 1e-2
"""Relative error of a unit before anything is measured. Derived: `ROUGHLY`."""

# ---------------------------------------------------------------- signs, and points at kinks

NO_LINEAR = 1e-8
"""A linear term up to this, relatively, is rounding; so are signs that explain no more. Derived:
some hundred units, each known to `BOUND` times `WELL_KNOWN`."""
BOUND = 3.0
"""Errors are at most so many times what rounding makes them on average. Measured: of 230 random
networks (5 features and 2 units to 100 and 50, in a box, leaky, of three outputs) none had an error
above two thirds of what this states, and most an eighth; `tests/extraction/test_kinks.py` compares
both."""
POINTS_A_KINK = 3
"""On it, and to either side. Derived."""
ON_A_KINK = 3
"""Points on it where answers have noise: two of them must be off. A convention."""
FARTHEST_BESIDE_A_KINK, BESIDE_A_KINK, BESIDE_EITHER_SIDE = 0.3, 5.0, 7
"""Points beside it where answers are rounded: how far the farthest is, beside the box's width, how
much nearer each next one is, and how many there are to a side. A convention: from 0.3 to 2e-5, so
that two units that are off by more than single precision show."""
ALONG_A_KINK = 10.0
"""How far out these lie, beside usual inputs, where steps of answers are the same everywhere: two
units 1e-3 apart are ten times as far from each other there. A convention."""
KINK_TRIES = 100
"""Random points, and steps between box and hyperplane, to find one in both. A convention."""
CLEARLY = 10.0
"""Points beside a kink are so far that a unit that is not there makes so many times the error
allowed. A convention."""
CELLS_A_KINK = 3
"""Cells in which each unit of a deep network is asked about. A convention: a row that is right in
one cell may have wrong weights from units that are off there."""
NEAR_LINES, FAR_LINES = 300, 100
"""Random segments along which these are looked for, and lines that go beyond. A convention: a unit
that switches on one segment in a hundred is missed once in twenty times."""
AIM_STEPS, AIM_STRETCH, AIM_ROOM = 300, 1.5, 0.1
"""Steps towards inputs where given units are on or off, how much longer than just enough each is,
and how far beyond that is aimed, beside the box's width. A convention: between 1 and 2 the
relaxation method converges."""
AIM_AMONG, AIM_STARTS, AIM_ENOUGH = 4000, 12, 6
"""Random inputs among which it begins, how many of these, the nearest and others, and how many that
have arrived end it. A convention."""
MOST_AIMED = 200
"""Weights that are aimed at, which would not show otherwise. A convention: a second or two."""
WIDER = (1.0, 3.0, 10.0)
"""Times the typical distance from the centre at which weights are to show. A convention: far out
fewer units of the first layer change, and more patterns of them are met."""
FARTHEST_BESIDE = 0.01
"""Of the box's width: points beside a bent surface are no farther, or the unit does not show there.
A convention: cells are larger."""

# ---------------------------------------------------------------- points that may refute

FRESH = 300
"""Random points that nothing was learned from. Derived: all predicted, at most 1% of inputs are off
with a confidence of 95% (`certify.answered`)."""
FAR_POINTS, FAR_OUT = 60, (3.0, 10.0, 30.0)
"""Random points far out that a deep network must predict, at each of these scales. A convention: a
unit that is on at one usual input in a million is on at a hundredth of these (measured by
`benchmarks/extraction.py --deep 10-10-10-1`)."""
ROUNDED_FAR_POINTS, ROUNDED_CORNERS = 20, 60
"""The same where answers are rounded, and random corners of a box instead. Derived: a unit that
switches four deviations out is on at a third of the points ten times as far out, and missed by all
of 20 once in 4,000 times."""
ALONE = 30.0
"""How far inside their halfspaces units are at inputs where one of them is on alone. A convention:
far beyond biases."""
ALONE_FARTHER = 30.0
"""Times as far out the judge asks at such inputs once more. Measured: a unit with a bias of -0.2
and two positive weights of 0.01 was missing in an exact answer (10-10-10-1, seed 1177)."""
ALONE_STARTS = 8
"""Convention: inputs that are led on to where a unit is on alone; the best of them counts."""
ALONE_LENGTHS = tuple(0.3 * 0.95**k for k in range(60))
"""Convention: of the steps, beside the input's own size: from a third of it to a hundredth."""
FEWEST_FRESH = 20
"""The same, however small the budget is. A convention: what a budget without them is spent for."""
MOST_COMPARED = 4000
"""Random points among which extremes are looked for. A convention: a limit on the answers shows
there if it takes effect at a thousandth of them."""
EXTREME_UNITS = 10
"""Outputs, features and units whose extremes are asked, of each. A convention."""
CLIMBS = 5
"""Steps from an extreme answer to a corner of the box. A convention: most end after three."""
CORNERS = 100
"""Random corners of the box. A convention: a unit that is on at one in a hundred of these, and in
ten thousand of other points, is missed by them and by those that led the search once in 20
times."""
FRESH_LINES, ALONG_A_LINE = 3, 20
"""Lines from end to end, and points asked on each. A convention."""
SEARCHED = 130
"""Questions that these take about, of one output. Derived: three lines of 20, corners, and the
extremes of an output, ten features, ten units and the distance."""
SEARCHED_PART = 3
"""Of a budget that is left one part in so many is for searched points. A convention."""
ASKED_AGAIN = 8
"""Questions of the beginning that are asked again at the end. A convention, as `KEPT_INPUTS`."""
MOST_HANDED = 2**22
"""Numbers of points asked on lines that are handed to the search for several layers. A convention:
32 MB."""
NEAR_GUIDES = 2.0
"""Points that led the search count as inputs up to so many times the typical distance from the
centre. A convention: farther out values are so large that errors of all others are small beside
them."""
BENDS_ASKED, FLAT_ASKED = 40, 20
"""Units of whole layers whose kinks are looked at where the layers above were not found, and steps
past these layers. A convention."""
BEND_SHOWS, FLAT_SHOWS = 1e3, 1e-5
"""Roundings of a value above which answers bend, and part of an ordinary change up to which they
stay. A convention: both are far from what either makes."""
SHOWING = 100
"""Points that are asked because they alone show some weights of a deep network. A convention."""
FURTHER_SEARCHES, FURTHER_IN_A_BOX = 2, 4
"""How often the search goes on from points that refuted its answer. A convention: units that fire
in a corner of the box only are found then, one or two at a time, and what is no network stays
none."""

# ---------------------------------------------------------------- random questions

FIRST, FIRST_A_FEATURE = 200, 12
"""Random points of the first attempt: these, or so many a feature. A convention: enough for one
unit or so a feature."""
GROWTH = 1.6
"""Of points and seconds from one attempt to the next. A convention: at most that much is wasted."""
ROUNDED_POINTS, ROUNDED_SECONDS = 5.5, 20.0
"""Where answers are rounded: random points a parameter of the units that a line shows, and seconds
of a first attempt with up to a thousand points. A convention: a line shows about 9 of 10 units in
single precision (`benchmarks/extraction.py --rows 20,10,float32 20,10,decimals4`)."""
COARSENED = 10.0
"""Roundings of single precision, at least, that answers are rounded to while the number of units is
looked for. A convention: sums of a few roundings are then far within a step."""
COARSE, COARSE_POINTS = 1e-6, 8.0
"""Part of the answers' size from which on rounding hides half of the units from a line, and points
a parameter then. A convention, as before."""
FIRST_UNITS, POINTS_A_PARAMETER = 2, 2.5
"""Where answers are exact and units smooth: the width that is guessed at first, and random points a
parameter of it. A convention: of 20 features and 10 tanh units most networks are found at 2.2 to
2.7 points a parameter (`benchmarks/extraction.py --rows 20,10,tanh`)."""
SMOOTH_GROWTH = 1.15
"""As `GROWTH`, there. A convention: little more is asked than is needed, since attempts with too
few points are short."""
SMOOTH_SECONDS, SMOOTH_POWER = 20.0, 1.5
"""Seconds of an attempt with a thousand points there, and the power of the points with which they
grow. Measured with chains of tanh units, each of 1 s at 500 points on a free machine: a few of
them, of which an early one succeeds where any does."""
SEARCHED_BEYOND = 20
"""Searched points that such an answer must predict, its own extremes first. A convention: what
three queries a parameter leave beside the search at 20 features and 10 units."""
MOST_POINTS, MOST_POINTS_A_FEATURE = 20_000, 200
"""Questions without a budget: who needs more may give one. A convention."""
SECONDS_A_BATCH = 5.0
"""For the first attempt; with too few points none succeeds, and later ones may take longer. A
convention."""
MOST_SECONDS = 300.0
"""For all of them, if no time is given. A convention."""
SHORTEST = 0.01
"""Seconds that an attempt or a request is given at least, however near the deadline is. A
convention."""

# ---------------------------------------------------------------- answers that are kept

KEPT_INPUTS = 8
"""Inputs that are kept to be asked again. Derived: each unit of a network is off at about half of
them, so that a model that differs in one unit shows in 255 of 256 cases."""
OTHER_BATCH = 1000.0
"""Roundings of the answers' precision by which the same answer may differ from batch to batch. A
convention: sums in another order differ by a few."""
TIMES_AGAIN, OTHER_MODEL = 8, 10.0
"""How often questions are asked again to know their noise, and beyond how many deviations an answer
is another model's. Derived: for the same model Student's distribution of 7 degrees is beyond once
in 30,000."""

# ---------------------------------------------------------------- requests

FUNCTION_BATCH = (2**22, 8192)
"""Numbers and rows that a Python function is given at once, at most. A convention: 32 MB."""
FILE_BATCH = (2**20, 4096)
"""The same for the model of a file, which makes copies. A convention."""
REQUEST_BATCH = (50_000, 1000)
"""The same for an address. Derived: at most about a megabyte of JSON, the least that servers
usually take."""
MOST_BYTES = 2**28
"""Of a server's answer. A convention."""
FIRST_WAIT, LONGEST_WAIT, LONGEST_WISH = 0.5, 30.0, 60.0
"""Seconds: after the first failure, after many, and when the server names the time. A convention.
"""

# ---------------------------------------------------------------- digests and messages

FEWEST_ROWS = 1024
"""Convention: answers for which there is room at first."""
KEY_BYTES = 16
"""Derived: of the digest of a point: of a billion points two share 128 bits with a chance of
1e-21."""
SHOWN_NUMBERS = 4
"""Convention: numbers of an input or an answer that a message shows: part of a line."""

SATURATION_POINTS = 40
"""Convention: corners of a box, and as many random points of it, at which a classifier must not be
saturated: about what a probe asks."""
MOST_HALVINGS = 24
"""Convention: how often a box is made half as wide until none is: to a ten millionth."""
WIDER_AT_FIRST = 16.0
"""Convention: width of the first such box beside that of typical inputs, where these have no
limits: 48 deviations, where nearly all models are saturated."""
BISECTIONS = 60
"""Derived: more halvings of a segment than a double has digits."""
BOUNDARY = 0.1
"""Convention: probability of the second class from which a point lies on the boundary."""
TOLD_OUTPUTS = (2e4, 1e2)
"""Convention: roundings by which the output behind a probability may be off, in double and in
single precision: of logits from -9 to 9, known to 4e-12, and from -4 to 4, known to 1e-5."""
DOUBTED = 2.0
"""Convention: roundings of a probability by which log-odds that are checked may be off: that of the
model's own, and that of its difference from 1."""
MOST_DOUBT = 1e-11
"""Convention: how far rounding may leave log-odds off that lead a search, in double precision: some
twice what it is where the model is not saturated."""
LEAST_ODDS = 1e-307
"""Derived: what stands for a probability of 0, whose logarithm is none; above underflow."""
LEAST_PROBABILITY = 1e-290
"""Convention: the smallest probability that tells an output; smaller ones have lost digits."""
WIDE_ENOUGH = 0.1
"""Convention: width of a box, of that of the inputs, from which a network is traced in it: in a
smaller one most units have no kink."""
UNSATURATED_AT_FIRST, UNSATURATED_GROWTH, MOST_UNSATURATED = 2000, 3, 20_000
"""Convention: random inputs of a classifier that are asked at first, times more each time, and in
all: saturated ones are of no use, and are often most of them."""
BEYOND_THE_BOX = 300
"""Convention: random inputs, and as many corners, whose probabilities a network must predict: as
many as stand for all inputs elsewhere."""
SAME_PROBABILITY = (1e-8, 1e-4)
"""Convention: how far predicted probabilities may be off, of answers in double and in single
precision: some thousand times what is left in a box."""

# ---------------------------------------------------------------- units of rounded answers, roughly

ROUGH_LINES = 8
"""Convention: lines on which units of rounded answers are looked for; each shows most of them."""
ROUNDED_STEPS = 0.08
"""Convention: power of the rounding with which the steps of gradients grow: in single precision
four times those of exact answers, of four decimals six times."""
ROUGH_SHORTER, ROUGH_TRIES = 0.4, 2
"""Convention: factor for a gradient that is not believed, and how often it is tried."""
ROUGHLY_KNOWN = 0.5
"""Convention: relative error of a jump from which on it tells no direction."""
SAME_KINK = 0.03
"""Convention: relative distance of a kink from that of a known unit which it may be."""
SAME_ROUGHLY = 0.1
"""Convention: relative distance of two hyperplanes that may be one, known roughly."""
ROUGHLY_LEFT = 0.2
"""Convention: what units known roughly may leave of the answers' spread for least squares to begin
there. Smaller parts cost more lines, larger ones more fits: both find the same networks."""
LINES_SHARE = 0.4
"""Convention: of a budget that is left, what lines may have of it where answers are rounded."""
TRACED_ATTEMPTS = 2
"""Convention: fits from such a start, the second with `GROWTH` times the points: chance is over
then."""
ROUGH_POINTS = 2.2
"""Convention: random points a parameter of units known roughly, some of which are there twice."""
MADE_OF_OTHERS = 1.0
"""Convention: a unit without which what is left grows by less than this part is perhaps none."""
BETWEEN_TWO = 1.5
"""Convention: random points a weight between the kinks of two units, below which these may be one:
the weights of the second are then free to fit these few."""
TRACED_POINTS = 4.0
"""Convention: random points a parameter for least squares from such a start. With 3 the standard
errors are doubted now and then, with 5.5 queries come to more than they need."""
WITHIN_ERRORS = 5.0
"""Convention: standard errors, of all weights of a unit together, that one network may be from
another to be the same."""
FARTHEST_ON_LINES = 10.0
"""Convention: points on lines count up to so many times the distance of usual inputs: a unit that
one of a million of these switches is met before that."""
SINGLE_LEFT = 0.5
"""Convention: of a rounding of the largest answer, what a network may leave of answers in single
precision, root mean square. Networks of 2 to 20 units leave 0.1 to 0.3."""
