"""A deterministic second-order method that leaves saddles by negative curvature.

Trust-region Newton with truncated conjugate gradients (Steihaug): only products with the Hessian
are needed, and a direction of negative curvature met on the way is followed to the edge of the
region. Where the slope vanishes, the smallest eigenvalue of the Hessian (Lanczos) tells a saddle
from a minimum, and its eigenvector leads away. So the method ends at points that satisfy the
second-order condition of GLM17 (Theorem 2.3.3), not merely where the slope is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.data.passes import working_time
from provenet.landscape.objective import Objective
from provenet.landscape.second_order import smallest_eigenvalue
from provenet.landscape.tolerances import (
    ACCEPT,
    AT_THE_EDGE,
    FIRST_RADIUS,
    FLAT_VALUE,
    GOOD,
    LEAST_WAY_OUT,
    NEWTON_PRODUCTS,
    NO_RADIUS,
    POOR,
    RADIUS_AFTER_SADDLE,
    RECENT_VALUES,
    SHARE_OF_CURVATURE,
    TINY,
)

_FLAT_STEPS = 5
"""Such steps after which the slope is as small as rounding lets it be."""


@dataclass(frozen=True)
class Step:
    """One step of a descent, as it was left."""

    kind: str
    """"start", "newton", "saddle" (led away along negative curvature) or "stochastic"."""
    value: float
    slope: float
    """Norm of the gradient (along the spheres, where rows have norm 1)."""
    samples: int = 0
    """Fresh samples used so far; 0 for an objective that needs none."""


@dataclass(frozen=True)
class Descent:
    """Where a descent ended, how it got there, and whether it came to rest."""

    B: Array
    path: tuple[Step, ...]
    steps: int
    """How many steps were made; a stochastic path records only some of them."""
    converged: bool
    ran_away: bool = False
    """Whether it was stopped because the objective falls without end."""

    @property
    def saddles(self) -> int:
        """How many times the descent came to rest at a saddle and was led away."""
        return sum(step.kind == "saddle" for step in self.path)


def minimise(
    objective: Objective,
    start: Array,
    *,
    slope: float,
    curvature: float,
    iterations: int = 1000,
    deadline: float = np.inf,
    watch: Callable[[Array], None] | None = None,
) -> Descent:
    """Descend until the norm of the gradient is at most `slope` and no eigenvalue < -`curvature`.

    Where rounding does not let the gradient become as small, the descent ends where it is smallest.
    `watch` is called with every point of the path.
    """
    B = objective.retract(np.asarray(start, dtype=float))
    value, radius = objective.value(B), FIRST_RADIUS * np.sqrt(len(B))
    path: list[Step] = []
    kind, flat = "start", 0
    for _ in range(max(iterations, 1)):
        gradient = objective.gradient(B)
        g = objective.tangent(B, gradient)
        path.append(Step(kind, value, float(np.linalg.norm(g))))
        if watch is not None:
            watch(B)
        if path[-1].slope <= slope or flat >= _FLAT_STEPS:
            lowest, V = smallest_eigenvalue(objective, B, gradient)
            way_out = None if lowest >= -curvature else _way_out(objective, B, V, lowest, value)
            if way_out is None:
                return Descent(B, tuple(path), len(path) - 1, lowest >= -curvature)
            kind, flat, (B, value) = "saddle", 0, way_out
            radius = max(radius, RADIUS_AFTER_SADDLE * np.sqrt(len(B)))
            continue
        if working_time() > deadline:
            break
        kind = "newton"
        move, model = _truncated_newton(objective, B, gradient, g, radius)
        trial = objective.retract(B + move)
        reached = objective.value(trial)
        ratio = (value - reached) / max(model, TINY)
        recent = max(abs(step.value) for step in path[-RECENT_VALUES:])
        if abs(value - reached) <= FLAT_VALUE * max(recent, objective.magnitude):
            ratio, flat = 1.0, flat + 1  # the value resolves no more: the model judges better
        size = float(np.linalg.norm(move))
        if ratio > GOOD and size > AT_THE_EDGE * radius:
            radius *= 2.0
        elif ratio < POOR:
            radius = 0.25 * size
        if ratio > ACCEPT:
            B, value = trial, reached
        elif radius < NO_RADIUS:
            break
    return Descent(B, tuple(path), len(path) - 1, converged=False)


def _truncated_newton(
    objective: Objective, B: Array, gradient: Array, g: Array, radius: float
) -> tuple[Array, float]:
    """A step within the region, and by how much the quadratic model says it descends."""
    s, r = np.zeros_like(B), g.copy()
    p, rr = -r, float(np.sum(g * g))
    enough = min(0.1, rr**0.25) * np.sqrt(rr)
    Hs = np.zeros_like(B)
    for _ in range(NEWTON_PRODUCTS):
        Hp = objective.curvature(B, p, gradient)
        bend = float(np.sum(p * Hp))
        along = rr / bend if bend > 0 else np.inf
        if bend <= 0 or np.linalg.norm(s + along * p) >= radius:
            tau = _to_edge(s, p, radius)
            s, Hs = s + tau * p, Hs + tau * Hp
            break
        s, Hs, r = s + along * p, Hs + along * Hp, r + along * Hp
        new = float(np.sum(r * r))
        if np.sqrt(new) <= enough:
            break
        p, rr = -r + new / rr * p, new
    return s, -float(np.sum(g * s) + 0.5 * np.sum(s * Hs))


def _to_edge(s: Array, p: Array, radius: float) -> float:
    """The t >= 0 with `|s + t p| = radius`."""
    pp, sp = float(np.sum(p * p)), float(np.sum(s * p))
    gap = radius**2 - float(np.sum(s * s))
    return (-sp + float(np.sqrt(max(sp**2 + pp * gap, 0.0)))) / pp


def _way_out(
    objective: Objective, B: Array, V: Array, lowest: float, value: float
) -> tuple[Array, float] | None:
    """A lower point along a direction of negative curvature and its value, if there is one."""
    t = 0.5
    while t > LEAST_WAY_OUT:
        for sign in (1.0, -1.0):
            trial = objective.retract(B + sign * t * V)
            reached = objective.value(trial)
            if reached < value + SHARE_OF_CURVATURE * t**2 * lowest:
                return trial, reached
        t *= 0.5
    return None
