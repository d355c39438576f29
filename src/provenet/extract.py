"""`extract`: a network out of a model that may be asked.

A few questions tell the kind of answers (`probing`). Exact ones are traced along lines (`kinks`)
and measured again where there is room (`sharpen`); noisy or rounded ones, and those of smooth
units, are sampled (`sampling`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from provenet.certify.asked import METHOD, conclude_traced
from provenet.certify.result import Recovery
from provenet.certify.traced import TracedCandidate
from provenet.common.arguments import check_seconds
from provenet.common.exceptions import BudgetSpent, Spent
from provenet.common.stages import Stages
from provenet.common.typing import Array, Progress, Seed
from provenet.common.words import counted
from provenet.data.parallel import one_blas_thread
from provenet.extraction.box import Box
from provenet.extraction.candidate import confirmed, unconfirmed
from provenet.extraction.clients.base import counted_queries
from provenet.extraction.deadline import Deadline
from provenet.extraction.kinks import Traced, Tracing, start_tracing
from provenet.extraction.oracle import Model, Oracle, open_oracle
from provenet.extraction.probing import AnswerKind, Probe, probe
from provenet.extraction.sampling import METHOD as SAMPLED
from provenet.extraction.sampling import sampled
from provenet.extraction.tolerances import (
    ASKED_AGAIN,
    FRESH,
    FURTHER_SEARCHES,
    POINTS_A_KINK,
    SEARCHED,
)
from provenet.fitting.workspace import Wishes
from provenet.methods import METHODS
from provenet.networks.activations import Activation
from provenet.recover import DEFAULT_BUDGET
from provenet.validation import (
    OPEN,
    as_generator,
    check_options,
    check_surroundings,
    read_activation,
)

_CHECKS = 30
"""Points that guide the lines."""
_QUERIES_A_PARAMETER, _MORE_QUERIES = 2, 600
"""What may be asked without a budget once the number of units is known. A convention: 400 of these
are for points that may refute the answer."""


def extract(
    f: Model | Oracle,
    features: int | None = None,
    *,
    budget: int | None = None,
    seconds: float | None = None,
    outputs: int | None = None,
    activation: str | Activation = OPEN,
    noise: float | None = None,
    units: int | None = None,
    low: Any = None,
    high: Any = None,
    cache: Any = None,
    timeout: float = 30.0,
    retries: int = 5,
    rng: Seed = None,
    progress: Progress | None = None,
) -> Recovery:
    """Recover the network with one hidden layer in a model that may be asked.

    Parameters
    ----------
    f
        A function of an array (n, features), an .onnx or TorchScript file, an address, or an
        oracle.
    features
        Number of inputs; an ONNX model tells it.
    budget
        Most answers to use, those of the cache included. Exact answers take about two a parameter,
        and 600.
    seconds
        Stop after so long with what was found until then; without it, when the work is done.
    outputs
        Number of outputs; found when left out.
    activation
        Of the units: a name such as "tanh", or a `provenet.Activation`. "auto" finds it where
        answers are exact; where they are not, units are taken to be ReLU.
    noise
        Standard deviation of the answers' noise, if known; estimated when left out.
    units
        Number of units; found when left out.
    low, high
        Ask no input outside of these: numbers, or one a feature.
    cache
        File in which answers are kept: a run that was killed goes on from there.
    timeout, retries
        Seconds a request, and how often it is tried again, where `f` is an address.
    rng
        Seed or generator; the same seed gives the same answer.
    progress
        Called as `progress(stage, fraction, message)`; a negative fraction means unknown.

    Raises
    ------
    InvalidInput
        If the input cannot be used. Bad luck is never an exception: see `Recovery.status`.
    EndpointLost
        If an address stopped answering.
    """
    generator = as_generator(rng)
    wishes = _checked(units, noise, activation)
    check_surroundings(progress, cache=cache)
    if seconds is not None:
        check_seconds("seconds", seconds)
    oracle = open_oracle(
        f,
        features,
        outputs=outputs,
        budget=budget,
        cache=cache,
        low=low,
        high=high,
        timeout=timeout,
        retries=retries,
    )
    oracle.deadline = Deadline.after(seconds)
    box = Box.of(oracle.low, oracle.high, oracle.features)
    stages = Stages(progress)
    run = _Run(oracle, box, generator, wishes, stages)
    with one_blas_thread():
        try:
            result = run.answer()
        except Spent as spent:
            result = _spent(spent, oracle)
    # Sampled answers bring the timings of their last recovery.
    timings = {**stages.seconds, **result.timings, "total": stages.total}
    return replace(result, queries=oracle.used, timings=timings)


@dataclass(frozen=True)
class _Run:
    oracle: Oracle
    box: Box
    rng: np.random.Generator
    wishes: Wishes
    stages: Stages

    def answer(self) -> Recovery:
        """Probe, then one of the two roads."""
        with self.stages.stage("probe", "what kind of answers"):
            found = probe(self.oracle, self.box, self.rng)
        kinked, smooth = self.wishes.activation.kinked, found.kind is AnswerKind.SMOOTH
        if kinked and smooth and not self.wishes.open_activation:
            return _smooth(found)
        if kinked and found.kind is AnswerKind.EXACT and not self.wishes.noise:
            return self._traced()
        result = self._sampled(found.kind)
        return replace(result, message=f"{found}. {result.message}")

    def _traced(self) -> Recovery:
        tracing = start_tracing(self._ask, self.box.sample(_CHECKS, self.rng), self.box, self.rng)
        traced = self._run(tracing)
        if traced.spent is not None:
            return self._unfinished(traced, traced.spent)
        try:
            return conclude_traced(self._verified(traced, tracing))
        except Spent as spent:
            return self._unfinished(traced, spent)

    def _run(self, tracing: Tracing, refuted: int = 0) -> Traced:
        """Search on; so many answers were refuted before."""
        spare = partial(self._spare, refuted=refuted)
        return tracing.run(spare, self.stages, self.oracle.deadline)

    def _verified(self, traced: Traced, tracing: Tracing) -> TracedCandidate:
        """What was found, and what may refute it; where it does, the search goes on from there."""
        found = self._confirmed(traced)
        for refuted in range(1, 1 + FURTHER_SEARCHES):
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
                traced, self.oracle, self.box, self.rng, looks=looks, wanted=self.wishes.total_units
            )

    def _unfinished(self, traced: Traced, spent: Spent) -> Recovery:
        """What was found before questions or time were spent: never a success."""
        units = max(len(traced.units), *traced.kinks, 0)
        if units == 0:
            return _spent(spent, self.oracle)
        reason = f"{_used(spent, self.oracle)}{self._would_do(units, spent)}"
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

    def _ask(self, X: Array) -> Array:
        return self.oracle.ask(X).reshape(len(X), -1)

    def _parameters(self, units: int) -> int:
        outputs = self.oracle.outputs or 1
        return units * (self.oracle.features + outputs) + outputs

    def _spare(self, units: int, refuted: int) -> int:
        """How many questions may make the units sharper, those that judge them put aside."""
        to_judge = FRESH + SEARCHED + ASKED_AGAIN + POINTS_A_KINK * units
        most = _enough(self._parameters(units)) + refuted * to_judge
        if self.oracle.budget is not None:
            most = self.oracle.budget
        return max(0, most - self.oracle.used - to_judge)

    def _sampled(self, kind: AnswerKind) -> Recovery:
        exact = 0.0 if kind in (AnswerKind.EXACT, AnswerKind.SMOOTH) else None
        is_open = self.wishes.open_activation and kind is AnswerKind.SMOOTH
        return sampled(
            self.oracle,
            self.box,
            self.rng,
            activation=OPEN if is_open else self.wishes.activation,
            noise=self.wishes.noise or exact,
            units=self.wishes.total_units,
            progress=self.stages.progress,
        )


def _enough(parameters: int) -> int:
    return _QUERIES_A_PARAMETER * parameters + _MORE_QUERIES


def _checked(units: Any, noise: Any, activation: Any) -> Wishes:
    """What is asked for, if the search on random points could serve it."""
    first, is_open = read_activation(activation)
    wishes = Wishes(units, noise, first, open_activation=is_open)
    return check_options(SAMPLED, METHODS, wishes, DEFAULT_BUDGET)[1]


def _smooth(found: Probe) -> Recovery:
    return Recovery.nothing(
        METHOD,
        f"{found}: the function is smooth, and no network of such units. Name smooth ones, such as "
        'activation="tanh", or leave it out to find them.',
    )


def _used(spent: Spent, oracle: Oracle) -> str:
    if not isinstance(spent, BudgetSpent):
        return (
            f"The {oracle.deadline.seconds:g} s allowed were over after "
            f"{counted_queries(oracle.used)}: give more time with seconds=."
        )
    return (
        f"{spent.used:,} of {oracle.budget:,} queries were used, and the next step needs "
        f"{spent.needed:,} more: raise budget."
    )


def _spent(spent: Spent, oracle: Oracle) -> Recovery:
    reason = _used(spent, oracle)
    if isinstance(spent, BudgetSpent):
        reason += (
            " Exact answers take about two queries a parameter, so at least "
            f"{_QUERIES_A_PARAMETER * (oracle.features + 1):,} a unit."
        )
    return Recovery.nothing(METHOD, reason)
