"""All layers of a network from its answers, one after the other.

1. The rows of a layer are found from kinks (`stage`), for the first layer in the inputs, above it
   in the row space of the first.
2. If they are the last hidden layer, least squares gives the outputs and the signs (`top`).
3. Else their signs are told by gradients (`signs`), or by surfaces above them where there are more
   units than dimensions (`surfaces`), and the next layer is looked for.
4. All rows are measured again where there is room (`remeasure`), and polished together (`polish`).

No layer is left behind while gradients are unexplained by it: a missing unit would spoil all above.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.layers_found import LayerFound
from provenet.common.exceptions import Spent
from provenet.common.progress import Stages
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.extraction.box import Box
from provenet.extraction.deadline import NEVER, Deadline
from provenet.extraction.layers.known import Ask, Frame, KnownLayer, KnownLayers
from provenet.extraction.layers.lines import seen_from
from provenet.extraction.layers.one_layer import LayerOutcome, find_layer
from provenet.extraction.layers.pieces import seen_above
from provenet.extraction.layers.refining import refined_layers
from provenet.extraction.layers.remeasure import Nearly, remeasured
from provenet.extraction.layers.rows import Always, Row
from provenet.extraction.layers.settling import settled, unpolished
from provenet.extraction.layers.stage import Stage
from provenet.extraction.layers.tolerances import (
    LAYERS_BOUND,
    MOST_LAYERS,
    POORLY_SETTLED,
    REFINED_FROM,
    SETTLED,
    WELL_SETTLED,
)
from provenet.extraction.layers.top import Top, left_of, outputs
from provenet.extraction.layers.traced import TracedLayers
from provenet.extraction.lines import FollowedLine
from provenet.networks.network import DeepNetwork


def trace_layers(
    ask: Ask,
    box: Box,
    rng: np.random.Generator,
    *,
    guides: Answered,
    layers: int | None = None,
    stages: Stages | None = None,
    deadline: Deadline = NEVER,
    before: TracedLayers | None = None,
    first: FollowedLine | None = None,
) -> TracedLayers:
    """The layers of a function, as many as can be found; `layers` where their number is known.

    `guides` are answers that are known already: they must be explained, too. After an answer that
    these refuted (`before`) the search goes on from there. A line that was followed before is not
    followed again (`first`). At the deadline it ends.
    """
    if before is not None and isinstance(before.search, _LayersSearch):
        search = before.search
        search.frame.kept.append((guides.X, guides.values))
    else:
        kept = [(guides.X, guides.values)]
        frame = Frame(ask, box.centre, None, box, kept, deadline)
        search = _LayersSearch(frame, rng, layers, stages or Stages())
        search.stage = Stage(frame, search.known, rng, given=first)
    try:
        network = search.run()
    except Spent as spent:
        search.note_unfinished()
        return search.traced(search.unpolished(), spent)
    return search.traced(network)


@dataclass
class _LayersSearch:
    """What is known while one layer after the other is found."""

    frame: Frame
    rng: np.random.Generator
    most: int | None
    stages: Stages
    first: Array = field(default_factory=lambda: np.empty((0, 0)))
    """Rows of the first layer, by inputs."""
    known: KnownLayers = field(init=False)
    rows: list[list[Row]] = field(default_factory=list)
    """Of every known layer."""
    note: tuple[list[Row], str] = field(default_factory=lambda: ([], ""))
    """Rows of the layer that could not be finished, and why."""
    error: float = np.inf
    poor: int = 0
    """How often a network explained everything though some of its rows were known poorly."""
    refined: int = 0
    """Layers that were told by where their kinks are."""
    stage: Stage | None = None
    """The layer that is looked for."""
    whole: tuple[DeepNetwork, float, float] | None = None
    """The last network that was to be polished, what its answers may be off by, and its rows."""

    def __post_init__(self) -> None:
        """No layer is known."""
        self.known = KnownLayers(self.frame.coordinates)

    def run(self) -> DeepNetwork | None:
        """KnownLayer after layer until the last."""
        assert self.stage is not None, "it is given one"
        for depth in range(1 + len(self.known.layers), 1 + (self.most or MOST_LAYERS)):
            with self.stages.stage("trace", f"layer {depth}"):
                found = find_layer(self.stage, self._settled, last=depth == self.most)
            if found.network is not None:
                return found.network
            self.note = self.stage.accepted, found.note
            if found.signs is None:
                return None
            self.stage = self._advanced(self.stage, found)
        return None

    def _advanced(self, stage: Stage, found: LayerOutcome) -> Stage:
        """One more layer is known; what is known of the next as it sees it."""
        assert found.signs is not None
        rows = found.rows
        W, b = _matrix(rows)
        W, b = found.signs[:, None] * W, found.signs * b
        self.note = [], ""
        if self.known.layers:
            cols = np.array([row.cols for row in rows])
            self.known = self.known.with_layer(KnownLayer.of(W, b, cols))
            self.rows.append(rows)
            self._refine()
            return self._above(stage, None, found.above)
        old, self.frame, self.first = self.frame, self.frame.in_row_space(W), W
        own = W if self.frame.Q is None else W @ self.frame.Q
        self.known = KnownLayers(self.frame.coordinates, (KnownLayer.of(own, b),))
        self.rows.append([_moved(row, old, self.frame) for row in rows])
        above = [_moved(row, old, self.frame) for row in found.above]
        return self._above(stage, self.frame.Q, above)

    def _refine(self) -> None:
        """From the third layer on all are known from where their kinks are: errors would add up."""
        if len(self.known.layers) < REFINED_FROM:
            return
        self.known = refined_layers(self.frame, self.known, self.rows, self.refined, self.rng)
        self.refined = len(self.known.layers)
        W, Q = self.known.layers[0].W, self.frame.Q
        self.first = W if Q is None else W @ Q.T

    def _above(self, stage: Stage, Q: Array | None, rows: list[Row]) -> Stage:
        """The next layer, with rows found on the way, and the lines and pieces of this one."""
        lines = [seen_from(line, self.known, Q) for line in stage.lines]
        pieces = {
            key: seen_above(piece, stage.known, self.known, Q)
            for key, piece in stage.measuring.pieces.items()
        }
        unsure = max(row.error for own in self.rows for row in own)
        return Stage(self.frame, self.known, self.rng, lines, rows, unsure, pieces)

    def note_unfinished(self) -> None:
        """How far the layer got that was looked for when the search had to end."""
        assert self.stage is not None, "it is given one"
        rows, kinks = self.stage.accepted, counted(self.stage.open_kinks, "kink")
        if rows:
            self.note = rows, f"{kinks} unexplained when the search had to end"

    # ------------------------------------------------------------ the whole network

    def _settled(self, top: Top, rows: list[Row]) -> DeepNetwork | None:
        """All rows polished; None if they do not explain all answers then.

        Where they do not, or some are known poorly (two may be one), each is measured again first.
        """
        with self.stages.stage("sharpen", counted(len(top.W), "unit")):
            frame, nearly = self._nearly(top, rows)
            for again in (False, True):
                if again:
                    nearly = remeasured(frame, nearly, self.rng)
                *below, last = nearly.known.layers
                lower = nearly.known.below(len(below))
                A, c = outputs(lower, last.W, last.b, *frame.answers())
                nearly = replace(nearly, A=A.T)
                self.whole = unpolished(frame, nearly, c).network, top.allowed, nearly.worst
                found = settled(frame, nearly, c, self.rng)
                (frame, nearly), network, self.error = found.measured, found.network, found.error
                good = left_of(network, frame.base, frame.kept) <= SETTLED
                if top.always_on or self._free(rows):
                    self.error = np.inf  # others would do in their place
                    return network if good else None
                known = found.error <= WELL_SETTLED or self.poor >= POORLY_SETTLED
                if good and known and (found.polished or again):
                    self._keep(found.frame, found.nearly, rows)
                    return network
            self.poor += 1
            self._keep(frame, nearly, rows)
            return None

    def _free(self, rows: list[Row]) -> bool:
        """Whether some weight or unit was chosen, not told."""
        return any(
            row.free or row.always is not Always.NOT for own in (*self.rows, rows) for row in own
        )

    def unpolished(self) -> DeepNetwork | None:
        """The network that was to be polished when the search had to end, if it explains all."""
        if self.whole is None:
            return None
        network, allowed, self.error = self.whole
        left = left_of(network, self.frame.base, self.frame.kept)
        return network if left <= allowed else None

    def _keep(self, frame: Frame, nearly: Nearly, rows: list[Row]) -> None:
        """What was measured again is known, whatever becomes of the whole."""
        every = [*self.rows, rows]
        for number, own in enumerate(every):
            layer, errors = nearly.known.layers[number], nearly.errors[number]
            W = layer.W if number else nearly.first
            for row, w, b, error in zip(own, W, layer.b, errors, strict=False):
                row.v, row.errors = np.append(w, b), np.full(len(w) + 1, error)
        if not self.known.layers or self.stage is None:
            return
        self.frame, self.first = frame, nearly.first
        self.known = nearly.known.below(len(self.known.layers))
        self.stage.moved(self.frame, self.known)

    def _nearly(self, top: Top, rows: list[Row]) -> tuple[Frame, Nearly]:
        last = KnownLayer.of(top.W, top.b)
        if not self.known.layers:  # one hidden layer
            frame = self.frame.in_row_space(top.W)
            own = top.W if frame.Q is None else top.W @ frame.Q
            known = KnownLayers(frame.coordinates, (KnownLayer.of(own, top.b),))
            every = [[_moved(row, self.frame, frame) for row in rows]]
            return frame, _with_rows(known, top.W, top.A, every)
        every = [*self.rows, rows]
        return self.frame, _with_rows(self.known.with_layer(last), self.first, top.A, every)

    def traced(self, network: DeepNetwork | None, spent: Spent | None = None) -> TracedLayers:
        """What is known by now."""
        X = np.vstack([X for X, _ in self.frame.kept])
        Y = np.vstack([Y for _, Y in self.frame.kept])
        found = self._layers() if network is None else _all_layers(network)
        return TracedLayers(network, found, Answered(X, Y), LAYERS_BOUND * self.error, spent, self)

    def _layers(self) -> tuple[LayerFound, ...]:
        """Those that are whole, and what is known of the next."""
        found = []
        for number, layer in enumerate(self.known.layers):
            W = layer.W if number else self.first
            b = layer.b if number else layer.b - self.first @ self.frame.base
            found.append(LayerFound(W, b, True))
        rows, note = self.note
        if found and note and not rows:  # above a whole layer units would have been found
            found[-1] = replace(found[-1], whole=False, note=NOTHING_ABOVE)
        if rows:
            W, b = _matrix(rows)
            b = b if found else b - W @ self.frame.base
            found.append(LayerFound(W, b, False, note))
        return tuple(found)


NOTHING_ABOVE = "with these the answers are not linear, and no unit above was found"
"""Why a layer that explained its gradients is not whole."""


def _matrix(rows: list[Row]) -> tuple[Array, Array]:
    """Rows of norm 1 and their biases."""
    v = np.array([row.v / np.linalg.norm(row.v[:-1]) for row in rows])
    return v[:, :-1], v[:, -1]


def _with_rows(known: KnownLayers, first: Array, A: Array, rows: list[list[Row]]) -> Nearly:
    """With what is known of the rows; units that never switch, last, have none."""
    errors, places = [], []
    for layer, own in zip(known.layers, rows, strict=True):
        more = len(layer.W) - len(own)
        errors.append(np.array([row.error for row in own] + [np.inf] * more))
        nowhere = [np.zeros(known.coordinates)] * more
        places.append(np.array([row.place for row in own] + nowhere))
    return Nearly(known, first, A, tuple(errors), tuple(places))


def _moved(row: Row, old: Frame, new: Frame) -> Row:
    """The row with its place in other coordinates."""
    place = new.coordinates_of(old.inputs(row.place[None]))[0]
    return replace(row, place=place)


def _all_layers(network: DeepNetwork) -> tuple[LayerFound, ...]:
    return tuple(LayerFound(W, b, True) for W, b in network.affine_maps[:-1])
