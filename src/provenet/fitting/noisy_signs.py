"""Directions of units from very noisy signs (BJW19, section 7.3 and Algorithm 8, steps 3a to 3c).

Let `v = relu(w.x) + e`: one hidden unit under noise that is independent of x but otherwise
arbitrary. Its sign is a noisy label of the halfspace `w.x > 0`. If |e| is always large the sign is
that of e, so Gaussian noise is added first: then `relu(w.x)` changes the mean of the sign of
`v + g`, whatever e is. The direction that correlates best with the signs,

    max_{|w| <= 1} sum_n s_n <w, x_n>,    s_n = sign(v_n + g_n),    g ~ N(0, smear^2)      (eq. 5)

is the mean of `s x`, normalised. For standard normal x that mean is `lambda w` exactly (eq. 4):
with `theta(t) = E[s | w.x = t]`, `lambda = E[theta(w.x) w.x] = E[theta'(w.x)]`. For a smear far
larger than v that is `1 / (smear sqrt(2 pi))`. (Proposition 7 drops the derivative of ReLU, which
is zero on one side, and so states twice as much.)

Averaged over the added noise the sign is the bounded function `erf(v / (sqrt(2) smear))`, and the
same direction comes out with less variance: so it is done without a generator. Any bounded function
of the labels serves. When `E[s | x]` depends on x through the units `W x` alone,

    E[s He_1(x)] = W^T g,    E[s He_2(x)] = W^T H W        (Stein's identity, twice)

for some vector g and matrix H: the span of the units is exact at order 2 however heavy the noise.

Letters of the paper: its rows p of `M S A` are our columns of `values`, its X our `X^T`, its eta
our smear, its lambda the `strength`. Cost: n features an entry of a row; order 2 features times as
much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from provenet.common.typing import TINY, Array
from provenet.data.sources import ArraySource
from provenet.data.standardisation import Standardisation
from provenet.moments.hermite import MomentRequest, sampled_moments
from provenet.networks.activations import RELU


@dataclass(frozen=True)
class SignDirections:
    """Directions learned from signs, one a row, with their errors."""

    directions: Array
    """(rows, features), of norm 1."""
    strengths: Array
    """(rows,): the length of the mean of `s x`, an estimate of the paper's lambda."""
    standard_errors: Array
    """(rows,): root mean square distance of the direction from its expectation, by sampling."""


def responses(values: Array, smear: Array | float, rng: np.random.Generator | None = None) -> Array:
    """Signs of the values after adding noise N(0, smear^2) to them; without `rng` their mean."""
    if rng is None:
        return np.asarray(special.erf(values / (np.sqrt(2.0) * smear)))
    return np.where(values + smear * rng.standard_normal(values.shape) < 0, -1.0, 1.0)


def learn_directions(
    X: Array, values: Array, smear: Array | float, rng: np.random.Generator | None = None
) -> SignDirections:
    """The sign step for each column of `values` (n, rows); X standard normal (n, d).

    `smear` is a number, or one a column. Signs that are as often wrong as right give a strength of
    about the sampling error and a standard error of about 1 or more: a direction without meaning.
    """
    n = len(X)
    s = responses(values, smear, rng)
    mean = s.T @ X / n
    strengths = np.linalg.norm(mean, axis=1)
    directions = mean / np.maximum(strengths, TINY)[:, None]
    # The variance of s x across the direction; along it an error only changes the strength.
    squares = s**2
    across = squares.T @ np.einsum("nd,nd->n", X, X) - np.sum(squares * (X @ directions.T) ** 2, 0)
    errors = np.sqrt(np.maximum(across, 0.0)) / n / np.maximum(strengths, TINY)
    return SignDirections(directions, strengths, errors)


def _second_moments(X: Array, s: Array) -> Array:
    """`E[s He_2(x)]` (rows, d, d) for responses s (n, rows), less their constant and linear parts.

    Its expectation does not see these, its sampling error does.
    """
    (n, d), mean, linear = X.shape, s.mean(axis=0), s.T @ X / len(X)
    known = Standardisation(np.zeros(d), np.eye(d), mean, 1.0, linear, n)
    return sampled_moments(ArraySource(X, s), MomentRequest(known, 2)).tensors[2]


@dataclass(frozen=True)
class BoundedSpan:
    """The span of the units, and slices that are nearly diagonal in them."""

    basis: Array
    """(dimensions, features), orthonormal rows."""
    slices: Array
    """(rows, dimensions, dimensions): order 2 of the responses in the span."""
    margin: float
    """The weakest dimension over the strongest of shuffled labels."""

    @property
    def dimensions(self) -> int:
        """Dimension of the span: the number of units when their weights are independent."""
        return len(self.basis)


