"""Labels that were rounded: the networks that pass through the interval of every label.

With a flat prior, what such labels tell of the parameters is a distribution: uniform over the
networks inside all intervals, or, with noise beside the rounding, each interval softened by it. Its
mean and covariance are found by expectation propagation (Minka 2001). A Gaussian stands for every
interval, `exp(-lambda v^2 / 2 + mu v)` of the value v there; so a round is one step of weighted
Gauss-Newton,

    C = (sum_n lambda_n J_n^T J_n)^-1,      theta <- theta + C sum_n J_n^T (mu_n - lambda_n f_n),

after which each Gaussian is made to give the rest, `N(m, s^2)` of v without it, the moments that
the interval gives: with Z(m) the mass of that normal law in the interval, and derivatives of log Z
by m, `lambda = -Z'' / (1 + s^2 Z'')` and `mu = (Z' - m Z'') / (1 + s^2 Z'')`. Gaussians with the
intervals' own mean and variance are least squares, where rounds begin; intervals begin soft.

Where rounding errors are independent the result agrees with least squares and is sharper, for the
edges of many intervals cut off more than their average does. Where they are one constant, as where
all units are off, it does not take them for independent.

Least squares takes rounding errors for noise, and finds units in them that are not there, since
they follow the inputs: so units are dropped as long as the others still explain every label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from provenet.common.typing import EPS, TINY, AnyArray, Array
from provenet.data.passes import working_time
from provenet.fitting.context import Context
from provenet.fitting.covariance import null_directions
from provenet.fitting.final_fit import polish, refined
from provenet.fitting.least_squares import Ended
from provenet.fitting.linear import linear_part, without_each_unit
from provenet.fitting.model import Linearisation, Parameters
from provenet.fitting.search.moves import widened
from provenet.networks.activations import ABS, Activation
from provenet.networks.network import Network
from provenet.networks.piecewise import as_absolute


@dataclass(frozen=True)
class Intervals:
    """Inputs, and the interval in which the value at each lies: one column an output."""

    X: Array
    low: Array
    high: Array

    @classmethod
    def around(cls, X: Array, y: Array, widths: Array) -> Intervals:
        """Of labels that were rounded to the nearest.

        None is far narrower than the others: single precision knows numbers next to zero too well.
        """
        widths = np.maximum(widths, 1e-3 * np.sqrt(np.mean(widths**2)))
        centre, half = y.reshape(len(y), -1), widths.reshape(len(y), -1) / 2
        return cls(X, centre - half, centre + half)

    @property
    def widths(self) -> Array:
        """Of every interval."""
        return self.high - self.low

    def of(self, rows: AnyArray) -> Intervals:
        """Those of some rows."""
        return Intervals(self.X[rows], self.low[rows], self.high[rows])


@dataclass(frozen=True)
class IntervalFit:
    """The mean of the networks inside, and how far these are from it."""

    parameters: Parameters
    covariance: Array
    """Of all parameters; a unit's scale is left out."""
    outside: float
    """By how many widths the worst value is outside of its interval."""
    noise: float
    """Standard deviation, in widths, of noise beside the rounding."""
    ended: Ended

    @property
    def inside(self) -> bool:
        """Whether rounding alone explains every label, edges being soft."""
        return self.outside <= 0.1

    def in_order(self, order: AnyArray) -> IntervalFit:
        """With the units in another order."""
        one = np.r_[order, self.parameters.units : len(self.parameters.beta)]

        def ordered(of: Parameters) -> Parameters:
            return Parameters(of.theta[order], of.beta[one])

        numbers = self.parameters.unravel(np.arange(len(self.covariance), dtype=float))
        own = ordered(numbers).ravel().astype(int)
        return replace(
            self, parameters=ordered(self.parameters), covariance=self.covariance[np.ix_(own, own)]
        )


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
    """From least squares on the middles; None where nothing is settled.

    Lengths are in widths: `noise`, and by what an interval is softened, `soft` at first and less
    from round to round. A round takes about `work` multiplications, or three rows a parameter.
    """
    parameters, least = start.normalised(activation), max(noise, 0.02)
    p = parameters.ravel().size
    rows = max(3 * p, int(work / (p**2 * intervals.low.shape[1])))
    used = intervals.of(np.arange(min(rows, len(intervals.X))))
    used = used.of(_different(used, parameters, activation))
    precision = 12 / used.widths**2
    pull = precision * (used.low + used.high) / 2
    ended = Ended.OUT_OF_STEPS
    for turn in range(rounds):
        at = Linearisation.of(parameters, activation, used.X)
        covariance, step = _gauss_newton(at, precision, pull)
        spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if not (np.all(np.isfinite(step)) and np.all(spread > 0)):
            return None
        parameters = parameters.unravel(parameters.ravel() + step)
        if soft == least and np.max(np.abs(step) / spread) < 0.02:
            ended = Ended.CONVERGED
            break
        if working_time() > deadline:
            ended = Ended.OUT_OF_TIME
            break
        values = Linearisation.of(parameters, activation, used.X).values
        share = 40 / max(80, 2 * turn)  # half; less in later rounds, which would swing
        _update_sites(used, precision, pull, at, values, covariance, soft, share)
        soft = max(least, softer * soft)
    values = Linearisation.of(parameters, activation, intervals.X).values
    outside = np.maximum(np.maximum(intervals.low - values, values - intervals.high), 0.0)
    outside /= intervals.widths
    off = (values - (intervals.low + intervals.high) / 2) / intervals.widths
    beyond = max(float(np.mean(off**2)) - 1 / 12, float(np.mean(outside**2)))
    return IntervalFit(parameters, covariance, float(outside.max()), float(np.sqrt(beyond)), ended)


