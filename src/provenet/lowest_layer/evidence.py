"""The evidence for a lowest layer whose top is not known."""

from __future__ import annotations

from dataclasses import dataclass

from provenet.common.typing import AnyArray, Array


@dataclass(frozen=True)
class LayerEvidence:
    """How well each unit of a lowest layer is pinned down.

    Without the top no label is predicted, so there is no residual: the evidence is in the faces of
    the units, where labels change.
    """

    angle_errors: Array
    """Radians by which each unit's weights may be off, one standard error; nan if not known."""
    threshold_errors: Array
    """The same for the thresholds."""
    samples: AnyArray
    """For each unit, the samples that it alone explains."""
    exact: bool
    """Whether every unit explains its samples to machine precision."""
    way: str
    """How directions were found and refined, in words."""
    notes: tuple[str, ...] = ()
    """What else was seen, such as whether the conditions of the method's theorem hold."""
