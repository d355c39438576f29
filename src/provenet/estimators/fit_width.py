"""A network for labels that no network made: expand and prune, the width by held-out error.

Nothing is recovered here. Inputs and labels are brought to mean 0 and spread 1, and networks of
growing width are fitted with a penalty on their weights (`penalised`): each starts from the one
before it and from the new units that best explain what that one leaves (`search.promising_units`).
Every width and penalty is tried on all but one of five parts of the samples and judged on the part
left out. Growth ends where that no longer pays; so does the fall of the penalty. The best pair is
fitted again on all samples. Few noisy samples leave several minima nearly alike, and the mean of
fits from different starts predicts better than any of them; it is a network, too. So five fits are
joined to one network, unless the width was given or samples are many, and units that do nothing are
pruned.

Linear regression is the first of the candidates, so a network is chosen only where it predicts
unseen samples better.

For class labels everything is the same with the deviance in place of the square (`fitting.losses`):
labels are not scaled, every part has its share of each class, and logistic regression is the first
of the candidates. Samples may have weights. Equal samples are one sample that counts as much as
they do together, and samples are put into an order of their own: a weight of two and a sample given
twice are the same thing, and no sample is judged by its twin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.model_selection import KFold

from provenet.common.typing import AnyArray, Array
from provenet.data.passes import one_blas_thread
from provenet.data.sources import ArraySource
from provenet.data.standardisation import Standardisation
from provenet.estimators.deadlines import choice_deadline, is_over
from provenet.estimators.penalised import Penalised
from provenet.estimators.tolerances import (
    CLASS_PATIENCE,
    CONSTANT,
    FITS_TO_AVERAGE,
    FOLDS,
    ITERATIONS,
    LAST_ITERATIONS,
    LAST_TOLERANCE,
    MOST_ROWS_TO_CHOOSE,
    PATIENCE,
    RIDGES,
    SAMPLES_A_UNIT,
    TINY_SPREAD,
    TOLERANCE,
    USELESS,
    WELL_ABOVE,
    WIDTHS,
)
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Linearisation, Parameters
from provenet.fitting.search.moves import promising_units
from provenet.fitting.search.problem import Problem
from provenet.networks.activations import ABS, Activation
from provenet.networks.network import Network
from provenet.networks.piecewise import as_rectified


@dataclass(frozen=True)
class WidthFit:
    """A fitted network, and the held-out errors by which its width was chosen."""

    network: Network
    width: int
    """Of one fit; the network joins several of them, less what was pruned, where it was chosen."""
    ridge: float
    """The penalty on the weights, for inputs and labels of spread 1."""
    error: float
    """Mean held-out deviance: of class labels, twice the log-loss; else the square error over the
    labels' variance, of which 1 or so says that nothing was learned."""
    linear_error: float
    """The same of linear, or logistic, regression."""
    chosen: bool
    """Whether the width was chosen, not given."""
    errors: dict[tuple[float, int], float] = field(repr=False)
    """The same by penalty and width, for all that were tried."""


@dataclass(frozen=True)
class _Scaled:
    """Samples with inputs and labels of mean 0 and spread 1; what is constant stays 0."""

    X: Array
    Y: Array
    weights: Array | None
    standardisation: Standardisation
    label_scale: Array
    loss: Loss

    def rows(self, which: AnyArray) -> _Scaled:
        weights = None if self.weights is None else _of_mean_one(self.weights[which])
        return replace(self, X=self.X[which], Y=self.Y[which], weights=weights)

    def penalised(self, ridge: float, kind: _UnitKind) -> Penalised:
        return Penalised(self.X, self.Y, ridge, kind.fitted, self.loss, self.weights)


