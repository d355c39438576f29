"""A model that answers with two classes: its network, as far as the boundary between them tells.

Rounds of walks along the boundary (`atlas`), each from points between inputs of different classes;
after each round what was met is put together (`together`). A network that explains all pieces is
put to points of its own (`evidence`); where they refute it, walks go on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.boundary import METHOD, BoundaryCandidate, conclude_boundary
from provenet.certify.checks import Claim
from provenet.certify.result import Recovery
from provenet.common.exceptions import Spent
from provenet.common.progress import Stages
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.extraction.classes.atlas import Atlas
from provenet.extraction.classes.bends import units_met
from provenet.extraction.classes.bisection import between
from provenet.extraction.classes.evidence import Predicted, answered, asked_beside
from provenet.extraction.classes.sides import Sides
from provenet.extraction.classes.together import Together, put_together
from provenet.extraction.classes.told import named
from provenet.extraction.classes.tolerances import (
    BESIDE_BOUNDARY,
    BOUNDARY_POINTS,
    CLASS_POINTS,
    REFUTED,
    ROUNDS,
    ROUNDS_WITHOUT_NEWS,
    STARTS,
    WIDTHS,
)
from provenet.extraction.tolerances import ASKED_AGAIN, FRESH
from provenet.networks.activations import Activation


@dataclass
class BoundarySearch:
    """The network behind two classes."""

    sides: Sides
    rng: np.random.Generator
    stages: Stages
    activation: Activation | None
    """Of the units; None where it is to be found."""
    wanted: int | None = None
    known: list[Answered] = field(default_factory=list)
    """Places and their sides, as they were asked for at the beginning."""

    def answer(self, stopped_by: Callable[[Spent], str]) -> Recovery:
        """What can be told; `stopped_by` says in words what ended a search."""
        atlas = Atlas(self.sides, self.rng)
        try:
            if not self._both_classes():
                return Recovery.nothing(METHOD, _ONE_CLASS, Claim.BOUNDARY)
            return self._of_the_classes(self._searched(atlas))
        except Spent as spent:
            reason = f"{stopped_by(spent)} {_met(atlas)}"
            return Recovery.nothing(METHOD, reason, Claim.BOUNDARY)

    def _of_the_classes(self, result: Recovery) -> Recovery:
        """With word of which class is where outputs are positive."""
        if result.network is None:
            return result
        positive = named(self.sides.classes[1], self.sides.oracle)
        message = f"{result.message} Outputs are positive where the class is {positive}."
        return replace(result, message=message)

    # ------------------------------------------------------------ where the classes are

    def _both_classes(self) -> bool:
        """Whether inputs of both classes were met, looking further and further out."""
        with self.stages.stage("probe", "where both classes are"):
            for width in WIDTHS:
                X = np.clip(self._drawn(CLASS_POINTS) * width, self.sides.low, self.sides.high)
                self.known.append(Answered(X, self.sides(X)))
                y = np.concatenate([part.y for part in self.known])
                if len(np.unique(y)) == 2:
                    return True
        return False

    def _drawn(self, number: int) -> Array:
        return self.sides.places(self.sides.box.sample(number, self.rng))

    def _pairs(self, number: int) -> tuple[Array, Array]:
        """Places of the one class and of the other."""
        X = np.vstack([part.X for part in self.known])
        y = np.concatenate([part.y for part in self.known])
        drawn = (self.rng.choice(np.flatnonzero(y == side), number) for side in (-1, 1))
        first, second = (X[rows] for rows in drawn)
        return first, second

    # ------------------------------------------------------------ rounds

    def _searched(self, atlas: Atlas) -> Recovery:
        A, B = self._pairs(STARTS)
        refuted, idle, seen = 0, 0, (0, 0)
        candidate = None
        for number in range(ROUNDS):
            with self.stages.stage("trace", _met(atlas) if number else "the boundary"):
                self._explore(atlas, A, B)
            idle = 0 if (len(atlas.pieces), len(atlas.pairs)) != seen else idle + 1
            seen = len(atlas.pieces), len(atlas.pairs)
            A, B = self._pairs(STARTS)
            found = self._together(atlas, once=idle >= ROUNDS_WITHOUT_NEWS)
            if found is None and idle >= ROUNDS_WITHOUT_NEWS:
                break
            if found is None:
                continue
            candidate, off = self._confirmed(found, atlas, 1 + refuted)
            refuted += 1
            if not candidate.refuted or refuted > REFUTED:
                return conclude_boundary(candidate)
            A, B = off if len(off[0]) else (A, B)
        if candidate is not None:
            return conclude_boundary(candidate)
        return Recovery.nothing(METHOD, _not_explained(atlas), Claim.BOUNDARY)

    def _explore(self, atlas: Atlas, A: Array, B: Array) -> None:
        way = B - A
        for x, v in zip(between(self.sides, A, B), way, strict=True):
            atlas.explore(x, v / np.linalg.norm(v))

    def _together(self, atlas: Atlas, *, once: bool) -> Together | None:
        if not atlas.pieces:
            return None
        deadline = self.sides.oracle.deadline
        return put_together(atlas, deadline, self.activation, once=once)

    # ------------------------------------------------------------ what may refute

    def _confirmed(
        self, found: Together, atlas: Atlas, looks: int
    ) -> tuple[BoundaryCandidate, tuple[Array, Array]]:
        """The network with answers of its own, and segments on which the boundary is elsewhere."""
        with self.stages.stage("verify", counted(found.network.units, "unit")):
            return self._put_to_the_test(found, atlas, looks)

    def _put_to_the_test(
        self, found: Together, atlas: Atlas, looks: int
    ) -> tuple[BoundaryCandidate, tuple[Array, Array]]:
        sides, asked = self.sides, self.sides.oracle.used
        predicted = Predicted(found.network, sides)
        X = self._drawn(looks * FRESH)
        fresh = answered(sides, X)
        self.known.append(Answered(sides.places(fresh.X), fresh.y))
        A, B = self._pairs(BOUNDARY_POINTS)
        beside = asked_beside(predicted, A, B, self.rng)
        first = self.known[0][np.arange(ASKED_AGAIN)]
        candidate = BoundaryCandidate(
            network=found.network,
            distances=predicted.distances(atlas.beside(0.0), atlas.beside(1.0), atlas.beside(-1.0)),
            allowed=BESIDE_BOUNDARY,
            fresh=fresh,
            inputs=sides.box.inputs,
            beside=beside.boundary,
            apart=BESIDE_BOUNDARY,
            at_bends=beside.bends,
            bend_of=beside.bend_of,
            again=Answered(first.X, sides(first.X, fresh=True)),
            first=first,
            error_bound=found.error_bound,
            pieces=len(atlas.pieces),
            bends=len(atlas.pairs),
            asked=asked,
            met_once=found.met_once,
            spare=found.spare,
            others=found.others,
            alternatives=found.alternatives,
            untried=found.untried,
            looks=looks,
            wanted=self.wanted,
        )
        return candidate, self._where_off(found, beside.boundary + fresh, A, B)

    def _where_off(
        self, found: Together, points: Answered, A: Array, B: Array
    ) -> tuple[Array, Array]:
        """Segments from points of another class than predicted to others of the class predicted."""
        wrong = points[(found.network(points.X) > 0) != (points.y.ravel() > 0)]
        X, y = self.sides.places(wrong.X[:STARTS]), wrong.y[:STARTS]
        return np.where(y < 0, X, A[: len(X)]), np.where(y > 0, X, B[: len(X)])


_ONE_CLASS = (
    "The model gave the same class to all inputs that were asked, also far out: there is no "
    "boundary to follow. Give inputs of both classes within low= and high=."
)


def _met(atlas: Atlas) -> str:
    pieces, bends = counted(len(atlas.pieces), "piece"), counted(len(atlas.pairs), "bend")
    return f"{pieces} of the boundary and {bends} of it were met."


def _not_explained(atlas: Atlas) -> str:
    if not atlas.pieces:
        return (
            "The boundary between the classes is curved wherever it was measured: it is not that "
            "of a network of ReLU units. With inputs of single precision nothing finer shows."
        )
    met = units_met(atlas.bends) if atlas.pairs else None
    several = 0 if met is None else len(met.V)
    alone = 0 if met is None else int(np.sum(met.unit_of < 0))
    curved = f", and it is not straight at {counted(atlas.bent, 'place')}" * bool(atlas.bent)
    also = f", but {counted(alone, 'bend')} belong to none of these" if alone else ""
    return (
        f"{_met(atlas)} They tell the hyperplanes of {counted(several, 'unit')}{also}{curved}: no "
        "network with one hidden layer of ReLU units was found that explains the boundary. A wider "
        "box may show more of it; say units= if their number is known."
    )
