"""Data that no network made: NetworkRegressor beside MLPRegressor with a cross-validated width.

    python benchmarks/real_data.py                          # every set, 3 seeds: several minutes
    python benchmarks/real_data.py --sets diabetes --seeds 5

Every figure is the mean, over seeds, of the mean R^2 of three folds that no fit sees. A seed draws
the folds, and the samples too of the sets that are made (scikit-learn's friedman1, 2 and 3, with
noise of 1, 100 and 0.1). MLPRegressor has inputs and labels standardised, the solver for small data
(lbfgs), and its width and its penalty chosen by cross-validation within the samples to fit. The
error is that of the mean difference of the two over seeds. "Fitted only" counts the fits that say
that nothing was recovered. Prints a Markdown table.
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
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import provenet as pn
from common import machine, markdown_head, markdown_row
from provenet.common.typing import Array
from provenet.data.parallel import one_blas_thread

WIDTHS = ((1,), (2,), (3,), (5,), (8,), (12,), (20,))
PENALTIES = (0.1, 1.0, 10.0)
FOLDS = 3
BUDGET = 2.0
"""Seconds for the search for a hidden network."""

Samples = tuple[Array, Array]
SETS: dict[str, Callable[[int], Samples]] = {
    "diabetes (442, 10)": lambda seed: load_diabetes(return_X_y=True),
    "friedman1 (200, 10)": lambda seed: make_friedman1(200, noise=1.0, random_state=seed),
    "friedman2 (200, 4)": lambda seed: make_friedman2(200, noise=100.0, random_state=seed),
    "friedman3 (200, 4)": lambda seed: make_friedman3(200, noise=0.1, random_state=seed),
    "friedman1 (1000, 10)": lambda seed: make_friedman1(1000, noise=1.0, random_state=seed),
    "friedman2 (1000, 4)": lambda seed: make_friedman2(1000, noise=100.0, random_state=seed),
    "friedman3 (1000, 4)": lambda seed: make_friedman3(1000, noise=0.1, random_state=seed),
}
TITLES = (
    "set",
    "linear regression",
    "MLPRegressor",
    "NetworkRegressor",
    "difference",
    "fitted only",
    "seconds, MLPRegressor",
    "seconds, NetworkRegressor",
)


@dataclass(frozen=True)
class Trial:
    """What one way of fitting reached on one seed."""

    score: float
    seconds: float
    models: list[Any]


def linear(seed: int) -> Any:
    return LinearRegression()


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


def trial(make: Callable[[int], Any], X: Array, y: Array, seed: int) -> Trial:
    scores, seconds, models = [], 0.0, []
    for seen, unseen in KFold(FOLDS, shuffle=True, random_state=seed).split(X):
        model = make(seed)
        begin = time.perf_counter()
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X[seen], y[seen])
        seconds += time.perf_counter() - begin
        scores.append(r2_score(y[unseen], model.predict(X[unseen])))
        models.append(model)
    return Trial(float(np.mean(scores)), seconds / FOLDS, models)


def row(name: str, seeds: int) -> Iterator[str]:
    data = [SETS[name](seed) for seed in range(seeds)]
    plain, rival, own = (
        [trial(make, X, y, seed) for seed, (X, y) in enumerate(data)]
        for make in (linear, perceptron, network)
    )
    yield name
    for trials in (plain, rival, own):
        yield f"{np.mean([t.score for t in trials]):.3f}"
    gains = [mine.score - theirs.score for mine, theirs in zip(own, rival, strict=True)]
    error = np.std(gains, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
    yield f"{np.mean(gains):+.4f} +- {error:.4f}"
    fits = [model.fitted_only_ for t in own for model in t.models]
    yield f"{sum(fits)} of {len(fits)}"
    for trials in (rival, own):
        yield f"{np.mean([t.seconds for t in trials]):.1f}"


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
