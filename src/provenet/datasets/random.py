"""Random networks and samples from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array, Seed
from provenet.networks.activations import Activation, get_activation
from provenet.networks.network import DeepNetwork, Network

NORMS = (0.5, 3.0)
"""Convention: from nearly linear units to steep ones, on inputs of size 1."""
DEEP_NORMS = (0.8, 2.5)
"""Convention: of a unit's weights in a deep network, so that values neither die out nor explode in
a few layers, whatever the activation."""
DEEP_BIASES = 0.5
"""Convention: of the bias scale, in a deep network: units of all layers are on for some inputs."""


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
    shapes, of norms uniform in [0.5, 3]. Biases are uniform in [-bias_scale, bias_scale]. With one
    output its weights have random signs and sizes uniform in [0.5, 1.5]; with several they are
    standard normal.

    A sequence of widths as `units` gives a `DeepNetwork` with as many hidden layers: in every
    layer, the last included, weights have norms uniform in [0.8, 2.5] and biases are uniform in
    [-bias_scale / 2, bias_scale / 2].
    """
    widths = (int(units),) if isinstance(units, (int, np.integer)) else tuple(units)
    if not widths or min((*widths, features, 1 if outputs is None else outputs)) < 1:
        raise InvalidInput("A network needs at least one unit, one feature and one output.")
    rng = np.random.default_rng(rng)
    if isinstance(units, (int, np.integer)):
        return _one_layer(int(units), features, outputs, bias_scale, activation, rng)
    sizes = pairwise((features, *widths, outputs or 1))
    layers = [_deep_layer(inputs, width, bias_scale, rng) for inputs, width in sizes]
    weights, biases = zip(*layers, strict=True)
    return DeepNetwork(weights, biases, activation, outputs=outputs)


def _one_layer(
    units: int,
    features: int,
    outputs: int | None,
    bias_scale: float,
    activation: str | Activation,
    rng: np.random.Generator,
) -> Network:
    weights = _directions(units, features, rng)
    biases = rng.uniform(-bias_scale, bias_scale, units)
    if outputs is None:
        output_weights = rng.choice([-1.0, 1.0], units) * rng.uniform(0.5, 1.5, units)
    else:
        output_weights = rng.standard_normal((outputs, units))
    sigma = get_activation(activation)
    if sigma.smooth and sigma.degree is None:
        weights *= rng.uniform(*NORMS, (units, 1))
    return Network(weights, biases, output_weights, activation=activation)


def _deep_layer(
    inputs: int, units: int, bias_scale: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    weights = _directions(units, inputs, rng) * rng.uniform(*DEEP_NORMS, (units, 1))
    return weights, DEEP_BIASES * rng.uniform(-bias_scale, bias_scale, units)


def _directions(units: int, inputs: int, rng: np.random.Generator) -> Array:
    weights = rng.standard_normal((units, inputs))
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))


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
        X = X @ _covariance_root(covariance, network.features).T
    y = network(X)
    if noise:
        y = y + noise * rng.standard_normal(y.shape)
    return X, y


def _covariance_root(covariance: Any, features: int) -> Array:
    matrix = np.asarray(covariance, dtype=float)
    if matrix.shape != (features, features) or not np.allclose(matrix, matrix.T):
        raise InvalidInput(f"The covariance must be a symmetric {features} x {features} matrix.")
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InvalidInput("The covariance must be positive definite.") from None