def _different(intervals: Intervals, parameters: Parameters, activation: Activation) -> AnyArray:
    """The rows that differ: where all units are off, one of each interval says it all."""
    slope = Linearisation.of(parameters, activation, intervals.X).slopes[-1]
    off = np.all(slope == 0, axis=1) & (not parameters.has_linear)
    constant = np.flatnonzero(off)
    _, first = np.unique(intervals.low[constant], axis=0, return_index=True)
    return np.sort(np.append(np.flatnonzero(~off), constant[first]))


def _gauss_newton(at: Linearisation, precision: Array, pull: Array) -> tuple[Array, Array]:
    """Covariance of the parameters, and the step to their mean, the network made linear."""
    p = at.parameters.ravel().size
    information, gradient = np.zeros((p, p)), np.zeros(p)
    left = pull - precision * at.values
    for q, (J, own) in enumerate(at.jacobians()):
        information[np.ix_(own, own)] += (J.T * precision[:, q]) @ J
        gradient[own] += J.T @ left[:, q]
    scale = np.sqrt(np.diag(information))
    scale[scale == 0] = 1.0  # a unit that no sample sees
    null = null_directions(at.parameters, at.activation) * scale
    null /= np.linalg.norm(null, axis=1, keepdims=True) + TINY
    try:
        inverse = np.linalg.inv(information / scale / scale[:, None] + null.T @ null)
    except np.linalg.LinAlgError:
        inverse = np.full((p, p), np.nan)
    covariance = inverse / scale / scale[:, None]
    return covariance, covariance @ gradient


def _update_sites(
    intervals: Intervals,
    precision: Array,
    pull: Array,
    at: Linearisation,
    values: Array,
    covariance: Array,
    soft: float,
    share: float,
) -> None:
    """Part of the way from what stands for each interval to what it gives to all others."""
    for q, (J, own) in enumerate(at.jacobians()):
        variance = np.einsum("np,np->n", J @ covariance[np.ix_(own, own)], J)
        others = 1 - variance * precision[:, q]
        known = others > 1e-3  # else the interval alone tells of the value
        others = np.where(known, others, 1.0)
        mean = (values[:, q] - variance * pull[:, q]) / others
        variance, noise = variance / others, soft * intervals.widths[:, q]
        with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverges ends
            first, second = _mass_derivatives(
                mean, variance, intervals.low[:, q], intervals.high[:, q], noise
            )
        # What stands for a softened interval is no sharper than its edges.
        left = np.maximum(1 + variance * second, -second * noise**2)
        part = share * known
        precision[:, q] += (-second / left - precision[:, q]) * part
        pull[:, q] += ((first - mean * second) / left - pull[:, q]) * part


def _mass_derivatives(
    mean: Array, variance: Array, low: Array, high: Array, noise: Array, tail: float = 30.0
) -> tuple[Array, Array]:
    """First and second derivative, by its mean, of the log of a Gaussian's mass in an interval.

    Beyond `tail` standard deviations distance does not count: nothing is left of the mass.
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
    """Whether a root mean square residual is no more than the labels' own rounding leaves."""
    return 0 < residual <= 2 * context.precision.rms


def fit_rounded_labels(context: Context, network: Network) -> IntervalFit | None:
    """The fewest units inside all intervals; None where this does not settle, or takes too long.

    Labels that are finely rounded are hardly told better so than by least squares: of 1,000 weights
    a round takes half a second there, and the fit does not come to lie inside.
    """
    size, fine = network.weights.size, context.problem.label_rounding > 0
    if not network.units or size > 3000 or 3 * size**3 > (5e8 if fine else 3e9):
        return None
    drawn, activation = context.drawn, network.activation
    intervals = Intervals.around(drawn.X, drawn.y, context.precision.widths)
    deadline = context.problem.deadline
    best = fit_inside(intervals, Parameters.of(network), activation, deadline=deadline)
    if best is not None and not best.inside and not fine:
        best = _with_a_missing_unit(context, intervals, network) or best
    if best is None:
        return None
    if not best.inside:  # there is noise beside the rounding
        return fit_inside(intervals, best.parameters, activation, best.noise, deadline)
    fewer: IntervalFit | None = best
    while fewer is not None:
        best, enough = fewer, fewer.parameters.units == 1 or context.out_of_time
        fewer = None if enough else _without_a_needless_unit(context, intervals, best, activation)
    return best


def _with_a_missing_unit(
    context: Context, intervals: Intervals, network: Network, tries: int = 3
) -> IntervalFit | None:
    """The fit with a further unit, if that is inside: least squares may have thought it noise."""
    problem = context.problem
    if problem.activation is not ABS:
        return None
    start = problem.refine(Parameters.of(as_absolute(network)), 1, 1e-9)
    for _ in range(tries):
        if context.out_of_time:
            break
        wider = problem.refine_in_steps(
            widened(problem, start.parameters, (1,), context.rng), 30, 1e-2, 4
        )
        own = polish(context, wider.parameters.network(ABS)).network
        if own.linear is None:
            found = fit_inside(
                intervals, Parameters.of(own), own.activation, deadline=problem.deadline
            )
            if found is not None and found.inside:
                return found
    return None


def _without_a_needless_unit(
    context: Context, intervals: Intervals, best: IntervalFit, activation: Activation
) -> IntervalFit | None:
    """The fit of one unit fewer, the least useful first, that is still inside; None if none is.

    Tried are units that are worth five times the rounding at most, before the others are refined.
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
