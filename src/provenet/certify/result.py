"""What a recovery returns: the same fields whatever happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from provenet.certify.answered import Answered
from provenet.certify.certificate import Certificate
from provenet.certify.checks import Check, Claim, Status, judge
from provenet.certify.summary import as_html, as_text
from provenet.common.typing import AnyArray
from provenet.fitting.covariance import StandardErrors
from provenet.networks.network import Network


@dataclass(frozen=True)
class Recovery:
    """A recovered network, how it was found, and how far it can be trusted.

    `network` is the best one found, in canonical form; None only when nothing was found at all.
    `claim` is what a success speaks of: "network", "layer", "predictor" or "boundary". `checks` are
    the questions that were put to the evidence; `status` is the worst of them and `message` says
    what happened and what to try next. `ambiguities` lists, in words, what the data leave open.
    `details` is the method's own evidence, of a class of its own (None where it has none); what is
    in it can be asked for here as `layer`, `layered`, `layers_found`, `landscape`, `corrupted`.
    `timings` are seconds a stage. `queries` counts the answers that were used where a model was
    asked, and `asked` are random points among them that stand for all inputs, with the answers.
    """

    network: Network | Any
    """A `Network`, or a `DeepNetwork` of several layers; None if nothing was found."""
    status: Status
    message: str
    method: str
    claim: Claim = Claim.NETWORK
    checks: tuple[Check, ...] = ()
    certificate: Certificate | None = None
    standard_errors: StandardErrors | Any = None
    """In the shapes of the network's parameters: `StandardErrors`, or `DeepErrors`."""
    ambiguities: tuple[str, ...] = ()
    details: Any = None
    timings: Mapping[str, float] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    """Names of the inputs, where a table or a file has them; else none."""
    queries: int | None = None
    asked: Answered | None = field(default=None, repr=False, compare=False)

    @classmethod
    def judged(
        cls,
        network: Network | None,
        checks: Iterable[Check],
        best: Status,
        praise: str,
        **evidence: Any,
    ) -> Recovery:
        """What the checks leave of a network that is called `best`, with `praise`, if all hold."""
        checks = tuple(checks)
        status, message = judge(checks, best, praise)
        return cls(network, status, message, checks=checks, **evidence)

    @classmethod
    def nothing(cls, method: str, reason: str, claim: Claim = Claim.NETWORK) -> Recovery:
        """Nothing was found, for this reason."""
        found = Check("a network was found", False, "none", "one", reason)
        return cls.judged(None, [found], Status.FAILED, reason, method=method, claim=claim)

    @classmethod
    def unfinished(cls, network: Network, method: str, message: str) -> Recovery:
        """A network that nothing has confirmed: partial at best."""
        return cls.judged(network, [], Status.PARTIAL, message, method=method)

    def with_checks(self, *checks: Check) -> Recovery:
        """The same answer after further questions."""
        status, message = judge(checks, self.status, self.message)
        return replace(self, status=status, message=message, checks=(*self.checks, *checks))

    def stopped_by(self, reason: str) -> Recovery:
        """The same answer, failed, of a method that could not go on for this reason."""
        return self.refuted_by(Check("the method could go on", False, "no", "yes", reason))

    def refuted_by(self, check: Check) -> Recovery:
        """The same answer, failed, for a reason that says more than its own checks."""
        checks = (check, *self.checks)
        return replace(self, status=Status.FAILED, message=check.advice, checks=checks)

    def __str__(self) -> str:
        """A summary for people: status, checks, units."""
        return as_text(self)

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return as_html(self)

    @property
    def success(self) -> bool:
        """True when all the units that were asked for, or found, are recovered."""
        return self.status in (Status.EXACT, Status.WITHIN_NOISE)

    @property
    def corrupted(self) -> AnyArray | None:
        """Which labels (samples, outputs) a method for corrupted labels set aside."""
        return getattr(self.details, "corrupted", None)

    @property
    def landscape(self) -> Any:
        """How an objective was minimised and what its minimum is worth."""
        return getattr(self.details, "landscape", None)

    @property
    def layer(self) -> Any:
        """How well each unit of a lowest layer is pinned down."""
        return getattr(self.details, "layer", None)

    @property
    def layered(self) -> Any:
        """The lowest layer with what lies above it, which predicts labels, where that is known."""
        return getattr(self.details, "layered", None)

    @property
    def layers_found(self) -> Any:
        """Layers of a model that was asked, as they were found one after the other."""
        return getattr(self.details, "layers", None)
