"""What every objective can answer, and the sphere that the rows of some of them live on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

import numpy as np

from provenet.common.typing import Array

_Answer = TypeVar("_Answer")
_Own = TypeVar("_Own", bound="Objective")


def remember_last(method: Callable[[_Own, Array], _Answer]) -> Callable[[_Own, Array], _Answer]:
    """Keep the answer at the last B: value, gradient and Hessian are asked for at the same one."""
    name = f"_last_{method.__name__}"

    @wraps(method)
    def remembered(self: _Own, B: Array) -> _Answer:
        last: tuple[Array, _Answer] | None = getattr(self, name, None)
        if last is None or not np.array_equal(last[0], B):
            last = B.copy(), method(self, B)
            setattr(self, name, last)
        return last[1]

    return remembered


@dataclass(frozen=True)
class Theorem:
    """When a point is near a global minimum: a small gradient, no eigenvalue too negative."""

    name: str
    slope: float
    """epsilon: the largest norm of the gradient."""
    curvature: float
    """tau_0: no eigenvalue of the Hessian below minus this."""


class Objective(ABC):
    """A smooth function of the matrix B (units, features), one unit a row.

    The three methods a subclass gives are Euclidean. With `unit_rows` the function is meant on
    rows of norm 1 only, a product of spheres; `slope` and `curvature` are then those along it.
    """

    units: int
    features: int
    unit_rows: bool = False
    magnitude: float = 0.0
    """Size of terms that may cancel in the value: what its rounding is measured by."""
    theorem: Theorem | None = None
    """What is proved of its minima; None where nothing is."""

    @abstractmethod
    def value(self, B: Array) -> float:
        """The function at B."""

    @abstractmethod
    def gradient(self, B: Array) -> Array:
        """Its gradient, (units, features)."""

    @abstractmethod
    def hessian_product(self, B: Array, V: Array) -> Array:
        """Its Hessian at B applied to the direction V, (units, features)."""

    def sampling_error(self, B: Array) -> float:
        """A bound on how far sampling error moves the gradient at B; 0 where it is not known."""
        return 0.0

    def retract(self, B: Array) -> Array:
        """The nearest matrix that the function is meant for."""
        if not self.unit_rows:
            return B
        return np.asarray(B / np.linalg.norm(B, axis=1, keepdims=True))

    def tangent(self, B: Array, V: Array) -> Array:
        """The part of V along which B may move."""
        if not self.unit_rows:
            return V
        return np.asarray(V - np.einsum("md,md->m", V, B)[:, None] * B)

    def slope(self, B: Array) -> Array:
        """The gradient along the rows' spheres, or as it is if rows are free."""
        return self.tangent(B, self.gradient(B))

    def curvature(self, B: Array, V: Array, gradient: Array) -> Array:
        """The Hessian along the spheres applied to a tangent V, given the gradient at B.

        A sphere bends away from its tangent: the gradient's part along b_j counts against v_j.
        """
        product = self.tangent(B, self.hessian_product(B, V))
        if not self.unit_rows:
            return product
        return np.asarray(product - np.einsum("md,md->m", gradient, B)[:, None] * V)
