"""Cells of the known layers, and lines through them.

In a cell h is linear in u. It is clean where the units that are on are independent of each other:
there a kink tells a row in all their columns. The more units are on the more it tells, so lines are
sent where most are: by random points, from which h is pushed up (`climbed`), and by linear programs
to the far corners of the cell that is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.tolerances import (
    CELL_SIZE,
    CELL_STARTS,
    CLIMB_STEPS,
    CLIMBED,
    DESCENT_LENGTHS,
    DESCENT_STEPS,
    FEW_UP,
    INNER,
    NEARLY_A_CORNER,
    RANK,
    SCALES,
)
from provenet.extraction.tolerances import (
    TINIEST,
)


@dataclass(frozen=True)
class CleanCell:
    """Where `h = J u + c`: the points with `M u + m > 0`; V are orthonormal rows that span J's."""

    J: Array
    c: Array
    M: Array
    m: Array
    V: Array
    on: AnyArray

    @classmethod
    def of(cls, known: KnownLayers, u: Array) -> CleanCell | None:
        """The cell of a point; None if it is not clean."""
        pattern = [on[0] for on in known.patterns(u[None])]
        J, c, M, m = known.affine(pattern)
        on = pattern[-1]
        if not 0 < on.sum() <= known.coordinates:
            return None
        _, size, V = np.linalg.svd(J[on], full_matrices=False)
        return cls(J, c, M, m, V, on) if size[-1] > RANK * size[0] else None

    def corners(self, centre: Array, number: int, rng: np.random.Generator) -> list[Array]:
        """Far points of the cell in random directions of h, all a little inside; none if tiny."""
        reach = CELL_SIZE * (1 + float(np.linalg.norm(centre)))
        program = _Program(self, centre, reach)
        middle = program.middle()
        if middle is None:
            return []
        width = int(self.on.sum())
        pushes = rng.choice([-1.0, 1.0], (number, width)) * rng.exponential(size=(number, width))
        found = []
        for push in np.vstack([np.eye(width) * 2 - 1 / np.sqrt(width), pushes]):
            corner = program.corner(push @ self.J[self.on])
            if corner is not None:
                found.append(NEARLY_A_CORNER * corner + (1 - NEARLY_A_CORNER) * middle)
        return found


@dataclass(frozen=True)
class _Program:
    """Linear programs in the coordinates s of `u = centre + V^T s`, |s| bounded."""

    cell: CleanCell
    centre: Array
    reach: float

    @property
    def _sides(self) -> tuple[Array, Array]:
        A = self.cell.M @ self.cell.V.T
        b = self.cell.M @ self.centre + self.cell.m
        real = np.linalg.norm(A, axis=1) > RANK * (1 + np.abs(b))
        return A[real], b[real]

    def middle(self) -> Array | None:
        """The centre of the largest ball; None if the cell hardly has one."""
        A, b = self._sides
        norms, k = np.linalg.norm(A, axis=1), A.shape[1]
        got = linprog(
            np.append(np.zeros(k), -1.0),
            A_ub=np.column_stack([-A, norms]),
            b_ub=b,
            bounds=[*[(-self.reach, self.reach)] * k, (0.0, self.reach / 10)],
        )
        if got.status or got.x[-1] < INNER:
            return None
        return np.asarray(self.centre + got.x[:k] @ self.cell.V)

    def corner(self, push: Array) -> Array | None:
        """The point farthest in a direction."""
        A, b = self._sides
        got = linprog(-push @ self.cell.V.T, A_ub=-A, b_ub=b, bounds=(-self.reach, self.reach))
        return None if got.status else np.asarray(self.centre + got.x @ self.cell.V)


def rich_places(
    known: KnownLayers,
    number: int,
    rng: np.random.Generator,
    inside: Callable[[Array], Array] = np.asarray,
) -> Array:
    """Points in different clean cells, those with the most units on first; moved `inside` a box."""
    U = np.vstack([s * rng.standard_normal((CELL_STARTS, known.coordinates)) for s in SCALES])
    U = inside(np.vstack([U, climbed(known, U[:CLIMBED], rng)]))
    on = known.patterns(U)[-1]
    state = known.state(U)
    seen, chosen = set(), list[int]()
    order = np.lexsort([-state.room, -on.sum(axis=1)])
    for i in order:
        key = on[i].tobytes()
        if key in seen or state.room[i] < INNER or not on[i].any():
            continue
        seen.add(key)
        if on[i].sum() > known.coordinates:
            continue
        size = np.linalg.svd(state.J[i][on[i]], compute_uv=False)
        if size[-1] > RANK * size[0]:
            chosen.append(int(i))
        if len(chosen) == number:
            break
    return U[chosen]


def climbed(known: KnownLayers, U: Array, rng: np.random.Generator) -> Array:
    """Points from which units of the last layer were switched on, as many as can be."""
    if not known.layers:
        return U
    below = known.below(len(known.layers) - 1)
    top, best = known.layers[-1], U.copy()
    count = (known.h(U) > 0).sum(axis=1)
    wanted = rng.exponential(size=(len(U), len(top.W)))
    for _ in range(CLIMB_STEPS):
        state = below.state(U)
        z = state.h @ top.W.T + top.b
        if (z > 0).all():
            break
        slopes = top.W @ state.J
        up = np.where(z < wanted, wanted - z, 0.0)
        gram = slopes @ slopes.transpose(0, 2, 1)
        damping = RANK * np.trace(gram, axis1=1, axis2=2) + TINIEST
        gram += damping[:, None, None] * np.eye(len(top.W))
        push = np.einsum("nij,ni->nj", slopes, np.linalg.solve(gram, up[:, :, None])[:, :, 0])
        length = np.linalg.norm(push, axis=1, keepdims=True)
        U = U + push * np.minimum(1.0, 3.0 / (length + 1e-300))
        now = (known.h(U) > 0).sum(axis=1)
        better = now > count
        best[better], count[better] = U[better], now[better]
    return best


def descended(known: KnownLayers, U: Array, R: Array, steps: int = DESCENT_STEPS) -> Array:
    """Points down the slopes of R.h, a row of R each, by steps that grow."""
    for step in DESCENT_LENGTHS[:steps]:
        g = np.einsum("nk,nkd->nd", R, known.state(U).J)
        U = U - step * g / (np.linalg.norm(g, axis=1, keepdims=True) + TINIEST)
    return U


def random_sums(n: int, units: int, rng: np.random.Generator) -> Array:
    """Random rows: every second one of any signs, the others positive in most columns.

    Since h is not negative, a unit that is seldom on has few positive weights: it is on where a sum
    of the others is least.
    """
    R = rng.standard_normal((n, units))
    few = rng.random((len(R[::2]), units)) < FEW_UP
    R[::2] = np.abs(R[::2]) * np.where(few, -1.0, 1.0)
    return R
