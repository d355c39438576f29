"""Extract a black box: a model that may only be asked gives its weights away.

    python examples/extract_black_box.py --out pictures

The black box is a network that scikit-learn fitted to data. All that is used of it is what it
answers. The picture compares the extracted weights with its own, and its answers with those of the
copy, ten times as far out as the data that it was fitted to.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import provenet as pn

FEATURES, UNITS = 8, 6


def fitted_model(rng: np.random.Generator) -> MLPRegressor:
    """A small network, fitted to a curved function; it need not have converged."""
    X = rng.standard_normal((500, FEATURES))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3])
    model = MLPRegressor(hidden_layer_sizes=(UNITS,), solver="lbfgs", max_iter=150, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def own_weights(model: MLPRegressor) -> pn.Network:
    """What the black box hides: used for the comparison alone."""
    (W, A), (b, c) = model.coefs_, model.intercepts_
    return pn.Network(W.T, b, A[:, 0], float(c[0]))


def draw(model: MLPRegressor, result: pn.Recovery) -> Any:
    """Found against true parameters, and predicted against observed answers far out."""
    figure = pn.plotting.new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    truth, found = own_weights(model), result.network
    assert found is not None
    pn.plotting.truth_against_estimate(left, truth, found)
    error = pn.parameter_error(found, truth)
    left.set_title(f"{found.units} units, {result.queries} questions, error {error:.0e}", size=11)
    far = 10 * np.random.default_rng(0).standard_normal((500, FEATURES))
    pn.plotting.predicted_against_observed(right, found, far, model.predict(far))
    right.set_title("answers ten times as far out", size=11)
    return figure


def main(arguments: list[str] | None = None) -> int:
    """Extract, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Extract a black box.")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the picture")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    model = fitted_model(np.random.default_rng(options.seed))
    result = pn.extract(model.predict, FEATURES, rng=options.seed)
    sys.stdout.write(f"{result.message}\n")
    if result.network is None:
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "extract_black_box.png"
    draw(model, result).savefig(picture, dpi=150)
    sys.stdout.write(f"Picture: {picture}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
