"""Joint diagonalisation by congruence: real symmetric matrices that share their rank-one terms.

    M_j = V^T diag(D_j) V + noise,   j = 1 .. q,   V (k, k) regular with unit rows

Two matrices without noise give V as the eigenvectors of `M_1 M_2^-1` (Jennrich), but at many units
a little noise makes these complex, and going through `V^-1` multiplies the noise by its condition.
So V is fitted instead, by least squares and real throughout (Carroll and Chang's INDSCAL, 1970):

    F(V) = min_D sum_j || M_j - V^T diag(D_j) V ||^2

- D is eliminated (variable projection; Golub and Pereyra 1973). Write `K = V V^T`, `G = D^T D` and
  `P = (K o K)^-1`, o the entrywise product. Then `D_j = P (v_i^T M_j v_i)_i`, and with residuals
  `R_j` the gradient in row i is `-4 sum_j D_ji R_j v_i`. The Gauss-Newton matrix of the reduced
  problem acts on a change X of V as

      4 [ (G o K) X + (G o (X V^T)^T) V - ((G Z P) o K) V ],   Z = 2 (X V^T) o K,

  so conjugate gradients solve for a step at `k^3` a product, whatever q is, and no matrix with
  `k^2` rows is formed. Levenberg-Marquardt damping takes the length of each row, which F does not
  see, out of play.
- Starts: `sum_j M_j^2 = V^T (G o K) V` is positive definite, and whitening by it, repeated, brings
  V close to orthogonal (for generic D), where the eigenvectors of one random combination (always
  real) or of a random pair (real and imaginary parts of complex ones) are close to V.

Nothing need be positive. More than k matrices are first replaced by their k leading combinations,
which hold all the signal. Cost: `min(q, k) k^3` an iteration, some ten iterations a start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array


@dataclass(frozen=True)
class Congruence:
    """The shared rank-one terms and the residual."""

    rows: Array
    """The rows of V, of norm one, in any order and of any sign."""
    residual: float
    """`|| M - V^T D V || / || M ||` over all matrices, D at its best."""
    converged: bool
    """Whether the best fit converged (its residual settled, or is zero)."""


@dataclass(frozen=True)
class _AtRows:
    """Rows V with their best D, the residuals R and the letters of the module's docstring."""

    V: Array
    D: Array
    P: Array
    R: Array
    loss: float


def congruence(matrices: Array, starts: int = 10) -> Congruence:
    """V of `M_j = V^T diag(D_j) V`: shape (q, k, k), q >= 2, symmetric, any signs, noise allowed.

    The best of several least-squares fits; the search ends when the best value was reached twice.
    """
    M = _leading_combinations((matrices + matrices.transpose(0, 2, 1)) / 2)
    scale = float(np.linalg.norm(matrices))
    if scale == 0.0:
        return Congruence(np.eye(M.shape[1]), 0.0, True)
    M = M / scale
    zero, same = 1e-24, 1e-3  # a squared residual that is rounding; relative, between equal minima
    best = _fit(M, np.eye(M.shape[1]))
    settled = best.loss < zero
    for V in _starts(M, starts, np.random.default_rng(0)):
        found, converged = _descend(M, V)
        again = settled and abs(found.loss - best.loss) <= same * best.loss
        if found.loss < best.loss:
            best, settled = found, converged
        if again or best.loss < zero:
            break
    residual = np.linalg.norm(_fit(matrices / scale, best.V).R)
    return Congruence(best.V, float(residual), settled)


def _leading_combinations(M: Array) -> Array:
    """At most k combinations of the matrices that hold as much of them as k can."""
    q, k, _ = M.shape
    if q <= k:
        return M
    _, values, rows = np.linalg.svd(M.reshape(q, k * k), full_matrices=False)
    leading = (values[:k, None] * rows[:k]).reshape(k, k, k)
    return np.asarray((leading + leading.transpose(0, 2, 1)) / 2)