def fit_width(
    X: Array,
    y: Array,
    *,
    activation: Activation,
    units: int | None = None,
    rng: np.random.Generator,
    deadline: float = np.inf,
    loss: Loss = SQUARES,
    weights: Array | None = None,
) -> WidthFit:
    """Fit samples (n, features) and (n,) or (n, outputs) by as many units as held-out error wants.

    With `units` the width is that one. After `deadline` the step that is under way is the last.
    `weights` (n,) say what each sample counts.
    """
    scaled = _scaled(*_merged(X, y.reshape(len(y), -1), weights), loss)
    kind = _UnitKind(activation)
    widths = _widths(len(scaled.X), units)
    with one_blas_thread():
        choice = _choose(scaled, kind, widths, rng, choice_deadline(deadline), units)
        parameters = _refitted(scaled, kind, choice, widths, rng, units, deadline)
    network = _to_user(parameters, kind, scaled, several=y.ndim > 1)
    best = choice.errors[choice.ridge, choice.width]
    linear = min(error for (_, width), error in choice.errors.items() if width == 0)
    return WidthFit(network, choice.width, choice.ridge, best, linear, units is None, choice.errors)


@dataclass(frozen=True)
class _UnitKind:
    """What is fitted in place of units of an activation."""

    activation: Activation

    @property
    def fitted(self) -> Activation:
        return ABS if self.linear else self.activation

    @property
    def linear(self) -> bool:
        """Whether there is a linear part: where units can carry it (not for absolute values)."""
        return self.activation.slope is not None and self.activation.slope != -1


def _widths(samples: int, units: int | None) -> tuple[int, ...]:
    if units is None:
        return tuple(w for w in WIDTHS if w * SAMPLES_A_UNIT <= samples)
    return (*(w for w in WIDTHS if w < units), units)


def _merged(X: Array, Y: Array, weights: Array | None) -> tuple[Array, Array, Array | None]:
    """Samples that differ, in an order of their own, and what each counts (None: all alike)."""
    weights = np.ones(len(X)) if weights is None else weights
    X, Y, weights = X[weights > 0], Y[weights > 0], weights[weights > 0]
    both, group = np.unique(np.column_stack([X, Y]), axis=0, return_inverse=True)
    if len(both) == len(X) and np.ptp(weights) == 0:
        return X, Y, None
    total = np.bincount(group.ravel(), weights, len(both)).astype(float)
    features = X.shape[1]
    return both[:, :features], both[:, features:], _of_mean_one(total)


def _of_mean_one(weights: Array) -> Array:
    return np.asarray(weights / weights.mean())


def _scaled(X: Array, Y: Array, weights: Array | None, loss: Loss) -> _Scaled:
    mean, label_mean = np.average(X, 0, weights), np.zeros(Y.shape[1])
    scale, label_scale = _spread(X, mean, weights), np.ones(Y.shape[1])
    if loss is SQUARES:
        label_mean = np.average(Y, 0, weights)
        label_scale = _spread(Y, label_mean, weights)
    whiten = np.diag(np.where(np.isfinite(scale), 1 / scale, 0.0))
    standardisation = Standardisation(
        mean, whiten, label_mean, 1.0, np.zeros((Y.shape[1], len(mean))), len(X)
    )
    labels = (Y - label_mean) / label_scale
    return _Scaled(standardisation.apply(X), labels, weights, standardisation, label_scale, loss)


def _spread(values: Array, mean: Array, weights: Array | None) -> Array:
    """Standard deviations; infinite for what is constant, so that it is divided to zero."""
    spread = np.sqrt(np.average((values - mean) ** 2, 0, weights))
    return np.where(spread > CONSTANT * np.abs(mean) + TINY_SPREAD, spread, np.inf)


# ---------------------------------------------------------------- the choice


@dataclass(frozen=True)
class _WidthChoice:
    ridge: float
    width: int
    errors: dict[tuple[float, int], float]


