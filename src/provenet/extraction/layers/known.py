"""The layers that are known, as a function of coordinates u of the inputs.

Kinks of deeper units depend on x only through the first layer, so everything above it happens in
the space of its rows: `x = base + Q u` with orthonormal columns of Q (`Frame`). Where no known unit
switches, `h = J u + c`: a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from provenet.common.exceptions import TimeSpent
from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.layers.tolerances import (
    FAR_AWAY,
    MOST_CLOSE,
    MOST_IN_A_BOX,
    NO_SLOPE,
    OUT_OF_SPACE,
)
from provenet.extraction.tolerances import TINIEST, TYPICAL_ERROR
from provenet.networks.network import DeepNetwork

Ask = Callable[[Array], Array]
"""Answers (n, outputs) to the rows of an array."""


class OutsideTheBox(Exception):
    """A question that may not be asked: what needs it cannot be had there."""


def usual_distance(u: Array) -> float:
    """How far units switch apart about a point: farther out, in proportion."""
    return max(1.0, float(np.linalg.norm(u)) / (FAR_AWAY * float(np.sqrt(len(u)))))


@dataclass(frozen=True)
class KnownLayer:
    """`h -> relu(W h + b)`; weights that nothing told are 0, and where they matter no one knows."""

    W: Array
    b: Array
    known: AnyArray
    """(units, units below): which weights are."""
    always: AnyArray
    """Units that are not cut off at zero: what passes through."""

    @classmethod
    def of(cls, W: Array, b: Array, known: AnyArray | None = None) -> KnownLayer:
        """A layer of units; all weights are known, if nothing else is said."""
        everything = np.ones(W.shape, dtype=bool) if known is None else known
        return cls(W, b, everything, np.zeros(len(W), dtype=bool))

    def __call__(self, h: Array) -> Array:
        """What the units say."""
        z = h @ self.W.T + self.b
        return np.where(self.on(z), z, 0.0)

    def on(self, z: Array) -> AnyArray:
        """Which units are."""
        return np.asarray((z > 0) | self.always)


@dataclass(frozen=True)
class State:
    """What the known layers are at points: h, how it changes with u, and the room for that."""

    h: Array
    J: Array
    """(n, units, coordinates)."""
    room: Array
    """Distance to the nearest place where a known unit switches; 0 where weights are not known."""


@dataclass(frozen=True)
class KnownLayers:
    """Layers from the inputs on, signs included; none at first, where h is u itself."""

    coordinates: int
    layers: tuple[KnownLayer, ...] = ()

    @property
    def units(self) -> int:
        """Of the last layer; the coordinates where there is none."""
        return len(self.layers[-1].W) if self.layers else self.coordinates

    def below(self, number: int) -> KnownLayers:
        """The first so many layers."""
        return KnownLayers(self.coordinates, self.layers[:number])

    def with_layer(self, layer: KnownLayer) -> KnownLayers:
        """One more."""
        return KnownLayers(self.coordinates, (*self.layers, layer))

    def with_at(self, number: int, layer: KnownLayer) -> KnownLayers:
        """Another one in place of that number."""
        layers = (*self.layers[:number], layer, *self.layers[number + 1 :])
        return KnownLayers(self.coordinates, layers)

    def under(self, network: DeepNetwork) -> DeepNetwork:
        """These with a network on top, whose inputs are what they say."""
        weights = [*(layer.W for layer in self.layers), *network.weights]
        biases = [*(layer.b for layer in self.layers), *network.biases]
        return DeepNetwork(weights, biases, outputs=network.outputs)

    def h(self, U: Array) -> Array:
        """What the last known layer says."""
        for layer in self.layers:
            U = layer(U)
        return U

    def state(self, U: Array, forced: tuple[int, int, bool] | None = None) -> State:
        """Values, slopes and room at the rows of U.

        `forced` names the layer and the number of a unit on whose surface they lie, and whether it
        is on: its own surface is no limit to the room.
        """
        n, r = U.shape
        h, J = U, np.broadcast_to(np.eye(r), (n, r, r))
        room = np.full(n, np.inf)
        for number, layer in enumerate(self.layers):
            unknown = (h[:, ~layer.known.all(axis=0)] > 0).any(axis=1)
            room[unknown] = 0.0
            z = h @ layer.W.T + layer.b
            Jz = layer.W @ J if number else np.broadcast_to(layer.W, (n, *layer.W.shape))
            slope = np.linalg.norm(Jz, axis=2)
            with np.errstate(divide="ignore", invalid="ignore"):
                distance = np.where(slope > NO_SLOPE, np.abs(z) / slope, np.inf)
            distance[:, layer.always] = np.inf
            on = layer.on(z)
            if forced is not None and forced[0] == number:
                distance[:, forced[1]], on[:, forced[1]] = np.inf, forced[2]
            room = np.minimum(room, distance.min(axis=1, initial=np.inf))
            h, J = np.where(on, z, 0.0), Jz * on[:, :, None]
        return State(h, J, room)

    def patterns(self, U: Array) -> list[AnyArray]:
        """Which units are on, layer by layer."""
        patterns = []
        for layer in self.layers:
            patterns.append(layer.on(U @ layer.W.T + layer.b))
            U = layer(U)
        return patterns

    def switches(self, origin: Array, direction: Array, low: float, high: float) -> Array:
        """The places on a line where known units switch, between its two ends."""
        t = np.array([low, high])
        for number in range(len(self.layers)):
            layer = self.layers[number]
            z = self.below(number).h(origin + t[:, None] * direction) @ layer.W.T + layer.b
            before, after = z[:-1], z[1:]
            crossed = (before * after < 0) & ~layer.always
            with np.errstate(divide="ignore", invalid="ignore"):
                places = t[:-1, None] + before / (before - after) * np.diff(t)[:, None]
            t = np.sort(np.append(t, places[crossed]))
        return t[1:-1]

    def affine(self, pattern: list[AnyArray]) -> tuple[Array, Array, Array, Array]:
        """J, c of the last layer's cell with such a pattern; M u + m > 0 says where it is."""
        J, c = np.eye(self.coordinates), np.zeros(self.coordinates)
        rows, sides = [np.empty((0, self.coordinates))], [np.empty(0)]
        for layer, on in zip(self.layers, pattern, strict=True):
            J, c = layer.W @ J, layer.W @ c + layer.b
            sign = np.where(on, 1.0, -1.0)
            rows.append(sign[:, None] * J)
            sides.append(sign * c)
            J, c = J * on[:, None], c * on
        return J, c, np.vstack(rows), np.concatenate(sides)


