"""What a user would pick instead, at the true width, which provenet is not told.

Each rival is started afresh from random weights until its time is over (a start that was begun is
finished, Levenberg-Marquardt excepted), and the start with the least loss is kept.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import provenet as pn
from provenet.common.typing import Array
from provenet.data.passes import one_blas_thread, working_time
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters

Width = int | tuple[int, ...]
"""Units, or the widths of several layers."""
Found = pn.Network | pn.DeepNetwork
Solver = Callable[[Array, Array, Width, float, np.random.Generator, pn.Activation], Found]
"""`solver(X, y, units, seconds, rng, activation)`: the best network found."""
MLP_ACTIVATIONS = {"relu": "relu", "tanh": "tanh", "sigmoid": "logistic"}
"""Those that MLPRegressor has, and how it calls them."""

_ADAM_STEPS = 20_000
_LM_ITERATIONS = 200
_LM_GAIN = 1e-2
"""A run that gains less an iteration is in a bad minimum: time for another start."""
_KINKED_BIASES, _SMOOTH_BIASES = 1.5, 1.0
"""How large biases of the tables' hidden networks are at most."""
_SERIAL = 500
"""Up to this many weights BLAS is faster with one thread."""


def _blas_threads(X: Array, units: Width) -> AbstractContextManager[Any]:
    total = units if isinstance(units, int) else sum(units)
    return one_blas_thread() if total * X.shape[1] < _SERIAL else nullcontext()


def mlp_lbfgs(
    X: Array,
    y: Array,
    units: Width,
    seconds: float,
    rng: np.random.Generator,
    activation: pn.Activation,
) -> Found:
    """scikit-learn's MLPRegressor with the solver it advises for small data."""
    most = {"max_iter": 5000, "max_fun": 10_000}
    return _mlp(X, y, units, seconds, rng, activation, solver="lbfgs", **most)