def _starts(M: Array, starts: int, rng: np.random.Generator) -> Iterator[Array]:
    """Approximate V, from random combinations of the whitened matrices."""
    L = _whitener(M)
    whitened = L @ M @ L.T
    for start in range(starts):
        first, second = np.tensordot(rng.standard_normal((2, len(M))), whitened, 1)
        columns = np.linalg.eigh(first)[1]
        if start % 2 == 0:
            columns = _pencil_vectors(first, second, otherwise=columns)
        yield np.linalg.solve(L, columns).T


def _whitener(M: Array, rounds: int = 5) -> Array:
    """L such that the rows of `V L^T` are near orthogonal (for generic D)."""
    L = np.eye(M.shape[1])
    for _ in range(rounds):
        values, vectors = np.linalg.eigh(np.einsum("qij,qlj->il", M, M, optimize=True))
        values = np.maximum(values, 1e-14 * values[-1])
        step = (vectors / np.sqrt(values)) @ vectors.T
        M, L = step @ M @ step.T, step @ L
        M = M / np.linalg.norm(M)
    return np.asarray(L / np.linalg.norm(L, 2))


def _pencil_vectors(first: Array, second: Array, otherwise: Array) -> Array:
    """Columns: eigenvectors of `first second^-1`, a complex pair as its real and imaginary part."""
    try:
        values, vectors = np.linalg.eig(np.linalg.solve(second, first).T)
    except np.linalg.LinAlgError:
        return otherwise
    return np.where(values.imag >= 0, vectors.real, vectors.imag)


def _fit(M: Array, V: Array) -> _AtRows:
    """The best D for the directions of the rows of V."""
    V = V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-300)
    gram = (V @ V.T) ** 2
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-14 * values[-1]  # 45 eps
    P = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    rhs = np.einsum("qki,ki->qk", V @ M, V)
    D = rhs @ P
    D = D + (rhs - D @ gram) @ P  # makes up for what nearly parallel rows cost an explicit inverse
    R = M - (V.T * D[:, None, :]) @ V
    return _AtRows(V, D, P, R, float(np.sum(R**2)))


def _descend(M: Array, V: Array, steps: int = 60) -> tuple[_AtRows, bool]:
    """Levenberg-Marquardt from V, and whether it converged."""
    fit, damping = _fit(M, V), 1e-2
    for _ in range(steps):
        trial = _fit(M, fit.V + _step(fit, damping))
        if trial.loss < fit.loss:
            # A squared residual of (14 eps)^2 is as low as any step can get.
            converged = fit.loss - trial.loss < 1e-6 * fit.loss or trial.loss < 1e-29
            fit, damping = trial, max(damping / 5, 1e-9)
            if converged:
                return fit, True
        elif damping > 1e4 or fit.loss < 1e-27:
            return fit, True
        else:
            damping *= 10
    return fit, False


def _step(fit: _AtRows, damping: float) -> Array:
    """The damped Gauss-Newton step in V, by conjugate gradients scaled by the diagonal of G."""
    V, P, K, G = fit.V, fit.P, fit.V @ fit.V.T, fit.D.T @ fit.D
    GK, size = G * K, np.maximum(np.diag(G), 1e-30)[:, None]

    def curvature(X: Array) -> Array:
        XV = X @ V.T
        coupled = (G @ (2 * XV * K) @ P) * K
        return np.asarray(2 * (GK @ X + (G * XV.T - coupled) @ V) + damping * size * X)

    downhill = 2 * np.einsum("qk,qki->ki", fit.D, V @ fit.R)
    return _conjugate_gradients(curvature, downhill, size)


def _conjugate_gradients(
    apply: Callable[[Array], Array], b: Array, size: Array, products: int = 200
) -> Array:
    """Solve `apply(x) = b` to three digits, all that a damped step is worth.

    An early end is still a direction of descent.
    """
    x, r = np.zeros_like(b), b
    p = z = r / size
    rz = first = float(np.sum(r * z))
    for _ in range(products):
        Ap = apply(p)
        curvature = float(np.sum(p * Ap))
        if curvature <= 0 or rz <= 1e-6 * first:
            break
        x, r = x + (rz / curvature) * p, r - (rz / curvature) * Ap
        z = r / size
        rz, before = float(np.sum(r * z)), rz
        p = z + (rz / before) * p
    return x
