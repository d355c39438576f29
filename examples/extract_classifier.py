"""Extract a classifier: what it answers with are probabilities, and they give its weights away.

    python examples/extract_classifier.py --out pictures

The classifier is one that scikit-learn fitted to two moons. Its log-odds are piecewise linear: they
are traced where the model is not saturated. The picture compares the extracted weights with its
own, and shows its probabilities with the kinks of the units that were found. (With some seeds the
fit leaves units that are off at all inputs near the data: those are not found.)
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

import provenet as pn

UNITS = 6


def fitted_model(seed: int) -> MLPClassifier:
    """A small network, fitted to two moons; it need not have converged."""
    X, y = make_moons(300, noise=0.2, random_state=seed)
    model = MLPClassifier((UNITS,), max_iter=400, alpha=0.01, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def draw(model: MLPClassifier, result: pn.Recovery) -> Any:
    """Found against true parameters; probabilities and kinks in the plane."""
    figure = pn.plotting.new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    truth, found = pn.Network.from_mlp_classifier(model), result.network
    pn.plotting.truth_against_estimate(left, truth, found)
    error = pn.parameter_error(found, truth)
    left.set_title(f"{found.units} units, {result.queries} questions, error {error:.0e}", size=11)
    side = np.linspace(-3.0, 3.0, 120)
    plane = np.stack(np.meshgrid(side, side), axis=-1)
    p = found.predict_proba(plane.reshape(-1, 2))[:, 1].reshape(plane.shape[:2])
    right.contourf(side, side, p, levels=np.linspace(0, 1, 11), cmap="RdBu")
    for w, b in zip(found.weights, found.biases, strict=True):
        right.contour(side, side, plane @ w + b, levels=[0.0], colors="black", linewidths=0.8)
    right.set_title("probabilities, and the units' kinks", size=11)
    return figure


def main(arguments: list[str] | None = None) -> int:
    """Extract, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Extract a classifier.")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the picture")
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args(arguments)
    model = fitted_model(options.seed)
    result = pn.extract(model, rng=options.seed)
    sys.stdout.write(f"{result.message}\n")
    if result.network is None:
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "extract_classifier.png"
    draw(model, result).savefig(picture, dpi=150)
    sys.stdout.write(f"Picture: {picture}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
