"""The rest of the network, with the lowest layer known (GP19, appendix E).

The units' values are the inputs of what lies above them, which any regression can learn. By default
that is a sparse polynomial, the top of the theory: all monomials up to a degree that the samples
show often enough, by least squares, without those that do not stand out from the noise.
"""

from __future__ import annotations

from typing import Any

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Seed
from provenet.lowest_layer.top import LearnedTop, fit_top
from provenet.networks.network import Network
from provenet.validation import as_generator, as_source


def learn_top(
    X: Any,
    y: Any,
    layer: Network,
    top: Any = "polynomial",
    *,
    degree: int = 3,
    rng: Seed = None,
) -> LearnedTop:
    """Learn what lies above a known lowest layer.

    Parameters
    ----------
    X, y
        Inputs (n, features) and labels (n,).
    layer
        The units: weights, biases (minus the thresholds) and activation; its output is not used.
    top
        "polynomial", or a regressor with `fit` and `predict`, as those of scikit-learn.
    degree
        Of the polynomial.
    rng
        Seed or generator for the samples that are held out.
    """
    source, generator = as_source(X, y), as_generator(rng)
    if source.outputs is not None:
        raise InvalidInput("learn_top fits one output: give the columns of y one at a time.")
    if source.features != layer.features:
        raise InvalidInput(
            f"X has {source.features} features, and the layer's units have {layer.features} "
            "weights: they must be as many."
        )
    return fit_top(source, layer, top, degree, generator)
