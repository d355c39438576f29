"""Labels that were rounded: the networks that pass through the interval of every label.

With a flat prior, such labels determine a distribution of the parameters: uniform over the networks
inside all intervals, or, with noise in addition to the rounding, each interval softened by it. Its
mean and covariance are found by expectation propagation (Minka 2001). A Gaussian site
`exp(-lambda v^2 / 2 + mu v)` of the value v replaces every interval, so a round is one step of
weighted Gauss-Newton,

    C = (sum_n lambda_n J_n^T J_n)^-1,      theta <- theta + C sum_n J_n^T (mu_n - lambda_n f_n),

after which each site is refitted: with the other sites' `N(m, s^2)` of v it shall have the moments
that the interval has with it. With Z(m) the mass of that normal law in the interval, and
derivatives of log Z by m, `lambda = -Z'' / (1 + s^2 Z'')` and `mu = (Z' - m Z'') / (1 + s^2 Z'')`.
Sites with the intervals' own mean and variance are least squares, where rounds begin; intervals
begin soft.

If rounding errors are independent the result agrees with least squares and is sharper, for the
edges of many intervals exclude more than their average does. If they are one constant, as where all
units are off, it does not take them for independent.

Least squares takes rounding errors for noise, and finds units in them that do not exist, since they
depend on the inputs: so units are dropped as long as the others still explain every label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from provenet.common.typing import EPS, TINY, AnyArray, Array
from provenet.data.passes import working_time
from provenet.fitting.context import Context
from provenet.fitting.covariance import gauge_directions, invert_information
from provenet.fitting.final_fit import refined
from provenet.fitting.least_squares import Ended
from provenet.fitting.linear import linear_part, without_each_unit
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import Activation
from provenet.networks.network import Network


@dataclass(frozen=True)
class Intervals:
    """Inputs, and the interval in which the value at each lies: one column an output."""

    X: Array
    low: Array
    high: Array

    @classmethod
    def around(cls, X: Array, y: Array, widths: Array) -> Intervals:
        """Of labels that were rounded to the nearest.

        None is far narrower than the others, as single precision is next to zero.
        """
        widths = np.maximum(widths, 1e-3 * np.sqrt(np.mean(widths**2)))
        centre, half = y.reshape(len(y), -1), widths.reshape(len(y), -1) / 2
        return cls(X, centre - half, centre + half)

    @property
    def middles(self) -> Array:
        """Of every interval."""
        return (self.low + self.high) / 2

    @property
    def widths(self) -> Array:
        """Of every interval."""
        return self.high - self.low

    def different(self, most: int, parameters: Parameters, activation: Activation) -> Intervals:
        """The first rows that carry information: where all units are off, one of each interval."""
        X, low, high = self.X[:most], self.low[:most], self.high[:most]
        slope = Linearisation.of(parameters, activation, X).slopes[-1]
        off = np.all(slope == 0, axis=1) & (not parameters.has_linear)
        constant = np.flatnonzero(off)
        _, first = np.unique(low[constant], axis=0, return_index=True)
        rows = np.sort(np.append(np.flatnonzero(~off), constant[first]))
        return Intervals(X[rows], low[rows], high[rows])


@dataclass(frozen=True)
class IntervalFit:
    """The mean and the covariance of the networks inside."""

    parameters: Parameters
    covariance: Array
    """Of all parameters, gauge directions left out."""
    outside: float
    """Distance of the worst value from its interval, in widths."""
    noise: float
    """Standard deviation, in widths, of noise in addition to the rounding."""
    ended: Ended

    @property
    def inside(self) -> bool:
        """Whether rounding alone explains every label, edges being soft."""
        return self.outside <= 0.1

    def in_order(self, order: AnyArray) -> IntervalFit:
        """With the units in another order."""
        numbers = self.parameters.unravel(np.arange(len(self.covariance), dtype=float))
        own = numbers.keep(order).ravel().astype(int)
        parameters, covariance = self.parameters.keep(order), self.covariance[np.ix_(own, own)]
        return replace(self, parameters=parameters, covariance=covariance)


# ---------------------------------------------------------------- expectation propagation


def fit_inside(
    intervals: Intervals,
    start: Parameters,
    activation: Activation,
    noise: float = 0.0,
    deadline: float = np.inf,
    *,
    rounds: int = 100,
    soft: float = 0.5,
    softer: float = 0.85,
    work: float = 3e9,
) -> IntervalFit | None:
    """From least squares on the middles; None if the samples do not determine the parameters.

    Lengths are in widths: `noise`, and by what an interval is softened, `soft` at first and less
    from round to round. A round takes about `work` multiplications, or three rows a parameter.
    """
    parameters, least = start.normalised(activation), max(noise, 0.02)
    p = parameters.ravel().size
    rows = max(3 * p, int(work / (p**2 * intervals.low.shape[1])))
    used = intervals.different(rows, parameters, activation)
    precision = 12 / used.widths**2
    pull = precision * used.middles
    ended, at = Ended.OUT_OF_STEPS, Linearisation.of(parameters, activation, used.X)
    for turn in range(rounds):
        solved = _gauss_newton(at, precision, pull)
        if solved is None:
            return None
        covariance, step = solved
        parameters = parameters.unravel(parameters.ravel() + step)
        if soft == least and np.max(np.abs(step) / np.sqrt(np.diag(covariance))) < 0.02:
            ended = Ended.CONVERGED
            break
        if working_time() > deadline:
            ended = Ended.OUT_OF_TIME
            break
        before, at = at, Linearisation.of(parameters, activation, used.X)
        share = 40 / max(80, 2 * turn)  # half; less in later rounds, which would swing
        for q, (J, own) in enumerate(before.jacobians()):
            variance = np.einsum("np,np->n", J @ covariance[np.ix_(own, own)], J)
            site, interval = (precision[:, q], pull[:, q]), (used.low[:, q], used.high[:, q])
            change = _site_change(site, interval, at.values[:, q], variance, soft)
            precision[:, q] += share * change[0]
            pull[:, q] += share * change[1]
        soft = max(least, softer * soft)
    values = Linearisation.of(parameters, activation, intervals.X).values
    outside = np.maximum(np.maximum(intervals.low - values, values - intervals.high), 0.0)
    outside /= intervals.widths
    off = (values - intervals.middles) / intervals.widths
    beyond = max(float(np.mean(off**2)) - 1 / 12, float(np.mean(outside**2)))
    return IntervalFit(parameters, covariance, float(outside.max()), float(np.sqrt(beyond)), ended)


def _gauss_newton(at: Linearisation, precision: Array, pull: Array) -> tuple[Array, Array] | None:
    """Covariance of the parameters, and the step to their mean, in the linearised network."""
    p = at.parameters.ravel().size
    information, gradient = np.zeros((p, p)), np.zeros(p)
    residual = pull - precision * at.values
    for q, (J, own) in enumerate(at.jacobians()):
        information[np.ix_(own, own)] += (J.T * precision[:, q]) @ J
        gradient[own] += J.T @ residual[:, q]
    if not np.all(np.isfinite(information)):
        return None
    found = invert_information(information, gauge_directions(at.parameters, at.activation))
    if found is None or found[1] or not np.all(np.diag(found[0]) > 0):
        return None
    return found[0], found[0] @ gradient


def _site_change(
    site: tuple[Array, Array],
    interval: tuple[Array, Array],
    value: Array,
    variance: Array,
    soft: float,
) -> tuple[Array, Array]:
    """From the present sites to those that have the moments of the intervals.

    `value` and `variance` are those of all sites together.
    """
    (precision, pull), (low, high) = site, interval
    others = 1 - variance * precision
    known = others > 1e-3  # else the interval alone determines the value
    others = np.where(known, others, 1.0)
    mean = (value - variance * pull) / others
    variance, noise = variance / others, soft * (high - low)
    with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverges ends
        first, second = _mass_derivatives(mean, variance, low, high, noise)
    # A site of a softened interval is no sharper than its edges.
    left = np.maximum(1 + variance * second, -second * noise**2)
    return (-second / left - precision) * known, ((first - mean * second) / left - pull) * known


def _mass_derivatives(
    mean: Array, variance: Array, low: Array, high: Array, noise: Array, tail: float = 30.0
) -> tuple[Array, Array]:
    """First and second derivative, by its mean, of the log of a Gaussian's mass in an interval.

    Distances beyond `tail` standard deviations are cut off: there the mass underflows.
    """
    spread = np.sqrt(variance + noise**2)
    a, b = (low - mean) / spread, (high - mean) / spread
    mirror = a + b > 0  # the lower tail keeps its digits
    a, b = np.where(mirror, -b, a), np.where(mirror, -a, b)
    nearer = np.maximum(b, -tail) - b
    a, b = a + nearer, b + nearer
    ratio = np.minimum(log_ndtr(a) - log_ndtr(b), -EPS)
    log_mass = log_ndtr(b) + np.log(-np.expm1(ratio))
    at_a, at_b = (np.exp(-(z**2) / 2 - log_mass) / np.sqrt(2 * np.pi) for z in (a, b))
    first = at_a - at_b
    second = np.minimum(a * at_a - b * at_b - first**2, -TINY)
    return np.where(mirror, -first, first) / spread, second / spread**2


# ---------------------------------------------------------------- the fewest units


def explained_by_rounding(context: Context, residual: float) -> bool:
    """Whether a root mean square residual is at most that of the labels' own rounding."""
    return 0 < residual <= 2 * context.precision.rms


