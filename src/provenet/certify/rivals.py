"""Are there other networks, a unit or two away, that explain noisy samples better?

Under noise an answer is first searched on from (`fitting.search.alternatives`); what its last round
of rivals gained is asked here. An answer that stands as its method gave it, or as a paper's
algorithm did and least squares polished it, has one round of them, too. This is part of the
certificate, so it has a few seconds even when the budget is used up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.certify.checks import Check, Claim, Status
from provenet.certify.evidence import Evidence, too_few_to_tell
from provenet.certify.tolerances import BLURRED, ROUNDED_WORSE, SMALL_RESIDUAL
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.fitting.final_fit import Polished, held_out_test
from provenet.fitting.search.alternatives import Comparison, Kind, compare, improve, refitted


def searched_on(
    context: Context, candidate: Candidate, polished: Polished
) -> tuple[Polished, Comparison | None]:
    """The answer that no rival betters, where what is left may be noise; else the one given."""
    problem = context.problem
    left = float(np.sqrt(polished.rss / problem.samples.labels))
    rounded = left <= max(problem.zero, BLURRED * context.precision.rms)  # units follow rounding
    asked = context.refine and not context.faithful  # a paper's answer is polished, no more
    if rounded or not asked or candidate.claim is Claim.PREDICTOR:
        return polished, None
    if polished.network.units == 0:
        return polished, None
    if held_out_test(context, polished.network, polished.rss).excess is not None:
        return polished, None
    if not too_few_to_tell(context, polished.network):
        return improve(context, polished)
    if left > SMALL_RESIDUAL * context.spread:
        return polished, None
    return _with_open_signs(context, polished)


def _with_open_signs(context: Context, polished: Polished) -> tuple[Polished, Comparison]:
    """One round: few samples tell no units from noise, but signs that may as well be others."""
    everything = context.with_held_out()
    _, last = compare(everything, refitted(everything, polished))
    return replace(polished, ambiguities=(*polished.ambiguities, *last.ambiguities)), last


def named_signs(context: Context, evidence: Evidence) -> Evidence:
    """The evidence with signs that may as well be others, of an answer that rounding explains.

    No rival was tried of such an answer, as units follow rounding; but signs do not.
    """
    if evidence.last_round is not None or evidence.exact or not _is_rounding(evidence):
        return evidence
    last = _last_round(context, evidence)
    return replace(
        evidence, last_round=last, ambiguities=(*evidence.ambiguities, *last.ambiguities)
    )


def _last_round(context: Context, evidence: Evidence) -> Comparison:
    """A round of rivals, for an answer of which none were tried."""
    everything = context.with_held_out()
    answer = refitted(everything, Polished(evidence.own, np.inf))
    kinds, clearly_worse = tuple(Kind), 15.0
    if evidence.certificate.rounded:  # further units would follow the rounding
        kinds = (Kind.OTHER, Kind.SIGNS, Kind.FEWER)
    if _is_rounding(evidence):
        clearly_worse = max(clearly_worse, ROUNDED_WORSE * everything.problem.samples.labels)
    return compare(everything, answer, kinds, clearly_worse)[1]


def _is_rounding(evidence: Evidence) -> bool:
    """Whether what is left of the labels is their rounding, or may be."""
    certificate = evidence.certificate
    small = certificate.noise <= BLURRED * certificate.label_rounding
    return certificate.rounded or (small and evidence.unseen.excess is None)


@dataclass(frozen=True)
class RivalQuestions:
    """The questions that the last rivals of an answer are asked."""

    last: Comparison
    units: int
    asked_for: bool = False
    """Whether so many units were asked for."""

    @classmethod
    def of(cls, context: Context, evidence: Evidence) -> RivalQuestions:
        """Of the rivals that were tried; of an answer without any, by a round of them."""
        last = evidence.last_round or _last_round(context, evidence)
        return cls(last, evidence.network.units, context.units is not None)

    def no_better(self, left: str) -> Iterator[Check]:
        """Do more units, two for one, or as many others explain part of what is left?"""
        yield self._gains_nothing(
            "further units explain nothing of what is left",
            f"{left} that further units explain in part: the labels come from more units than "
            f"{self.units}, or not from such a network. {self._open('take')} more samples, give "
            "more time with budget=, or name another activation.",
            Kind.FURTHER,
        )
        yield self._gains_nothing(
            "no two units hide in one",
            f"{left} that two units in place of one explain in part: the labels come from more "
            f"units than {self.units}. {self._open('or give')} more time with budget=.",
            Kind.SPLIT,
        )
        yield from self.no_others(left)

    def _open(self, verb: str) -> str:
        """Advice to leave the number of units open, where it was not, before other advice."""
        if self.asked_for:
            return f"Leave units out to find their number, {verb}"
        return verb.removeprefix("or ").capitalize()

    def no_others(self, left: str) -> Iterator[Check]:
        """Do as many other units explain part of what is left, and was there time to see it?"""
        yield Check(
            "rivals were tried in time",
            self.last.in_time,
            "in time" if self.last.in_time else "cut short",
            "in time",
            f"{left}, and time ran out before other networks could be compared: give more time "
            "with budget=.",
            Status.PARTIAL,
        )
        yield self._gains_nothing(
            "no other units explain more",
            f"{left}, and {counted(self.units, 'other unit')} leave less: the search is not at its "
            "end. Give more time with budget=, or take more samples.",
            Kind.OTHER,
            Kind.SIGNS,
        )

    def none_with_fewer_units(self, found: str) -> Check:
        """Does one unit, refined, do as well as two?"""
        return self._gains_nothing(
            "no unit is split in two",
            f"{found}, but one unit in place of two that are much alike does as well: ask for "
            f"{counted(self.units - 1, 'unit')}, or take more samples.",
            Kind.FEWER,
            otherwise=Status.PARTIAL,
        )

    def _gains_nothing(
        self, name: str, advice: str, *kinds: Kind, otherwise: Status = Status.FAILED
    ) -> Check:
        gain = max(self.last.gains[kind] for kind in kinds)
        told = f"Schwarz's criterion gains {gain:.3g} by the best of {self.last.tried} rivals"
        return Check(
            name,
            gain <= self.last.least,
            told if np.isfinite(gain) else "there is no such rival",
            f"no gain beyond {self.last.least:g}",
            advice,
            otherwise,
        )
