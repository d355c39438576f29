"""What is learned: halfspaces with their errors, and what stands against them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from provenet.certify.checks import Check, Status
from provenet.certify.statements import FaceErrors
from provenet.common.typing import TINY, AnyArray, Array
from provenet.data.standardisation import Standardisation
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
    evidence: tuple[str, ...]
    """What was found and how far to trust it."""
    findings: tuple[Check, ...]
    """What speaks for it or against it; failed ones that leave nothing say that it is no union."""

    @property
    def units(self) -> int:
        """Number of halfspaces."""
        return len(self.thresholds)

    @property
    def problems(self) -> tuple[str, ...]:
        """What stands against it, in sentences."""
        return tuple(check.advice for check in self.findings if not check.holds)

    @property
    def success(self) -> bool:
        """Whether nothing stands against it."""
        return not self.problems

    @property
    def is_union(self) -> bool:
        """Whether labels that are wrong away from the faces are so at random, as flips are."""
        return all(check.holds or check.otherwise is not Status.FAILED for check in self.findings)

    @property
    def network(self) -> LayeredNetwork:
        """The same as steps under OR, or AND."""
        layer = lowest_layer(self.weights, self.thresholds, "step")
        return LayeredNetwork(layer, intersection if self.intersection else union)

    def sigmas_to(self, other: HalfspaceSet) -> float:
        """The largest angle to another set's halfspaces, in standard errors of both together."""
        if self.units != other.units:
            return np.inf
        apart = np.linalg.norm(self.weights[:, None] - other.weights, axis=2)
        mine, others = linear_sum_assignment(apart)
        errors = self.angle_errors[mine] + other.angle_errors[others]
        return float(np.max(apart[mine, others] / np.maximum(errors, TINY)))

    def face_errors(self, standardisation: Standardisation) -> FaceErrors:
        """How near to a face labels may be taken either way, if these are standardised inputs."""
        return FaceErrors(
            self.weights,
            self.thresholds,
            self.angle_errors,
            self.threshold_errors,
            standardisation,
        )

    def __call__(self, X: Array) -> Array:
        """Predicted labels, 0 or 1."""
        return self.network(X)
