"""Along a piece of the boundary until it bends, and round the bend to the next piece.

A walk goes straight on its piece, in a direction t. The piece has ended where the boundary is no
longer on its hyperplane. About that point, in the plane of t and the normal n, there are two
pieces, so a small circle meets the boundary twice: behind, in the direction -t, and in the one that
is looked for, by bisection over the angle. However sharply the boundary folds, it is found. A
second circle gives a second point, and both the line on which the walk goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.classes.bisection import heights
from provenet.extraction.classes.pieces import on_boundary
from provenet.extraction.classes.sides import Sides
from provenet.extraction.classes.tolerances import (
    CIRCLE,
    CIRCLES,
    FIRST_WAY,
    FOLDED,
    INNER,
    LAST_BITS,
    LOCATED,
    LONGER_WAY,
    LONGEST_STEP,
    MEETS,
    MIDDLE_OF,
    OF_THE_WAY,
    ON_PIECE,
    OPEN_END,
    SAME_ANGLE,
    SHORTEST_WAY,
    SMALLER_CIRCLE,
    STEP_OF_PIECE,
)


@dataclass(frozen=True)
class Ray:
    """A line on a piece, and a normal of that: the boundary passes `x + s t` for small s."""

    x: Array
    t: Array
    n: Array

    def at(self, s: float) -> Array:
        """The point so far along."""
        return np.asarray(self.x + s * self.t)


@dataclass(frozen=True)
class _End:
    """How far a ray is on its piece, and where it no longer is; infinite if it does not end."""

    inside: float
    outside: float


def next_ray(sides: Sides, ray: Ray) -> Ray | None:
    """Along a ray to where its piece bends, and the ray of the next piece; None without a bend."""
    end = _end_of(sides, ray)
    met = SHORTEST_WAY < end.outside < np.inf
    return _round_the_bend(sides, ray, end) if met else None


def room_of(sides: Sides, ray: Ray) -> tuple[float, float]:
    """Where on a ray its piece is best measured, and by steps of what length."""
    end = _end_of(sides, ray)
    length = end.inside if np.isfinite(end.outside) else min(end.inside, 2 * OPEN_END)
    return MIDDLE_OF * length, float(np.clip(STEP_OF_PIECE * length, FIRST_WAY, LONGEST_STEP))


def settled_on(sides: Sides, x: Array, n: Array) -> Array | None:
    """The point of the boundary next to one that is nearly on it."""
    h = heights(sides, x[None], n, np.full(1, 16 * sides.resolution(x)))[0]
    return None if np.isnan(h) else np.asarray(x + h * n)


def _end_of(sides: Sides, ray: Ray) -> _End:
    """Where the boundary leaves the ray."""
    reach = sides.reach(ray.x, ray.t)
    inside, outside = 0.0, min(FIRST_WAY, reach)
    while outside < reach and _on(sides, ray, outside):
        inside, outside = outside, min(LONGER_WAY * outside, reach)
    if outside >= reach and (reach == 0 or _on(sides, ray, (1 - LOCATED) * reach)):
        return _End((1 - LOCATED) * reach, np.inf)
    while outside - inside > LOCATED * outside and outside > SHORTEST_WAY:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if _on(sides, ray, middle) else (inside, middle)
    return _End(inside, outside)


def _on(sides: Sides, ray: Ray, s: float) -> bool:
    x = ray.at(s)
    allowed = ON_PIECE * s + 16 * sides.resolution(x)
    return bool(on_boundary(sides, x[None], ray.n, allowed)[0])


def _round_the_bend(sides: Sides, ray: Ray, end: _End) -> Ray | None:
    """The line of the next piece, from a point of it."""
    bend = (end.inside + end.outside) / 2
    radius = min(CIRCLE, OF_THE_WAY * bend)
    for _ in range(CIRCLES):
        onward = _next_line(sides, ray, bend, radius)
        if onward is not None:
            return onward
        radius *= SMALLER_CIRCLE
    return None


def _next_line(sides: Sides, ray: Ray, bend: float, radius: float) -> Ray | None:
    """By two circles about the bend; None where they do not show one line from it."""
    centre = ray.at(bend)
    outer = _angle(sides, ray, centre, radius, np.pi - FOLDED, 0.0)
    if outer is None:
        return None
    inner = _angle(sides, ray, centre, INNER * radius, SAME_ANGLE, outer)
    if inner is None:
        return None
    p, q = _on_circle(inner, INNER * radius), _on_circle(outer, radius)
    t = (q - p) / np.linalg.norm(q - p)
    if abs(p[0] * t[1] - p[1] * t[0]) > MEETS * INNER * radius:
        return None
    plane = np.array([ray.t, ray.n])
    return Ray(centre + q @ plane, t @ plane, np.array([-t[1], t[0]]) @ plane)


def _on_circle(angle: float, radius: float) -> Array:
    return radius * np.array([np.cos(angle), np.sin(angle)])


def _angle(
    sides: Sides, ray: Ray, centre: Array, radius: float, width: float, guess: float
) -> float | None:
    """Where a circle meets the boundary, negative below that angle and positive above."""
    plane = np.array([ray.t, ray.n])

    def side(angle: float) -> int:
        return int(sides((centre + _on_circle(angle, radius) @ plane)[None])[0])

    low, high = guess - width, guess + width
    if side(low) != -1 or side(high) != 1:
        return None
    while high - low > max(sides.resolution(centre) / radius, LAST_BITS * np.pi):
        middle = (low + high) / 2
        low, high = (low, middle) if side(middle) > 0 else (middle, high)
    return (low + high) / 2