@dataclass(frozen=True)
class AxisGradient:
    """Slopes of the outputs at an input, each measured by one step along an axis."""

    x: Array
    value: Array
    along: Array
    """(outputs, features)."""
    steps: Array
    """Along every axis."""
    rounding: float
    """How far it lets a value be off."""

    @property
    def error(self) -> float:
        """Of a slope, typically."""
        inverse = np.maximum(np.abs(self.steps), TINIEST) ** -2.0
        return TYPICAL_ERROR * self.rounding * float(np.sqrt(np.mean(inverse)))

    def points(self) -> tuple[Array, Array]:
        """What was asked: the ends of the steps, and the answers there."""
        return self.x + np.diag(self.steps), self.value + (self.along * self.steps).T


@dataclass
class CloseAnswers:
    """Inputs close to others, and their answers, as many as there is room for."""

    parts: list[tuple[Array, Array]] = field(default_factory=list)
    numbers: int = 0
    """Of the inputs kept."""

    def add(self, X: Array, Y: Array) -> None:
        """Some more, unless there are too many."""
        if self.numbers + X.size <= MOST_CLOSE:
            self.parts.append((X, Y))
            self.numbers += X.size


@dataclass
class Frame:
    """Questions in coordinates: `x = base + Q u`; answers worth keeping are kept."""

    ask: Ask
    base: Array
    Q: Array | None
    """(features, coordinates); None for the features themselves."""
    box: Box
    kept: list[tuple[Array, Array]] = field(default_factory=list)
    """Inputs, and the answers to them."""
    deadline: Deadline = NEVER
    close: CloseAnswers = field(default_factory=CloseAnswers)
    """They tell nothing new of the whole, but of slopes."""
    gradients: list[AxisGradient] = field(default_factory=list)
    """Along all axes of the inputs."""
    level: float = 1.0
    """What these are off by, beside what rounding was taken to make of them."""
    _seen: list[Array] = field(default_factory=list, init=False, repr=False, compare=False)
    """Coordinates of what is kept, as far as they were asked for."""

    def check_time(self) -> None:
        """For loops that ask nothing: raises `TimeSpent` after the deadline."""
        if self.deadline.passed:
            raise TimeSpent(sum(len(X) for X, _ in self.kept))

    @property
    def coordinates(self) -> int:
        """How many there are."""
        return len(self.base) if self.Q is None else self.Q.shape[1]

    def inputs(self, U: Array) -> Array:
        """The inputs of coordinates."""
        return self.base + (U if self.Q is None else U @ self.Q.T)

    def coordinates_of(self, X: Array) -> Array:
        """The coordinates of inputs; what is perpendicular to all rows is left out."""
        return np.asarray(X - self.base if self.Q is None else (X - self.base) @ self.Q)

    def in_row_space(self, W: Array) -> Frame:
        """The same questions in the space of some rows, if that has fewer coordinates.

        In a box that space has no corners: units that switch in these alone are met among all
        inputs, unless those are too many.
        """
        cornered = not self.box.unlimited and W.size <= MOST_IN_A_BOX
        Q = None if cornered or len(W) >= W.shape[1] else np.linalg.qr(W.T)[0]
        if Q is not None and self.Q is not None:  # turned to be as near as can be to what it was
            left, _, right = np.linalg.svd(Q.T @ self.Q)
            Q = Q @ left @ right
        found = replace(self, Q=Q)
        return found._without_others() if self.Q is None else found

    def _without_others(self) -> Frame:
        """Close answers outside of the space leave room for others: they tell nothing in it."""
        close = CloseAnswers()
        for X, Y in self.close.parts:
            inside = self._is_inside(X)
            if inside.any():
                close.add(X[inside], Y[inside])
        return replace(self, close=close)

    def __call__(self, U: Array) -> Array:
        """Answers, kept."""
        X = self.inputs(U)
        Y = self.answered(X)
        self.kept.append((X, Y))
        return Y

    def beside(self, U: Array) -> Array:
        """Answers close to others: they tell nothing new of the whole."""
        X = self.inputs(U)
        Y = self.answered(X)
        self.close.add(X, Y)
        return Y

    def answered(self, X: Array) -> Array:
        """Answers to inputs; raises `OutsideTheBox`, before anything is asked, if one is."""
        if not (self.box.unlimited or self.box.contains(X).all()):
            raise OutsideTheBox
        return self.ask(X)

    def answers(self) -> tuple[Array, Array]:
        """All that is kept, inputs as coordinates."""
        self._seen += [self.coordinates_of(X) for X, _ in self.kept[len(self._seen) :]]
        return np.vstack(self._seen), np.vstack([Y for _, Y in self.kept])

    def in_space(self, *, close: bool = True) -> tuple[Array, Array]:
        """All that was asked in the space of the coordinates, whose weights alone matter there."""
        every = [*self.kept, *(self.close.parts if close else ())]
        if close and self.Q is None:
            every += [gradient.points() for gradient in self.gradients]
        U, Y = zip(*(self._inside(X, Y) for X, Y in every), strict=True)
        return np.vstack(U), np.vstack(Y)

    def _inside(self, X: Array, Y: Array) -> tuple[Array, Array]:
        """Those of some answers that were asked in the space of the coordinates."""
        inside = self._is_inside(X)
        return self.coordinates_of(X[inside]), Y[inside]

    def _is_inside(self, X: Array) -> AnyArray:
        """Which inputs are as good as in the space of the coordinates."""
        if self.Q is None:
            return np.ones(len(X), dtype=bool)
        U = self.coordinates_of(X)
        away = np.linalg.norm(X - self.inputs(U), axis=1)
        return np.asarray(away <= OUT_OF_SPACE * (1 + np.linalg.norm(U, axis=1)))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Random inputs."""
        return self.coordinates_of(self.box.sample(n, rng))

    def inside(self, U: Array, start: Array | None = None) -> Array:
        """Points on the way to these, from one in the box or its centre, as far as it goes."""
        if self.box.unlimited:
            return U
        start = np.zeros(self.coordinates) if start is None else start
        part = self.box.part_inside(self.inputs(start[None])[0], self.inputs(U))
        return np.asarray(start + part[:, None] * (U - start))

    def contains(self, U: Array) -> AnyArray:
        """Which points lie in the box."""
        return self.box.contains(self.inputs(U))

    def room(self, U: Array) -> Array:
        """How far one may go from points, in any direction, before the box ends."""
        return self.box.room(self.inputs(U))

    def reach(self, origin: Array, direction: Array, far: float) -> tuple[float, float]:
        """How far a line stays in the box, `far` at most."""
        along = direction if self.Q is None else self.Q @ direction
        return self.box.reach(self.inputs(origin[None])[0], along, far)
