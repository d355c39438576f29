"""A network from its kinks: for functions that may be asked anywhere and answer exactly.

Along a random line f is piecewise linear with one kink a unit (`lines`). In each piece the gradient
is measured by `features + 2` questions close to each other; across a kink it jumps by `a_i w_i`, up
to the sign of the unit, and where the two linear pieces agree is the unit's hyperplane. What is
left of all kinks on the line is linear; `sum_i` of the units that are reversed explains it, or it
stays as a linear term (units without a kink in reach).

A gradient is believed if it also predicts a step along the line: a step that crossed another
hyperplane does not. Fresh points then confirm the network; where they do not, a unit was missed or
two were taken for one: what is left, `f - network`, is traced along a line through such a point,
and its kinks are added. Units found twice are one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from provenet.extraction.lines import ROUNDING, Ask, trace_line
from provenet.typing import AnyArray, Array

_REACH = 1e5
"""How far out kinks are looked for, in units of the distance of a typical one."""
_REACH_OF_REST = 30.0
_ROUNDING_OF_REST = 1e-11
_STEP = 0.02
"""Of the distance to the nearest kink: how far gradients are measured."""
_SHORTER = 0.1
_TRIES = 3
_BELIEVED = 1e-9
_EXPLAINED = 1e-6
"""Fresh points off by less, relatively, are left to the refinement: no unit hides there."""
_SAME_UNIT = 1e-6
_NOTHING = 1e-8


@dataclass(frozen=True)
class Units:
    """`f(x) = A relu(W x + b) + linear x + constant`, every unit with some sign."""

    W: Array
    b: Array
    A: Array
    """(outputs, units)."""
    linear: Array
    """(outputs, features)."""
    constant: Array

    def __call__(self, X: Array) -> Array:
        """Values (n, outputs)."""
        hidden = np.maximum(X @ self.W.T + self.b, 0.0)
        return np.asarray(hidden @ self.A.T + X @ self.linear.T + self.constant)

    @classmethod
    def none(cls, features: int, outputs: int) -> Units:
        """The function zero."""
        empty = np.zeros((0, features)), np.zeros(0), np.zeros((outputs, 0))
        return cls(*empty, np.zeros((outputs, features)), np.zeros(outputs))

    def __add__(self, other: Units) -> Units:
        """Both together; units with the same hyperplane are one."""
        W, b = np.vstack([self.W, other.W]), np.append(self.b, other.b)
        A = np.hstack([self.A, other.A])
        linear, constant = self.linear + other.linear, self.constant + other.constant
        return _merged(Units(W, b, A, linear, constant))


@dataclass(frozen=True)
class Pieces:
    """Linear pieces of a function along a line: `gradients[i] . x + constants[i]`."""

    gradients: Array
    """(pieces, outputs, features)."""
    constants: Array
    """(pieces, outputs)."""
    believed: AnyArray


@dataclass(frozen=True)
class Line:
    """A line, how far it may be followed, and the distance of a typical kink."""

    origin: Array
    direction: Array
    reach: tuple[float, float]
    scale: float


def random_line(features: int, rng: np.random.Generator, box: Box | None, through: Array) -> Line:
    """A line in a random direction through a point, as long as the box allows."""
    direction = rng.standard_normal(features)
    direction /= np.linalg.norm(direction)
    far = _REACH * np.sqrt(features)
    reach = (-far, far) if box is None else box.reach(through, direction)
    scale = min(0.1 * np.sqrt(features), (reach[1] - reach[0]) / 20)
    return Line(through, direction, reach, scale)


@dataclass(frozen=True)
class Box:
    """Where inputs may lie."""

    low: Array
    high: Array

    def reach(self, origin: Array, direction: Array) -> tuple[float, float]:
        """How far a line stays inside."""
        with np.errstate(divide="ignore"):
            ends = np.sort([(self.low - origin) / direction, (self.high - origin) / direction], 0)
        return float(np.max(ends[0])), float(np.min(ends[1]))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Uniform points."""
        return rng.uniform(self.low, self.high, (n, len(self.low)))

    def clip_step(self, x: Array, step: float) -> Array:
        """Signs of steps along the coordinates that stay inside."""
        return np.where(x + step <= self.high, 1.0, -1.0)


def units_on_line(ask: Ask, line: Line, box: Box | None, *, rest: bool = False) -> Units | None:
    """The units whose kinks lie on a line, and the linear part that they leave.

    None where pieces are too short to be measured. `rest` says that the function is what an earlier
    answer left, known less exactly.
    """
    reach, rounding = line.reach, ROUNDING
    if rest:
        near = _REACH_OF_REST * np.sqrt(len(line.origin))
        reach, rounding = (max(reach[0], -near), min(reach[1], near)), _ROUNDING_OF_REST
    trace = trace_line(ask, line.origin, line.direction, reach, line.scale, rounding)
    if not trace.complete:
        return None
    places, distances = _places(trace.kinks, line, reach)
    pieces = _pieces(ask, line, places, distances, box)
    return _units(pieces, line) if pieces.believed.all() else None


def _places(kinks: Array, line: Line, reach: tuple[float, float]) -> tuple[Array, Array]:
    """A place in every piece, near the middle but not far out, and its distance to the kinks."""
    edges = np.concatenate([[reach[0]], kinks, [reach[1]]])
    margin = np.minimum(np.diff(edges) / 2, 3 * line.scale)
    low, high = edges[:-1] + margin, edges[1:] - margin
    places = np.clip(0.0, low, np.maximum(low, high))
    distance = np.minimum(places - edges[:-1], edges[1:] - places)
    return places, np.minimum(distance, 3 * line.scale)