def _choose(
    scaled: _Scaled,
    kind: _UnitKind,
    widths: Sequence[int],
    rng: np.random.Generator,
    deadline: float,
    units: int | None,
) -> _WidthChoice:
    """Penalty and width of the least held-out error."""
    splits = list(_splits(scaled, rng))
    seeds = rng.integers(2**32, size=len(splits))
    errors = {}
    if scaled.loss is SQUARES:  # without a penalty classes that can be told apart have no fit
        plain = [train.penalised(0.0, kind).linear_fit(kind.linear) for train, _ in splits]
        errors[0.0, 0] = _held_out(splits, kind, plain)
    lowest, failures, before = np.inf, 0, 0
    patience = PATIENCE if scaled.loss is SQUARES else CLASS_PATIENCE
    for ridge in RIDGES if scaled.loss is SQUARES else _from_where_it_matters(splits, kind):
        along = _errors_by_width(splits, kind, ridge, widths, seeds, deadline, units, before)
        if scaled.loss is not SQUARES:
            before = min(along, key=lambda width: along[width])
        errors |= {(ridge, width): error for width, error in along.items()}
        reached = min(along.values()) if units is None else along[units]
        failures = 0 if reached < lowest else failures + 1
        lowest = min(lowest, reached)
        if failures == patience or is_over(deadline):
            break
    candidates = [key for key in errors if units is None or key[1] == units]
    ridge, width = min(candidates, key=lambda key: errors[key])
    return _WidthChoice(ridge, width, errors)


def _splits(scaled: _Scaled, rng: np.random.Generator) -> Iterator[tuple[_Scaled, _Scaled]]:
    """Samples to fit and samples to judge by; of a great many samples only some."""
    order = rng.permutation(len(scaled.X))[:MOST_ROWS_TO_CHOOSE]
    if len(order) == 1:
        yield scaled, scaled
        return
    parts = min(FOLDS, len(order))
    if scaled.loss is not SQUARES:  # of each class every so many to the same part
        order = order[np.argsort(_classes(scaled.Y[order]), kind="stable")]
        folds = [np.arange(len(order)) % parts == part for part in range(parts)]
    else:
        folds = [np.isin(np.arange(len(order)), u) for _, u in KFold(parts).split(order)]
    for unseen in folds:
        yield scaled.rows(order[~unseen]), scaled.rows(order[unseen])


def _from_where_it_matters(
    splits: Sequence[tuple[_Scaled, _Scaled]], kind: _UnitKind
) -> tuple[float, ...]:
    """Penalties from well above what is best without units."""

    def error(ridge: float) -> float:
        fits = [train.penalised(ridge, kind).linear_fit(kind.linear) for train, _ in splits]
        return _held_out(splits, kind, fits)

    best = min(RIDGES, key=error)
    return tuple(ridge for ridge in RIDGES if ridge <= WELL_ABOVE * best)


def _classes(Y: Array) -> AnyArray:
    return np.asarray(Y[:, 0] if Y.shape[1] == 1 else Y.argmax(axis=1))


def _errors_by_width(
    splits: Sequence[tuple[_Scaled, _Scaled]],
    kind: _UnitKind,
    ridge: float,
    widths: Sequence[int],
    seeds: AnyArray,
    deadline: float,
    units: int | None,
    before: int,
) -> dict[int, float]:
    """Held-out error of growing widths at one penalty, until growth no longer pays.

    Not before the width that was best at the penalty before: with less of it a few units may do
    worse than none, and many better.
    """
    paths = [
        _path(train, kind, ridge, widths, np.random.default_rng(seed), deadline)
        for (train, _), seed in zip(splits, seeds, strict=True)
    ]
    if units is not None:
        none = _held_out(splits, kind, [next(path) for path in paths])
        return {
            0: none,
            units: _held_out(splits, kind, [deque(path, maxlen=1)[0] for path in paths]),
        }
    errors: dict[int, float] = {}
    lowest, failures = np.inf, 0
    for width in (0, *widths):
        errors[width] = _held_out(splits, kind, [next(path) for path in paths])
        failures = 0 if errors[width] < lowest or width <= before else failures + 1
        lowest = min(lowest, errors[width])
        if failures == PATIENCE or is_over(deadline):
            break
    return errors


