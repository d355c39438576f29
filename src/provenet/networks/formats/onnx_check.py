"""The network that was read, compared with the model it was read from.

At an input x, rounding in a precision `eps` moves a unit's argument by at most about
`d = |W| e + K eps (|W| |h| + |b|)`, where h is what the layer is fed and e how far that may be off:
nothing for the inputs. Its value moves by what sigma changes within d, and for a smooth unit by
`K eps` times numbers as large as 1 + |z|: `1 + erf` in a gelu. That is the e of the next layer, and
so on to the outputs. More than that is not rounding. K leaves room for sums of many terms. A
formula may overflow where the function does not: only finite numbers are compared. Of a network
with a link the probabilities are compared: one moves by at most `exp(2 e) - 1` times itself if no
output moves by more than e, and by rounding of numbers as large as 1.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.networks.formats.onnx_graph import OnnxGraph
from provenet.networks.formats.onnx_values import NotReadable
from provenet.networks.network import AffineMap, Network, probabilities
from provenet.networks.tolerances import CHECKED_SAMPLES, ROUNDINGS


def check_against_model(model: Any, graph: OnnxGraph, network: Network) -> None:
    """Raise unless the model, evaluated by ONNX's reference, predicts what the network does."""
    batch = graph.rows or CHECKED_SAMPLES
    with np.errstate(all="ignore"):  # numbers too large for the model's type are not compared
        X = _inputs(network, -(-CHECKED_SAMPLES // batch) * batch).astype(graph.dtype)
        expected = network(X.astype(float)).reshape(len(X), -1)
        allowed = _rounding(network, X.astype(float), np.finfo(graph.coarsest))
        found = _predictions(model, graph.input, X, batch)
        expected, allowed = _linked(expected, allowed, network.link, graph.coarsest, found.shape)
        if found.shape not in (expected.shape, expected[:, 0].shape):
            raise NotReadable(f"gives outputs of shape {found.shape} for {len(X)} inputs")
        found = found.reshape(expected.shape)
        compared = np.isfinite(allowed) & np.isfinite(found)
        wrong = np.abs(found - expected) > allowed
    if (wrong & compared).any() or not (compared | np.isinf(allowed)).any(axis=0).all():
        raise NotReadable("does not predict what its weights say, as far as they were understood")


def _linked(
    u: Array, e: Array, link: str, dtype: str, shape: tuple[int, ...]
) -> tuple[Array, Array]:
    """Probabilities, as many columns as the model gives, and how far they may be off."""
    if link == "identity":
        return u, e
    p = probabilities(u, link)
    if p.shape[1] == 2 and u.shape[1] == 1 and shape[1:] != (2,):
        p = p[:, 1:]
    moved = np.expm1(2 * e.max(axis=1, keepdims=True))
    return p, p * moved + ROUNDINGS * float(np.finfo(dtype).eps)


def _inputs(network: Network, n: int) -> Array:
    """Standard normal ones, and ones at which the arguments of the first units are about that."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, network.features))
    near = np.arange(n) % 2 == 1
    W, b = network.affine_maps[0]
    if len(W):
        z = rng.standard_normal((near.sum(), len(W)))
        X[near] += np.linalg.lstsq(W, (z - b).T)[0].T
    return X


def _rounding(network: Network, X: Array, precision: Any) -> Array:
    """How far the outputs may be off, (n, outputs); infinite where they overflow."""
    eps, sigma = ROUNDINGS * float(precision.eps), network.activation
    h, e = X, np.zeros(X.shape)
    *hidden, outputs = network.affine_maps
    for layer in hidden:
        z, d = h @ layer[0].T + layer[1], e @ np.abs(layer[0]).T + eps * _size(h, layer)
        moved = np.maximum(np.abs(sigma(z + d) - sigma(z)), np.abs(sigma(z - d) - sigma(z)))
        h, e = sigma(z), moved + eps * sigma.smooth * (1 + np.abs(z))
    size = _size(h, outputs)
    if network.linear is not None:
        size = size + np.abs(X) @ np.abs(np.atleast_2d(network.linear)).T
    allowed = e @ np.abs(outputs[0]).T + eps * size
    fits = np.isfinite(allowed) & (size < float(precision.max) / ROUNDINGS)
    return np.where(fits, allowed, np.inf)


def _size(h: Array, layer: AffineMap) -> Array:
    """Of the terms of which the layer's arguments are sums."""
    return np.asarray(np.abs(h) @ np.abs(layer[0]).T + np.abs(layer[1]))


def _predictions(model: Any, name: str, X: AnyArray, batch: int) -> AnyArray:
    reference = import_module("onnx.reference")
    try:
        evaluator = reference.ReferenceEvaluator(model)
        batches = np.split(X, len(X) // batch)
        return np.concatenate([evaluator.run(None, {name: rows})[0] for rows in batches])
    except Exception as error:  # of the many that an evaluator of any model may raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise NotReadable(f"cannot be evaluated by ONNX ({reason.rstrip('. ')})") from None
