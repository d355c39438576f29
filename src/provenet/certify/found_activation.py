"""Is the activation that was found the only one that explains the samples?

Where the activation is open, others were fitted to the same samples. What the best of them leaves,
the *runner-up*, belongs to the certificate. It is ruled out by Schwarz's criterion
`n log(rss) + p log(n)` of both: a difference is twice the logarithm of their odds. Where two leave
nothing, there is no difference. Others are named only if their fits came to an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from provenet.certify.checks import Check, Status
from provenet.certify.tolerances import TOLD_APART
from provenet.common.words import counted
from provenet.networks.activations import Activation


@dataclass(frozen=True)
class OtherActivation:
    """The best fit of an activation that is not the one found."""

    name: str
    units: int
    left: float
    """Root mean square residual, of the labels' spread."""
    behind: float
    """By how much its criterion is higher than that of the one found; 0 if both leave nothing."""

    @property
    def told(self) -> str:
        """What it leaves, in words."""
        return f"{self.name} with {counted(self.units, 'unit')} leaves {self.left:.2g}"


@dataclass(frozen=True)
class FoundActivation:
    """An activation, and what the others leave."""

    activation: Activation
    others: tuple[OtherActivation, ...]
    """Those fitted to the end, the best first."""
    unfinished: tuple[str, ...] = ()
    """Names of those for which time was too short."""

    @property
    def praise(self) -> str:
        """What to say if nothing speaks against it."""
        found = f"The activation found is {self.activation.family}"
        if not self.others:
            return f"{found}."
        return f"{found}; the next best, {self.others[0].told} of the labels' spread."

    @property
    def ambiguities(self) -> tuple[str, ...]:
        """Activations that may be another one, in sentences."""
        name = self.activation.family
        same = (_SAME[name],) if name in _SAME else ()
        alike = [other.name for other in self.others if other.behind <= TOLD_APART]
        if not alike:
            return same
        return (*same, f"{_listed([name, *alike])} cannot be told apart by these samples.")

    def no_other_does(self) -> Check:
        """Were all others fitted, and is the best of them ruled out?"""
        told = f"{self.others[0].told} of the labels' spread" if self.others else "none was fitted"
        behind = self.others[0].behind if self.others else 0.0
        return Check(
            "no other activation explains them",
            behind > TOLD_APART and not self.unfinished,
            f"{told}, Schwarz's criterion {behind:.3g} higher" if self.others else told,
            f"all fitted, and more than {TOLD_APART:g} higher",
            self._advice(behind > TOLD_APART),
            Status.PARTIAL,
        )

    def _advice(self, ruled_out: bool) -> str:
        name = self.activation.family
        if not ruled_out and self.others:
            return (
                f"The samples are explained by units of {name}, but those of {self.others[0].name} "
                "explain them as well: take more samples, labels with less noise or inputs further "
                "out, or name the activation."
            )
        return (
            f"The samples are explained by units of {name}, but time ran out before "
            f"{_listed(self.unfinished)} were fitted to the end: give more time with budget=, or "
            "name the activation."
        )


_SAME = {
    "tanh": "Units of tanh and of sigmoid make the same functions, tanh(z) = 2 sigmoid(2 z) - 1: "
    "which of the two it was, no samples tell."
}


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
