"""What a method returns: a network that predicts the user's labels, and what it claims of it.

No method says of itself that it succeeded: `certify` measures every candidate and decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from provenet.certify.checks import Check, Claim
from provenet.certify.found_activation import FoundActivation
from provenet.fitting.context import Context
from provenet.fitting.covariance import StandardErrors
from provenet.networks.network import Network

Restore = Callable[[Network, StandardErrors], tuple[Network, StandardErrors]]


@dataclass(frozen=True)
class Repaired:
    """Labels that a method changed before it fitted them: evidence for a fit, never a judge."""

    context: Context
    """The samples that are fitted."""
    restore: Restore | None = None
    """From a network and its errors in these labels' outputs to the user's, if they are mixed."""
    most_are_exact: bool = False
    """Whether the user's labels are taken to be exact but for a few, which are set aside."""


@dataclass(frozen=True)
class Candidate:
    """A method's own answer: a network on standardised inputs, and why it has that many units."""

    network: Network
    width_evidence: str
    claim: Claim = Claim.NETWORK
    repaired: Repaired | None = None
    fitted_all: bool = False
    """Whether it was fitted to all samples, so that none is left to confirm it."""
    findings: tuple[Check, ...] = ()
    """What the method saw on its way that speaks for the answer or against it."""
    ambiguities: tuple[str, ...] = ()
    """What no samples of this kind can tell, in sentences."""
    details: Any = None
    """The method's own evidence."""
    found: FoundActivation | None = None
    """Its activation, where that was open, and what others leave."""
    method: str = ""
    """Who found it, where that is not the method that was asked."""


def found_by(method: str, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Candidates that name the method that found them."""
    return (replace(candidate, method=method) for candidate in candidates)
