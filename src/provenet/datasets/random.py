"""Random networks and samples from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array, Seed
from provenet.networks.activations import Activation, get_activation
from provenet.networks.network import Network

NORMS = (0.5, 3.0)
"""Convention: from nearly linear units to steep ones, on inputs of size 1."""


def random_network(
    units: int,
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
    """
    if units < 1 or features < 1 or (outputs is not None and outputs < 1):
        raise InvalidInput("A network needs at least one unit, one feature and one output.")
    rng = np.random.default_rng(rng)
    weights = rng.standard_normal((units, features))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    biases = rng.uniform(-bias_scale, bias_scale, units)
    if outputs is None:
        output_weights = rng.choice([-1.0, 1.0], units) * rng.uniform(0.5, 1.5, units)
    else:
        output_weights = rng.standard_normal((outputs, units))
    sigma = get_activation(activation)
    if sigma.smooth and sigma.degree is None:
        weights *= rng.uniform(*NORMS, (units, 1))
    return Network(weights, biases, output_weights, activation=activation)


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
