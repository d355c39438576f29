"""The numbers of this room: where and how finely a model is asked, and what counts as rounding.

Each entry says whether it is derived (from what), a convention, or measured (by which script). The
conventions are those with which `benchmarks/extraction.py` measures successes and queries: whoever
changes one runs it again.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(float).eps)
"""Rounding of double precision. Derived."""
TINIEST = 1e-300
"""Keeps a division by zero away where sizes may be zero. A convention, near the smallest float."""

# ---------------------------------------------------------------- where to ask

TYPICAL = 3.0
"""Inputs lie about so far from zero in a feature without limits. Derived: three deviations of a
standard normal one."""
HAIR = 1e-9
"""Relative distance to the box's sides that points keep, since sums are rounded. A convention, far
above rounding and far below any distance that matters."""
NUMBERS_AT_ONCE = 2**22
"""Of points that are made, asked or compared together. A convention: 32 MB, of which a step has a
few copies."""

# ---------------------------------------------------------------- what kind of answers

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
NEAR_AN_END = 0.02
"""Part of an interval: tangents that meet nearer to its end do not split it there. A convention."""
SPLIT = 0.47
"""Where an interval is split otherwise, in orders of magnitude: not quite its middle, which may be
a place of symmetry. A convention."""
MOST_ROUNDS = 200
"""Rounds of splitting. A convention, far above the 50 after which halving ends."""
MOST_OPEN = 1000
"""Intervals at once: more are rounding that was taken for kinks. A convention."""
NARROW = 1e-9
"""Relative length of an interval that is not split any more. A convention: kinks that near are not
told apart by tangents known to 1e-11."""
REACH = 1e5
"""How far out kinks are looked for, in distances of a typical one. Derived: a random unit is so
nearly parallel to a line once in 100,000."""
REACH_OF_REST = 30.0
"""The same for what earlier lines left: far out it is rounding. A convention."""
ROUNDING_OF_REST = (1e-11, 1e-8)
"""Least and most relative error of what earlier lines left: as far as their units are known, but no
better than `WELL_KNOWN`. A convention."""
KINK_SCALE, KINKS_IN_BOX = 0.1, 20.0
"""Distance of typical kinks: a tenth of the distance of typical inputs, and at most a twentieth of
the line. A convention."""
BESIDE_CENTRE = 1e-2
"""How far the first line passes the centre, where symmetric models have their kinks; beside the
box's width. A convention."""
LINES = 6
"""Lines that are followed at most. A convention: each later one is for a unit that was missed."""

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
BELIEVED = 1e-13
"""Relative error of a rise along the line that a gradient may leave. Derived: as `DOUBLE`."""
FROM_EDGE, FROM_FAR_EDGE = 3.0, 0.5
"""Distance of a place from the kinks beside it: so many distances of typical kinks and, far out,
this part of the kink's own distance from the origin. A convention."""
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

WELL_KNOWN = 1e-11
"""Relative error at which a unit is not measured again. A convention: `BOUND` times it is a tenth
of what the judge asks for."""
TYPICAL_ROUNDING = 4.0 * EPS
"""Error of a value beside its size where units are measured again. A convention, as `ROUNDING`."""
SAFE = 0.5
"""Steps go so far towards the nearest hyperplane. A convention."""
CERTAIN = 20.0
"""Hyperplanes are farther away than so many times what the error of their units is worth there.
A convention."""
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
BOUND = 10.0
"""Errors are at most so many times what rounding makes them on average. A convention;
`tests/extraction/test_kinks.py` compares it with true errors."""
POINTS_A_KINK = 3
"""On it, and to either side. Derived."""
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
FEWEST_FRESH = 20
"""The same, however small the budget is. A convention: what a budget without them is spent for."""
MOST_COMPARED = 4000
"""Random points among which extremes are looked for. A convention: a limit on the answers shows
there if it takes effect at a thousandth of them."""
EXTREME_UNITS = 10
"""Outputs, features and units whose extremes are asked, of each. A convention."""
CLIMBS = 5
"""Steps from an extreme answer to a corner of the box. A convention: most end after three."""
CORNERS = 20
"""Random corners of the box. A convention: a region about a corner in two features has a quarter of
them, so that it is missed once in 300 times."""
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
FURTHER_SEARCHES = 2
"""How often the search goes on from points that refuted its answer. A convention: units that fire
in a corner of the box only are found then, and what is no network stays none."""

