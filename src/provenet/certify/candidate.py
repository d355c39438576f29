"""What a method returns: a network, and what it says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from provenet.certify.result import Recovery
from provenet.common.typing import AnyArray
from provenet.fitting.workspace import Workspace
from provenet.landscape.outcome import Outcome
from provenet.networks.network import Network


@dataclass(frozen=True)
class Candidate:
    """A method's own answer: a network on standardised inputs, and why it has that many units."""

    network: Network
    width_evidence: str
    workspace: Workspace | None = None
    """The samples to judge it on, where the method repaired the labels."""
    corrupted: AnyArray | None = None
    """Which of the user's labels (samples, outputs) the method found corrupted."""
    restore: Callable[[Recovery], Recovery] | None = None
    """From a recovery in these samples' outputs to one in the user's, where those are combined."""
    landscape: Outcome | None = None
    """How an objective was minimised, where the method minimised one."""
