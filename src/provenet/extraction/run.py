"""The road from a model that may be asked to a judged answer, taken by the kind of its answers.

Two classes alone are read off the boundary between them (`classes`), probabilities asked as the
outputs before their link (`linked`). Exact answers are traced along lines; where one layer does not
explain them, layer after layer is looked for; what is noisy, rounded or smooth is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.asked import METHOD, conclude_traced
from provenet.certify.boundary import METHOD as BOUNDARY
from provenet.certify.checks import Claim, Status
from provenet.certify.found_link import with_link
from provenet.certify.layers_found import LayersFound
from provenet.certify.result import Recovery
from provenet.certify.traced import TracedCandidate
from provenet.common.exceptions import BudgetSpent, Spent
from provenet.common.progress import Stages
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.extraction.box import Box
from provenet.extraction.candidate import confirmed, unconfirmed
from provenet.extraction.classes.boundary import BoundarySearch
from provenet.extraction.classes.sides import OtherAnswer, Sides
from provenet.extraction.classes.told import check_numbers, two_classes
from provenet.extraction.clients.base import counted_queries
from provenet.extraction.kinks import Traced, Tracing, start_tracing
from provenet.extraction.layers.tolerances import MOST_ANSWERS
from provenet.extraction.lines import FollowedLine
from provenet.extraction.linked import (
    LinkedOracle,
    asked_within,
    is_wide,
    link_of,
    unsaturated_box,
)
from provenet.extraction.oracle import Oracle
from provenet.extraction.probing import AnswerKind, Probe, probe
from provenet.extraction.sampling import sampled
from provenet.extraction.several_layers import LayerByLayer
from provenet.extraction.tolerances import (
    ASKED_AGAIN,
    FRESH,
    FURTHER_IN_A_BOX,
    FURTHER_SEARCHES,
    MOST_DOUBT,
    MOST_HANDED,
    POINTS_A_KINK,
    RECURRING_PLACES,
    SEARCHED,
)
from provenet.extraction.unsaturated import beyond_the_box, fitted_where_told
from provenet.fitting.context import Options
from provenet.validation import OPEN

_CHECKS = 30
"""Points that guide the lines."""
_CORNERS = 200
"""Corners of a box that do, too. A convention: units that are on at a hundredth of these are found,
which are on at one in a thousand of other points, and in a million."""
_QUERIES_A_PARAMETER, _MORE_QUERIES = 2, 600
"""What may be asked without a budget once the number of units is known. A convention: 400 of these
are for points that may refute the answer."""


def through_link(run: Run, link: str) -> Recovery:
    """Answers as they are, or as probabilities, asked where these tell the outputs behind them."""
    found = run.probed()
    if link in (OPEN, "logit") and found.kind is not AnswerKind.NOISY:
        by_classes = run.by_classes(found.first)
        if by_classes is not None:
            return by_classes
    check_numbers(run.oracle)
    exact = found.kind is AnswerKind.EXACT
    link = link_of(found.first, run.oracle, link, exact=exact, box=run.box, rng=run.rng)
    if link == "identity":
        return run.answer(found)
    with run.stages.stage("probe", "where the model is not saturated"):
        box = unsaturated_box(run.oracle, run.box, run.rng)
    if box is None:
        return Recovery.nothing(METHOD, _SATURATED)
    result = Recovery.nothing(METHOD, _NARROW)
    deep = run.layers is not None and run.layers > 1
    if deep or is_wide(box, run.box):
        linked = replace(run, oracle=LinkedOracle(run.oracle, link, box), box=box)
        result = with_link(linked.answer(linked.probed()), link)
        if result.success and box is not run.box:
            result = replace(result, ambiguities=(*result.ambiguities, asked_within(box)))
        result = beyond_the_box(result, run.oracle, run.box, run.rng)
    if result.success or deep or not run.options.activation.kinked:
        return result
    fitted = run.fitted(link)
    return max(result, fitted, key=lambda found: (found.status.rank, found.network is not None))


_CLASSES_ONLY = (
    "The model answers with two classes only: from these one hidden layer of ReLU units is found, "
    "no other. Ask for probabilities, or for the outputs before the last layer."
)
_NARROW = (
    "Nearly everywhere the model's probabilities are so near 0 or 1 that they do not tell the "
    "outputs behind them."
)
_SATURATED = (
    "The model's probabilities are 0 or 1, or next to it, wherever it was asked: they do not tell "
    "the outputs behind them. Give inputs nearer to the boundary between the classes with low= and "
    "high=, or the outputs before the last layer."
)


@dataclass(frozen=True)
class Run:
    """One model, the options, and what was queried so far."""

    oracle: Oracle
    box: Box
    rng: np.random.Generator
    options: Options
    layers: int | None
    """None where the number of hidden layers is to be found."""
    stages: Stages
    asked: list[Answered] = field(default_factory=list)
    """What was asked on lines while the function may be deep."""

    def fitted(self, link: str) -> Recovery:
        """From random inputs, those whose probabilities tell the outputs behind them."""
        options = {"units": self.options.units, "activation": self.options.activation}
        with self.stages.stage("fit", "inputs that are not saturated"):
            found = fitted_where_told(self.oracle, self.box, self.rng, link, options)
        return beyond_the_box(found, self.oracle, self.box, self.rng)

    def by_classes(self, first: Array) -> Recovery | None:
        """From the boundary between two classes, where answers are no more than these."""
        classes = two_classes(first, self.oracle, self.box, self.rng)
        if classes is None:
            return None
        if not self.options.activation.kinked or (self.layers or 1) > 1:
            return Recovery.nothing(BOUNDARY, _CLASSES_ONLY, Claim.BOUNDARY)
        search = BoundarySearch(
            Sides(self.oracle, self.box, classes),
            self.rng,
            self.stages,
            None if self.options.open_activation else self.options.activation,
            self.options.units if isinstance(self.options.units, int) else None,
        )
        try:
            return search.answer(partial(used_up, oracle=self.oracle))
        except OtherAnswer:
            return None

    def probed(self) -> Probe:
        """What kind of answers there are."""
        with self.stages.stage("probe", "what kind of answers"):
            return probe(self.oracle, self.box, self.rng)

    def answer(self, found: Probe) -> Recovery:
        """One of the two roads."""
        kinked, smooth = self.options.activation.kinked, found.kind is AnswerKind.SMOOTH
        findable = self.options.open_activation and self.options.layers == 1
        if kinked and smooth and not findable:
            return _smooth(found)
        if kinked and found.kind is AnswerKind.EXACT and not self.options.noise:
            return self._traced()
        result = self._sampled(found)
        return replace(result, message=f"{found}. {result.message}")

    def _traced(self) -> Recovery:
        """One layer, if that explains the answers and no more are asked for; else several."""
        X = np.vstack([self.box.sample(_CHECKS, self.rng), self.box.corners(_CORNERS, self.rng)])
        X = self._telling(X)
        if self.layers is not None and self.layers > 1:
            guides = Answered(X, self._ask(X))
            return self._several().answer(guides, guides)
        tracing = start_tracing(self._ask, X, self.box, self.rng, may_be_deep=self.layers is None)
        traced = self._run(tracing)
        if traced.spent is None and not traced.explained and self.layers is None:
            asked = self._all_asked(traced.guides)
            deep = self._several(tracing.first).answer(traced.guides, asked)
            if deep.status is not Status.FAILED or deep.network is not None or _saw_a_layer(deep):
                return deep
            if tracing.deeper:
                tracing.as_one_layer()
                traced = self._run(tracing)
            if traced.spent is None and traced.share < MOST_ANSWERS and _saw_units(deep):
                return deep
            return self._one_layer(traced, tracing, deep)
        return self._one_layer(traced, tracing)

    def _one_layer(
        self, traced: Traced, tracing: Tracing, deep: Recovery | None = None
    ) -> Recovery:
        """What one layer is worth; several are looked for where it is refuted, unless they were."""
        if traced.spent is not None:
            return self._unfinished(traced, traced.spent)
        try:
            found = self._verified(traced, tracing)
        except Spent as spent:
            return self._unfinished(traced, spent)
        if len(found.off) and self.layers is None:
            if deep is None:
                guides = found.guides + found.off
                deep = self._several().answer(guides, self._all_asked(guides))
            if deep.status is not Status.FAILED:
                return deep
            found = replace(found, deeper=deep.details or LayersFound(()))
        return conclude_traced(found)

    def _several(self, first: FollowedLine | None = None) -> LayerByLayer:
        return LayerByLayer(
            self.oracle,
            self.box,
            self.rng,
            self.stages,
            self.layers,
            self.options.units,
            partial(used_up, oracle=self.oracle),
            first,
        )

    def _all_asked(self, guides: Answered) -> Answered:
        """The guides, and what else was asked so far."""
        together = sum(self.asked, guides)
        self.asked.clear()
        return together

    def _run(self, tracing: Tracing, refuted: int = 0) -> Traced:
        """Search on; so many answers were refuted before."""
        spare = partial(self._spare, refuted=refuted)
        return tracing.run(spare, self.stages, self.oracle.deadline)

    def _verified(self, traced: Traced, tracing: Tracing) -> TracedCandidate:
        """What was found, and what may refute it; where it does, the search goes on from there."""
        found = self._confirmed(traced)
        times = FURTHER_SEARCHES if self.box.unlimited else FURTHER_IN_A_BOX
        for refuted in range(1, 1 + times):
            if not traced.explained or len(found.off) == 0:
                break
            tracing.guided_by(found.off)
            traced = self._run(tracing, refuted)
            if traced.spent is None and traced.explained:
                found = self._confirmed(traced, 1 + refuted)
        return found

    def _confirmed(self, traced: Traced, looks: int = 1) -> TracedCandidate:
        with self.stages.stage("verify", counted(len(traced.units), "unit")):
            return confirmed(
                traced,
                self.oracle,
                self.box,
                self.rng,
                looks=looks,
                wanted=self.options.units,
                activation=None if self.options.open_activation else self.options.activation,
            )

    def _unfinished(self, traced: Traced, spent: Spent) -> Recovery:
        """What was found before questions or time were spent: never a success."""
        units = max(len(traced.units), *traced.kinks, 0)
        if units == 0:
            return nothing_before(spent, self.oracle)
        reason = f"{used_up(spent, self.oracle)}{self._would_do(units, spent)}"
        if len(traced.units) == 0:
            return Recovery.nothing(METHOD, reason)
        one = self.oracle.outputs is None
        found = unconfirmed(traced, one=one, asked=self.oracle.used, stopped=reason)
        return conclude_traced(found)

    def _would_do(self, units: int, spent: Spent) -> str:
        if not isinstance(spent, BudgetSpent):
            return ""
        parameters = self._parameters(units)
        enough = max(_enough(parameters), spent.used + spent.needed)
        size = f"{counted(units, 'unit')} ({counted(parameters, 'parameter')})"
        return f" About {enough:,} would do for {size}."

    def _telling(self, X: Array) -> Array:
        """Points whose answers are known well enough to lead a search."""
        doubt = self.oracle.doubt(X)
        return X if doubt is None else X[doubt[:, 0] <= MOST_DOUBT]

    def _ask(self, X: Array) -> Array:
        y = self.oracle.ask(X).reshape(len(X), -1)
        if self.layers is None and sum(part.X.size for part in self.asked) + X.size <= MOST_HANDED:
            self.asked.append(Answered(X, y))
        return y

    def _parameters(self, units: int) -> int:
        outputs = self.oracle.outputs or 1
        return units * (self.oracle.features + outputs) + outputs

    def _spare(self, units: int, refuted: int) -> int:
        """How many questions may make the units sharper, those that judge them put aside."""
        to_judge = FRESH + SEARCHED + ASKED_AGAIN + POINTS_A_KINK * units
        to_tell_depth = 0 if self.layers == 1 else POINTS_A_KINK * RECURRING_PLACES
        most = _enough(self._parameters(units)) + refuted * to_judge + to_tell_depth
        if self.oracle.budget is not None:
            return max(0, self.oracle.budget - self.oracle.used - to_judge)
        # In a box more lines are followed, which is no reason to know the units less well.
        least = 0 if self.box.unlimited else self._parameters(units)
        return max(least, most - self.oracle.used - to_judge)

    def _sampled(self, found: Probe) -> Recovery:
        kind = found.kind
        rounded = kind is AnswerKind.ROUNDED and self.options.activation.kinked
        exact = 0.0 if kind in (AnswerKind.EXACT, AnswerKind.SMOOTH) else None
        is_open = self.options.open_activation and kind is AnswerKind.SMOOTH
        return sampled(
            self.oracle,
            self.box,
            self.rng,
            activation=OPEN if is_open else self.options.activation,
            noise=self.options.noise or exact,
            units=self.options.units,
            layers=self.layers or 1,
            rounding=found if rounded else None,
            progress=self.stages.progress,
        )


def _enough(parameters: int) -> int:
    return _QUERIES_A_PARAMETER * parameters + _MORE_QUERIES


def _saw_units(deep: Recovery) -> bool:
    """Whether a search for several layers found some units of one."""
    return isinstance(deep.details, LayersFound) and len(deep.details.layers) > 0


def _saw_a_layer(deep: Recovery) -> bool:
    """Whether a search for several layers found all units of one."""
    return isinstance(deep.details, LayersFound) and len(deep.details.whole) > 0


def _smooth(found: Probe) -> Recovery:
    return Recovery.nothing(
        METHOD,
        f"{found}: the function is smooth, and no network of such units. Name smooth ones, such as "
        'activation="tanh", or leave it out to find them.',
    )


def used_up(spent: Spent, oracle: Oracle) -> str:
    """What was spent, and what to give more of."""
    if not isinstance(spent, BudgetSpent):
        return (
            f"The {oracle.deadline.seconds:g} s allowed were over after "
            f"{counted_queries(oracle.used)}: give more time with seconds=."
        )
    return (
        f"{spent.used:,} of {oracle.budget:,} queries were used, and the next step needs "
        f"{spent.needed:,} more: raise budget."
    )


def nothing_before(spent: Spent, oracle: Oracle) -> Recovery:
    """No answer, since questions or time were spent before anything was found."""
    reason = used_up(spent, oracle)
    if isinstance(spent, BudgetSpent):
        reason += (
            " Exact answers take about two queries a parameter, so at least "
            f"{_QUERIES_A_PARAMETER * (oracle.features + 1):,} a unit."
        )
    return Recovery.nothing(METHOD, reason)