def _path(
    samples: _Scaled,
    kind: _UnitKind,
    ridge: float,
    widths: Sequence[int],
    rng: np.random.Generator,
    deadline: float,
) -> Iterator[Parameters]:
    """Without units, then of each width in turn, each grown from the one before it."""
    penalised = samples.penalised(ridge, kind)
    source = ArraySource(samples.X, samples.Y)
    problem = Problem(source, 1.0, activation=kind.fitted, loss=samples.loss)
    parameters = penalised.linear_fit(kind.linear)
    yield parameters
    for width in widths:
        new = promising_units(problem, parameters, width - parameters.units, rng)
        parameters = penalised.minimise(parameters.widened(new), ITERATIONS, TOLERANCE, deadline)
        yield parameters


def _held_out(
    splits: Sequence[tuple[_Scaled, _Scaled]], kind: _UnitKind, fits: Sequence[Parameters]
) -> float:
    """Mean deviance of the samples left out, an output where labels are numbers."""
    total, count = 0.0, 0
    for (_, unseen), fit in zip(splits, fits, strict=True):
        values = Linearisation.of(fit, kind.fitted, unseen.X).values
        deviance = unseen.loss.deviance(values, unseen.Y)
        total += float(deviance.sum() if unseen.weights is None else deviance @ unseen.weights)
        varied = int(np.isfinite(unseen.label_scale).sum()) if unseen.loss is SQUARES else 1
        count += len(values) * max(varied, 1)
    return total / count


# ---------------------------------------------------------------- the network


def _refitted(
    scaled: _Scaled,
    kind: _UnitKind,
    choice: _WidthChoice,
    widths: Sequence[int],
    rng: np.random.Generator,
    units: int | None,
    deadline: float,
) -> Parameters:
    """The chosen width and penalty on all samples; a mean of several fits where that is free."""
    penalised = scaled.penalised(choice.ridge, kind)
    if choice.width == 0:
        return penalised.linear_fit(kind.linear)
    path = [width for width in widths if width <= choice.width]
    fits = FITS_TO_AVERAGE if units is None and len(scaled.X) <= MOST_ROWS_TO_CHOOSE else 1
    found: list[Parameters] = []
    while len(found) < fits and not (found and is_over(deadline)):
        *_, grown = _path(scaled, kind, choice.ridge, path, rng, deadline)
        found.append(penalised.minimise(grown, LAST_ITERATIONS, LAST_TOLERANCE, deadline))
    mean = _mean(found)
    return mean if units is not None else _pruned(penalised, mean)


def _mean(fits: Sequence[Parameters]) -> Parameters:
    """One model of all units whose values are the mean of the fits'."""
    units = [fit.beta[: fit.units] / len(fits) for fit in fits]
    linear = np.mean([fit.linear for fit in fits], axis=0)
    return Parameters(np.concatenate([fit.theta for fit in fits]), np.concatenate([*units, linear]))


def _pruned(penalised: Penalised, fit: Parameters) -> Parameters:
    """Without the units that hardly change a value."""
    top = Linearisation.of(fit, penalised.activation, penalised.X).top
    moved = np.std(top, axis=0) * np.linalg.norm(fit.output_weights, axis=0)
    useful = moved > USELESS
    constant = top.mean(axis=0)[~useful] @ fit.beta[: fit.units][~useful]
    kept = fit.keep(useful)
    beta = kept.beta.copy()
    beta[-1] += constant
    return Parameters(kept.theta, beta)


def _to_user(parameters: Parameters, kind: _UnitKind, scaled: _Scaled, several: bool) -> Network:
    """The network of the user's inputs and labels."""
    own = parameters.network(kind.fitted)
    if kind.linear:
        own = as_rectified(own, activation=kind.activation)
    network = scaled.standardisation.network_to_user(own)
    scale = np.where(np.isfinite(scaled.label_scale), scaled.label_scale, 0.0)
    A = network.output_weights * scale[:, None]
    c = network.output_bias * scale + scaled.standardisation.label_mean
    V = None if network.linear is None else network.linear * scale[:, None]
    V = V if V is not None and V.any() else None
    if several:
        return network.replace(output_weights=A, output_bias=c, linear=V)
    linear = None if V is None else V[0]
    return network.replace(output_weights=A[0], output_bias=float(c[0]), linear=linear)
