"""The road to several hidden layers: search, confirm, search on from what refuted the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.asked import METHOD, conclude_traced
from provenet.certify.asked_layers import conclude_layers
from provenet.certify.layers_found import LayersFound
from provenet.certify.result import Recovery
from provenet.certify.traced import TracedCandidate
from provenet.common.exceptions import Spent
from provenet.common.progress import Stages
from provenet.common.typing import Array, row_blocks
from provenet.extraction.box import Box
from provenet.extraction.candidate import confirmed_layers, unconfirmed_layers
from provenet.extraction.layer_evidence import evidence_for_layers
from provenet.extraction.layers.traced import TracedLayers
from provenet.extraction.lines import FollowedLine
from provenet.extraction.oracle import Oracle
from provenet.extraction.questions import most_rows
from provenet.extraction.tolerances import FURTHER_SEARCHES, NEAR_GUIDES


@dataclass(frozen=True)
class LayerByLayer:
    """A model whose layers are looked for one after the other."""

    oracle: Oracle
    box: Box
    rng: np.random.Generator
    stages: Stages
    layers: int | None
    """How many there are; None where that is to be found."""
    wanted: int | tuple[int, ...] | None
    why_spent: Callable[[Spent], str]
    """What ended the search and what to try, in sentences."""
    first: FollowedLine | None = None
    """A line that was followed before."""

    def answer(self, guides: Answered, asked: Answered) -> Recovery:
        """What is found; `guides` are random inputs, `asked` all that was asked, these first."""
        found: TracedCandidate | None = None
        before: TracedLayers | None = None
        for looks in range(1, 2 + FURTHER_SEARCHES):
            traced = before = self._searched(asked, before)
            if traced.network is None or traced.spent is not None:
                return self._unfinished(traced, guides) if found is None else conclude_traced(found)
            traced = replace(traced, guides=self._inputs(guides, traced.guides))
            try:
                found = self._confirmed(traced, looks)
            except Spent as spent:
                return self._unfinished(replace(traced, spent=spent), guides)
            if len(found.off) == 0:
                break
            guides, asked = guides + found.off, found.off
        assert found is not None, "there was a first search"
        return conclude_traced(found)

    def _searched(self, asked: Answered, before: TracedLayers | None) -> TracedLayers:
        """The layers; after a first search, with the points that refuted its answer."""
        # The search may be taken away and put in: nothing else here depends on it.
        from provenet.extraction.layers import search

        try:
            return search.trace_layers(
                self._ask,
                self.box,
                self.rng,
                guides=asked,
                layers=self.layers,
                stages=self.stages,
                deadline=self.oracle.deadline,
                before=before,
                first=self.first,
            )
        except Spent as spent:
            return TracedLayers(None, (), asked, np.inf, spent)

    def _confirmed(self, traced: TracedLayers, looks: int) -> TracedCandidate:
        with self.stages.stage("verify", str(LayersFound(traced.layers))):
            return confirmed_layers(
                traced, self.oracle, self.box, self.rng, looks=looks, wanted=self.wanted
            )

    def _unfinished(self, traced: TracedLayers, guides: Answered) -> Recovery:
        """Not all layers, or not confirmed: never a success."""
        stopped = "" if traced.spent is None else self.why_spent(traced.spent)
        if traced.network is not None:
            one, asked = self.oracle.outputs is None, self.oracle.used
            traced = replace(traced, guides=self._inputs(guides, traced.guides))
            found = unconfirmed_layers(traced, one=one, asked=asked, stopped=stopped)
            return conclude_traced(found)
        layers = LayersFound(traced.layers)
        with self.stages.stage("verify", str(layers)):
            evidence = evidence_for_layers(layers, self._ask, self.box, self.rng, stopped)
        return conclude_layers(evidence, METHOD)

    def _inputs(self, guides: Answered, others: Answered) -> Answered:
        """The guides, and what else was asked where inputs lie."""
        n, d = others.X.shape
        away = np.empty(n)
        for block in row_blocks(n, most_rows(n, d)):  # all at once they may be large
            off = (others.X[block] - self.box.centre) / self.box.width
            away[block] = np.linalg.norm(off, axis=1)
        return guides + others[away <= NEAR_GUIDES * np.sqrt(d)]

    def _ask(self, X: Array) -> Array:
        return self.oracle.ask(X).reshape(len(X), -1)
