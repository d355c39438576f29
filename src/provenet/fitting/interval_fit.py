"""Fit inside intervals: labels that were rounded, each known to lie within its step.

With a flat prior, what such labels tell of the parameters is a distribution: uniform over the
networks that pass through every interval, or, with noise beside the rounding, each interval
softened by it. Its mean and covariance are found by expectation propagation (Minka 2001): every
interval is stood in for by a Gaussian that gives to the rest the moments that the interval gives.
Where rounding errors are independent this agrees with least squares and is sharper, for the edges
of many intervals cut off more than their average does; where they are one constant, as where all
units are off, it does not take them for independent.

The network is made linear anew in every round, and intervals begin soft.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from provenet.common.typing import EPS, TINY, AnyArray, Array
from provenet.data.passes import working_time
from provenet.fitting.least_squares import Ended
from provenet.fitting.model import Linearisation, Parameters, model_features
from provenet.fitting.tolerances import (
    INSIDE,
    INTERVAL_BLOCK,
    INTERVAL_COST,
    INTERVAL_ROUNDS,
    INTERVAL_STILL,
    LATER_ROUNDS,
    LEAST_OWN_SHARE,
    LEAST_SOFT,
    NARROWEST,
    ROWS_OF_INTERVALS,
    SOFT_AT_FIRST,
    SOFTER,
    TAIL,
)
from provenet.networks.activations import Activation


@dataclass(frozen=True)
class Intervals:
    """Inputs, and the interval in which the value at each lies: one column an output."""

    X: Array
    low: Array
    high: Array

    @classmethod
    def around(cls, X: Array, y: Array, widths: Array) -> Intervals:
        """Of labels that were rounded to the nearest; none is far narrower than the others."""
        widths = np.maximum(widths, NARROWEST * np.sqrt(np.mean(widths**2)))
        centre, half = y.reshape(len(y), -1), widths.reshape(len(y), -1) / 2
        return cls(X, centre - half, centre + half)

    @property
    def widths(self) -> Array:
        """Of every interval."""
        return self.high - self.low

    def outside(self, values: Array) -> Array:
        """By how many widths each value lies outside of its interval; 0 inside."""
        off = np.maximum(self.low - values, values - self.high)
        return np.maximum(off, 0.0) / self.widths

    def first(self, rows: int) -> Intervals:
        """The first so many."""
        return self.of(np.arange(min(rows, len(self.X))))

    def of(self, rows: AnyArray) -> Intervals:
        """Those of some rows."""
        return Intervals(self.X[rows], self.low[rows], self.high[rows])

    def blocks(self) -> Iterator[slice]:
        """Rows that are looked at together."""
        for start in range(0, len(self.X), INTERVAL_BLOCK):
            yield slice(start, start + INTERVAL_BLOCK)


@dataclass(frozen=True)
class IntervalFit:
    """The mean of the networks inside, and how far these are from it."""

    parameters: Parameters
    covariance: Array
    """A unit's scale is left out."""
    outside: float
    """By how many widths the worst value is outside of its interval."""
    noise: float
    """Standard deviation, in widths, of noise beside the rounding."""
    ended: Ended

    @property
    def inside(self) -> bool:
        """Whether rounding alone explains every label."""
        return self.outside <= INSIDE

    def in_order(self, order: AnyArray) -> IntervalFit:
        """With the units in another order."""
        m, width = self.parameters.theta.shape
        rows, outputs = len(self.parameters.beta), len(self.parameters.output_weights)
        thetas = (order[:, None] * width + np.arange(width)).ravel()
        one = np.r_[order, m:rows]
        betas = (m * width + rows * np.arange(outputs)[:, None] + one).ravel()
        own = np.r_[thetas, betas]
        turned = Parameters(self.parameters.theta[order], self.parameters.beta[one])
        covariance = self.covariance[np.ix_(own, own)]
        return replace(self, parameters=turned, covariance=covariance)


