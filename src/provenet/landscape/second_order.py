"""Is this matrix a minimum? The gradient's norm and the Hessian's smallest eigenvalue.

Both are compared with the epsilon and tau_0 of the objective's theorem (GLM17, Theorems 2.3.3, A.4
and A.5), where it has one. The Hessian is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.landscape.objective import Objective, Theorem
from provenet.landscape.tolerances import EIGENVALUE_ACCURACY, LEVEL, SMALL_HESSIAN, STILL, TINY


@dataclass(frozen=True)
class SecondOrder:
    """The second-order condition at a matrix."""

    value: float
    slope: float
    """Norm of the gradient (along the spheres, where rows have norm 1)."""
    lowest: float
    """Smallest eigenvalue of the Hessian."""
    scale: float
    """How much the Hessian stretches a random direction: what zero is measured by."""
    sampling: float
    """How far sampling error may have moved the gradient; 0 for a population."""
    theorem: Theorem | None

    @property
    def is_minimum(self) -> bool:
        """Whether, to rounding and a little more, this is a local minimum."""
        return self.slope <= STILL * self.scale and self.lowest >= -LEVEL * self.scale

    @property
    def theorem_applies(self) -> bool:
        """Whether the objective's theorem says that this is near a global minimum.

        The theorems are of populations: what sampling error may add to the gradient counts.
        """
        if self.theorem is None:
            return False
        flat = self.slope + self.sampling <= self.theorem.slope  # false for nan
        return flat and self.lowest >= -self.theorem.curvature

    @property
    def message(self) -> str:
        """The same in a sentence or two."""
        kind = "A local minimum" if self.is_minimum else "Not a local minimum"
        found = f"{kind}: gradient {self.slope:.1e}, smallest eigenvalue {self.lowest:.1e}."
        if self.theorem is None:
            return f"{found} No theorem says whether such are global."
        wanted = f"{self.theorem.slope:.1e} and -{self.theorem.curvature:.1e}"
        if self.theorem_applies:
            return f"{found} {self.theorem.name} asks for {wanted}, so it is near a global one."
        if self.sampling > self.theorem.slope:
            return (
                f"{found} Sampling error may move the gradient by {self.sampling:.1e}, more than "
                f"the {self.theorem.slope:.1e} that {self.theorem.name} allows: no guarantee."
            )
        return f"{found} {self.theorem.name} asks for {wanted}: no guarantee."


def second_order(
    objective: Objective, B: Array, accuracy: float = EIGENVALUE_ACCURACY
) -> SecondOrder:
    """The second-order condition of an objective at any matrix B."""
    B = _checked(objective, B)
    with np.errstate(over="ignore", invalid="ignore"):
        gradient = objective.gradient(B)
    if not np.isfinite(gradient).all():
        raise InvalidInput("B is so large that the objective overflows: give a smaller matrix.")
    slope = float(np.linalg.norm(objective.tangent(B, gradient)))
    lowest, _ = smallest_eigenvalue(objective, B, gradient, accuracy)
    scale, sampling = _scale(objective, B, gradient), objective.sampling_error(B)
    return SecondOrder(objective.value(B), slope, lowest, scale, sampling, objective.theorem)


def _scale(objective: Objective, B: Array, gradient: Array) -> float:
    """How much the Hessian stretches a random direction."""
    probe = objective.tangent(B, np.random.default_rng(0).standard_normal(B.shape))
    bent = objective.curvature(B, probe, gradient)
    return float(np.linalg.norm(bent)) / max(float(np.linalg.norm(probe)), TINY)


def _checked(objective: Objective, B: Array) -> Array:
    B = np.asarray(B, dtype=float)
    if B.shape != (objective.units, objective.features):
        raise InvalidInput(
            f"B has shape {B.shape}: the objective is a function of matrices "
            f"{(objective.units, objective.features)}, one unit a row."
        )
    if not np.isfinite(B).all():
        raise InvalidInput("B is not finite: give a matrix of numbers.")
    if objective.unit_rows and not np.allclose(np.linalg.norm(B, axis=1), 1.0):
        raise InvalidInput(
            "This objective is meant for rows of norm 1: divide B by its rows' norm."
        )
    return objective.retract(B)


def smallest_eigenvalue(
    objective: Objective,
    B: Array,
    gradient: Array | None = None,
    accuracy: float = EIGENVALUE_ACCURACY,
) -> tuple[float, Array]:
    """Smallest eigenvalue of the Hessian at B and its eigenvector, by Lanczos.

    Along the spheres where rows have norm 1: a direction across them is no way to move, and is put
    above all others. All eigenvalues are lifted on the way, because Lanczos judges its own error
    relative to the eigenvalue, which may well be 0.
    """
    gradient = objective.gradient(B) if gradient is None else gradient
    size, shape = B.size, B.shape
    lift = 2 * _scale(objective, B, gradient) + float(np.linalg.norm(gradient)) or 1.0

    def product(v: Array) -> Array:
        full = v.reshape(shape)
        V = objective.tangent(B, full)
        return np.asarray((objective.curvature(B, V, gradient) + lift * (2 * full - V)).ravel())

    if size <= SMALL_HESSIAN:
        H = np.array([product(e) for e in np.eye(size)])
        values, vectors = np.linalg.eigh((H + H.T) / 2)
        return float(values[0]) - lift, vectors[:, 0].reshape(shape)
    operator = LinearOperator((size, size), matvec=product, dtype=float)
    start = np.random.default_rng(0).standard_normal(size)  # the same answer every time
    values, vectors = eigsh(operator, k=1, which="SA", v0=start, tol=accuracy)
    return float(values[0]) - lift, np.asarray(vectors[:, 0].reshape(shape))
