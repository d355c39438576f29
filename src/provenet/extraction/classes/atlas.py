"""All pieces of the boundary that were met, and which of them meet at a bend."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.classes.bends import Bends
from provenet.extraction.classes.pieces import BoundaryPiece, NormalSpan, measured, on_boundary
from provenet.extraction.classes.sides import Sides
from provenet.extraction.classes.tolerances import (
    ASIDE,
    FIRST_STEP,
    ON_PIECE,
    PIECES_A_WALK,
    SAME_PIECE,
)
from provenet.extraction.classes.walks import Ray, next_ray, room_of, settled_on


class Atlas:
    """Pieces, numbered as they are met."""

    def __init__(self, sides: Sides, rng: np.random.Generator) -> None:
        """Nothing was met."""
        self.sides, self.rng = sides, rng
        self.span = NormalSpan(sides.features)
        self.pieces: list[BoundaryPiece] = []
        self.pairs: set[tuple[int, int]] = set()
        self.bent = 0
        """How often the boundary was not straight where it was measured."""

    @property
    def hyperplanes(self) -> Array:
        """(pieces, dimensions + 1), rows of norm 1, in coordinates of the span."""
        N = np.array([np.append(self.span.rows @ p.normal, p.offset) for p in self.pieces])
        return np.asarray(N / np.linalg.norm(N, axis=1)[:, None])

    def beside(self, side: float) -> Array:
        """A point next to each piece, on the positive side of it or on the other."""
        return np.array(
            [piece.x + side * ASIDE * piece.step * piece.normal for piece in self.pieces]
        )

    def places(self, side: float) -> Array:
        """The same in coordinates of the span, and 1."""
        X = self.beside(side)
        return np.column_stack([X @ self.span.rows.T, np.ones(len(X))])

    @property
    def errors(self) -> Array:
        """How well each piece is known."""
        return np.array([piece.error for piece in self.pieces])

    @property
    def bends(self) -> Bends:
        """The pairs of pieces that meet."""
        pairs: AnyArray = np.array(sorted(self.pairs), dtype=int).reshape(-1, 2)
        return Bends(self.hyperplanes, pairs)

    def explore(self, x: Array, v: Array) -> None:
        """From a point of the boundary, which v crosses, both ways along a random line."""
        first = self._piece_at(x, v, FIRST_STEP, None)
        if first is None:
            return
        t = self._tangent(first)
        for direction in (t, -t):
            self._walk(first, direction)

    def _tangent(self, number: int) -> Array:
        """A random direction along a piece, in which units change as far as that is known."""
        t = self.rng.standard_normal(self.sides.features)
        if len(self.span.rows) > 1:
            t = t - self.span.outside(t)
        n = self.pieces[number].normal
        t = t - (t @ n) * n
        return np.asarray(t / np.linalg.norm(t))

    def _walk(self, number: int, t: Array) -> None:
        for _ in range(PIECES_A_WALK):
            piece = self.pieces[number]
            ray = next_ray(self.sides, Ray(piece.x, t, piece.normal))
            if ray is None:
                return
            following = self._piece_on(ray)
            if following is None or following == number:
                return
            self.pairs.add((min(number, following), max(number, following)))
            number, t = following, ray.t

    def _piece_on(self, ray: Ray) -> int | None:
        """The piece that a ray is on, by its number."""
        room, step = room_of(self.sides, ray)
        x = settled_on(self.sides, ray.at(room), ray.n)
        if x is None:
            return None
        number = self._piece_at(x, ray.n, step, ray)
        if number is None or not _holds(self.pieces[number], ray):
            return None
        return number

    def _piece_at(self, x: Array, v: Array, step: float, ray: Ray | None) -> int | None:
        known = self._recognised(x, v, step, ray)
        if known is not None:
            return known
        piece = measured(self.sides, x, v, step, self.span, self.rng)
        if piece is None:
            self.bent += 1
            return None
        self.span.add(piece.normal, piece.error)
        return self._number_of(piece)

    def _recognised(self, x: Array, v: Array, step: float, ray: Ray | None) -> int | None:
        """A piece known before, if the boundary about x is its hyperplane."""
        if not self.pieces:
            return None
        normals = np.array([piece.normal for piece in self.pieces])
        off = np.abs([piece.normal @ (x - piece.x) for piece in self.pieces])
        passes = (off <= ON_PIECE * (1 + np.abs(x).max())) & (normals @ v > 0)
        if ray is not None:
            passes &= np.abs(normals @ ray.t) <= ON_PIECE
        for number in np.flatnonzero(passes):
            t = self._tangent(int(number))
            moved = x + step * np.array([t, -t])
            allowed = ON_PIECE * step + 4 * self.sides.resolution(x)
            if on_boundary(self.sides, moved, normals[number], allowed).all():
                return int(number)
        return None

    def _number_of(self, piece: BoundaryPiece) -> int:
        """Of the same hyperplane as before, or a new number."""
        N = np.append(piece.normal, piece.offset)
        for number, other in enumerate(self.pieces):
            apart = np.abs(N - np.append(other.normal, other.offset)).max()
            if apart < SAME_PIECE * (1 + abs(piece.offset)):
                if piece.error < other.error:
                    self.pieces[number] = piece
                return number
        self.pieces.append(piece)
        return len(self.pieces) - 1


def _holds(piece: BoundaryPiece, ray: Ray) -> bool:
    """Whether a ray starts on the piece that was met further on."""
    off = abs(piece.normal @ (ray.x - piece.x))
    return bool(off <= ON_PIECE * (np.linalg.norm(ray.x - piece.x) + 1))
