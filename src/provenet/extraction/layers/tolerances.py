"""The numbers of this room: how rows, cells and surfaces of deeper layers are told.

Each entry says whether it is derived (from what), a convention, or measured (by which script). The
conventions are those with which `benchmarks/extraction.py` measures deep networks: whoever changes
one runs it again.
"""

from __future__ import annotations

NO_SLOPE = 1e-12
"""A unit whose value changes by less along every coordinate does not switch. A convention."""
FAR_AWAY = 10.0
"""Distance from zero, beside the root of the coordinates, from which on lengths grow in proportion.
A convention."""
RANK = 1e-6
"""Singular values below this part of the largest are zero: units depend on each other there. A
convention: slopes known to 1e-12 are worth 1e-6 then."""
DEEP_GRADIENT_STEP, DEEP_SHORTER, DEEP_GRADIENT_TRIES = 0.15, 0.1, 3
"""Steps of a gradient, over the root of the rank, as a part of the distance to the next kink on the
line; a factor where the gradient predicts no further step, and how often. A convention."""
SCREENED = 16
"""Rank from which on a few questions tell how long steps may be. Derived: six of them, beside the
rank."""
SCREENED_STEP, SCREENED_SHORTER, SCREENINGS = 0.15, 0.3, 8
"""The first step, as a part of the distance; a factor where f bends, and how often. A convention.
"""
SCREENED_WAYS, SCREENED_FAR = 2, 2.5
"""Random directions, each asked on both sides, and how much farther than a step. A convention: what
bends within a step along some axis bends in one of them."""
SPAN_PROBES = 2
"""Directions across the span of all gradients so far in which no answer may change where another
lies in it. A convention: chance makes one of them blind, not both."""
SPAN_KNOWN = 1e-8
"""Relative error of a direction that may be part of the span. A convention: rows are told from it.
"""
PREDICTED = 8.0
"""Roundings by which a further step may differ from what slopes predict. A convention."""
MOST_CLOSE = 2**24
"""Numbers of inputs close to others that are kept. A convention: 128 MB."""
OUT_OF_SPACE = 1e-4
"""How far from the row space of the first layer, relatively, an input may lie to tell of what is in
it. A convention: what lies outside of the rows is known to 1e-11, so that rounding hides it."""
SAME_PLACE = 1e-6
"""Kinks on a line that are nearer, relatively, are the same. A convention: tangents known to 1e-11
meet within 1e-8, and chance puts two kinks so near once in 10,000 lines."""
CROWDED = 1e-3
"""A row that predicts a kink nearer than that, relatively, to two others is not refuted if none is
there. A convention: three kinks in so small a part of a line may be taken for two.
"""
JUMP = 20.0
"""Jumps of a gradient are larger than so many times their error. A convention."""
OTHER_JUMP = 1e-6
"""A second singular value of a jump, relatively, shows two kinks in one place. A convention."""
HITS, HITS_A_MISS = 3, 3
"""Kinks a row must explain, and for one that it predicts in vain. A convention: rows of the next
layer predict nearly all, those of deeper ones at most two of three."""
SEEN, UNSEEN, SEEN_AN_UNSEEN = 3, 1, 6
"""Kinks a row must predict where other units of its layer are in other states, before it is filled
or the layer is left behind; looks in vain there that refute it, and kinks that outweigh one of
them. A convention: a unit of a deeper layer has none there but by chance."""
SEEN_ANYWHERE = 6
"""Kinks a row must predict far from where it was met, in place of those. Measured on
64-8-8-8-8-8-8-8-8-1, seed 0, third layer: units of it have them at all of 7 to 12 places, rows of
deeper units at 4 at most, and few such places are to be found.
"""
FILLED_UNSURE = 4
"""Rows not yet believed of which missing weights are asked for after each line. A convention: cost.
"""
MANY_OTHERS = 0.33
"""Share of the other rows that are in other states where a row is looked at before its layer is
left behind. A convention: at random places half of them are, and where rows of deeper units are
among them so are some of the layer's own."""
UNSURE_PLACE = 10.0
"""Errors of a row by which a predicted kink may be off. A convention."""
SHARED, SHARED_PART = 1, 1e-2
"""Columns beside the bias that two rows must share to be compared, and the part of each row that
these must be. Derived: two ratios agree by chance with the square of `SAME_ROW`."""
SAME_ROW = 1e-7
"""Rows whose entries differ by a few times this, relatively, and their errors are the same. A
convention, as `SAME_UNIT`."""
WALK_AGREES, WALK_TELLS = 1e-7, 1e-3
"""Smallest singular value of the equations of kinks of one unit, beside their errors; and the
second smallest with which they tell its row. A convention."""
WALK_COLUMNS = 0.5
"""Part of the columns that a walk must tell: with few of them a row predicts little. A convention.
"""
WALK_PLACED = 1e-6
"""How far from where a surface turns it may go beyond that, relatively and beside its error. A
convention, as `SAME_PLACE`."""
WALK_STEPS, WALK_WAYS, WALK_TRIES, WALKS_A_LINE = 20, 24, 4, 4
"""Steps along a unit's surface, directions among which the best of each are chosen, how many are
tried, and walks that are begun after each line. A convention: cost."""
OFF_ERRORS = 10.0
"""Errors by which entries of rows that are the same may differ. A convention, as `UNSURE_PLACE`."""
CHANCE = 1e-8
"""How likely chance may make rows look the same. Derived: what is apart by a part p in k ratios is
so with a chance of about `p^k`."""
CELL_SIZE = 10.0
"""Lines in a cell reach so far from its middle, beside the distance of that from zero. A
convention."""
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
"""How far across a row's surface f is asked, a factor where it is not straight there, and how
often. A convention."""
LOOK_ROOM, PLACE_STARTS, PLACE_TRIES = 1e-3, 32, 3
"""Room for a look to the nearest place where a known unit switches, random points from which such
places are looked for, and how many are tried. A convention."""
REFINED_SPARE, REFINED_ROUNDS = 4, 8
"""Kinks beyond the weights of a row that is told by their places, and rounds in which such places
are looked for. A convention: cost."""
REFINED_WITHIN, REFINED_NEAR = 1e-2, 8.0
"""How far such a kink may lie from where it is expected, beside the width that is looked at, and
how far a row may move; how many times the others' error what one leaves is, where it is another
unit's. A convention."""
REFINED_FROM = 3
"""Layers above which the next is looked for with all rows told by their kinks. A convention: one or
two layers need not be known so well, and that costs some 15 questions a weight.
"""
REFINED_TELLS = 1e-5
"""Second smallest singular value, beside the largest, of kinks that tell a row. A convention:
places are known to 1e-14."""
CLOSE_ROWS = 1e-4
"""How far, relatively, rows may be apart of which each is told by its kinks, since they may be one.
A convention: errors of a row that was put together from many cells are told too small at times.
"""
TURNS = 100.0
"""Roundings beyond which f turns. A convention."""
MOST_LOOKS, MOST_MISSES = 8, 2
"""Looks at a row, and those in vain after which it is left. A convention."""
FILL_ROUNDS, FILL_ALL_FROM = 2, 12
"""Rounds over the weights of a row that are missing, and lines after which those of a row are asked
for that could not be confirmed. A convention."""
BEYOND, FAR_BEYOND = 3.0, 30.0
"""Lines across a surface reach so far beside the distance from where the unit switched, and if that
tells nothing. A convention: weights are seldom larger than the others together, but where few units
are on one may be ten times as large."""
CONFIRMED_WITHIN, CONFIRMED_SHORTER = 1e-5, 0.2
"""A kink that confirms a weight lies so near to where it was predicted, beside the width that is
looked at, or as near as the row is known; a factor where f is not straight there. A convention:
that of another unit is elsewhere."""
KINK_PLACED = 100.0
"""Roundings by which the place of a kink may be off. A convention: its two tangents are measured
over a part of the room."""
FARTHEST_FILL, FILL_PART = 2.0, 0.6
"""How far beyond the place where a unit switched its weight is told: at most, and beside the
distance to where the next one does; far out in proportion. A convention."""
FARTHEST_WALK = 100.0
"""How far beyond such a place others are looked for, in the same way. A convention."""
CROSSING_STARTS, CROSSING_STEPS, CROSSING_STEP = 8, 12, 10.0
"""Random points at each scale, half of them about the row's kink, from which Newton's method goes
to where a row's surface meets another unit's; its steps, and the longest. A convention."""
CROSSING_POOL = 20
"""Points beside each of them of which those are taken where the other unit is nearest to switching.
A convention: one that is seldom on is met so."""
CROSSED, CROSSINGS = 1e-9, 2
"""How near to both it must come, relatively, and how many such places are tried. A convention."""
ALWAYS_AGREES, ALWAYS_TELLS = 1e-5, 1e-3
"""Root of the smallest eigenvalue, beside the next, of what gradients say of a unit that is always
on; and this next one, for each gradient, with which they tell it. A convention: rows are known to
1e-8."""
ALWAYS_POINTS, ALWAYS_FROM, ALWAYS_TRIED = 1000, 24, 6
"""Random points at each scale at which such a unit is made to be on; lines, some of them to where
it is least, before it is believed; and kinks that may be its own which are looked at after each. A
convention: one that is seldom off is met by then."""
ALWAYS_GRADIENTS = 60
"""Gradients that tell a unit that is always on. A convention: cost."""
ALWAYS_LOW = 0.05
"""How low it may be beside its highest value, near and far, since its bias keeps it on. A
convention: far out one that switches is as low as it is high, and a bias is small."""
APART_STARTS, APART_PLACES = 500, 100
"""Random points at each scale among which so many are chosen, near to where a unit switches, and as
many at random, to see whether a row's state is the same at all such places. A convention."""
APART_BEYOND, APART_MARGIN = 1.0, 2.0
"""How far beyond these places, beside their distance from zero, a weight that is free keeps the
state, and times the least that does. A convention."""
APART_SPARE = 1
"""Gradients beyond the weights that they tell, which must agree with these. A convention."""
FURTHER_FROM, FURTHER_EVERY = 14, 2
"""Lines of a layer after which gradients are asked for where few units are on, and for weights that
no kink tells, and how often. A convention: most is told by then; cost."""
SURFACE_ROUNDS = 6
"""Rounds over the turns of a surface that are not known, each of which must tell one. A convention:
where one is known others come into reach."""
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
SLOPE_ROUNDINGS, ROWS_MATTER = 30, 100
"""Roundings of an answer that a slope of two may hold, and how much larger than the rows' error it
may be for that: rows that are off are not quite perpendicular to it. Conventions."""
STANDS_OUT = 1e-7
"""Slope that is that of a unit, whatever the rounding: weights are about 1. A convention."""
DEPENDENT = 1e-9
"""Of the largest singular value of rows: below, a direction is none of theirs. A convention."""
WELL_APART = 1e-7
"""Relative error up to which a row is not measured again while its layer is searched. A convention.
"""
FLAT = 1e-7
"""Gradients below this part of a typical one are zero. A convention."""
NOT_ZERO, EXPLAINED = 1e-4, 1e-5
"""Coordinates of a gradient, over its size, that are not zero; what may be left of it by rows that
explain it. A convention: rows are known to 1e-9."""
INDEPENDENT = 1e5
"""Largest condition of rows whose coordinates are believed. A convention."""
UNEXPLAINED = 0.02
"""Share of the gradients that rows may leave unexplained: a kink beside a point may spoil one of
fifty. A convention: without a unit a tenth and more are."""
MOST_GRADIENTS = 200
"""Gradients that are explained, those of highest rank first. A convention: cost."""
MOST_OPEN_SIGNS, REFUTED_BY = 10, 2
"""Signs that no gradient tells by itself that are tried, and gradients by which another one must be
refuted. A convention."""
VANISHING, MOST_SUMS, SUMS_SEARCHED = 3, 5000, 20
"""Rows of a sum that must vanish beside those left out because there are too many; ways to leave
these out, and gradients for which that is tried, at most. A convention: chance makes one coordinate
vanish once in 10,000 times, three of them in no search; the others are cost."""
SAME_CELL, TOGETHER = 9, 16
"""Decimals in which rows are the same in the same cell, and gradients of one that are looked at
together. A convention; cost."""
SURE_VOTES, VOTING_ROUNDS = 2, 4
"""Gradients that must tell a sign, more than tell the other, before it is used to tell others; and
how often those that could not be used are tried again. A convention."""
SIGN_POOL, SIGN_PLACES, SIGN_ROUNDS = 1000, 3, 2
"""Random points at each scale among which places for further gradients are chosen, how many for
each unit and side, and how often. A convention: cost."""
RIGHT_A_WRONG = 5
"""Gradients that signs explain which outweigh one that they do not. A convention: no gradient is
explained by fewer rows than it has dimensions by chance, and a kink beside it may spoil one.
"""
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
MOST_POLISHED = 9000
"""Parameters, in the row space of the first layer, of networks that are polished; of larger ones
the layers above the first are. A convention: half a minute, and 330 MB, twice that
in double precision."""
MOST_IN_A_BOX = 2150
"""Weights of a first layer up to which the layers above it are looked for among all inputs of a
box, in place of the row space. A convention: cost, which polishing and the other layers add to."""
FIRST_MEASURED = 9e-11
"""Standard error of the first layer's rows up to which the layers above them are polished alone. A
convention: more than that leaves them no room within `POLISHED_IN_ALL`."""
POLISH_ROUNDS, ASKED_A_ROUND = 5, 0.3
"""Fits after further answers, and how many of these at most beside the parameters. A convention."""
USUAL_LEVEL, HIGHEST_LEVEL = 1.5, 100.0
"""Times `POLISH_ROUNDING` that answers are off by where nothing tells yet, and at most where a fit
has not come to rest. Measured with `benchmarks/extraction.py --deep` on 80-40-20-1, seeds 0 to 4:
0.9 to 1.6; 50 above a first layer that stays as it is (256-64-32-10, seed 0)."""
WORTH_AN_ANSWER = 0.01
"""Part of the worst variance that an answer must take away. A convention: cost."""
ROWS_AT_ONCE, PARAMETERS_A_ROW = 8, 256
"""Rows, those known worst, for which a point each is chosen before all is seen anew; in large
networks one for so many parameters. A convention: cost."""
SEVERAL_BELOW = 0.03
"""Part of the worst variance that a point takes away at most where several are taken. A convention:
thirty and more are needed then."""
CHANCE_STEPS = 24
"""Random steps of all parameters that tell how unsure answers are. Derived: to a third."""
AIMED_WEIGHTS = 40
"""Poorly known weights for which points are looked for where they show. A convention."""
SPARE_ANSWERS, MANY_ANSWERS, LARGE = 0.4, 2.0, 4300
"""Random answers for each parameter in the row space, beside those close to others, before others
are chosen; and of networks with more parameters than that. A convention: the few that tell how
large answers are, as what is needed, its covariance tells; to choose points costs large networks
more than to ask some that are not needed. Measured on 784-64-64-1, seeds 400 and 401: with 1.2 a
parameter rows are known to 2e-9, with 1.5 to 3e-11, with 2 to 4e-12."""
FITTED_ANSWERS, FITTED_OF_LARGE = 16.0, 3.0
"""Answers for each parameter that polishing uses, at most, and as many slopes; of large networks
fewer, and no slopes. A convention: cost; what these leave unsure is asked."""
POLISHED_TO, POLISHED_IN_ALL = 1e-10, 1.2e-10
"""Standard error of a row up to which further answers are asked for; the same where the errors of
two fits add up. Derived: with `LAYERS_BOUND` it is within what the judge asks for, 1e-9."""
POLISHED_WELL = 0.9
"""Part of the error wanted that answers are chosen for: fits come out a little worse than told
before. A convention."""
POLISHED_WITHIN = 30.0
"""Distance of answers that polishing uses, beside the root of the coordinates. A convention: units
that are seldom on show far out, where rounding is larger."""
POOL, POOL_A_PLACE = 150, 5
"""Random points at each scale, and about each unit's kink, among which answers for polishing are
chosen. A convention."""
POOL_OF_ROWS, POOL_A_ROW = 1500, 20
"""Random points at each scale among which so many are taken for each row known poorly, where its
unit is on. A convention."""
UNSURE_ROWS, LEAST_UNSURE = 10.0, (1e-9, 1e-3)
"""Errors of the worst row by which parameters may be off before they are polished, at least and at
most. A convention."""
AXIS_STEP, LONGEST_AXIS_STEP = 0.5, 3.0
"""Steps along an axis beside the distance to where a unit switches, and at most. A convention."""
FIRST_KNOWN, FIRST_KNOWN_ALONE = 1e-10, 3e-11
"""Standard error of a row of the first layer up to which no more gradients are measured; of one
that is not polished with the others. A convention, as `POLISHED_TO`, and what leaves these room."""
SPARE_GRADIENTS, LEVEL_MARGIN = 3.0, 3.0
"""Gradients beyond the units from which on what is left of all of them tells how much rounding
makes of one; and times that for the errors of rows, since gradients are not off alike. Measured on
784-64-64-1, seed 0, with 77 and 103 gradients: rows are off by 2 and 3.4 times what it says."""
SPOILT = 100.0
"""What gradients leave over what rounding makes of them, beyond which one of them was measured over
a kink. Measured: it is about 1, and 1e7 where one was (64-32-16-1, seed 1101)."""
GRADIENT_OFF = 1e-4
"""Relative difference of a gradient that a nearly right network explains. A convention."""
LEAST_SLOPE = 1e-3
"""Weight of slopes beside answers up to which polishing leaves them out. A convention: they would
tell nothing that is wanted, and the square of it counts in a matrix that is rounded.
"""
GRADIENT_ROUNDS = 3
"""How often further ones are asked for. A convention: they come out a little worse than told."""
PLACES_FOR_GRADIENTS = 60
"""At each scale, among which those for further gradients are chosen. A convention."""
WORTH_A_GRADIENT = 0.02
"""Part of the worst variance that a gradient must take away. A convention, as `WORTH_IT`."""
ROUGH_PRIOR = 1e-3
"""How far rows may be off before all gradients are put together. A convention."""
POLISH_ROUNDING = 1e-16
"""Relative error of answers that polishing may rely on, times the root of the features for each
coordinate, as many as are summed up. Derived: one rounding."""
LAYERS_BOUND = 8.0
"""Errors are at most so many times the largest standard error of a row. Measured with
`benchmarks/extraction.py --deep` on 10-10-10-1, seeds 0 to 19: 0.1 to 3 times."""
WELL_SETTLED, POORLY_SETTLED = 1e-7, 2
"""Standard error up to which all rows are known, and how often the search goes on where it is
larger: two rows may be one unit's. A convention."""
MOST_LAYERS = 12
"""Hidden layers that are looked for. A convention."""
REWEIGHTED, ABSOLUTE_FIRST, PART_OF_MEDIAN = 25, 10, 0.1
"""Fits of the last layer, each trusting answers by their errors in the one before: so many for the
least sum of absolute errors, which the answers of a unit that is missing hardly move, the others
for as many answers as can be; and the part of the median below which errors are alike. A
convention."""
MOST_ANSWERS = 0.5
"""Share of the answers beyond which the last hidden layer is being looked at. A convention: with a
layer between, answers of one of its patterns alone are explained, which are few."""
REMEASURED = 3e-12
"""Relative error beyond which a row is measured again. A convention."""
ON_SURFACE, ONE_JUMP, ANOTHER_ROW = 1e-6, 1e-6, 1e-3
"""How near to a unit's surface places must be that it is measured at again; the error of a jump,
and what of it other outputs may do otherwise, relatively; and how far a row that is the same may be
from what it was. A convention: rows are known to 1e-7 and better by then."""
BIAS_AT = 0.3, 0.9
"""Of the room: from where to where the tangents beside a kink are taken that tells a bias; it must
lie between them. A convention."""
OPEN_ABOVE = 0.15
"""Share of the kinks that units of higher layers make at least. A convention: they are as many as
those of a layer; what a missing unit leaves are fewer."""
SILENT_PLACES, SILENT_RICH = 12, 16
"""Random points at each scale, and points where most units are on, at which a layer that is left
behind must be all that f depends on. A convention: two questions each."""
SILENT_DEEP = 40
"""The same of layers above the first, also far out. A convention: lines from end to end meet all
units of the first, and a deeper one that is on at a thirtieth of these inputs may be met by none.
"""
SILENT_STEP, NOT_SILENT, SILENT_ROUNDINGS = 0.5, 1e-6, 100.0
"""Of the room: how far f must be constant there; a slope beside a typical one, and roundings, by
which it may change. A convention."""
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
NEEDLESS, NEEDLESS_GROWTH, NEEDLESS_TRIED = 1e-9, 3.0, 4
"""A row whose absence leaves no more than this, relatively, beside so many times what is left with
it, is not needed; the smallest few are tried. A convention."""
RANK_OF_TOP, RANK_OF_SIGNS = 1e-13, 1e-9
"""Singular values, beside the largest, of what the last layer's weights, and its units' signs, are
solved from that count as zero. A convention: rounding, and what rows are known to."""
LEAST_LINES, MOST_LINES = 3, 80
"""Lines of a layer before it is looked at as a whole, and at most. A convention."""
FILL_FROM, LATE, PATIENCE = 4, 40, 8
"""Lines of a layer after which kinks of other lines are measured and missing weights asked for;
after which what is missing of it is taken for never seen; and after which it is, though its rows
explain all answers. A convention."""
GUIDED = 2
"""Answers that guide the next lines. A convention."""
PROBES = 6
"""Random points at each scale that a network must predict before it is measured again. A
convention: the judge asks hundreds."""
DESCENT, DESCENT_STEPS = 250, 60
"""Random points at each scale, and steps, to find where a unit that never switches is smallest. A
convention."""
DESCENT_LENGTHS = tuple(
    0.3 * (10.0 / 0.3) ** (k / (DESCENT_STEPS - 1)) for k in range(DESCENT_STEPS)
)
"""Of the steps: from a part of the usual distance of kinks to far out. A convention."""
EXTREMES = 30
"""Random sums of units of which the smallest values are asked for. A convention: each costs two
questions, and a unit of the next layer is such a sum."""
FEW_UP = 0.3
"""Part of the weights that are of the other sign in sums that look for units seldom on. Measured on
40-20-10-10-1, seed 305: one that is on at 3 of 100,000 random inputs, near and far, is on at 5% to
10% of such ends, and at 0.2% of those of sums of any signs."""
QUIET_LINES, SURFACES_FROM = 3, 6
"""Lines without a new row, and lines in all, after which a layer of more units than dimensions has
all its rows. A convention."""
FEW_ANSWERS, QUICK_ANSWERS = 0.1, 2000
"""Share of the answers up to which a layer is not the last hidden one, and how many say so. A
convention: cost; the share is known to a hundredth then."""
MOST_SURFACES, SURFACES_TO_AGREE = 30, 2
"""Surfaces that are followed for the signs of a layer, and those that must agree. A convention."""
CELLS_TO_TELL = 3
"""Cells in which answers tell the same missing weight. A convention: answers of one cell may agree
for another reason."""
SPARE_REST, NEAREST_A_WEIGHT, RANK_OF_REST, REST_KNOWN = 3, 2, 1e-7, 1e-4
"""Answers beyond the weights of a unit that must agree with it where it is told by what others
leave; how many about a point are taken for each weight; the smallest singular value, beside the
largest, with which they tell it; and its largest relative error. A convention."""
MOST_RESTS = 300
"""Points about which that is tried. A convention: cost."""
REST_ASKED = 3
"""Points for each weight that are asked about answers that are not explained. A convention."""
VALUES_AGREE = 1e-4
"""How far the weights that answers tell may be apart, relatively. A convention: a fit that leaves
1e-6 of an answer tells them to about that."""