def fit_inside(
    intervals: Intervals,
    start: Parameters,
    activation: Activation,
    noise: float = 0.0,
    deadline: float = np.inf,
) -> IntervalFit | None:
    """From least squares on the middles; `noise` is in widths. None where nothing is settled."""
    parameters, soft = start.normalised(activation), SOFT_AT_FIRST
    least = max(noise, LEAST_SOFT)
    used = intervals.first(_rows_within_cost(intervals, start))
    used = used.of(_different(used, parameters, activation))
    sites = _Sites.of_equal_spread(used)
    ended = Ended.OUT_OF_STEPS
    for turn in range(INTERVAL_ROUNDS):
        covariance, step = sites.mean_step(parameters, activation)
        spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if not (np.all(np.isfinite(step)) and np.all(spread > 0)):
            return None
        here, parameters = parameters, _moved(parameters, step)
        if soft == least and np.max(np.abs(step) / spread) < INTERVAL_STILL:
            ended = Ended.CONVERGED
            break
        if working_time() > deadline:
            ended = Ended.OUT_OF_TIME
            break
        values, share = _values(parameters, activation, used.X), _share_of_update(turn)
        sites.update(here, values, covariance, activation, soft, share)
        soft = max(least, SOFTER * soft)
    values = _values(parameters, activation, intervals.X)
    outside = intervals.outside(values)
    off = (values - (intervals.low + intervals.high) / 2) / intervals.widths
    beyond = max(float(np.mean(off**2)) - 1 / 12, float(np.mean(outside**2)))
    return IntervalFit(
        parameters,
        covariance,
        float(np.max(outside)),
        float(np.sqrt(beyond)),
        ended,
    )


def _share_of_update(turn: int) -> float:
    """Half, and less in later rounds, which would swing about the end."""
    return LATER_ROUNDS / max(2 * LATER_ROUNDS, 2 * turn)


def _different(intervals: Intervals, parameters: Parameters, activation: Activation) -> AnyArray:
    """The rows that differ: where all units are off, one of each interval says it all."""
    z, _ = model_features(parameters, activation, intervals.X)
    off = np.all(activation.derivative(z) == 0, axis=1) & (not parameters.has_linear)
    constant = np.flatnonzero(off)
    _, first = np.unique(intervals.low[constant], axis=0, return_index=True)
    return np.sort(np.append(np.flatnonzero(~off), constant[first]))


