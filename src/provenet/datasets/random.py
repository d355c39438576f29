"""Random networks, and samples from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any, overload

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array, Seed
from provenet.networks.activations import Activation, get_activation
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer
from provenet.networks.network import DeepNetwork, Network


@overload
def random_network(
    units: int,
    features: int,
    *,
    outputs: int | None = None,
    bias_scale: float = 1.0,
    activation: str | Activation = "relu",
    rng: Seed = None,
) -> Network: ...


@overload
def random_network(
    units: Sequence[int],
    features: int,
    *,
    outputs: int | None = None,
    bias_scale: float = 1.0,
    activation: str | Activation = "relu",
    rng: Seed = None,
) -> DeepNetwork: ...


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
    """Draw `n` Gaussian inputs with the given covariance (identity by default) and their labels."""
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
