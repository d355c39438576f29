"""A network from its kinks: for functions that may be asked anywhere and answer exactly.

Along a random line f is piecewise linear with one kink a unit (`lines`). In each piece the gradient
is measured by `features + 2` questions close to each other; across a kink it jumps by `a_i w_i`, up
to the sign of the unit, and where the two linear pieces agree is the unit's hyperplane. What is
left of all kinks on the line is linear; `sum_i` of the units that are reversed explains it, or it
stays as a linear term (units without a kink in reach).

A gradient is believed if it also predicts a step along the line: a step that crossed another
hyperplane does not. Units beside a narrow piece are known poorly, and are measured again where
there is room (`sharpen`). Fresh points then confirm the network; where they do not, a unit was
missed or two were taken for one: what is left, `f - network`, is traced along a line through such a
point, and its kinks are added. Units found twice are one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from provenet.extraction.lines import ROUNDING, Ask, trace_line
from provenet.extraction.sharpen import Sharpened, sharpened
from provenet.extraction.units import Pieces, Region, Units, factored
from provenet.typing import Array

_REACH = 1e5
"""How far out kinks are looked for, in units of the distance of a typical one."""
_REACH_OF_REST = 30.0
_ROUNDING_OF_REST = (1e-11, 1e-8)
_STEP = 0.02
"""Of the distance to the nearest kink: how far gradients are measured."""
_SHORTER = 0.1
_TRIES = 3
_BELIEVED = 1e-13
_ROUGHLY = 1e-2
"""Where fresh points are off by more, a unit is missing: measuring others again would mislead."""
AGREES = 1e-9
"""Fresh points off by more, relatively, are not explained."""


@dataclass(frozen=True)
class Line:
    """A line, how far it may be followed, and the distance of a typical kink."""

    origin: Array
    direction: Array
    reach: tuple[float, float]
    scale: float


@dataclass(frozen=True)
class Traced:
    """Units of a function, and what fresh points say of them."""

    units: Units
    errors: Array
    """Of each unit, relatively, as far as rounding explains them."""
    linear_error: float
    """Of the linear part."""
    left: Array
    """What the units leave unexplained at the fresh points."""
    kinks: tuple[int, ...]
    """How many each line met."""
    complete: bool
    """Whether some line could be followed from end to end and measured in every piece."""


def random_line(
    region: Region, rng: np.random.Generator, through: Array, towards: Array | None = None
) -> Line:
    """A line through a point, in a random direction or to another; as long as the box allows."""
    features = len(through)
    direction = rng.standard_normal(features) * region.width
    if towards is not None:
        direction = towards - through
    direction /= np.linalg.norm(direction)
    reach = region.reach(through, direction, _REACH * np.sqrt(features))
    scale = min(0.1 * np.sqrt(features), (reach[1] - reach[0]) / 20)
    return Line(through, direction, reach, scale)


def trace_units(
    ask: Ask,
    checks: Array,
    region: Region,
    rng: np.random.Generator,
    *,
    spare: Callable[[int], int] = lambda units: 10**9,
    lines: int = 6,
    tell: Callable[[str], None] = lambda message: None,
) -> Traced:
    """Units of a function; `spare` says how many questions may sharpen so many units."""
    truth = ask(checks)
    features, outputs = checks.shape[1], truth.shape[1]
    found, pieces = Sharpened.of(Units.none(features, outputs)), None
    through = region.centre + 1e-2 * rng.standard_normal(features) * region.width
    towards: Array | None = None
    kinks: list[int] = []
    complete, left = False, truth
    for number in range(lines):
        line = random_line(region, rng, through, towards)
        known = found.units
        rest, rounding, least = ask, float(ROUNDING), 0.0
        if complete:
            rest = _beside(ask, known)
            rounding = float(np.clip(found.errors.max(initial=0.0), *_ROUNDING_OF_REST))
            line, least = replace(line, reach=_near(line)), rounding * float(np.abs(truth).max())
        met, measured = pieces_on_line(rest, line, region, rounding, least)
        kinks.append(met)
        if measured is not None:
            found = Sharpened.of(known + units_of(measured, line))
            pieces = measured if pieces is None else pieces + measured.beside(known)
            complete = True
        left = truth - found.units(checks)
        if pieces is not None and np.abs(left).max() <= _ROUGHLY * np.abs(truth).max():
            room = spare(len(found.units))
            found, pieces = sharpened(ask, found.units, pieces, region, room, rng)
            left = truth - found.units(checks)
        tell(f"{len(found.units)} units, {number + 1} lines")
        if complete and np.abs(left).max() <= AGREES * np.abs(truth).max():
            break
        if complete:  # from a point that is not explained to one that is: a kink lies between
            off = np.abs(left).max(axis=1)
            through, towards = checks[int(np.argmax(off))], checks[int(np.argmin(off))]
    return Traced(found.units, found.errors, found.linear_error, left, tuple(kinks), complete)


def _beside(ask: Ask, known: Units) -> Ask:
    return lambda X: ask(X) - known(X)


def _near(line: Line) -> tuple[float, float]:
    """What earlier lines left is small: far out it is rounding."""
    near = _REACH_OF_REST * np.sqrt(len(line.origin))
    return max(line.reach[0], -near), min(line.reach[1], near)


def pieces_on_line(
    ask: Ask, line: Line, region: Region, rounding: float = ROUNDING, least: float = 0.0
) -> tuple[int, Pieces | None]:
    """Number of kinks on a line, and the gradients between them.

    None where pieces are too short to be measured. `rounding` is the relative error of the values,
    `least` an absolute one: what an earlier answer left is known less exactly.
    """
    trace = trace_line(ask, line.origin, line.direction, line.reach, line.scale, rounding)
    if not trace.complete:
        return len(trace.kinks), None
    places, distances = _places(trace.kinks, line)
    pieces = _pieces(ask, line, places, distances, region, (rounding, least))
    return len(trace.kinks), pieces if pieces.believed.all() else None


def _places(kinks: Array, line: Line) -> tuple[Array, Array]:
    """A place in every piece, near the middle but not far out, and its distance to the kinks."""
    edges = np.concatenate([[line.reach[0]], kinks, [line.reach[1]]])
    # A kink far out is that of a unit almost parallel to the line: its hyperplane is still near.
    margin = 3 * line.scale + 0.5 * np.abs(edges)
    low = edges[:-1] + np.minimum(np.diff(edges) / 2, margin[:-1])
    high = edges[1:] - np.minimum(np.diff(edges) / 2, margin[1:])
    places = np.clip(0.0, low, np.maximum(low, high))
    distance = np.minimum(places - edges[:-1], edges[1:] - places)
    return places, np.minimum(distance, 3 * line.scale)


def _pieces(
    ask: Ask,
    line: Line,
    places: Array,
    distances: Array,
    region: Region,
    rounding: tuple[float, float],
) -> Pieces:
    """Gradients in all pieces; those that are not believed again with shorter steps."""
    steps = _STEP * distances
    X = line.origin + places[:, None] * line.direction
    found = _measured(ask, line, X, steps, region, rounding)
    for _ in range(_TRIES):
        bad = np.flatnonzero(~found.believed)
        if len(bad) == 0:
            break
        steps[bad] *= _SHORTER
        again = _measured(ask, line, X[bad], steps[bad], region, rounding)
        for own, new in zip(
            (found.gradients, found.constants, found.errors, found.believed),
            (again.gradients, again.constants, again.errors, again.believed),
            strict=True,
        ):
            own[bad] = new
    return found


def _measured(
    ask: Ask, line: Line, X: Array, steps: Array, region: Region, relative: tuple[float, float]
) -> Pieces:
    """`features + 2` questions at every point: itself, along the axes, and along the line."""
    n, d = X.shape
    axes = region.steps(X, np.broadcast_to(steps[:, None], X.shape))
    along = steps[:, None, None] * line.direction
    moves = np.concatenate([np.zeros((n, 1, d)), np.eye(d) * axes[:, :, None], along], axis=1)
    points = X[:, None, :] + moves
    values = ask(points.reshape(-1, d)).reshape(n, d + 2, -1)
    rises = values[:, 1:] - values[:, :1]
    taken = points[:, 1:] - points[:, :1]  # as rounded
    with np.errstate(divide="ignore", invalid="ignore"):  # a step too short to be one
        gradients = np.swapaxes(rises[:, :d] / np.einsum("njj->nj", taken[:, :d])[:, :, None], 1, 2)
    predicted = np.einsum("nod,nd->no", gradients, taken[:, d])
    far = np.linalg.norm(X, axis=1)
    steepness = np.linalg.norm(gradients, axis=(1, 2))  # inputs are rounded too
    rounding = relative[0] * (np.abs(values).max(axis=(1, 2)) + far * steepness) + relative[1]
    allowed = rounding * np.sqrt(d) + _BELIEVED * np.abs(rises).max(axis=(1, 2))
    believed = np.abs(predicted - rises[:, d]).max(axis=1) <= allowed
    constants = values[:, 0] - np.einsum("nod,nd->no", gradients, X)
    # The constant is off by the gradient's error over this distance.
    errors = rounding / 4 / steps * np.maximum(1.0, far / np.sqrt(d)) + 1e-300
    return Pieces(X, gradients, constants, errors, believed)


def units_of(pieces: Pieces, line: Line) -> Units:
    """A unit a jump: off before its kink, on after it."""
    first = pieces.gradients[0], pieces.constants[0]
    jumps = np.diff(pieces.gradients, axis=0)
    offsets = np.diff(pieces.constants, axis=0)
    found = [factored(J, c, line.direction) for J, c in zip(jumps, offsets, strict=True)]
    if not found:
        nothing = Units.none(*pieces.gradients.shape[:0:-1])
        return Units(nothing.W, nothing.b, nothing.A, *first)
    W, b, A = (np.array(part) for part in zip(*found, strict=True))
    return Units(W, b, A.T, *first)
