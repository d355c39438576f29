"""Data that no network made: NetworkRegressor beside scikit-learn's own regressors.

    python benchmarks/real_data.py                          # every set, 3 seeds: several minutes
    python benchmarks/real_data.py --sets diabetes --seeds 5

Every figure is the mean, over seeds, of the mean R^2 of three folds that no fit sees, and of the
processor seconds of a fit. A seed draws the folds, and the samples too of the sets that are made
(scikit-learn's friedman1, 2 and 3, with noise of 1, 100 and 0.1). Sets of measurements: diabetes,
and columns of wine, iris and breast cancer that follow from the others. Ridge, support vectors and
MLPRegressor have their inputs standardised and their penalty (the last its width, too) chosen by
cross-validation within the samples to fit; MLPRegressor has standardised labels and the solver for
small data (lbfgs). NetworkRegressor and gradient boosting are as they come. "Fitted only" counts
the fits that say that nothing was recovered. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_friedman1,
    make_friedman2,
    make_friedman3,
)
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import provenet as pn
from common import machine, markdown_head, markdown_row
from provenet.common.typing import Array
from provenet.data.passes import one_blas_thread

WIDTHS = ((1,), (2,), (3,), (5,), (8,), (12,), (20,))
PENALTIES = (0.1, 1.0, 10.0)
RIDGES = tuple(10.0 ** np.arange(-3, 4))
FOLDS = 3
BUDGET = 600.0
"""Seconds for a fit: far more than it needs, so that work ends it on a busy machine too."""

Samples = tuple[Array, Array]


def column_of(table: Any, target: int) -> Samples:
    """One column of measurements from the others."""
    return np.delete(table.data, target, axis=1), table.data[:, target]


SETS: dict[str, Callable[[int], Samples]] = {
    "diabetes (442, 10)": lambda seed: load_diabetes(return_X_y=True),
    "wine: alcohol (178, 12)": lambda seed: column_of(load_wine(), 0),
    "iris: petal width (150, 3)": lambda seed: column_of(load_iris(), 3),
    "cancer: smoothness (569, 29)": lambda seed: column_of(load_breast_cancer(), 4),
    "friedman1 (200, 10)": lambda seed: make_friedman1(200, noise=1.0, random_state=seed),
    "friedman2 (200, 4)": lambda seed: make_friedman2(200, noise=100.0, random_state=seed),
    "friedman3 (200, 4)": lambda seed: make_friedman3(200, noise=0.1, random_state=seed),
    "friedman1 (1000, 10)": lambda seed: make_friedman1(1000, noise=1.0, random_state=seed),
    "friedman2 (1000, 4)": lambda seed: make_friedman2(1000, noise=100.0, random_state=seed),
    "friedman3 (1000, 4)": lambda seed: make_friedman3(1000, noise=0.1, random_state=seed),
}


@dataclass(frozen=True)
class Trial:
    """What one way of fitting reached on one seed."""

    score: float
    seconds: float
    models: list[Any]


def ridge(seed: int) -> Any:
    return make_pipeline(StandardScaler(), RidgeCV(RIDGES))


def boosting(seed: int) -> Any:
    return GradientBoostingRegressor(random_state=seed)


def vectors(seed: int) -> Any:
    model = make_pipeline(StandardScaler(), SVR())
    grid = {"svr__C": [0.1, 1.0, 10.0, 100.0], "svr__gamma": [0.01, 0.1, 1.0]}
    return TransformedTargetRegressor(
        GridSearchCV(model, grid, cv=FOLDS), transformer=StandardScaler()
    )


def perceptron(seed: int) -> Any:
    model = make_pipeline(
        StandardScaler(), MLPRegressor(solver="lbfgs", max_iter=500, random_state=seed)
    )
    grid = {
        "mlpregressor__hidden_layer_sizes": list(WIDTHS),
        "mlpregressor__alpha": list(PENALTIES),
    }
    search = GridSearchCV(model, grid, cv=FOLDS)
    return TransformedTargetRegressor(search, transformer=StandardScaler())


def network(seed: int) -> Any:
    return pn.NetworkRegressor(budget=BUDGET, random_state=seed)


MODELS: dict[str, Callable[[int], Any]] = {
    "ridge": ridge,
    "gradient boosting": boosting,
    "support vectors": vectors,
    "MLPRegressor": perceptron,
    "NetworkRegressor": network,
}
TITLES = ("set", *MODELS, "fitted only", "s, MLPRegressor", "s, NetworkRegressor")


def trial(make: Callable[[int], Any], X: Array, y: Array, seed: int) -> Trial:
    scores, seconds, models = [], 0.0, []
    for seen, unseen in KFold(FOLDS, shuffle=True, random_state=seed).split(X):
        model = make(seed)
        begin = time.process_time()
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X[seen], y[seen])
        seconds += time.process_time() - begin
        scores.append(r2_score(y[unseen], model.predict(X[unseen])))
        models.append(model)
    return Trial(float(np.mean(scores)), seconds / FOLDS, models)


def row(name: str, seeds: int) -> Iterator[str]:
    data = [SETS[name](seed) for seed in range(seeds)]
    trials = {
        title: [trial(make, X, y, seed) for seed, (X, y) in enumerate(data)]
        for title, make in MODELS.items()
    }
    scores = {title: float(np.mean([t.score for t in found])) for title, found in trials.items()}
    yield name
    for score in scores.values():
        best = score >= max(scores.values())
        yield f"**{score:.3f}**" if best else f"{score:.3f}"
    fits = [model.fitted_only_ for t in trials["NetworkRegressor"] for model in t.models]
    yield f"{sum(fits)} of {len(fits)}"
    for title in ("MLPRegressor", "NetworkRegressor"):
        yield f"{np.mean([t.seconds for t in trials[title]]):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=[], help="beginnings of names of sets")
    options = parser.parse_args()
    names = [s for s in SETS if s.startswith(tuple(options.sets)) or not options.sets]
    print(f"{machine()}\n")
    print(markdown_head(TITLES))
    for name in names:
        print(markdown_row(row(name, options.seeds)), flush=True)


if __name__ == "__main__":
    main()