def _rows_within_cost(intervals: Intervals, parameters: Parameters) -> int:
    """As many rows as a round has time for, and enough for the parameters."""
    p = parameters.theta.size + parameters.beta.size
    return max(ROWS_OF_INTERVALS * p, INTERVAL_COST // (p**2 * int(intervals.low.shape[1])))


@dataclass(frozen=True)
class _Sites:
    """For each interval the Gaussian that stands for it: `exp(-precision v^2 / 2 + pull v)`."""

    intervals: Intervals
    precision: Array
    pull: Array

    @classmethod
    def of_equal_spread(cls, intervals: Intervals) -> _Sites:
        """With mean and variance of each interval: least squares."""
        precision = 12 / intervals.widths**2
        return cls(intervals, precision, precision * (intervals.low + intervals.high) / 2)

    def mean_step(self, parameters: Parameters, activation: Activation) -> tuple[Array, Array]:
        """Covariance of the parameters, and the step to their mean, the network made linear."""
        p = parameters.theta.size + parameters.beta.size
        information, gradient = np.zeros((p, p)), np.zeros(p)
        X = self.intervals.X
        for rows in self.intervals.blocks():
            left = self.pull[rows] - self.precision[rows] * _values(parameters, activation, X[rows])
            point = Linearisation.of(parameters, activation, X[rows])
            for q, (J, own) in enumerate(point.jacobians()):
                information[np.ix_(own, own)] += (J.T * self.precision[rows, q]) @ J
                gradient[own] += J.T @ left[:, q]
        scale = np.sqrt(np.diag(information))
        scale[scale == 0] = 1.0  # a unit that no sample sees
        scales = _scale_directions(parameters, activation) * scale
        scales /= np.linalg.norm(scales, axis=1, keepdims=True) + TINY
        scaled = information / scale / scale[:, None] + scales.T @ scales
        covariance = _inverse(scaled) / scale / scale[:, None]
        return covariance, covariance @ gradient

    def update(
        self,
        parameters: Parameters,
        values: Array,
        covariance: Array,
        activation: Activation,
        soft: float,
        share: float,
    ) -> None:
        """Part of the way from what stands for each interval to what it gives to all others."""
        intervals = self.intervals
        X, widths = intervals.X, intervals.widths
        for rows in self.intervals.blocks():
            point = Linearisation.of(parameters, activation, X[rows])
            for q, (J, own) in enumerate(point.jacobians()):
                variance = np.einsum("np,np->n", J @ covariance[np.ix_(own, own)], J)
                at = rows, q
                others = 1 - variance * self.precision[at]
                known = others > LEAST_OWN_SHARE  # else the interval alone tells of the value
                others = np.where(known, others, 1.0)
                mean = (values[at] - variance * self.pull[at]) / others
                variance = variance / others
                low, high, noise = intervals.low[at], intervals.high[at], soft * widths[at]
                with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverges ends
                    first, second = _mass_derivatives(mean, variance, low, high, noise)
                # What stands for a softened interval is no sharper than its edges.
                left = np.maximum(1 + variance * second, -second * noise**2)
                part = share * known
                self.precision[at] += (-second / left - self.precision[at]) * part
                self.pull[at] += ((first - mean * second) / left - self.pull[at]) * part


def _mass_derivatives(
    mean: Array, variance: Array, low: Array, high: Array, noise: Array
) -> tuple[Array, Array]:
    """First and second derivative, by its mean, of the log of a Gaussian's mass in an interval."""
    spread = np.sqrt(variance + noise**2)
    a, b = (low - mean) / spread, (high - mean) / spread
    mirror = a + b > 0  # the lower tail keeps its digits
    a, b = np.where(mirror, -b, a), np.where(mirror, -a, b)
    nearer = np.maximum(b, -TAIL) - b  # further out nothing is left of the mass
    a, b = a + nearer, b + nearer
    ratio = np.minimum(log_ndtr(a) - log_ndtr(b), -EPS)
    log_mass = log_ndtr(b) + np.log(-np.expm1(ratio))
    at_a, at_b = (np.exp(-(z**2) / 2 - log_mass) / np.sqrt(2 * np.pi) for z in (a, b))
    first = at_a - at_b
    second = np.minimum(a * at_a - b * at_b - first**2, -TINY)
    return np.where(mirror, -first, first) / spread, second / spread**2


def _values(parameters: Parameters, activation: Activation, X: Array) -> Array:
    """(samples, outputs)."""
    return np.asarray(model_features(parameters, activation, X)[1] @ parameters.beta).reshape(
        len(X), -1
    )


def _moved(parameters: Parameters, step: Array) -> Parameters:
    thetas, shape = parameters.theta.size, parameters.beta.shape
    beta = step[thetas:].reshape(shape[::-1]).T
    theta = parameters.theta + step[:thetas].reshape(parameters.theta.shape)
    return Parameters(theta, parameters.beta + beta)


def _scale_directions(parameters: Parameters, activation: Activation) -> Array:
    """For each unit how all parameters change with its scale, which changes no value."""
    (m, width), rows = parameters.theta.shape, len(parameters.beta)
    outputs = len(parameters.output_weights)
    directions = np.zeros((m, m * width + rows * outputs))
    if activation.degree is None:
        return directions[:0]
    for i in range(m):
        directions[i, i * width : (i + 1) * width] = parameters.theta[i]
        weights = m * width + i + rows * np.arange(outputs)
        directions[i, weights] = -activation.degree * parameters.output_weights[:, i]
    return directions


def _inverse(A: Array) -> Array:
    try:
        return np.asarray(np.linalg.inv(A))
    except np.linalg.LinAlgError:
        return np.full(A.shape, np.nan)
