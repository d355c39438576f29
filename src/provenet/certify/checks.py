"""The one judge: questions to the evidence, and what follows from the answers.

An answer is a claim ("these are the weights", "this is the lowest layer", "this predicts"). What
speaks for it is a list of checks, each measured on the user's own labels. The status is the worst
that a failed check leaves, the message what that check advises. Nothing else decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How far a recovery got."""

    EXACT = "exact"
    """Every parameter to machine precision: unseen samples are predicted to the last digits."""
    WITHIN_NOISE = "within noise"
    """The least-squares network; what is left on unseen samples is noise."""
    PARTIAL = "partial"
    """Some units are recovered; others are missing, undetermined, or hidden in a linear term."""
    FAILED = "failed"
    """The network, if there is one, does not explain the samples."""

    @property
    def rank(self) -> int:
        """The better, the higher."""
        return _FROM_WORST.index(self)


_FROM_WORST = (Status.FAILED, Status.PARTIAL, Status.WITHIN_NOISE, Status.EXACT)


class Claim(StrEnum):
    """What a success speaks of."""

    NETWORK = "network"
    """All weights."""
    LAYER = "layer"
    """The units of the lowest layer; what lies above them may be open."""
    PREDICTOR = "predictor"
    """Values, not weights."""
    BOUNDARY = "boundary"
    """Where a model that answers with classes changes them; networks behind it may differ."""


@dataclass(frozen=True)
class Check:
    """One question to the evidence: what was measured, what was needed, what follows if it fails.

    A check that was to be measured on samples and found none has failed.
    """

    name: str
    """What must be so, as a clause: "unseen samples are predicted"."""
    holds: bool
    measured: float | str
    needed: str
    """In words: "at most 3.1e-15 (rounding)"."""
    advice: str = ""
    """What its failure means and what to try next, in sentences; shown only if it fails."""
    otherwise: Status = Status.FAILED
    """The best that the answer can still be called if this does not hold."""
    samples: int | None = None
    """How many samples it was measured on; None where it is not about samples."""

    def __post_init__(self) -> None:
        """A check on nothing does not hold."""
        if self.samples == 0:
            object.__setattr__(self, "holds", False)
            if not self.advice:
                advice = f"There was no sample to see whether {self.name}: take more samples."
                object.__setattr__(self, "advice", advice)

    @property
    def figure(self) -> str:
        """What was measured, as it is printed."""
        if isinstance(self.measured, str):
            return self.measured
        return f"{self.measured:,}" if isinstance(self.measured, int) else f"{self.measured:.3g}"


def asked(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Checks one after the other, up to the first that leaves nothing to ask for."""
    found = []
    for check in checks:
        found.append(check)
        if not check.holds and check.otherwise is Status.FAILED:
            break
    return tuple(found)


def judge(checks: Iterable[Check], best: Status, praise: str) -> tuple[Status, str]:
    """The worst status that a failed check leaves and that check's advice.

    If none fails, `best` and `praise`; a check may leave the best status as it is.
    """
    failed = [check for check in checks if not check.holds and check.otherwise.rank < best.rank]
    if not failed:
        return best, praise
    worst = min(failed, key=lambda check: check.otherwise.rank)  # the first of these
    return worst.otherwise, worst.advice
