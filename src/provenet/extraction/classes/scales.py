"""How large the units are beside each other, from all pieces at once.

With a side on which each unit is on, f is `sum_i on_i V_i + L` on every piece, linear in the
unknown V_i = a_i (w_i, b_i) and in the linear part L = (l, c), and it vanishes on the piece: it is
a multiple of the piece's hyperplane N, so what of it is perpendicular to N is zero. These are
homogeneous equations, and their solution is the network up to a factor, which is positive if the
positive class is where f is.

*Units met at one bend.* The bend leaves one number of such a unit open. A network without a linear
term has L = (0, c), and its units are on where they are: all ways of being on are tried, and where
one solves the equations that is the network. Two units that are never on without each other
near the boundary are told in this way alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.classes.tolerances import EXPLAINED, MOST_SIDES_TRIED, NOT_ZERO


@dataclass(frozen=True)
class Equations:
    """Hyperplanes of pieces, rows of norm 1, each with a point of it and an error."""

    hyperplanes: Array
    places: Array
    """(pieces, dimensions + 1), the last 1."""
    errors: Array

    @property
    def weights(self) -> Array:
        """How much each counts: the less, the worse it is known."""
        return np.asarray(self.errors.min() / self.errors)

    @property
    def across(self) -> Array:
        """What is perpendicular to each hyperplane: (pieces, dimensions + 1, dimensions + 1)."""
        N = self.hyperplanes
        return np.asarray(np.eye(N.shape[1]) - N[:, :, None] * N[:, None, :])


@dataclass(frozen=True)
class UnitSum:
    """`f = sum of V_i over the units that are on, + L`, up to a positive factor."""

    V: Array
    """(units, dimensions + 1)."""
    L: Array
    on: AnyArray
    """(pieces, units)."""
    errors: Array
    """Relative, a unit."""
    left: float
    """What of the equations is not solved, beside their size."""
    open: int
    """Directions of parameters that the equations leave free, beside the factor."""

    @property
    def explains(self) -> bool:
        """Whether the equations are solved, and by nothing else."""
        return self.left <= EXPLAINED and self.open == 0


def fitted(equations: Equations, on: AnyArray, *, linear: bool) -> UnitSum | None:
    """The sum of units that are on as said; None if none has the positive class where it is."""
    P, D = equations.hyperplanes.shape
    M = _matrix(equations, on, linear)
    _, sizes, rows = np.linalg.svd(M, full_matrices=False)
    theta = _oriented(equations, on, rows[-1], linear)
    if theta is None:
        return None
    left = float(sizes[-1] / np.sqrt(max(P * (D - 1) - M.shape[1] + 1, 1)))
    V, L = _parts(theta, on.shape[1], D, linear)
    errors = _errors(sizes, rows, V, max(left, float(equations.errors.min())))
    return UnitSum(V, L, on, errors, left / float(sizes[0]), _open(sizes))


def equations_to_spare(equations: Equations, on: AnyArray) -> int:
    """How many of the equations that there is no linear term are not needed to tell the units."""
    sizes = np.asarray(
        np.linalg.svd(_matrix(equations, on, linear=True), compute_uv=False), dtype=float
    )
    return int(equations.hyperplanes.shape[1]) - 1 - _open(sizes)


def _matrix(equations: Equations, on: AnyArray, linear: bool) -> Array:
    """The equations, at least as many rows as columns: rows of zeros if need be."""
    P, D = equations.hyperplanes.shape
    own = equations.weights[:, None, None] * equations.across
    units = np.einsum("pk,pij->pikj", on.astype(float), own).reshape(P * D, -1)
    rest = (own if linear else own[:, :, -1:]).reshape(P * D, -1)
    unknown = units.shape[1] + rest.shape[1]
    more = np.zeros((max(0, unknown - P * D), unknown))
    return np.vstack([np.hstack([units, rest]), more])


def _open(sizes: Array) -> int:
    """Directions that equations with these singular values leave free, beside the solution's."""
    return int(np.sum(sizes < NOT_ZERO * sizes[0])) - 1


def _parts(theta: Array, units: int, D: int, linear: bool) -> tuple[Array, Array]:
    V = theta[: units * D].reshape(units, D)
    rest = theta[units * D :]
    return V, rest if linear else np.append(np.zeros(D - 1), rest)


def _oriented(equations: Equations, on: AnyArray, theta: Array, linear: bool) -> Array | None:
    """The solution with the positive class where f is; None if that differs between pieces."""
    V, L = _parts(theta, on.shape[1], equations.hyperplanes.shape[1], linear)
    across = np.sum((on @ V + L) * equations.hyperplanes, axis=1)
    sign = np.sign(across[0])
    return theta * sign if (sign * across > NOT_ZERO).all() else None


def _errors(sizes: Array, rows: Array, V: Array, left: float) -> Array:
    """Standard errors of the units, relatively, where equations are off by so much each."""
    spread = left * rows[:-1] / np.maximum(sizes[:-1], 1e-300)[:, None]
    each = np.sum(spread**2, axis=0)[: V.size].reshape(V.shape)
    return np.asarray(np.sqrt(each.sum(axis=1)) / np.linalg.norm(V, axis=1))


# ---------------------------------------------------------------- units met once


def without_linear_term(equations: Equations, sides: AnyArray) -> list[UnitSum]:
    """All sums without a linear term that explain the pieces; `sides` are (pieces, units)."""
    units = sides.shape[1]
    if units > MOST_SIDES_TRIED:
        return []
    found = []
    for flips in product((False, True), repeat=units):
        candidate = fitted(equations, sides ^ np.array(flips, dtype=bool), linear=False)
        if candidate is not None and candidate.explains and _is_on_where_said(equations, candidate):
            found.append(candidate)
    return found


def with_free_scales(equations: Equations, sides: AnyArray) -> UnitSum | None:
    """A sum with a linear term that has these pieces, one of many, each as steep as can be alike.

    Of all solutions the one whose slopes across the pieces are nearest to 1.
    """
    P, D = equations.hyperplanes.shape
    units = sides.shape[1]
    _, sizes, rows = np.linalg.svd(_matrix(equations, sides, linear=True), full_matrices=False)
    free = rows[-1 - _open(sizes) :]
    parts = [_parts(theta, units, D, linear=True) for theta in free]
    across = [np.sum((sides @ V + L) * equations.hyperplanes, axis=1) for V, L in parts]
    theta = np.linalg.lstsq(np.array(across).T, np.ones(P), rcond=None)[0] @ free
    V, L = _parts(theta, units, D, linear=True)
    steep = np.sum((sides @ V + L) * equations.hyperplanes, axis=1)
    left = float(sizes[-1 - _open(sizes)] / sizes[0])
    found = UnitSum(V, L, sides, np.full(units, np.inf), left, _open(sizes))
    fits = left <= EXPLAINED and (steep > NOT_ZERO).all() and _is_on_where_said(equations, found)
    return found if fits else None


def _is_on_where_said(equations: Equations, found: UnitSum) -> bool:
    """Whether every unit switches between the pieces where it is on and the others."""
    z = np.sign(equations.places @ found.V.T) * np.where(found.on, 1.0, -1.0)
    return bool((z == z[0]).all() and (z != 0).all())