def mlp_adam(
    X: Array,
    y: Array,
    units: Width,
    seconds: float,
    rng: np.random.Generator,
    activation: pn.Activation,
) -> Found:
    """scikit-learn's MLPRegressor with its default solver, for some 20,000 gradient steps."""
    epochs = max(20, _ADAM_STEPS * min(200, len(X)) // len(X))
    most = {"max_iter": epochs, "n_iter_no_change": 50}
    return _mlp(X, y, units, seconds, rng, activation, solver="adam", **most)


def _mlp(
    X: Array,
    y: Array,
    units: Width,
    seconds: float,
    rng: np.random.Generator,
    activation: pn.Activation,
    **options: object,
) -> Found:
    deadline = time.monotonic() + seconds
    best: MLPRegressor | None = None
    while best is None or time.monotonic() < deadline:
        model = MLPRegressor(
            hidden_layer_sizes=units,
            activation=MLP_ACTIVATIONS[activation.name],
            alpha=0.0,
            tol=1e-12,
            random_state=int(rng.integers(2**31)),
            **options,
        )
        with warnings.catch_warnings(), _blas_threads(X, units):
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        if best is None or model.loss_ < best.loss_:
            best = model
    deep = isinstance(units, tuple)
    return (pn.DeepNetwork if deep else pn.Network).from_mlp_regressor(best)


@dataclass(frozen=True)
class _Weights:
    """Parameters of a network with its residual on the samples."""

    sigma: pn.Activation
    W: Array
    b: Array
    a: Array
    c: float
    z: Array
    r: Array

    @property
    def loss(self) -> float:
        return float(self.r @ self.r)


def levenberg_marquardt(
    X: Array,
    y: Array,
    units: Width,
    seconds: float,
    rng: np.random.Generator,
    activation: pn.Activation,
) -> Found:
    """Levenberg-Marquardt in weight space from random starts, until exact or out of time."""
    if isinstance(units, tuple):
        return _deep_levenberg_marquardt(X, y, units, seconds, rng, activation)
    deadline = time.monotonic() + seconds
    zero = len(y) * (1e-13 * float(np.std(y))) ** 2
    best: _Weights | None = None
    with _blas_threads(X, units):
        while best is None or (best.loss > zero and time.monotonic() < deadline):
            found = _descend(X, y, _random_weights(X, y, units, rng, activation), zero, deadline)
            if best is None or found.loss < best.loss:
                best = found
    return pn.Network(best.W, best.b, best.a, best.c, activation=activation)


def _deep_levenberg_marquardt(
    X: Array,
    y: Array,
    widths: tuple[int, ...],
    seconds: float,
    rng: np.random.Generator,
    activation: pn.Activation,
) -> pn.DeepNetwork:
    """The same for several layers, from draws of what the truth comes from, the scale of y apart.

    By the library's own least squares: it is the search around it that is compared.
    """
    deadline, samples = working_time() + seconds, pn.ArraySource(X, y)
    spread, best = float(np.std(y)), None
    with one_blas_thread():
        while best is None or (best.rms > 1e-13 * spread and working_time() < deadline):
            start = pn.random_network(widths, X.shape[1], activation=activation, rng=rng)
            parameters = Parameters.of(start)
            parameters = replace(parameters, beta=np.zeros_like(parameters.beta))
            found = refine(
                samples,
                parameters,
                activation,
                spread=spread,
                iterations=_LM_ITERATIONS,
                tolerance=_LM_GAIN,
                deadline=deadline,
            )
            best = found if best is None or found.rss < best.rss else best
    return best.parameters.deep_network(activation)


def _random_weights(
    X: Array, y: Array, units: int, rng: np.random.Generator, sigma: pn.Activation
) -> _Weights:
    """A draw from the very distribution that the truth comes from, the scale of y apart."""
    scale = _KINKED_BIASES if sigma.kinked else _SMOOTH_BIASES
    start = pn.random_network(units, X.shape[1], bias_scale=scale, activation=sigma, rng=rng)
    constant = float(np.mean(y - start(X)))
    return _evaluated(X, y, sigma, start.weights, start.biases, start.output_weights, constant)


def _evaluated(
    X: Array, y: Array, sigma: pn.Activation, W: Array, b: Array, a: Array, c: float
) -> _Weights:
    z = X @ W.T + b
    return _Weights(sigma, W, b, a, c, z, sigma(z) @ a + c - y)


def _descend(X: Array, y: Array, current: _Weights, zero: float, deadline: float) -> _Weights:
    """One run: until exact, until an iteration gains next to nothing, or out of time."""
    damping = 1e-2
    for _ in range(_LM_ITERATIONS):
        if time.monotonic() > deadline:
            return current
        H, g = _normal_equations(X, current)
        trial, damping = _accepted_step(X, y, current, H, g, damping)
        if trial is None:
            return current
        gain, current = 1 - trial.loss / current.loss, trial
        if gain < _LM_GAIN or current.loss <= zero:
            return current
    return current


def _normal_equations(X: Array, current: _Weights) -> tuple[Array, Array]:
    n, d = X.shape
    units = len(current.a)
    slope = current.sigma.derivative(current.z) * current.a
    J = np.empty((n, units * (d + 2) + 1))
    np.multiply(slope[:, :, None], X[:, None, :], out=J[:, : units * d].reshape(n, units, d))
    J[:, units * d : units * (d + 1)] = slope
    J[:, units * (d + 1) : -1] = current.sigma(current.z)
    J[:, -1] = 1.0
    return J.T @ J, current.r @ J


def _accepted_step(
    X: Array, y: Array, current: _Weights, H: Array, g: Array, damping: float
) -> tuple[_Weights | None, float]:
    """The first damped step that lowers the loss, and the damping to go on with."""
    units, d = current.W.shape
    diagonal = np.diag(H) + 1e-12 * np.trace(H) / len(H)
    for _ in range(15):
        step = np.linalg.solve(H + np.diag(damping * diagonal), g)
        W = current.W - step[: units * d].reshape(units, d)
        b = current.b - step[units * d : units * (d + 1)]
        a = current.a - step[units * (d + 1) : -1]
        trial = _evaluated(X, y, current.sigma, W, b, a, current.c - float(step[-1]))
        if trial.loss < current.loss:
            return trial, max(damping / 5, 1e-12)
        damping *= 4
    return None, damping


PEERS: dict[str, Solver] = {
    "MLPRegressor lbfgs": mlp_lbfgs,
    "MLPRegressor adam": mlp_adam,
    "Levenberg-Marquardt": levenberg_marquardt,
}
