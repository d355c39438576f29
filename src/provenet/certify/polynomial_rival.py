"""Whether log-odds of degree two explain class labels as well as a network's units do.

Each label tells so little that a few kinks and a parabola may look alike. Both are compared by
Schwarz's criterion `-2 log L + p log(n)`; a difference is twice the logarithm of their odds.
"""

from __future__ import annotations

import warnings
from math import comb

import numpy as np

from provenet.certify.tolerances import MOST_OF_DEGREE_TWO, POLYNOMIAL_RIDGE, RIVAL_STEPS
from provenet.common.typing import TINY, Array
from provenet.networks.hermite import hermite_rows


def polynomial_behind(Z: Array, labels: Array, p: Array, parameters: int) -> float:
    """By how much the criterion of degree two is higher than that of the network.

    `labels` has a one in the column of the class, `p` the network's probabilities. Infinite where
    there are too many terms to be worth their price, or a single class.
    """
    terms, seen = comb(Z.shape[1] + 2, 2), labels.any(axis=0)
    if terms > MOST_OF_DEGREE_TWO or seen.sum() < 2:
        return float("inf")
    price = np.log(len(Z)) * (terms * (labels.shape[1] - 1) - parameters)
    rival = _of_degree_two(Z, np.argmax(labels, axis=1))
    return float(_deviance(rival, labels[:, seen]) - _deviance(p, labels) + price)


def _of_degree_two(Z: Array, classes: Array) -> Array:
    """The most likely probabilities whose log-odds are polynomials of degree two."""
    from sklearn.exceptions import ConvergenceWarning  # slow to import
    from sklearn.linear_model import LogisticRegression

    rows = hermite_rows(Z, 2).T
    fit = LogisticRegression(C=1 / POLYNOMIAL_RIDGE, max_iter=RIVAL_STEPS)
    with warnings.catch_warnings():  # log-odds that still grow tell all labels apart
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(fit.fit(rows, classes).predict_proba(rows))


def _deviance(p: Array, labels: Array) -> float:
    return float(-2 * np.log(np.maximum(np.sum(p * labels, axis=1), TINY)).sum())