def _pieces(ask: Ask, line: Line, places: Array, distances: Array, box: Box | None) -> Pieces:
    """Gradients in all pieces; those that are not believed again with shorter steps."""
    steps = _STEP * distances
    X = line.origin + places[:, None] * line.direction
    found = _measured(ask, line, X, steps, box)
    for _ in range(_TRIES):
        bad = np.flatnonzero(~found.believed)
        if len(bad) == 0:
            break
        steps[bad] *= _SHORTER
        again = _measured(ask, line, X[bad], steps[bad], box)
        for own, new in zip(
            (found.gradients, found.constants, found.believed),
            (again.gradients, again.constants, again.believed),
            strict=True,
        ):
            own[bad] = new
    return found


def _measured(ask: Ask, line: Line, X: Array, steps: Array, box: Box | None) -> Pieces:
    """`features + 2` questions at every point: itself, along the axes, and along the line."""
    n, d = X.shape
    signs = np.ones((n, d))
    if box is not None:
        signs = np.array([box.clip_step(x, s) for x, s in zip(X, steps, strict=True)])
    moves = np.concatenate(
        [np.zeros((n, 1, d)), np.eye(d) * signs[:, :, None], np.tile(line.direction, (n, 1, 1))],
        axis=1,
    )
    points = X[:, None, :] + steps[:, None, None] * moves
    values = ask(points.reshape(-1, d)).reshape(n, d + 2, -1)
    rises = values[:, 1:] - values[:, :1]
    taken = points[:, 1:] - points[:, :1]  # as rounded
    axes = np.einsum("njj->nj", taken[:, :d])
    with np.errstate(divide="ignore", invalid="ignore"):  # a step too short to be one
        gradients = np.swapaxes(rises[:, :d] / axes[:, :, None], 1, 2)
    predicted = np.einsum("nod,nd->no", gradients, taken[:, d])
    rounding = ROUNDING * np.sqrt(d) * np.abs(values).max(axis=(1, 2))
    allowed = rounding + _BELIEVED * np.abs(rises).max(axis=(1, 2))
    believed = np.abs(predicted - rises[:, d]).max(axis=1) <= allowed
    constants = values[:, 0] - np.einsum("nod,nd->no", gradients, X)
    return Pieces(gradients, constants, believed)


def _units(pieces: Pieces, line: Line) -> Units:
    """A unit a jump: off before its kink, on after it."""
    jumps = np.diff(pieces.gradients, axis=0)
    offsets = np.diff(pieces.constants, axis=0)
    A, W, b = [], [], []
    for J, c in zip(jumps, offsets, strict=True):
        left, size, right = np.linalg.svd(J, full_matrices=False)
        w, a = right[0], left[:, 0] * size[0]
        sign = 1.0 if w @ line.direction > 0 else -1.0
        W.append(sign * w)
        A.append(sign * a)
        b.append(sign * float(left[:, 0] @ c / size[0]) if size[0] > 0 else 0.0)
    first = pieces.gradients[0], pieces.constants[0]
    if not W:
        nothing = Units.none(*pieces.gradients.shape[:0:-1])
        return Units(nothing.W, nothing.b, nothing.A, *first)
    return Units(np.array(W), np.array(b), np.array(A).T, *first)


def _merged(units: Units) -> Units:
    """Units with the same hyperplane as one; those that cancel each other are gone."""
    W, b, A = units.W, units.b, units.A.copy()
    linear, constant = units.linear.copy(), units.constant.copy()
    kept: list[int] = []
    for i in range(len(W)):
        for j in kept:
            sign = 1.0 if W[i] @ W[j] > 0 else -1.0
            apart = np.abs(np.append(W[i] - sign * W[j], b[i] - sign * b[j])).max()
            if apart < _SAME_UNIT * (1 + abs(b[i])):
                # relu(-z) = relu(z) - z
                A[:, j] += A[:, i]
                if sign < 0:
                    linear -= np.outer(A[:, i], W[j])
                    constant -= A[:, i] * b[j]
                break
        else:
            kept.append(i)
    size = np.abs(A[:, kept]).max(axis=0) if kept else np.zeros(0)
    kept = [i for i, s in zip(kept, size, strict=True) if s > _NOTHING * max(size.max(), 1e-300)]
    return Units(W[kept], b[kept], A[:, kept], linear, constant)


def trace_units(
    ask: Ask,
    features: int,
    outputs: int,
    checks: Array,
    rng: np.random.Generator,
    box: Box | None = None,
    lines: int = 6,
    tell: Callable[[str], None] = lambda message: None,
) -> tuple[Units, Array]:
    """Units of a function, and what they leave unexplained at the points `checks`."""
    found = Units.none(features, outputs)
    truth = ask(checks)
    left = truth
    through = np.zeros(features) if box is None else (box.low + box.high) / 2
    through = through + 1e-2 * rng.standard_normal(features) * _width(box, features)
    for number in range(lines):
        line = random_line(features, rng, box, through)
        known = found
        more = units_on_line(lambda X: ask(X) - known(X), line, box, rest=number > 0)  # noqa: B023
        if more is not None:
            found = found + more
        left = truth - found(checks)
        tell(f"{len(found.W)} units, {number + 1} lines")
        wrong = np.abs(left).max(axis=1) > _EXPLAINED * np.abs(truth).max()
        if not wrong.any():
            break
        through = checks[int(np.argmax(np.abs(left).max(axis=1)))]
    return found, left


def _width(box: Box | None, features: int) -> Array:
    return np.ones(features) if box is None else (box.high - box.low) / 10
