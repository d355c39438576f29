"""What a recovery returns: the same fields whatever happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from provenet.certify.certificate import Certificate
from provenet.common.typing import AnyArray
from provenet.fitting.covariance import StandardErrors
from provenet.landscape.outcome import Outcome
from provenet.lowest_layer.evidence import LayerEvidence
from provenet.networks.layered import LayeredNetwork
from provenet.networks.network import Network


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


@dataclass(frozen=True)
class Recovery:
    """A recovered network, how it was found, and how far it can be trusted.

    `network` is the best one found, in canonical form; None only when nothing was found at all.
    `message` says what happened and what to try next. `ambiguities` lists, in words, what the data
    leave open. `corrupted` marks the labels (samples, outputs) that a method for corrupted labels
    set aside, and is None otherwise. `landscape` tells how an objective was minimised and what its
    minimum is worth, where the method minimised one. Methods for the lowest layer of a deeper
    network return its units as `network` (with the linear part of what lies above), `layer` for the
    evidence, and `layered`, which predicts labels, where the top is known. `timings` are seconds a
    stage. `queries` counts the answers that were used where a model was asked.
    """

    network: Network | None
    status: Status
    message: str
    method: str
    certificate: Certificate | None = None
    standard_errors: StandardErrors | None = None
    ambiguities: tuple[str, ...] = ()
    corrupted: AnyArray | None = None
    landscape: Outcome | None = None
    layer: LayerEvidence | None = None
    layered: LayeredNetwork | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    queries: int | None = None

    @property
    def success(self) -> bool:
        """True when all the units that were asked for, or found, are recovered."""
        return self.status in (Status.EXACT, Status.WITHIN_NOISE)
