"""How far sampling turns directions that come from orders 2 and 4 (GP19, 2.1 and B.4).

With `N = T_2 / u_2` and `t = T_4 / u_4`, both objectives are

    a sum_{j != k} t(z_j, z_j, z_k, z_k) - b sum_j t(z_j, z_j, z_j, z_j)
      + p sum_j (N(z_j, z_j) - 1)^2 + D sum_{j != k} N(z_j, z_k)^2

(one by one: a = D = 0), with minima `z_j . w_k = [j = k] / sqrt(c_k)`. Errors F of N and E of t
move row j by A_jm along z_m. The derivative of the objective in A_jm is zero again where, to first
order and with `l_j = t_j / c_j^2` (1 / c_j without products),

    (a l_m + b l_j + D) A_jm + D A_mj
        = b E(j,j,j,m) - a sum_{k != j} E(j,m,k,k) - (b l_j + D) F(j,m),

E(j, ..) being E at z_j, ..; two equations a pair. Units are the rows of `Z^{-T}`, so unit i moves
by `- sum_j A_ji sqrt(c_j / c_i) w_j`. Out of the span of the units only `T_2` turns it:
`T_2^+ w_i = p_i / (u_2 c_i)`, p_i the dual vector, so by `F p_i / c_i`.

F and E are means over samples of `r S_2(x) / u_2` and `r S_4(x) / u_4` (S_k the Hermite tensors, r
the label less what lower orders explain, or the weight of a sample kept by its label:
`moments.shares`). So unit i moves by a mean over samples too, and the mean
of that term's square over n is its variance. Labels that fire go with large S_4: the two must not
be taken for independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from provenet.common.typing import Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation
from provenet.landscape.constants import Constants
from provenet.lowest_layer.tolerances import PRODUCTS_STAND_OUT, ROWS_OF_PAIRS, SMALLEST_COEFFICIENT
from provenet.moments.hermite import MomentRequest, Moments, Terms, moment_terms
from provenet.moments.subspace import Span


@dataclass(frozen=True)
class Sensitivity:
    """How units answer to one sample: all that the terms of the sum above need."""

    W: Array
    """Unit rows, in the coordinates of the span."""
    Z: Array
    """The minima: dual to W, over `sqrt(c)`."""
    c: Array
    """Coefficients of the units in N."""
    ratio: Array
    """l, of t over those of N squared."""
    u: tuple[float, float]
    """Hermite coefficients u_2 and u_4 of a unit."""
    weights: Constants
    """a, b and D."""

    @classmethod
    def of(
        cls, moments: Moments, W: Array, u: tuple[float, float], weights: Constants
    ) -> Sensitivity:
        """At the units that were found."""
        c, t = (
            _positive(moments.symmetric[k].coefficients(W) / u_k)
            for k, u_k in zip((2, 4), u, strict=True)
        )
        dual = np.linalg.pinv(W).T
        return cls(W, dual / np.sqrt(c)[:, None], c, t / c**2, u, weights)

    def moves(self, x: Array, r_2: Array, r_4: Array) -> Array:
        """(n, i, j): the part of w_j by which each sample moves unit i; inputs in the span."""
        F, cubes, pairs = _errors(x @ self.Z.T, self.Z @ self.Z.T)
        E = (r_4 / self.u[1])[:, None, None]
        return self._answer((r_2 / self.u[0])[:, None, None] * F, E * cubes, E * pairs)

    def turned_by_products(self, moments: Moments, U: Array) -> Array:
        """Radians by which products of two units in the top turn each (Lemma 2), to first order.

        A product `c_ij X_i X_j` adds `c_ij U_1 U_2` to `T_3` at the duals (i, i, j) and (i, j, j),
        where single units add nothing: there c_ij shows. It adds `c_ij U_1^2` to `T_2` at (i, j)
        and `c_ij U_1 U_3` to `T_4` at (i, i, i, j), as far as units are nearly orthogonal; `U_k =
        E[u He_k]`. What is within `PRODUCTS_STAND_OUT` sampling errors of zero is not counted.
        """
        Z, root, squares = self.Z, np.sqrt(self.c), np.sum(self.Z**2, axis=1)
        thirds = np.einsum("abc,ia,ib,jc->ij", moments.tensors[3], Z, Z, Z, optimize=True)
        # S_3(i, i, j) has the variance 2 |z_i|^4 |z_j|^2, for labels without inputs.
        noise = moments.errors[3] * np.sqrt(2 * np.outer(squares**2, squares))
        seen, noise = (A * np.outer(self.c, root) for A in (thirds, noise))
        seen, noise = (seen + seen.T) / 2, np.hypot(noise, noise.T) / 2
        clear = np.sign(seen) * np.maximum(np.abs(seen) - PRODUCTS_STAND_OUT * noise, 0.0)
        product = clear / (U[1] * U[2])
        F = product * U[1] ** 2 / np.outer(root, root) / self.u[0]
        cubes = product * U[1] * U[3] / np.outer(root**3, root) / self.u[1]
        moves = self._answer(F[None], cubes[None], (cubes + cubes.T)[None])[0] @ self.W
        moves -= np.sum(moves * self.W, axis=1, keepdims=True) * self.W
        return np.asarray(np.minimum(np.linalg.norm(moves, axis=1), np.pi / 2))

    def _answer(self, F: Array, cubes: Array, pairs: Array) -> Array:
        """Moves by errors F of N, and E(j, j, j, m) and `sum_k E(j, m, k, k)` of t."""
        a, b, D = self.weights.interference, self.weights.attraction, self.weights.decorrelation
        own, other = b * self.ratio[:, None], a * self.ratio[None, :]
        R = b * cubes - a * (pairs - cubes) - (own + D) * F
        M = own + other + D
        A = (M.T * R - D * R.transpose(0, 2, 1)) / (M * M.T - D**2)
        scale = np.sqrt(self.c[None, :] / self.c[:, None])
        moves = -A.transpose(0, 2, 1) * scale
        moves[:, range(len(self.c)), range(len(self.c))] = 0.0
        return np.asarray(moves)


def _positive(c: Array) -> Array:
    """Coefficients that are, as the objectives need them; those that are not tell nothing."""
    return np.asarray(np.maximum(c, SMALLEST_COEFFICIENT * np.abs(c).max()))


def _errors(u: Array, G: Array) -> tuple[Array, Array, Array]:
    """For `u = Z x`, `G = Z Z^T`: `S_2(j, m)`, `S_4(j, j, j, m)` and `sum_k S_4(j, m, k, k)`."""
    uu, q = u[:, :, None] * u[:, None, :], np.sum(u**2, axis=1)[:, None, None]
    own = np.diag(G)[:, None]
    squares = (u**2)[:, :, None]
    cubes = uu * squares - 3 * own * uu - 3 * G * squares + 3 * own * G
    mixed = u[:, :, None] * (u @ G)[:, None, :]
    pairs = (uu - G) * (q - np.trace(G)) - 2 * (mixed + mixed.transpose(0, 2, 1)) + 2 * G @ G
    return uu - G, cubes, pairs


@dataclass(frozen=True)
class SquaredMoves(Sums):
    """Sums over samples of the squared length by which each moves each unit."""

    n: int
    squares: Array

    @classmethod
    def of(cls, second: Terms, fourth: Terms, at: Sensitivity, X: Array, y: Array) -> SquaredMoves:
        """One block of samples."""
        full, r_2 = second(X, y)
        x, r_4 = fourth(X, y)
        moves = at.moves(x, r_2, r_4) @ at.W
        moves -= np.einsum("nid,id->ni", moves, at.W)[:, :, None] * at.W
        outside = np.maximum(np.sum(full**2, axis=1) - np.sum(x**2, axis=1), 0.0)
        turn = (r_2 / at.u[0])[:, None] * (x @ at.Z.T) / np.sqrt(at.c)
        squares = np.sum(moves**2, axis=2) + outside[:, None] * turn**2
        return cls(len(r_2), squares.sum(axis=0))


def sampling_angles(
    source: Source, standardisation: Standardisation, span: Span, at: Sensitivity
) -> Array:
    """Radians, one standard error, by which sampling turns each unit."""
    if source.population is not None:
        return np.zeros(len(at.W))
    second = moment_terms(source, MomentRequest(standardisation, 2))
    inside = MomentRequest(standardisation, 4, span.basis, span.quadratic)
    fourth = moment_terms(source, inside)
    total = source.total(partial(SquaredMoves.of, second, fourth, at), ROWS_OF_PAIRS)
    lengths = np.sqrt(total.squares) / total.n
    return np.asarray(np.minimum(lengths, np.pi / 2))
