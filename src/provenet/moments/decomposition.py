"""Units from their Hermite moments: directions, then output weights and biases.

    T_k = sum_i zeta_k(i) w_i^(x)k,    zeta_k = (-1)^k a phi(b) He_{k-2}(b)   (ReLU, k >= 2)

- `jennrich`: directions from one tensor (ATV21, Claim 4.4 and Theorem A.5).
- `congruence`: from many matrices that share their rank-one terms, with noise (BJW19, section 4).
- `unit_directions`: from two neighbouring orders with noise (ATV21, Algorithm 4, steps 1 to 4).
- `power_directions`: from T_2 to T_4 together, one unit after the other; degrades least with units.
- `recover_scalars`: output weights and biases of known directions (ATV21, Algorithm 2).
- `fit_moments`: all at once by least squares, started from any of these.

Directions are found up to sign: (w, b) and (-w, -b) have the same moments of order 2 and up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg

from provenet.common.typing import TINY, Array
from provenet.moments.symmetric import SymmetricTensor, nearest_direction
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
        real, size = np.sort(values.real), np.abs(values).max()
        mixed = np.abs(values.imag).max() > 1e-9 * size
        gap = 0.0 if mixed else float(np.diff(real).min(initial=np.inf) / max(size, TINY))
        if gap > best_gap:
            best_gap, best = gap, vectors.real.T
    return _normalised(best @ basis.T)


def _normalised(U: Array) -> Array:
    return np.asarray(U / (np.linalg.norm(U, axis=-1, keepdims=True) + TINY))


# ---------------------------------------------------------------- joint diagonalisation


@dataclass(frozen=True)
class _AtRows:
    """Rows V with their best D, the residuals R and the letters of `congruence`."""

    V: Array
    D: Array
    P: Array
    R: Array
    loss: float


def congruence(matrices: Array, starts: int = 10) -> Array:
    """The unit rows of V (k, k), up to order and sign, in real symmetric matrices (q, k, k)

        M_j = V^T diag(D_j) V + noise,   j = 1 .. q,   q >= 2,   V regular.

    Two matrices without noise give V as the eigenvectors of `M_1 M_2^-1` (Jennrich), but at many
    units a little noise makes these complex, and going through `V^-1` multiplies the noise by its
    condition. So V is fitted instead, by least squares and real throughout (Carroll and Chang's
    INDSCAL, 1970):

        F(V) = min_D sum_j || M_j - V^T diag(D_j) V ||^2

    D is eliminated (variable projection; Golub and Pereyra 1973). Write `K = V V^T`, `G = D^T D`
    and `P = (K o K)^-1`, o the entrywise product. Then `D_j = P (v_i^T M_j v_i)_i`, and with
    residuals `R_j` the gradient in row i is `-4 sum_j D_ji R_j v_i`. The Gauss-Newton matrix of the
    reduced problem acts on a change X of V as

        4 [ (G o K) X + (G o (X V^T)^T) V - ((G Z P) o K) V ],   Z = 2 (X V^T) o K,

    so conjugate gradients solve for a step at `k^3` a product, whatever q is.

    The best of several fits is kept; the search ends when the best value is reached twice. Nothing
    need be positive. More than k matrices are first replaced by their k leading combinations, which
    hold all the signal. Cost: `min(q, k) k^3` an iteration, some ten iterations a start.
    """
    q, k, _ = matrices.shape
    scale = float(np.linalg.norm(matrices))
    if scale == 0.0:
        return np.eye(k)
    M = matrices / scale
    if q > k:
        _, values, rows = np.linalg.svd(M.reshape(q, k * k), full_matrices=False)
        M = (values[:k, None] * rows[:k]).reshape(k, k, k)
    M = (M + M.transpose(0, 2, 1)) / 2
    zero, same = 1e-24, 1e-3  # a squared residual that is rounding; relative, between equal minima
    best = _fit(M, np.eye(k))
    settled = best.loss < zero
    for V in _starts(M, starts, np.random.default_rng(0)):
        found, converged = _descend(M, V)
        again = settled and abs(found.loss - best.loss) <= same * best.loss
        if found.loss < best.loss:
            best, settled = found, converged
        if again or best.loss < zero:
            break
    return best.V


def _starts(M: Array, starts: int, rng: np.random.Generator) -> Iterator[Array]:
    """Approximate V from the eigenvectors of random combinations of the whitened matrices.

    `sum_j M_j^2 = V^T (G o K) V` is positive definite, and whitening by it, repeated, brings V
    close to orthogonal (for generic D). There the eigenvectors of one combination are close to V,
    and so are those of a pair of them (real and imaginary parts of complex ones).
    """
    L, whitened = np.eye(M.shape[1]), M
    for _ in range(5):
        values, vectors = np.linalg.eigh(np.einsum("qij,qlj->il", whitened, whitened))
        step = (vectors / np.sqrt(np.maximum(values, 1e-14 * values[-1]))) @ vectors.T
        whitened, L = step @ whitened @ step.T, step @ L
        whitened = whitened / np.linalg.norm(whitened)
    L = L / np.linalg.norm(L, 2)
    whitened = L @ M @ L.T
    for start in range(starts):
        first, second = np.tensordot(rng.standard_normal((2, len(M))), whitened, 1)
        columns = np.linalg.eigh(first)[1]
        if start % 2 == 0:
            try:
                values, pencil = np.linalg.eig(np.linalg.solve(second, first).T)
                columns = np.where(values.imag >= 0, pencil.real, pencil.imag)
            except np.linalg.LinAlgError:
                pass  # `second` is singular: the eigenvectors of `first` remain
        yield np.linalg.solve(L, columns).T


def _fit(M: Array, V: Array) -> _AtRows:
    """The best D for the directions of the rows of V."""
    V = _normalised(V)
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
    """The damped Gauss-Newton step in V, to three digits: all that it is worth.

    Conjugate gradients run on the system scaled by the diagonal of G. Damping takes the length of
    each row, which F does not see, out of play.
    """
    V, P, K, G = fit.V, fit.P, fit.V @ fit.V.T, fit.D.T @ fit.D
    GK, scale = G * K, np.sqrt(np.maximum(np.diag(G), 1e-30))[:, None]

    def curvature(flat: Array) -> Array:
        X = flat.reshape(V.shape) / scale
        XV = X @ V.T
        coupled = (G @ (2 * XV * K) @ P) * K
        image = 2 * (GK @ X + (G * XV.T - coupled) @ V)
        return np.asarray(image / scale + damping * scale * X).ravel()

    downhill = 2 * np.einsum("qk,qki->ki", fit.D, V @ fit.R) / scale
    system = LinearOperator((V.size, V.size), curvature, dtype=float)
    move: Array = cg(system, downhill.ravel(), rtol=1e-3, maxiter=200)[0]
    return move.reshape(V.shape) / scale


# ---------------------------------------------------------------- ATV21, Algorithm 4


def unit_directions(
    tensors: Sequence[SymmetricTensor],
    errors: Sequence[float],
    order: int,
    units: int | None,
    rng: np.random.Generator,
) -> tuple[Array, str]:
    """The directions in both tensors, weak terms and duplicates removed; and the evidence as text.

    `tensors` are `T_k` for k = 2 order + 1 and 2 order + 2, `errors` those of their entries.
    Flattened to (l, l, 1) and (l, l, 2) places, l the order, they have terms with the factors
    `w_i^(x)l`, independent for far more units than features; Jennrich finds them. A unit is missing
    from one of the two where `He_k-2(b_i)` vanishes, but not from both.
    """
    found = [_terms(T, e, order, units, rng) for T, e in zip(tensors, errors, strict=True)]
    ranks, rows, errors = zip(*found, strict=True)
    W = _without_duplicates(np.vstack(rows), np.concatenate(errors))[:units]
    low, high = (T.order for T in tensors)
    return W, (
        f"T_{low} has rank {ranks[0]} and T_{high} rank {ranks[1]} above the noise; {len(W)} "
        "directions are distinct."
    )


def _terms(
    T: SymmetricTensor, error: float, order: int, units: int | None, rng: np.random.Generator
) -> tuple[int, Array, Array]:
    """Jennrich on one tensor: its rank, the directions of its terms, and their errors in radians.

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
    return rank, W[strong], threshold / alpha[strong]


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
    tensors: Sequence[SymmetricTensor],
    errors: Sequence[float],
    rng: np.random.Generator,
    starts: int = 50,
    steps: int = 60,
) -> Array:
    """As many unit directions (rows, up to sign) as `T_2` has dimensions (it must be regular).

    Write `s_i = <w_i, u>` for independent units w_i. The map `u <- T_2^-1 T_4(u, u, u, .)` acts on
    these coordinates as `s_i <- (b_i^2 - 1) s_i^3`, and `u <- T_2^-1 T_3(u, u, .)` as
    `s_i <- -b_i s_i^2` (ATV21, Lemma 3.5, with the factor `a_i phi(b_i)` divided out by `T_2`): a
    power method that converges cubically or quadratically to a u that sees one unit alone, for any
    signs of the a_i. Then `T_2 u` is parallel to that unit. Units already found are kept out by
    `<w_j, u> = 0`.

    `tensors` and `errors` are those of `T_0 .. T_4`. Half of the starts follow each map; kept is
    the point that is most nearly a fixed point of both at once, as a unit's is, each weighted by
    one over its error. An iterate that has not settled is a fixed point of neither, and one that
    settled on the error of a vanishing tensor is one of that map alone.
    """
    T2 = tensors[2].dense
    weights = [1 / max(errors[k], 1e-12) for k in (3, 4)]
    inverse = np.linalg.inv(T2)
    found = np.empty((0, len(T2)))
    for _ in range(len(T2)):
        outside = np.linalg.svd(found, full_matrices=True)[2][len(found) :]
        project = inverse @ outside.T @ outside
        U = _normalised(rng.standard_normal((starts, len(outside))) @ outside)
        along, across = np.zeros(starts), np.zeros(starts)
        for part, T in zip((U[::2], U[1::2]), tensors[3:5], strict=True):
            moving = np.arange(len(part))
            for _ in range(steps):
                before = part[moving]
                part[moving] = _normalised(T.contracted(before) @ project)
                # 1.4e-5 radians: a cubic step from there ends at rounding.
                cosine = np.abs(np.einsum("sd,sd->s", part[moving], before))
                moving = moving[cosine < 1 - 1e-10]
                if len(moving) == 0:
                    break
        for weight, T in zip(weights, tensors[3:5], strict=True):
            image = weight * T.contracted(U) @ project
            size = np.einsum("sd,sd->s", image, U)
            along = np.hypot(along, size)
            across = np.hypot(across, np.linalg.norm(image - size[:, None] * U, axis=1))
        best = U[np.argmax(along / (across + 1e-9 * max(weights)))]
        found = np.vstack([found, _normalised(best @ T2)])
    return found


