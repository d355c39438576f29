"""Units from their Hermite moments: directions, then output weights and biases.

    T_k = sum_i zeta_k(i) w_i^(x)k,    zeta_k = (-1)^k a phi(b) He_{k-2}(b)   (ReLU, k >= 2)

- `jennrich`: directions from one tensor (ATV21, Claim 4.4 and Theorem A.5).
- `unit_directions`: from two neighbouring orders with noise (Algorithm 4, steps 1 to 4).
- `power_directions`: from T_2 to T_4 together, one unit after the other; degrades least with units.
- `recover_scalars`: output weights and biases, directions known (Algorithm 2).
- `fit_moments`: all at once by least squares, from any of these as the start.

Directions come up to sign: (w, b) and (-w, -b) have the same moments of order 2 and up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
from scipy.optimize import minimize

from provenet.common.typing import Array
from provenet.moments.symmetric import (
    Contractions,
    SymmetricTensor,
    nearest_direction,
    term_coefficients,
)
from provenet.networks.activations import Activation
from provenet.networks.hermite import he, normal_density

# ---------------------------------------------------------------- Jennrich


def jennrich(T: Array, rank: int, rng: np.random.Generator, draws: int = 100) -> Array:
    """Unit vectors u_i (rows) of the rank-one terms of T, shape (d, d, q), symmetric in two modes.

    For `T = sum_i alpha_i u_i (x) u_i (x) x_i` with independent u_i, two random contractions of the
    last mode are `M = U D U^T` and `M' = U D' U^T`: the u_i are the eigenvectors of `M M'^+` that
    have non-zero eigenvalues, and the eigenvalues `D_i / D'_i` are distinct with probability one
    (Harshman 1970).

    Of several random pairs the one with the best separated real eigenvalues is used. When noise
    makes eigenvalues complex the real parts of the eigenvectors are returned.
    """
    if rank == 0:
        return np.empty((0, T.shape[0]))
    left, _, _ = np.linalg.svd(T.reshape(len(T), -1), full_matrices=False)
    basis = left[:, :rank]
    core = np.einsum("ia,ijk,jb->abk", basis, T, basis, optimize=True)
    best_gap, best = -1.0, np.zeros((rank, rank))
    for _ in range(draws):
        x, y = rng.standard_normal((2, T.shape[2]))
        try:
            values, vectors = np.linalg.eig(np.linalg.solve((core @ y).T, (core @ x).T).T)
        except np.linalg.LinAlgError:
            continue
        gap = _separation(values)
        if gap > best_gap:
            best_gap, best = gap, vectors.real.T
    directions = best @ basis.T
    norms = np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions / np.where(norms == 0, 1.0, norms))


def _separation(values: Array) -> float:
    """Smallest relative distance between eigenvalues; zero when some are complex."""
    if np.abs(values.imag).max() > 1e-9 * np.abs(values).max():
        return 0.0
    if len(values) == 1:
        return 1.0
    real = np.sort(values.real)
    return float(np.diff(real).min() / max(np.abs(real).max(), np.finfo(float).tiny))


# ---------------------------------------------------------------- ATV21, Algorithm 4


@dataclass(frozen=True)
class _Terms:
    """Rank-one terms of a tensor: their directions, and how far each may be off (radians)."""

    rank: int
    directions: Array
    error: Array


def unit_directions(
    tensors: Sequence[SymmetricTensor],
    errors: Sequence[float],
    order: int,
    units: int | None,
    rng: np.random.Generator,
) -> tuple[Array, str]:
    """The directions in both tensors, weak terms and duplicates removed; what was seen, in words.

    `tensors` are `T_k` for k = 2 order + 1 and 2 order + 2, `errors` those of their entries.
    Flattened to (l, l, 1) and (l, l, 2) places, l the order, they have terms with the factors
    `w_i^(x)l`, independent for far more units than features; Jennrich finds them. A unit is missing
    from one of the two where `He_k-2(b_i)` vanishes, but not from both.
    """
    found = [_terms(T, e, order, units, rng) for T, e in zip(tensors, errors, strict=True)]
    W = np.vstack([terms.directions for terms in found])
    W = _without_duplicates(W, np.concatenate([terms.error for terms in found]))[:units]
    (low, high), (third, fourth) = (T.order for T in tensors), (terms.rank for terms in found)
    return W, (
        f"T_{low} has rank {third} and T_{high} rank {fourth} above the noise; {len(W)} directions "
        "are distinct."
    )


def _terms(
    T: SymmetricTensor, error: float, order: int, units: int | None, rng: np.random.Generator
) -> _Terms:
    """Jennrich on one tensor.

    The singular values that pure sampling error gives a flattening are the scale for everything:
    eta_1 (rank) and eta_2 (weak terms) equal it, and over a term's coefficient it is that term's
    angular error, from which eta_3 (duplicates) follows.
    """
    flat = T.flattened(order, order)
    rows = len(flat)
    values = np.linalg.svd(flat.reshape(rows, -1), compute_uv=False)
    # Isometric entries are as many as the full tensor's, in effect: their squares sum to the same.
    entry = error * np.sqrt(T.d**T.order / flat.size)
    edge = 1.5 * entry * (np.sqrt(rows) + np.sqrt(flat.size / rows))
    threshold = max(edge, 1e-10 * values[0])
    rank = int(np.sum(values > threshold))
    factors = jennrich(flat, min(rank, units or rank), rng)
    W = np.array([nearest_direction(u, T.d, order) for u in factors]).reshape(len(factors), T.d)
    alpha = np.abs(T.coefficients(W)) if len(W) else np.empty(0)
    strong = alpha > threshold
    return _Terms(rank, W[strong], threshold / alpha[strong])


def _without_duplicates(W: Array, error: Array) -> Array:
    """Keep a direction unless, up to sign, a surer one lies within the errors of the two."""
    kept: list[int] = []
    for i in np.argsort(error):
        distance = [1 - abs(W[i] @ W[j]) for j in kept]
        within = [max(error[i] + error[j], 1e-5) ** 2 / 2 for j in kept]
        if all(far > near for far, near in zip(distance, within, strict=True)):
            kept.append(int(i))
    return W[kept]


# ---------------------------------------------------------------- power iteration


def power_directions(
    T2: Array,
    T3: Array,
    T4: Array,
    rng: np.random.Generator,
    weights: tuple[float, float],
    starts: int = 50,
    steps: int = 60,
) -> Array:
    """As many unit directions (rows, up to sign) as `T_2` has rank (it must be regular).

    Write `s_i = <w_i, u>` for independent units w_i. The map `u <- T_2^-1 T_4(u, u, u, .)` acts on
    these coordinates as `s_i <- (b_i^2 - 1) s_i^3`, and `u <- T_2^-1 T_3(u, u, .)` as
    `s_i <- -b_i s_i^2` (ATV21, Lemma 3.5, with the factor `a_i phi(b_i)` divided out by `T_2`): a
    power method that converges cubically or quadratically to a u that sees one unit alone, for any
    signs of the a_i. Then `T_2 u` is parallel to that unit. Units already found are kept out by
    `<w_j, u> = 0`.

    `weights` say how far `T_3` and `T_4` are to be trusted (one over their errors). Half of the
    starts follow each map; the point that is most nearly a fixed point of both at once is kept, as
    a unit's is. An iterate that has not settled is a fixed point of neither, and one that settled
    on the error of a vanishing tensor is one of that map alone.
    """
    inverse = np.asarray(np.linalg.inv(T2), dtype=float)
    higher = Contractions(T3, T4)
    found = np.empty((0, len(T2)))
    for _ in range(len(T2)):
        outside = np.linalg.svd(found, full_matrices=True)[2][len(found) :]
        project = inverse @ outside.T @ outside
        U = rng.standard_normal((starts, len(outside))) @ outside
        for part, contract in ((U[::2], higher.third), (U[1::2], higher.fourth)):
            _iterate(part, project, contract, steps)
        along, across = np.zeros(starts), np.zeros(starts)
        for weight, T in zip(weights, (higher.third(U), higher.fourth(U)), strict=True):
            image = weight * T @ project
            size = np.einsum("sd,sd->s", image, U)
            along = np.hypot(along, size)
            across = np.hypot(across, np.linalg.norm(image - size[:, None] * U, axis=1))
        best = U[np.argmax(along / (across + 1e-9 * max(weights)))]
        found = np.vstack([found, _normalised(best @ T2)])
    return found


def _iterate(U: Array, project: Array, contract: Callable[[Array], Array], steps: int) -> None:
    """Move every start, in place, to where the power iteration of one order leads."""
    U[:] = _normalised(U)
    moving = np.arange(len(U))
    for _ in range(steps):
        before = U[moving]
        U[moving] = _normalised(contract(before) @ project)
        # 1.4e-5 radians: a cubic step from there ends at rounding.
        moving = moving[np.abs(np.einsum("sd,sd->s", U[moving], before)) < 1 - 1e-10]
        if len(moving) == 0:
            break


def _normalised(U: Array) -> Array:
    return np.asarray(U / (np.linalg.norm(U, axis=-1, keepdims=True) + np.finfo(float).tiny))


# ---------------------------------------------------------------- ATV21, Algorithm 2


def coefficients_of(T: Array, W: Array) -> Array:
    """Least-squares zeta with `T = sum_i zeta_i w_i^(x)j`, of a full tensor."""
    j = T.ndim
    along = T @ W.T
    for _ in range(1, j):
        along = np.einsum("...im,mi->...m", along, W)
    return term_coefficients(along, W, j)


def recover_scalars(tensors: tuple[Array, ...], W: Array, order: int = 1) -> tuple[Array, Array]:
    """`(a, b)` for the rows of W, from `T_2, T_3` (order 1) or `T_order .. T_order+3`."""
    return scalars_by(lambda j: coefficients_of(tensors[j], W), order)


def scalars_by(zeta: Callable[[int], Array], order: int) -> tuple[Array, Array]:
    """The same from `zeta_j` of all units as a function of j (RecoverScalars)."""
    if order > 1:
        return scalars_from_coefficients(np.array([zeta(order + j) for j in range(4)]), order)
    second, third = zeta(2), zeta(3)
    b = _bias(-third, second)
    return second / normal_density(b), b


def scalars_from_coefficients(zeta: Array, order: int) -> tuple[Array, Array]:
    """`(a, b)` from `zeta_j`, j = order .. order + 3 (rows), by the three-term recurrence.

    The recurrence of the Hermite polynomials gives b and then a (Lemma 4.5, with the index shifted
    by two as it must be: ERRATA, ATV21 6); of two neighbours the larger one divides.
    """
    units = np.arange(zeta.shape[1])
    row = 1 + np.argmax(np.abs(zeta[1:3]), axis=0)
    q = order + row
    below, here, above = (zeta[row + shift, units] for shift in (-1, 0, 1))
    b = _bias(-(above + (q - 2) * below), here)
    hermite = np.array([he(int(k) - 2, bias) for k, bias in zip(q, b, strict=True)])
    return (-1.0) ** q * here / (normal_density(b) * _away_from_zero(hermite)), b


def _bias(above: Array, below: Array) -> Array:
    """A quotient; beyond 8, phi(b) is below 1e-14, and noise over noise could give any bias."""
    return np.clip(above / _away_from_zero(below), -8.0, 8.0)


def _away_from_zero(x: Array) -> Array:
    return np.where(x == 0, 1e-300, x)


# ---------------------------------------------------------------- the fit in moment space


@dataclass(frozen=True)
class MomentFit:
    """Units (up to sign) in the coordinates of the moments, and the remaining risk."""

    a: Array
    b: Array
    W: Array
    risk: float


class MomentRisk:
    """The truncated population risk of a network, as a function of x = (a, b, W).

        F = sum_k 1/k! || T_k - sum_i a_i c_k(b_i) w_i^(x)k ||^2,   |w_i| = 1, k = 2, 3, 4

    With all orders this is E(f - g)^2 (ATV21, Proposition B.1; GLM17, Theorem 2.2 with the third
    order added), and 1/k! is also one over the variance that sampling gives `T_k`. Order 1 is left
    out, so that signs of units play no part. Rows of W may have any length: F sees directions.
    """

    def __init__(self, tensors: tuple[Array, ...], activation: Activation, units: int) -> None:
        """Of the moments `T_0 .. T_4` to fit."""
        self.activation, self.m, self.d = activation, units, len(tensors[2])
        self.T2, self.higher = tensors[2], Contractions(tensors[3], tensors[4])
        self.constant = sum(float(np.sum(tensors[k] ** 2)) / factorial(k) for k in (2, 3, 4))

    def _contractions(self, V: Array) -> list[tuple[int, Array]]:
        """`T_k(v, .., v, .)` for every row v."""
        return [(2, V @ self.T2), (3, self.higher.third(V)), (4, self.higher.fourth(V))]

    def best_output_weights(self, b: Array, V: Array) -> Array:
        """The a that minimises the risk at given units: a linear problem."""
        gram, rhs = np.zeros((len(b), len(b))), np.zeros(len(b))
        inner = V @ V.T
        for k, TV in self._contractions(V):
            c = self.activation.hermite(k, b)
            gram += np.outer(c, c) * inner**k / factorial(k)
            rhs += c * np.einsum("md,md->m", TV, V) / factorial(k)
        ridge = 1e-9 * np.trace(gram) * np.eye(len(b))  # output weights of parallel units
        return np.linalg.solve(gram + ridge, rhs)

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Value and gradient."""
        m = self.m
        a, b, W = x[:m], x[m : 2 * m], x[2 * m :].reshape(m, self.d)
        norm = np.linalg.norm(W, axis=1, keepdims=True)
        V = W / norm
        inner = V @ V.T
        value, grad_a, grad_b, grad_V = self.constant, np.zeros(m), np.zeros(m), np.zeros_like(V)
        for k, TV in self._contractions(V):
            weight = 1 / factorial(k)
            unit, slope = self.activation.hermite(k, b), self.activation.hermite(k + 1, b)
            c = a * unit
            power = inner ** (k - 1)
            along = np.einsum("md,md->m", TV, V)
            value += weight * float(c @ (power * inner) @ c - 2 * c @ along)
            grad_c = 2 * weight * ((power * inner) @ c - along)
            grad_a += grad_c * unit
            grad_b += grad_c * a * slope
            grad_V += 2 * k * weight * c[:, None] * ((power * c) @ V - TV)
        grad_W = (grad_V - np.einsum("md,md->m", grad_V, V)[:, None] * V) / norm
        return value, np.concatenate([grad_a, grad_b, grad_W.ravel()])


def fit_moments(
    tensors: tuple[Array, ...], activation: Activation, W: Array, b: Array, iterations: int = 400
) -> MomentFit:
    """L-BFGS from the given directions and biases; the output weights start at their best."""
    scale = float(np.linalg.norm(tensors[2]))  # L-BFGS stops at absolute sizes: make them relative
    m, risk = len(W), MomentRisk(tuple(T / scale for T in tensors), activation, len(W))
    V = W / np.linalg.norm(W, axis=1, keepdims=True)
    x = np.concatenate([risk.best_output_weights(b, V), b, V.ravel()])
    options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(risk, x, jac=True, method="L-BFGS-B", options=options)
    W = found.x[2 * m :].reshape(m, -1)
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    return MomentFit(scale * found.x[:m], found.x[m : 2 * m], W, scale**2 * float(found.fun))
