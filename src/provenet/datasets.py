"""Random networks and samples from them, and the papers' hard instances and counterexamples.

On the hard instances methods must fail, or are slow.

**Two networks that agree on almost all inputs** (BJW19, section 4.4, Lemma 16). With weights of
condition number kappa any method needs a multiple of kappa samples. The networks are

    f_i(x) = (relu(x_1 + i a x_2) + relu(x_1 - i a x_2)) / 2,        i = 1, 2,

with condition numbers 1/a and 1/(2a) once rows have norm 1. (The paper prints `a` for `2a` in the
first row of its second matrix.) Where `|x_1| >= 2 a |x_2|` both units of a network are on or both
are off, and both networks give relu(x_1); everywhere else f_2 > f_1. For standard normal x the
quotient `x_1 / x_2` is a Cauchy variable, so the share of inputs where they differ is

    P(|x_1| < 2 a |x_2|) = (2 / pi) arctan(2 a),        about 4 a / pi for small a

(the paper has Theta(1/a) for Theta(a) here). With probability `(1 - share)^n` no sample falls
there, and no method can tell the two apart.

**Two networks with the same function** (ATV21, Claim 4.8). Where `sum_{i in F} a_i w_i = 0` for a
set F of units, flipping all of them, `(w, b) -> (-w, -b)`, changes the function by the constant
`sum_{i in F} a_i b_i` alone, because `relu(z) - relu(-z) = z`. (The paper has biases 0, where not
even the output bias changes.)

**A bad local minimum of P'**, the objective that has interference alone (GLM17, appendix D). For
units `b*_i = e_i` in d = 4 dimensions with `a = (1, r, r, r)`, `r = 2 + delta`, the rows

    b_1 = b_2 = e_1,    b_3 = e_2,    b_4 = (e_3 + e_4) / sqrt(2)

are a local minimum of `P'(B) = sum_i a_i sum_{j != k} <b*_i, b_j>^2 <b*_i, b_k>^2` on rows of norm
1, with the value 2 (the paper counts a pair once, and has 1) where the truth has 0. Two rows share
the cheapest unit; a third one spreads over two others, and so keeps them away from both. It may
turn in their plane: the minimum is an arc, strict in all directions across it. At r <= 2 none is
left. docs/papers/glm17.md has the eigenvalues and the condition for other output weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array, Seed
from provenet.common.words import check_finite
from provenet.networks.activations import Activation, get_activation
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer
from provenet.networks.network import DeepNetwork, Network
from provenet.networks.signs import flipped

__all__ = [
    "SpuriousMinimum",
    "condition_pair",
    "conditioned_rows",
    "differing_share",
    "random_layered",
    "random_network",
    "sample",
    "sign_ambiguous_network",
    "spurious_minimum",
]


def random_network(
    units: int | Sequence[int],
    features: int,
    *,
    outputs: int | None = None,
    bias_scale: float = 1.0,
    activation: str | Activation = "relu",
    rng: Seed = None,
) -> Network:
    """A network with random directions as weights.

    Of norm 1; for a smooth activation that is not positively homogeneous, whose units the norm
    shapes, of norms uniform in [0.5, 3]: from nearly linear to steep. Biases are uniform in
    [-bias_scale, bias_scale]. With one output its weights have random signs and sizes uniform in
    [0.5, 1.5]; with several they are standard normal.

    A sequence of widths as `units` gives a `DeepNetwork` with as many hidden layers: in every
    layer, the last included, weights have norms uniform in [0.8, 2.5], so that values neither die
    out nor explode, and biases are uniform in [-bias_scale / 2, bias_scale / 2].
    """
    widths = (int(units),) if isinstance(units, (int, np.integer)) else tuple(units)
    if not widths or min((*widths, features, 1 if outputs is None else outputs)) < 1:
        raise InvalidInput("A network needs at least one unit, one feature and one output.")
    rng, sigma = np.random.default_rng(rng), get_activation(activation)
    if not isinstance(units, (int, np.integer)):
        weights, biases = [], []
        for inputs, width in pairwise((features, *widths, outputs or 1)):
            weights.append(_directions(width, inputs, rng) * rng.uniform(0.8, 2.5, (width, 1)))
            biases.append(0.5 * rng.uniform(-bias_scale, bias_scale, width))
        return DeepNetwork(weights, biases, sigma, outputs=outputs)
    W = _directions(widths[0], features, rng)
    b = rng.uniform(-bias_scale, bias_scale, widths[0])
    if outputs is None:
        A = rng.choice([-1.0, 1.0], widths[0]) * rng.uniform(0.5, 1.5, widths[0])
    else:
        A = rng.standard_normal((outputs, widths[0]))
    if sigma.smooth and sigma.degree is None:
        W *= rng.uniform(0.5, 3.0, (widths[0], 1))
    return Network(W, b, A, activation=sigma)


def _directions(units: int, inputs: int, rng: np.random.Generator) -> Array:
    weights = rng.standard_normal((units, inputs))
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


def random_layered(
    units: int,
    features: int,
    *,
    threshold: Any = 2.0,
    condition: float = 1.0,
    products: float = 1.0,
    activation: str | Activation = "relu",
    rng: Seed = None,
) -> LayeredNetwork:
    """A lowest layer as GP19 studies it, under `P = sum X_i + sum c_ij X_i X_j`.

    Each c_ij is uniform up to `products` in size. The weights have rows of norm 1; before that
    their singular values fall geometrically by a factor of `condition` (1: orthonormal rows).
    """
    if units > features:
        raise InvalidInput(
            f"Independent units are at most as many as features, and {units} > {features}."
        )
    generator = np.random.default_rng(rng)
    W = conditioned_rows(units, features, condition, generator)
    terms: dict[tuple[int, ...], float] = {(i,): 1.0 for i in range(units)}
    for pair in combinations(range(units), 2):
        terms[pair] = float(generator.uniform(-products, products))
    return LayeredNetwork(lowest_layer(W, threshold, activation), Polynomial(units, terms))


def conditioned_rows(
    units: int, features: int, condition: float, rng: np.random.Generator
) -> Array:
    """Random rows of norm 1 from a matrix of that condition number."""
    U, _, V = np.linalg.svd(rng.standard_normal((units, features)), full_matrices=False)
    W = (U * np.geomspace(1.0, condition, units)) @ V
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def sample(
    network: Network,
    n: int,
    *,
    noise: float = 0.0,
    covariance: Any = None,
    rng: Seed = None,
) -> tuple[Array, Array]:
    """Draw `n` Gaussian inputs with the given covariance, by default the identity, and labels."""
    if n < 1:
        raise InvalidInput(f"The number of samples must be at least 1, not {n}.")
    if not noise >= 0:
        raise InvalidInput(f"The noise is a standard deviation, so at least 0, not {noise}.")
    rng = np.random.default_rng(rng)
    X = rng.standard_normal((n, network.features))
    if covariance is not None:
        C, features = np.asarray(covariance, dtype=float), network.features
        if C.shape != (features, features) or not np.allclose(C, C.T):
            raise InvalidInput(
                f"The covariance must be a symmetric {features} x {features} matrix."
            )
        try:
            X = X @ np.linalg.cholesky(C).T
        except np.linalg.LinAlgError:
            raise InvalidInput("The covariance must be positive definite.") from None
    y = network(X)
    if noise:
        y = y + noise * rng.standard_normal(y.shape)
    return X, y


# ---- Hard instances


def condition_pair(a: float) -> tuple[Network, Network]:
    """The networks f_1 and f_2: weights of condition number 1/a and 1/(2a), for 0 < a <= 1/2."""
    _check_slope(a)

    def network(slope: float) -> Network:
        norm = float(np.hypot(1.0, slope))
        weights = np.array([[1.0, slope], [1.0, -slope]]) / norm
        return Network(weights, output_weights=np.full(2, norm / 2))

    return network(a), network(2 * a)


def differing_share(a: float) -> float:
    """The share of standard normal inputs on which the two networks of `condition_pair` differ."""
    _check_slope(a)
    return float(2 / np.pi * np.arctan(2 * a))


def _check_slope(a: float) -> None:
    if not 0 < a <= 1:
        raise InvalidInput(f"The number a must be above 0 and at most 1, not {a}.")


def sign_ambiguous_network(units: int, features: int, rng: Seed = None) -> tuple[Network, Network]:
    """A random ReLU network, and another with the same function.

    As many units as can be, `features + 1` or all of them, are the set that is flipped: all but one
    are random, and the last one makes their sum of `a_i w_i` zero. It stands anywhere among the
    units, and `signs.flip_sets` names it. No two units are parallel.
    """
    if units < 3 or features < 2:
        raise InvalidInput(
            "Signs of units that are not parallel need three units and two features at least, not "
            f"{units} and {features}."
        )
    rng = np.random.default_rng(rng)
    network = random_network(units, features, rng=rng)
    chosen = rng.permutation(units)[: features + 1]
    last, others = chosen[-1], chosen[:-1]
    W, a = network.weights.copy(), network.output_weights.copy()
    missing = -a[others] @ W[others]
    a[last] = np.linalg.norm(missing)
    W[last] = missing / a[last]
    first = network.replace(weights=W, output_weights=a)
    return first, flipped(first, chosen)


@dataclass(frozen=True, eq=False)
class SpuriousMinimum:
    """A network, and a matrix that is a bad local minimum of its P'."""

    network: Network
    B: Array
    """One unit a row, rows of norm 1; a local minimum, strict but for an arc it lies on."""


def spurious_minimum(delta: float = 0.5) -> SpuriousMinimum:
    """The example of GLM17, appendix D: output weights 1 and three times `2 + delta`."""
    check_finite("delta", delta)
    if delta <= 0:
        raise InvalidInput(
            f"delta must be positive, not {delta!r}: from 0 down the matrix is no local minimum of "
            "P'."
        )
    B = np.zeros((4, 4))
    B[0, 0] = B[1, 0] = B[2, 1] = 1.0
    B[3, 2:] = np.sqrt(0.5)
    B.setflags(write=False)
    return SpuriousMinimum(Network(np.eye(4), output_weights=[1.0, *[2 + delta] * 3]), B)