# ---------------------------------------------------------------- ATV21, Algorithm 2


def recover_scalars(
    tensors: Sequence[SymmetricTensor], W: Array, order: int = 1
) -> tuple[Array, Array]:
    """`(a, b)` for the rows of W, from `T_2, T_3` (order 1) or `T_order .. T_order+3`."""
    if order > 1:
        zeta = [tensors[order + j].coefficients(W) for j in range(4)]
        return scalars_from_coefficients(np.array(zeta), order)
    second, third = (tensors[k].coefficients(W) for k in (2, 3))
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
    return np.where(x == 0, TINY, x)


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

    def __init__(
        self, tensors: Sequence[SymmetricTensor], activation: Activation, scale: float = 1.0
    ) -> None:
        """Of the moments `T_0 .. T_4` over `scale`."""
        self.activation, self.d, self.scale = activation, tensors[2].d, scale
        self.tensors = tensors[2:5]
        self.constant = sum(T.squared_norm / factorial(T.order) for T in self.tensors) / scale**2

    def best_output_weights(self, b: Array, V: Array) -> Array:
        """The a that minimises the risk at given units: a linear problem."""
        gram, rhs = np.zeros((len(b), len(b))), np.zeros(len(b))
        inner = V @ V.T
        for k, T in enumerate(self.tensors, 2):
            TV, c = T.contracted(V) / self.scale, self.activation.hermite(k, b)
            gram += np.outer(c, c) * inner**k / factorial(k)
            rhs += c * np.einsum("md,md->m", TV, V) / factorial(k)
        ridge = 1e-9 * np.trace(gram) * np.eye(len(b))  # output weights of parallel units
        return np.linalg.solve(gram + ridge, rhs)

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Value and gradient."""
        m = len(x) // (self.d + 2)
        a, b, W = x[:m], x[m : 2 * m], x[2 * m :].reshape(m, self.d)
        norm = np.linalg.norm(W, axis=1, keepdims=True)
        V = W / norm
        inner = V @ V.T
        value, grad_a, grad_b, grad_V = self.constant, np.zeros(m), np.zeros(m), np.zeros_like(V)
        for k, T in enumerate(self.tensors, 2):
            TV, weight = T.contracted(V) / self.scale, 1 / factorial(k)
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
    tensors: Sequence[SymmetricTensor],
    activation: Activation,
    W: Array,
    b: Array,
    iterations: int = 400,
) -> MomentFit:
    """L-BFGS from the given directions and biases; the output weights start at their best."""
    scale = float(np.sqrt(tensors[2].squared_norm))  # L-BFGS stops at absolute sizes
    m, risk, V = len(W), MomentRisk(tensors, activation, scale), _normalised(W)
    x = np.concatenate([risk.best_output_weights(b, V), b, V.ravel()])
    options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(risk, x, jac=True, method="L-BFGS-B", options=options)
    return MomentFit(
        scale * found.x[:m],
        found.x[m : 2 * m],
        _normalised(found.x[2 * m :].reshape(m, -1)),
        scale**2 * float(found.fun),
    )