def span_from_bounded_labels(
    X: Array, values: Array, most: int | None, rng: np.random.Generator, margin: float = 1.15
) -> BoundedSpan:
    """The span of the units from order 2 of responses to `values` (n, outputs) of scale one.

    As many dimensions, and at most `most`, as stand clearly above those of shuffled labels, which
    do not depend on the inputs but are as noisy.
    """
    # Two smears: one as large as the labels, and one that dominates them.
    s, d = np.hstack([responses(values, smear) for smear in (1.0, 3.0)]), X.shape[1]
    second = _second_moments(X, s)
    _, strengths, vectors = np.linalg.svd(second.reshape(-1, d), full_matrices=False)
    shuffled = (_second_moments(X, rng.permutation(s)) for _ in range(3))
    edge = max(float(np.linalg.norm(T.reshape(-1, d), 2)) for T in shuffled)
    found = int(np.sum(strengths > margin * edge))
    found = found if most is None else min(found, most)
    basis = vectors[:found]
    slices = np.einsum("ia,rab,jb->rij", basis, second, basis, optimize=True)
    return BoundedSpan(basis, slices, float(strengths[found - 1] / edge) if found else 0.0)


def all_row_guesses(entries: int, finest: int, batch: int = 256) -> Iterator[tuple[int, Array]]:
    """Algorithm 8, step 2: guesses of one row of a left inverse, from coarse to fine, with levels.

    Directions whose entries are 0 and +-2^-i, i < level, the largest 1 and the first that is not
    zero positive, in batches and normalised. Each occurs once in all levels; those of a level come
    in scattered order, so that a part of them covers the sphere.
    """
    for level in range(1, finest + 1):
        powers = 0.5 ** np.arange(level)
        values = np.concatenate([[0.0], powers, -powers])
        total = len(values) ** entries
        step = int(total * 0.618)  # by the golden section, made coprime to the number of codes
        while np.gcd(step, total) != 1:
            step += 1
        for begin in range(0, total, batch):
            codes = np.arange(begin, min(begin + batch, total)) * step % total
            rows = values[codes[:, None] // len(values) ** np.arange(entries) % len(values)]
            size = np.abs(rows)
            first = rows[np.arange(len(rows)), np.argmax(size > 0, axis=1)]
            new = (size == powers[-1]).any(axis=1)  # else it belongs to a coarser level
            rows = rows[(size.max(axis=1) == 1) & (first > 0) & new]
            if len(rows):
                yield level, rows / np.linalg.norm(rows, axis=1, keepdims=True)


def surest_directions(learned: Sequence[SignDirections], most: int = 300) -> Array:
    """Directions up to sign, the surest first, without those within error of a surer one.

    A standard error of half a radian means nothing; all pairs of those kept will be compared.
    """
    directions = np.concatenate([found.directions for found in learned])
    errors = np.concatenate([found.standard_errors for found in learned])
    order = np.argsort(errors)
    kept = np.empty((0, directions.shape[1]))
    for i in order[errors[order] < 0.5]:
        w, near = directions[i], max(0.05, float(errors[i]))
        if np.max(np.abs(kept @ w), initial=0.0) < np.cos(near):
            kept = np.vstack([kept, w])
        if len(kept) == most:
            break
    return kept


def best_units(X: Array, Y: Array, directions: Array, units: int) -> Array:
    """Algorithm 8, step 4: of `+-directions` the one or two whose regression leaves least squares.

    With centred features of Gram matrix G and products C with the labels, two units explain
    `tr(C_2^T G_2^-1 C_2)`; from `K = C C^T` that is a closed form in the entries of G and K, so all
    pairs are compared at once.
    """
    both = np.vstack([directions, -directions])
    F = RELU(X @ both.T)
    F -= F.mean(axis=0)
    G, C = F.T @ F, F.T @ (Y - Y.mean(axis=0))
    K = C @ C.T
    g, k = np.diag(G), np.diag(K)
    if units == 1:
        return np.asarray(both[[int(np.argmax(k / g))]])
    determinant = np.outer(g, g) - G**2
    usable = determinant > 1e-6 * np.outer(g, g)  # not of one direction
    explained = np.outer(k, g) + np.outer(g, k) - 2 * G * K
    value = np.where(usable, explained / np.where(usable, determinant, 1.0), -np.inf)
    return np.asarray(both[list(np.unravel_index(int(np.argmax(value)), value.shape))])
