"""Halfspaces for two classes that no union of halfspaces made: fitted, nothing is recovered.

A union of k halfspaces fires where `g(x) = max_i (w_i.x - t_i)` is positive. With signs s = +-1 for
samples that should fire and others it minimises

    sum log(1 + exp(-s g)) + |W|^2 / 2

by L-BFGS on standardised inputs: logistic regression for k = 1. It starts from the samples that
fire in k clusters, each told from the others by linear regression. An intersection is the
complement of the union of the complement's halfspaces. Which of the two, and how many halfspaces,
is chosen by the held-out value of the same loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from provenet.common.typing import AnyArray, Array
from provenet.estimators.deadlines import choice_deadline, is_over, stop_after
from provenet.estimators.tolerances import (
    CONSTANT,
    FOLDS,
    HALFSPACE_ITERATIONS,
    HALFSPACE_PATIENCE,
    HALFSPACE_TOLERANCE,
    MOST_HALFSPACES,
    MOST_ROWS_TO_COUNT,
    ROUNDS_OF_CLUSTERING,
    SAMPLES_A_PARAMETER,
    TINY_SPREAD,
)
from provenet.lowest_layer.unions.faces import Flags

Parts = Sequence[tuple[AnyArray, AnyArray]]
"""Numbers of the samples to fit and of those to judge by, part by part."""


@dataclass(frozen=True)
class FittedHalfspaces:
    """Halfspaces `weights_i . x > thresholds_i` and how many samples left out they get wrong."""

    weights: Array
    """(units, features), rows of norm 1 (0 for a halfspace that is everything or nothing)."""
    thresholds: Array
    intersection: bool
    error: float
    """Share of held-out samples; nan if there were too few to hold any out."""

    def __call__(self, X: Array) -> Flags:
        """Which samples fire."""
        return np.asarray(margin(X, self.weights, self.thresholds, self.intersection) > 0)


def margin(X: Array, weights: Array, thresholds: Array, intersection: bool) -> Array:
    """How far inside a union, or an intersection, samples are; negative outside."""
    inside = X @ weights.T - thresholds
    return np.asarray(inside.min(axis=1) if intersection else inside.max(axis=1))


def fit_halfspaces(
    X: Array,
    fired: Flags,
    *,
    units: int | None = None,
    intersection: bool | None = None,
    rng: np.random.Generator,
    deadline: float = np.inf,
) -> FittedHalfspaces:
    """Fit samples (n, features), some of which fire, by as many halfspaces as held-out loss wants.

    With `units` there are so many; with `intersection` of that kind. Some must fire and some not.
    After `deadline` the step that is under way is the last.
    """
    mean, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale <= CONSTANT * np.abs(mean) + TINY_SPREAD] = np.inf
    Z = (X - mean) / scale
    with threadpool_limits(limits=1):  # BLAS, and the loops of KMeans: these problems are small
        choice = _choose(Z, fired, units, intersection, rng, choice_deadline(deadline))
        theta = _fit(Z, fired != choice.complement, choice.units, rng, deadline)
    sign = -1.0 if choice.complement else 1.0
    weights, thresholds = sign * theta[:, :-1] / scale, -sign * theta[:, -1]
    thresholds = thresholds + weights @ mean
    size = np.linalg.norm(weights, axis=1)
    size[size == 0] = 1.0
    return FittedHalfspaces(
        weights / size[:, None], thresholds / size, choice.complement, choice.error
    )


@dataclass(frozen=True)
class _CountChoice:
    complement: bool
    units: int
    loss: float
    error: float


def _choose(
    X: Array,
    fired: Flags,
    units: int | None,
    intersection: bool | None,
    rng: np.random.Generator,
    deadline: float,
) -> _CountChoice:
    """Kind and number of the least held-out loss; one halfspace is both, so a union comes first."""
    kinds = (False, True) if intersection is None else (intersection,)
    folds = min(FOLDS, int(fired.sum()), int((~fired).sum()))
    if folds < 2:
        return _CountChoice(kinds[0], units or 1, np.inf, np.nan)
    order = rng.permutation(len(X))[:MOST_ROWS_TO_COUNT]
    X, fired = X[order], fired[order]
    parts = list(StratifiedKFold(folds).split(X, fired))  # the order is random already
    tried: list[_CountChoice] = []
    for complement in kinds:
        tried.extend(_growing(X, fired, complement, units, parts, rng, deadline))
    return min(tried, key=lambda choice: choice.loss)


def _growing(
    X: Array,
    fired: Flags,
    complement: bool,
    units: int | None,
    parts: Parts,
    rng: np.random.Generator,
    deadline: float,
) -> Iterator[_CountChoice]:
    """Held-out losses of more and more halfspaces, until more no longer pay."""
    lowest, failures = np.inf, 0
    most = int(np.clip(len(X) // (SAMPLES_A_PARAMETER * (X.shape[1] + 1)), 1, MOST_HALFSPACES))
    for count in range(1, most + 1) if units is None else (units,):
        loss, error = _held_out(X, fired != complement, count, parts, rng, deadline)
        yield _CountChoice(complement, count, loss, error)
        failures = 0 if loss < lowest else failures + 1
        lowest = min(lowest, loss)
        if failures == HALFSPACE_PATIENCE or is_over(deadline):
            return


def _held_out(
    X: Array,
    fired: Flags,
    units: int,
    parts: Parts,
    rng: np.random.Generator,
    deadline: float,
) -> tuple[float, float]:
    """Mean loss, and share of wrong answers, on parts that were left out."""
    losses, wrong = 0.0, 0
    for seen, unseen in parts:
        theta = _fit(X[seen], fired[seen], units, rng, deadline)
        g = (X[unseen] @ theta[:, :-1].T + theta[:, -1]).max(axis=1)
        losses += float(np.logaddexp(0.0, np.where(fired[unseen], -g, g)).sum())
        wrong += int(np.sum((g > 0) != fired[unseen]))
    return losses / len(X), wrong / len(X)


def _fit(X: Array, fired: Flags, units: int, rng: np.random.Generator, deadline: float) -> Array:
    """Rows (w, -t) of a union of halfspaces."""
    inputs = np.column_stack([X, np.ones(len(X))])
    sign = np.where(fired, 1.0, -1.0)
    start = _start(inputs, fired, units, rng)
    found = minimize(
        _loss,
        start.ravel(),
        args=(inputs, sign, units),
        jac=True,
        method="L-BFGS-B",
        callback=stop_after(deadline),
        options={
            "maxiter": HALFSPACE_ITERATIONS,
            "ftol": HALFSPACE_TOLERANCE,
            "maxfun": HALFSPACE_ITERATIONS,
        },
    )
    return np.asarray(found.x).reshape(units, -1)


def _loss(packed: Array, inputs: Array, sign: Array, units: int) -> tuple[float, Array]:
    theta = packed.reshape(units, -1)
    z = inputs @ theta.T
    largest = np.argmax(z, axis=1)
    g = sign * z[np.arange(len(z)), largest]
    pull = -sign * expit(-g)
    pulls = np.zeros_like(z)
    pulls[np.arange(len(z)), largest] = pull
    penalised = theta.copy()
    penalised[:, -1] = 0.0
    value = np.sum(np.logaddexp(0.0, -g)) + np.vdot(penalised, penalised) / 2
    return float(value) / len(z), (pulls.T @ inputs + penalised).ravel() / len(z)


def _start(inputs: Array, fired: Flags, units: int, rng: np.random.Generator) -> Array:
    """Each of k clusters of the samples that fire, told from those that do not."""
    inside, outside = inputs[fired], inputs[~fired]
    cluster = _clusters(inside, units, rng)
    rows = []
    for k in range(units):
        members = inside[cluster == k] if np.any(cluster == k) else inside
        both = np.vstack([members, outside])
        target = np.append(np.ones(len(members)), -np.ones(len(outside)))
        gram = both.T @ both + np.eye(inputs.shape[1])
        rows.append(np.linalg.solve(gram, both.T @ target))
    return np.array(rows)


def _clusters(rows: Array, count: int, rng: np.random.Generator) -> AnyArray:
    """The number of its cluster for each row; no more clusters than different rows."""
    different = min(count, len(np.unique(rows, axis=0)))
    seed = int(rng.integers(2**31))
    means = KMeans(different, n_init=1, max_iter=ROUNDS_OF_CLUSTERING, random_state=seed)
    return np.asarray(means.fit_predict(rows))
