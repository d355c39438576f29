"""Give back the weights of a network with two hidden layers that was trained on the diabetes data.

    python examples/two_hidden_layers.py --out pictures

The network is known by samples only: what it says to inputs like those that it was trained on,
which nobody chose. Its widths are found, and every weight of every layer. The picture compares
these with the model's own, and the copy's predictions for the patients with the model's.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import provenet as pn
from provenet.common.typing import Array

SAMPLES = 2000


def patients() -> tuple[Array, Array]:
    """Standardised inputs and labels."""
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), (y - y.mean()) / y.std()


def fitted_model(widths: list[int], seed: int) -> MLPRegressor:
    """A small network; it need not have converged."""
    model = MLPRegressor(
        hidden_layer_sizes=widths,
        activation="tanh",
        solver="lbfgs",
        alpha=0.1,
        max_iter=200,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*patients())


def inputs_like(X: Array, n: int, rng: np.random.Generator) -> Array:
    """Gaussian inputs of the mean and covariance of the patients."""
    return rng.multivariate_normal(X.mean(axis=0), np.cov(X.T), n)


def draw(model: MLPRegressor, found: Any) -> Any:
    """Found against true weights of every layer; for patients the copy against the model."""
    figure = pn.plotting.new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    truth = pn.DeepNetwork.from_mlp_regressor(model)
    for number, (own, other) in enumerate(zip(truth.weights, aligned(found, truth), strict=True)):
        left.plot(own.ravel(), other.ravel(), "o", markersize=4, label=f"layer {number + 1}")
    left.set_xlabel("the model's weights")
    left.set_ylabel("weights found")
    left.legend()
    left.set_title(f"error {pn.parameter_error(found, truth):.0e}", size=11)
    X, _ = patients()
    right.plot(model.predict(X), found(X), ".", markersize=4)
    right.set_xlabel("the model's predictions for patients")
    right.set_ylabel("the copy's")
    return figure


def aligned(found: pn.DeepNetwork, truth: pn.DeepNetwork) -> list[Array]:
    """The weights that were found, units in the order and with the signs of the model's."""
    weights = [np.array(W) for W in found.weights]
    for k in range(truth.layers):
        own = truth.weights[k] / np.linalg.norm(truth.weights[k], axis=1, keepdims=True)
        likeness = own @ (weights[k] / np.linalg.norm(weights[k], axis=1, keepdims=True)).T
        order = np.argmax(np.abs(likeness), axis=1)
        signs = np.sign(likeness[np.arange(len(order)), order])
        weights[k] = weights[k][order] * signs[:, None]
        weights[k + 1] = weights[k + 1][:, order] * signs
    return weights


def main(arguments: list[str] | None = None) -> int:
    """Recover, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Recover a network with two hidden layers.")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the picture")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--widths", type=int, nargs=2, default=[6, 3], help="units of the layers")
    options = parser.parse_args(arguments)
    model = fitted_model(options.widths, options.seed)
    X = inputs_like(patients()[0], SAMPLES, np.random.default_rng(options.seed))
    result = pn.recover(X, model.predict(X), layers=2, activation="tanh", rng=options.seed)
    sys.stdout.write(f"{result.message}\n")
    if result.network is None or list(result.network.widths) != options.widths:
        return 1
    error = pn.parameter_error(result.network, pn.DeepNetwork.from_mlp_regressor(model))
    sys.stdout.write(f"Largest error of a unit: {error:.0e}\n")
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "two_hidden_layers.png"
    draw(model, result.network).savefig(picture, dpi=150)
    sys.stdout.write(f"Picture: {picture}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
