"""The network that was read, compared with the model it was read from.

At an input x, rounding in a precision `eps` moves a unit's argument by at most about
`d = K eps (|W| |x| + |b|)`, and its value by what sigma changes within d; the output moves by that
times |A|, and by `K eps` times the size of its terms, which for a smooth unit are numbers as large
as 1 + |z|: `1 + erf` in a gelu. More than that is not rounding. K leaves room for sums of many
terms. A formula may overflow where the function does not: only finite numbers are compared.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.networks.formats.onnx_graph import OnnxGraph
from provenet.networks.formats.onnx_values import NotReadable
from provenet.networks.network import Network
from provenet.networks.tolerances import CHECKED_SAMPLES, ROUNDINGS


def check_against_model(model: Any, graph: OnnxGraph, network: Network) -> None:
    """Raise unless the model, evaluated by ONNX's reference, predicts what the network does."""
    batch = graph.rows or CHECKED_SAMPLES
    with np.errstate(all="ignore"):  # numbers too large for the model's type are not compared
        X = _inputs(network, -(-CHECKED_SAMPLES // batch) * batch).astype(graph.dtype)
        expected = network(X.astype(float)).reshape(len(X), -1)
        allowed = _rounding(network, X.astype(float), np.finfo(graph.coarsest))
        found = _predictions(model, graph.input, X, batch)
        if found.shape not in (expected.shape, expected[:, 0].shape):
            raise NotReadable(f"gives outputs of shape {found.shape} for {len(X)} inputs")
        found = found.reshape(expected.shape)
        compared = np.isfinite(allowed) & np.isfinite(found)
        wrong = np.abs(found - expected) > allowed
    if (wrong & compared).any() or not (compared | np.isinf(allowed)).any(axis=0).all():
        raise NotReadable("does not predict what its weights say, as far as they were understood")


def _inputs(network: Network, n: int) -> Array:
    """Standard normal ones, and ones at which the arguments of units are about that."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, network.features))
    near = np.arange(n) % 2 == 1
    if network.units:
        z = rng.standard_normal((near.sum(), network.units))
        X[near] += np.linalg.lstsq(network.weights, (z - network.biases).T)[0].T
    return X


def _rounding(network: Network, X: Array, precision: Any) -> Array:
    """How far the outputs may be off, (n, outputs); infinite where they overflow."""
    eps, sigma = ROUNDINGS * float(precision.eps), network.activation
    A, c = np.abs(np.atleast_2d(network.output_weights)), np.abs(network.output_bias)
    z = X @ network.weights.T + network.biases
    d = eps * (np.abs(X) @ np.abs(network.weights).T + np.abs(network.biases))
    moved = np.maximum(np.abs(sigma(z + d) - sigma(z)), np.abs(sigma(z - d) - sigma(z)))
    size = (np.abs(sigma(z)) + sigma.smooth * (1 + np.abs(z))) @ A.T + c
    if network.linear is not None:
        size = size + np.abs(X) @ np.abs(np.atleast_2d(network.linear)).T
    allowed = moved @ A.T + eps * size
    fits = np.isfinite(allowed) & (size < float(precision.max) / ROUNDINGS)
    return np.where(fits, allowed, np.inf)


def _predictions(model: Any, name: str, X: AnyArray, batch: int) -> AnyArray:
    reference = import_module("onnx.reference")
    try:
        evaluator = reference.ReferenceEvaluator(model)
        batches = np.split(X, len(X) // batch)
        return np.concatenate([evaluator.run(None, {name: rows})[0] for rows in batches])
    except Exception as error:  # of the many that an evaluator of any model may raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise NotReadable(f"cannot be evaluated by ONNX ({reason.rstrip('. ')})") from None
