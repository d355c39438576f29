"""Extract a network of tanh units that was trained on the diabetes data, by asking it.

    python examples/extract_smooth_units.py --out pictures

Smooth units have no kinks to be traced: random questions are asked, and the search on them finds
the width and every weight. The picture compares these with the model's own, and answers of the copy
with those of the model for the patients that it was trained on, which were never asked about.
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

UNITS = 4


def patients() -> tuple[Array, Array]:
    """Standardised inputs and labels."""
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), (y - y.mean()) / y.std()


def fitted_model(seed: int) -> MLPRegressor:
    """A small network; it need not have converged."""
    model = MLPRegressor(
        hidden_layer_sizes=(UNITS,),
        activation="tanh",
        solver="lbfgs",
        alpha=1.0,
        max_iter=200,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*patients())


def draw(model: MLPRegressor, result: pn.Recovery) -> Any:
    """Found against true parameters, and predicted against observed answers for patients."""
    figure = pn.plotting.new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    truth, found = pn.Network.from_mlp_regressor(model), result.network
    assert found is not None
    pn.plotting.truth_against_estimate(left, truth, found)
    error = pn.parameter_error(found, truth)
    left.set_title(f"{found.units} units, {result.queries} questions, error {error:.0e}", size=11)
    X, _ = patients()
    pn.plotting.predicted_against_observed(right, found, X, np.asarray(model.predict(X)))
    right.set_title("answers for patients", size=11)
    return figure


def main(arguments: list[str] | None = None) -> int:
    """Extract, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Extract a network of smooth units.")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the picture")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    model = fitted_model(options.seed)
    features = model.n_features_in_
    result = pn.extract(model.predict, features, activation="tanh", rng=options.seed)
    sys.stdout.write(f"{result.message}\n")
    if result.network is None:
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "extract_smooth_units.png"
    draw(model, result).savefig(picture, dpi=150)
    sys.stdout.write(f"Picture: {picture}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
