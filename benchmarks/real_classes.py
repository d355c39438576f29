"""Classes that no network made: NetworkClassifier beside scikit-learn's own classifiers.

    python benchmarks/real_classes.py                        # every set, 3 seeds: half an hour
    python benchmarks/real_classes.py --sets moons --seeds 5

MLPClassifier has its width and its penalty chosen by cross-validated log-loss (lbfgs, inputs
standardised); logistic regression, a support vector machine whose probabilities are calibrated, and
gradient boosting have a parameter each chosen in the same way. Figures are the mean log-loss and
accuracy of three folds, each with its share of every class, over seeds, which draw the folds and,
where sets are made, the samples; the error is that of the mean over seeds. Seconds are those of the
processor for one fit, the search included. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_circles,
    make_moons,
)
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import provenet as pn
from common import machine, markdown_head, markdown_row
from provenet.common.typing import Array
from provenet.data.passes import one_blas_thread

FOLDS = 3
Samples = tuple[Array, Array]
WIDTHS = ((2,), (5,), (10,), (20,), (50,))
PENALTIES = (0.01, 0.1, 1.0, 10.0)
SETS: dict[str, Callable[[int], Samples]] = {
    "wine (178, 13, 3 classes)": lambda seed: load_wine(return_X_y=True),
    "breast cancer (569, 30)": lambda seed: load_breast_cancer(return_X_y=True),
    "moons (300, 2)": lambda seed: make_moons(300, noise=0.25, random_state=seed),
    "circles (300, 2)": lambda seed: make_circles(300, noise=0.15, factor=0.5, random_state=seed),
    "digits (1797, 64, 10 classes)": lambda seed: load_digits(return_X_y=True),
}


def searched(model: Any, **grid: Any) -> Any:
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=FOLDS)


CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "NetworkClassifier": lambda seed: pn.NetworkClassifier(budget=600.0, random_state=seed),
    "MLPClassifier": lambda seed: searched(
        make_pipeline(
            StandardScaler(), MLPClassifier(solver="lbfgs", max_iter=500, random_state=seed)
        ),
        mlpclassifier__hidden_layer_sizes=list(WIDTHS),
        mlpclassifier__alpha=list(PENALTIES),
    ),
    "logistic regression": lambda seed: searched(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        logisticregression__C=[0.01, 0.1, 1.0, 10.0],
    ),
    "SVC, calibrated": lambda seed: searched(
        make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False, cv=FOLDS)),
        calibratedclassifiercv__estimator__C=[0.1, 1.0, 10.0, 100.0],
    ),
    "gradient boosting": lambda seed: searched(
        HistGradientBoostingClassifier(random_state=seed, max_iter=60),
        learning_rate=[0.03, 0.1, 0.3],
    ),
}
TITLES = ("set", "measure", *CLASSIFIERS)


@dataclass(frozen=True)
class Trial:
    """What one way of fitting classes reached on one seed."""

    log_loss: float
    accuracy: float
    seconds: float


def trial(make: Callable[[int], Any], X: Array, y: Array, seed: int) -> Trial:
    losses, right, seconds = [], [], 0.0
    for seen, unseen in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y):
        model, begin = make(seed), time.process_time()
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            model.fit(X[seen], y[seen])
        seconds += time.process_time() - begin
        losses.append(log_loss(y[unseen], model.predict_proba(X[unseen])))
        right.append(accuracy_score(y[unseen], model.predict(X[unseen])))
    return Trial(float(np.mean(losses)), float(np.mean(right)), seconds / FOLDS)


def rows(name: str, seeds: range) -> Iterator[list[str]]:
    data = [SETS[name](seed) for seed in seeds]
    trials = [
        [trial(make, X, y, seed) for seed, (X, y) in zip(seeds, data, strict=True)]
        for make in CLASSIFIERS.values()
    ]
    yield [name, "log-loss", *(_with_error([t.log_loss for t in own]) for own in trials)]
    yield ["", "accuracy", *(f"{np.mean([t.accuracy for t in own]):.3f}" for own in trials)]
    yield ["", "seconds", *(f"{np.mean([t.seconds for t in own]):.1f}" for own in trials)]


def _with_error(figures: list[float]) -> str:
    if len(figures) == 1:
        return f"{figures[0]:.3f}"
    error = np.std(figures, ddof=1) / np.sqrt(len(figures))
    return f"{np.mean(figures):.3f} +- {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--sets", nargs="*", default=[], help="beginnings of names of sets")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    names = [s for s in SETS if s.startswith(tuple(options.sets)) or not options.sets]
    print(f"{machine()}\n")
    print(markdown_head(TITLES))
    for name in names:
        for cells in rows(name, seeds):
            print(markdown_row(cells), flush=True)


if __name__ == "__main__":
    main()