def fit_rounded_labels(context: Context, network: Network) -> IntervalFit | None:
    """The fewest units inside all intervals; None if there is no such fit, or it takes too long.

    For finely rounded labels this is hardly better than least squares: with 1,000 weights a round
    takes half a second, and the fit does not end inside.
    """
    size, fine = network.weights.size, context.problem.label_rounding > 0
    if not network.units or size > 3000 or 3 * size**3 > (5e8 if fine else 3e9):
        return None
    drawn, activation, deadline = context.drawn, network.activation, context.problem.deadline
    intervals = Intervals.around(drawn.X, drawn.y, context.precision.widths)
    best = fit_inside(intervals, Parameters.of(network), activation, deadline=deadline)
    if best is None:
        return None
    if not best.inside:  # there is noise in addition to the rounding
        return fit_inside(intervals, best.parameters, activation, best.noise, deadline)
    fewer: IntervalFit | None = best
    while fewer is not None:
        best, enough = fewer, fewer.parameters.units == 1 or context.out_of_time
        fewer = None if enough else _without_a_needless_unit(context, intervals, best, activation)
    return best


def _without_a_needless_unit(
    context: Context, intervals: Intervals, best: IntervalFit, activation: Activation
) -> IntervalFit | None:
    """The fit of one unit fewer, the least useful first, that is still inside; None if none is.

    Only units that are worth at most five times the rounding are tried.
    """
    drawn, parameters = context.drawn, best.parameters
    cost = without_each_unit(linear_part(drawn, parameters, activation), parameters)
    worth = 25 * context.precision.rms**2 * drawn.labels
    for i in (i for i in np.argsort(cost) if cost[i] <= worth):
        start = parameters.keep(np.arange(parameters.units) != i).network(activation)
        fewer = refined(context, drawn, start, damping=1e-2)
        if explained_by_rounding(context, fewer.rms):
            deadline = context.problem.deadline
            found = fit_inside(intervals, fewer.parameters, activation, deadline=deadline)
            if found is not None and found.inside:
                return found
    return None
