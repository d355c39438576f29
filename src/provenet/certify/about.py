"""What every question to an answer starts from: the answer, its numbers, and the words for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from provenet.certify.certificate import Certificate
from provenet.certify.evidence import Evidence
from provenet.certify.rivals import RivalQuestions
from provenet.fitting.context import Context
from provenet.networks.network import Network


@dataclass(frozen=True)
class About:
    """One answer that is asked."""

    context: Context
    evidence: Evidence

    @property
    def certificate(self) -> Certificate:
        """The numbers measured of it."""
        return self.evidence.certificate

    @property
    def network(self) -> Network:
        """The network that came out."""
        return self.evidence.network

    @property
    def left(self) -> str:
        """Words for its residual."""
        relative = self.certificate.relative_residual
        return f"A residual of {relative:.2g} of the labels' spread is left"

    @property
    def found(self) -> str:
        """Words for what it explains."""
        how = "exactly" if self.evidence.exact else "up to noise"
        return f"The samples are explained {how}"

    @property
    def kinked(self) -> bool:
        """Whether its units have kinks."""
        return self.network.activation.kinked

    @property
    def labels(self) -> int:
        """Numbers that were fitted, repeated inputs counted once."""
        certificate = self.certificate
        return certificate.outputs * min(certificate.samples_fitted, certificate.distinct_inputs)

    @cached_property
    def rivals(self) -> RivalQuestions:
        """What other networks are asked."""
        return RivalQuestions.of(self.context, self.evidence)

    @property
    def more(self) -> str:
        """What would tell more: further samples, or other inputs where these repeat each other."""
        repeated = self.certificate.distinct_inputs < self.certificate.samples_fitted
        return "different inputs" if repeated else "samples"


def or_other_units(context: Context, how: str, joined: str = ", or ") -> str:
    """Advice to ask for another number of units, for those who asked for one."""
    return "" if context.units is None else f"{joined}ask for {how} units"