# ---------------------------------------------------------------- several hidden layers

NO_SLOPE = 1e-12
"""A unit whose value changes by less along every coordinate does not switch. A convention."""
RANK = 1e-6
"""Singular values below this part of the largest are zero: units depend on each other there. A
convention: slopes known to 1e-12 are worth 1e-6 then."""
DEEP_GRADIENT_STEP, DEEP_SHORTER, DEEP_GRADIENT_TRIES = 0.15, 0.1, 3
"""Steps of a gradient, over the root of the rank, as a part of the distance to the next kink on the
line; a factor where the gradient predicts no further step, and how often. A convention."""
SCREENED = 16
"""Rank from which on a few questions tell how long steps may be. Derived: six of them, beside the
rank."""
SCREENED_STEP, SCREENED_SHORTER, SCREENINGS = 0.3, 0.3, 8
"""The first step, as a part of the distance; a factor where f bends, and how often. A convention."""
SCREENED_WAYS, SCREENED_FAR = 3, 2.5
"""Random directions, each asked on both sides, and how much farther than a step. A convention: what
bends within a step along some axis bends in one of them."""
PREDICTED = 8.0
"""Roundings by which a further step may differ from what slopes predict. A convention."""
NUMBERS_A_BLOCK = 2**22
"""Of questions made at once. A convention: 32 MB."""
SAME_PLACE = 1e-6
"""Kinks on a line that are nearer, relatively, are the same. A convention: tangents known to 1e-11
meet within 1e-8, and chance puts two kinks so near once in 10,000 lines."""
JUMP = 20.0
"""Jumps of a gradient are larger than so many times their error. A convention."""
OTHER_JUMP = 1e-6
"""A second singular value of a jump, relatively, shows two kinks in one place. A convention."""
HITS, HITS_A_MISS = 3, 3
"""Kinks a row must explain, and for one that it predicts in vain. A convention: rows of the next
layer predict nearly all, those of deeper ones at most two of three."""
UNSURE_PLACE = 10.0
"""Errors of a row by which a predicted kink may be off. A convention."""
SHARED, SHARED_PART = 2, 1e-2
"""Columns beside the bias that two rows must share to be compared, and the part of each row that
these must be. Derived: two ratios agree by chance with the square of `SAME_ROW`."""
SAME_ROW = 1e-7
"""Rows whose entries differ by a few times this, relatively, and their errors are the same. A
convention, as `SAME_UNIT`."""
CHANCE = 1e-8
"""How likely chance may make rows look the same. Derived: what is apart by a part p in k ratios is
so with a chance of about `p^k`."""
CELL_SIZE = 10.0
"""Lines in a cell reach so far from its middle, beside the distance of that from zero. A convention.
"""
CELL_STARTS, SCALES = 1000, (0.5, 1.0, 2.0, 4.0)
"""Random points among which cells are chosen, at each of these scales. A convention."""
CLIMBED, CLIMB_STEPS = 40, 20
"""Points from which units are switched on, and steps for it. A convention."""
INNER = 1e-4
"""Radius of a ball in a cell that is worth a line. A convention."""
NEARLY_A_CORNER = 0.97
"""Ends of lines lie so far from a cell's middle to its corner. A convention."""

