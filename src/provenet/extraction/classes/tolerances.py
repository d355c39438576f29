"""The numbers of this room: how finely a boundary is located, and what counts as the same.

Each entry says whether it is derived (from what), a convention, or measured (by which script).
Lengths are in deviations of the inputs, or sixths of the box: there typical inputs are of size 1.
"""

from __future__ import annotations

from provenet.extraction.tolerances import EPS

# ---------------------------------------------------------------- where the classes lie

CLASS_POINTS = 200
"""Random points asked for their classes at each width. A convention: a class that has a hundredth
of the inputs is missed once in seven times, and then looked for further out."""
WIDTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
"""How wide inputs are drawn, one after the other until both classes are met. A convention."""
FARTHEST = 300.0
"""How far out the boundary is followed in a feature without limits. A convention: three times the
widest inputs above."""
FEWEST_TIES, MOST_TIES = 5, 0.02
"""Answers halfway between the classes that may be met: so many, and so large a part of all. A
convention: bisection ends some roundings about zero, where outputs may be zero itself."""
STARTS = 3
"""Points of the boundary from which it is followed, a round. A convention."""

# ---------------------------------------------------------------- points of the boundary

RESOLUTION = 8.0
"""Roundings of the largest coordinate to which the boundary is located. A convention: a sum over
many units is a few roundings off, and zero of it so far from where it should be."""
LAST_BITS = 4.0 * EPS
"""Of the larger end of a bracket: narrower ones have no number between. Derived."""
GALLOPS, GALLOP = 5, 6.0
"""How often a bracket that does not hold the boundary is moved on, and made how much wider. A
convention: a normal that is nearly perpendicular to where it is looked for is met."""

# ---------------------------------------------------------------- pieces

FIRST_STEP = 0.25
"""Length of steps from which a piece's hyperplane is measured, unless its ends are known. A
convention: the longer, the better it is known; shorter where it ends before."""
STEP_OF_PIECE = 0.25
"""The same as a part of the piece's length on the line that led to it. A convention."""
SHORTER, SHORTENINGS = 0.25, 8
"""Steps that leave the piece are taken so much shorter, so often. A convention: down to 4e-6, below
which a boundary is bent everywhere as far as can be told."""
STRAIGHT = 1e-9
"""Part of a step by which two opposite ones may miss a straight line. A convention: curves of
radius 1e5 are told from it."""
COARSELY, BENT = 1e-5, 1e-4
"""Parts of a step to which the boundary is located first, and by which opposite ones may then miss
a straight line: most that leave the piece are given up there. Conventions."""
OF_A_STEP = 1e-13
"""Part of a step to which the boundary is located on steps along the axes. A convention: of 3,000
features a normal is known to 6e-12, and each bit more would cost a question a feature."""
LONGEST_STEP = 0.5
"""Longest step, however long the piece is on the line that led to it. A convention: on other lines
it is shorter."""
SAME_PIECE = 1e-7
"""Difference of two hyperplanes that are the same. A convention, far above what they are known
to."""
OUTSIDE_SPAN = 1e-8
"""Part of a step by which the boundary may move along a direction in which no unit changes. A
convention."""

ASIDE = 1e-3
"""Part of its step by which one goes aside of a piece to see which units are on there. A
convention: far from the nearest other bend."""

# ---------------------------------------------------------------- walks

ON_PIECE = 1e-8
"""Part of the way by which the boundary may leave a piece's hyperplane before it bends. A
convention: bends by less are not seen."""
FIRST_WAY, LONGER_WAY = 1e-3, 2.0
"""Where a walk first looks whether the piece has ended, and how much further next. Conventions."""
SHORTEST_WAY = 1e-6
"""A piece that ends nearer is at its end already: the walk does not go on. A convention."""
LOCATED = 1e-7
"""Part of the way to which a bend is located before the next piece is looked for about it. A
convention: its hyperplanes tell it far better afterwards."""
CIRCLE, SMALLER_CIRCLE, CIRCLES = 0.02, 0.2, 5
"""Radius of the circle about a bend on which the next piece is looked for, at most; made how much
smaller where that piece ends inside, and how often. Conventions."""
OF_THE_WAY = 0.3
"""Radius at most, beside the way to the bend. A convention."""
INNER = 0.3
"""Radius, beside the first, of a second circle: two points tell the next piece's line. A
convention."""
FOLDED = 1e-3
"""Angle up to which the next piece may fold back onto the last. A convention."""
SAME_ANGLE = 1e-3
"""Difference of the angles on both circles, to which the bend is located. A convention."""
MEETS = 1e-2
"""Part of the circle's radius by which the next piece may miss the bend. A convention."""
PIECES_A_WALK = 12
"""Pieces that one walk visits at most. A convention."""
MIDDLE_OF = 0.5
"""Where on its line a piece is measured. A convention: its middle has most room."""
OPEN_END = 1.0
"""The same for a piece that does not end: so far from the bend. A convention."""

# ---------------------------------------------------------------- units

SHARED = 1e-6
"""Sine of the angle at which two planes of pairs of pieces share a unit. A convention: pieces are
known to 1e-10 and better, and planes in four dimensions or more meet by chance once in a million
pairs."""
ENOUGH_BENDS, ENOUGH_IN_PLANE = 2, 3
"""Bends that tell a unit; with two dimensions, where any two bends lie on a line, one more.
Derived."""
NOT_ZERO = 1e-7
"""Smallest singular value, beside the largest, of equations that leave nothing open. A convention:
far above what pieces are known to."""
EXPLAINED = 1e-8
"""Root mean square, beside the largest singular value, of equations that are solved. A
convention."""
MOST_SIDES_TRIED = 8
"""Units for which all signs are tried, 2^units of them. A convention: a second."""

# ---------------------------------------------------------------- rounds, and what may refute

ROUNDS = 14
"""Rounds of walks and of putting together what they found. A convention."""
ROUNDS_WITHOUT_NEWS = 3
"""Rounds after which bends that were met once are taken for units met once. A convention."""
BOUNDARY_POINTS = 300
"""Points predicted to lie on the boundary that are asked on both sides. Derived: as many as leave
1% of them off, at 95%."""
BESIDE_BOUNDARY = 1e-8
"""How far on either side, beside the size of the inputs. A convention: what the pieces are known
to, with a margin."""
BEND_TRIES = 40
"""Points from which a unit's bends are looked for. A convention."""
BENDS_A_UNIT = 4
"""Bends of each unit at which both pieces are asked. A convention."""
FROM_BEND = 1e-5
"""How far from the bend that is. A convention: a thousand times what the boundary is asked at."""
NEWTON = 30
"""Steps to a place where a unit switches and the boundary passes. A convention: kinks make it
more than a few."""
PREDICTED_HALVINGS = 60
"""Bisections of a predicted boundary, which cost no question. Derived: to the last bit."""
ON_BOTH = 1e-12
"""How near such a place must be, relatively. A convention: rounding of a few sums."""
REFUTED = 3
"""How often a search goes on from answers that refute what it found. A convention."""
