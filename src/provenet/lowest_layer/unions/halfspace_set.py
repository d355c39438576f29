"""What is learned: halfspaces with their errors, and what stands against them."""

from __future__ import annotations

from dataclasses import dataclass

from provenet.common.typing import AnyArray, Array
from provenet.lowest_layer.unions.faces import Flags
from provenet.networks.layered import LayeredNetwork, intersection, lowest_layer, union


@dataclass(frozen=True)
class HalfspaceSet:
    """A union of halfspaces `weights_i . x > thresholds_i`, or their intersection."""

    weights: Array
    """(units, features), rows of norm 1."""
    thresholds: Array
    angle_errors: Array
    """Root mean square angle to the truth to be expected, in radians."""
    threshold_errors: Array
    exclusive: AnyArray
    """How many samples each halfspace alone accounts for: those inside it and no other (of an
    intersection: outside it and no other)."""
    separated: Flags
    """Which halfspaces agree with every label near them."""
    training_errors: int
    flip_rate: float
    """Share of labels that are wrong far from every face: 0 for labels without noise."""
    samples: int
    intersection: bool
    is_union: bool
    """Whether labels that are wrong inside the halfspaces are so at random, as flips are."""
    evidence: tuple[str, ...]
    """What was found and how far to trust it."""
    problems: tuple[str, ...]
    """What stands against it, one sentence each; none for a full success."""

    @property
    def units(self) -> int:
        """Number of halfspaces."""
        return len(self.thresholds)

    @property
    def success(self) -> bool:
        """Whether nothing stands against the answer."""
        return not self.problems

    @property
    def network(self) -> LayeredNetwork:
        """The same as steps under OR, or AND."""
        layer = lowest_layer(self.weights, self.thresholds, "step")
        return LayeredNetwork(layer, intersection if self.intersection else union)

    def __call__(self, X: Array) -> Array:
        """Predicted labels, 0 or 1."""
        return self.network(X)