OPEN_A_LINE = 6
"""Kinks of other lines that are measured after each line of a layer, if nothing explains them. A
convention."""
LOOK_WIDTH, LOOK_SHORTER, LOOK_TRIES = 0.05, 0.1, 4
"""How far across a row's surface f is asked, a factor where it is not straight there, and how often.
A convention."""
LOOK_ROOM, PLACE_TRIES = 1e-3, 20
"""Room for a look to the nearest place where a known unit switches, and random segments to find
one. A convention."""
TURNS = 100.0
"""Roundings beyond which f turns. A convention."""
MOST_LOOKS, MOST_MISSES = 8, 2
"""Looks at a row, and those in vain after which it is left. A convention."""
FILL_WALKS, FEW_MISSING, FILL_ALL_FROM = 3, 4, 12
"""Walks along a row's surface for each weight that is missing: where so few are, or after so many
lines. A convention: kinks in other cells tell more at once, and better."""
BEYOND = 3.0
"""Lines across a surface reach so far beside the distance from where the unit switched. A
convention: weights are seldom larger than the others together."""
CONFIRMED_WITHIN, CONFIRMED_SHORTER = 1e-5, 0.2
"""A kink that confirms a weight lies so near to where it was predicted, beside the width that is
looked at, or as near as the row is known; a factor where f is not straight there. A convention: that of another unit is elsewhere.
"""
KINK_PLACED = 100.0
"""Roundings by which the place of a kink may be off. A convention: its two tangents are measured
over a part of the room."""
FARTHEST_FILL, FILL_PART = 2.0, 0.6
"""How far beyond the place where a unit switched its weight is told: at most, and beside the
distance to where the next one does. A convention."""
SURFACE_WALKS, WALK_STEPS, FARTHEST_WALK = 6, 100, 100.0
"""Walks along a surface for each unit that it may meet, steps of each, and the length of a step at
most. A convention."""
SIGNS_OFF = 1e-2
"""How far a sign may be from 1 where surfaces tell it. A convention: their turns are known to 1e-6.
"""
FULL_LINES = 1
"""Lines of a layer on which every kink is measured. A convention: rows come from them."""
CELL_LINES = 4
"""Random corners of a cell beside those far along every unit. A convention."""
RICH_CELLS = 8
"""Cells that are looked into first. A convention."""
SHORTEST_LINE = 1e-3
"""Between two corners. A convention."""
PERPENDICULAR_STEP = 0.02
"""Of the room: how far the slope perpendicular to all rows is measured. A convention."""
WELL_APART = 1e-9
"""Relative error up to which a row is not measured again while its layer is searched. A convention.
"""
FLAT = 1e-7
"""Gradients below this part of a typical one are zero. A convention."""
NOT_ZERO, EXPLAINED = 1e-4, 1e-5
"""Coordinates of a gradient, over its size, that are not zero; what may be left of it by rows that
explain it. A convention: rows are known to 1e-9."""
INDEPENDENT = 1e5
"""Largest condition of rows whose coordinates are believed. A convention."""
MOST_GRADIENTS = 200
"""Gradients that are explained, those of highest rank first. A convention: cost."""
MOST_OPEN_SIGNS, REFUTED_BY = 10, 2
"""Signs that no gradient tells by itself that are tried, and gradients by which another one must be
refuted. A convention."""
SIGN_STARTS = 6
"""Random starts for signs that no gradient tells by itself. A convention."""
ANSWERS_A_COLUMN = 8
"""Answers that are fitted for each coefficient of the last layer; all others must be predicted. A
convention: cost."""
NEAR = 3.0
"""Answers farther out, beside the root of the coordinates, count less for the last layer, by their
distance. A convention: three deviations."""
TOP_EXPLAINS, ERRORS_LEFT = (1e-6, 3e-3), 10.0
"""Largest error of an answer, relatively, where the last layer is found: between these, and so many
errors of a row. A convention: rows are measured again after that."""
SETTLE_GAIN, SETTLE_AGAIN = 0.3, 2.0
"""A network that did not explain everything once its rows were measured again is tried again when
these are known better by this factor; every line makes that easier by the second. A convention."""
SETTLED = 1e-7
"""The same once all rows were measured again. A convention: polishing comes after."""
MOST_POLISHED, SPARE_ANSWERS = 1500, 2
"""Parameters of networks that are polished as a whole, and answers for each. A convention: a
second or two."""
POLISH_STEPS, POLISH_DAMPING, POLISH_GAIN = 10, 1e-12, 0.1
"""Of least squares, from rows that are known to 1e-9: hardly damped, until one lowers the sum of
squares by less than this part. A convention."""
POLISHED_WITHIN = 30.0
"""Distance of answers that polishing uses, beside the root of the coordinates. A convention: units
that are seldom on show far out, where rounding is larger."""
POOL, POOL_A_PLACE, SHOWN_AT = 500, 20, 4
"""Random points at each scale, and about each unit's kink, among which answers for polishing are
chosen, and at how many of these each weight must show. A convention."""
POLISHED_ABOVE = 1e-10
"""Relative error of a row for which answers are asked to polish it. A convention."""
POLISH_ROUNDING = 1e-15
"""Relative error of answers that polishing may rely on. Derived: a few roundings."""
MOST_LAYERS = 12
"""Hidden layers that are looked for. A convention."""
TRIMMED = (0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.5)
"""Parts of the answers that are fitted, one after the other, those with the least error: where a
unit is missing, the others explain most answers. A convention."""
HOPELESS = 0.02
"""Share of the answers explained after two of these below which no more are tried. A convention."""
MOST_ANSWERS = 0.5
"""Share of the answers beyond which the last hidden layer is being looked at. A convention: with a
layer between, answers of one of its patterns alone are explained, which are few."""
REMEASURED_FIRST, REMEASURED = 3e-11, 3e-12
"""Relative error beyond which a row is measured again: of the first layer, where that takes two
questions a weight, and of the others. A convention."""
GRADIENTS_ELSEWHERE = 8
"""Gradients in cells where nothing was measured that a layer must explain. A convention: a unit
that is missing is on at half of them."""
ACROSS, LONG_STEP = 0.5, 0.4
"""How far from a unit's surface it is measured again, and how far the steps go, beside the room.
Derived: both together stay inside."""
SURFACE_STEPS, LOOKED_AT = 10, 40
"""Steps of Newton's method to a unit's surface, and places there that are looked at closely. A
convention."""
CANDIDATES, MORE_CANDIDATES, AROUND_A_PLACE = 100, 1000, 1e-3
"""Points near a unit's surface among which the best is chosen: so many at random, and as many about
a kink of it, so near at the nearest; more where these leave columns open. A convention."""
LEFT_OF_LINEAR = 1e-6
"""What units without a kink leave of a linear part, relatively. A convention."""
NEEDLESS, NEEDLESS_TRIED = 1e-9, 4
"""A row whose absence leaves no more than this, relatively, is not needed; the smallest few are
tried. A convention."""

LEAST_LINES, MOST_LINES = 3, 80
"""Lines of a layer before it is looked at as a whole, and at most. A convention."""
FILL_FROM, LATE, PATIENCE = 4, 40, 8
"""Lines of a layer after which kinks of other lines are measured and missing weights asked for;
after which what is missing of it is taken for never seen; and after which it is, though its rows
explain all answers. A convention."""
GUIDED = 2
"""Answers that guide the next lines. A convention."""
PROBES = 20
"""Random points at each scale that a network must predict before it is measured again. A convention:
the judge asks hundreds."""
DESCENT, DESCENT_STEPS = 250, 60
"""Random points at each scale, and steps, to find where a unit that never switches is smallest. A
convention."""
QUIET_LINES, SURFACES_FROM = 3, 6
"""Lines without a new row, and lines in all, after which a layer of more units than dimensions has
all its rows. A convention."""
FEW_ANSWERS = 0.1
"""Share of the answers up to which a layer is not the last hidden one. A convention."""
MOST_SURFACES, SURFACES_TO_AGREE = 30, 2
"""Surfaces that are followed for the signs of a layer, and those that must agree. A convention."""

# ---------------------------------------------------------------- random questions

FIRST, FIRST_A_FEATURE = 200, 12
"""Random points of the first attempt: these, or so many a feature. A convention: enough for one
unit or so a feature."""
GROWTH = 1.6
"""Of points and seconds from one attempt to the next. A convention: at most that much is wasted."""
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
