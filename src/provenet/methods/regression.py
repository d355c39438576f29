"""`"regression"`: a predictor, whatever the biases (ATV21, Theorem 3.2, Algorithm 5).

A unit of large bias hardly ever changes sides: it is linear, or nothing, but for an error that
falls as `exp(-b^2/2)` (Lemma D.13), and no moments of few samples show it. So the predictor is

    g(x) = sum_{i in S} a_i sigma(w_i x + b_i) + a'_i sigma(-w_i x - b_i) + v.x + c

where S are the units that could be resolved, up to sign, and (a, a', v, c) is a least-squares
problem (Lemma D.12). By Claim D.14 (`consolidate`) g is a network of |S| + 2 units.

Letters: S, G and tau are the paper's; its `Z(x)` are the columns `alpha_i sigma(+-(w_i x + b_i))`
(alpha_i, the resolved output weight, sets their scale), its `Z'(x)` are (x, 1), its phi both, its B
a bound on all parameters. Two columns a unit suffice (end of the proof of Lemma D.12). Labels are
centred and divided by their spread, inputs standardised.

1. Moments up to 2l + 2, and from them S (Algorithm 4, order l: `stages.moment_units`). G, the
   units that can be resolved, has |b| up to `sqrt(2 log N)`, about the largest of N normal numbers.
   Order 1 resolves at most as many units as features, order l `binomial(d + l - 1, l)`.
2. Truncated least squares: samples with `|phi(x)| > tau` are left out, and coefficients are kept in
   a ball. tau and the ball are the paper's, with B and m from what was resolved. The paper's
   projected gradient descent approximates the minimum that is found here directly; columns are
   dependent (`sigma(z) - sigma(-z) = z`), so the shortest of all minima. From a population the
   means are expectations in closed form, and nothing is truncated (proof of Theorem 4.2).
3. Consolidation.

`faithful=True` is these three steps. (The paper gives each step one half of the samples, for its
proof; here the moments see all and the regression all that are not held out.) The order is that of
`order=`; left out, the smallest with room for the units that were asked for, or 1.

By default units are resolved by the stages of "biased-relu", or with `order=` by step 1, and those
that moments do not show are searched for in what is left; least squares then moves all parameters
with v free. A unit that changes sides on fewer samples than it has parameters is fitted, so that
these samples do not pull at the others, and then taken as linear. Without noise nothing else is
left where all others are found.

What it is worth is asked of its predictions alone (`certify.predictor`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from provenet.certify.candidate import Candidate
from provenet.certify.checks import Claim
from provenet.common.typing import Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.fitting.context import Context
from provenet.methods.stages.moment_units import find_span, smallest_order, units_of_order
from provenet.methods.stages.one_output import from_span
from provenet.methods.stages.searched import searched
from provenet.methods.tolerances import DEPENDENT_COLUMNS
from provenet.moments.symmetric import count
from provenet.networks.activations import RELU
from provenet.networks.network import Network
from provenet.networks.piecewise import merge_signs
from provenet.networks.risk import second_moment


def regression(context: Context) -> Iterator[Candidate]:
    """Predictors from sets of resolved units, each from a search of its own."""
    by_order = context.faithful or context.options.order is not None
    for candidate in _of_order(context) if by_order else _resolved(context):
        with context.stage("regress"):
            network = _regressed(context, candidate.network)
        yield replace(candidate, network=network, claim=Claim.PREDICTOR)


# ---------------------------------------------------------------- the resolved units


def order_of(context: Context) -> int:
    """The order that was asked for, or the smallest with room for the units."""
    return context.options.order or smallest_order(context.source.features, context.units or 1)


def _of_order(context: Context) -> Iterator[Candidate]:
    """Steps 1 and 2: the output of Algorithm 4; unless that is all that was asked, a search."""
    found = units_of_order(context, order_of(context))
    S = found.network
    yield Candidate(S, found.evidence) if S.units else _no_units(context)
    if context.refine and not context.faithful:
        yield from searched(context, np.column_stack([S.weights, S.biases]))


def _resolved(context: Context) -> Iterator[Candidate]:
    """Units that moments show, then those that a search finds; no more than were asked for."""
    span = find_span(context.with_options(units=None))
    if span.rank == 0:
        yield _no_units(context)
        if context.refine:
            yield from searched(context)
        return
    span = replace(span, basis=span.basis[: context.units])
    nothing = True
    for candidate in from_span(context, span):
        nothing = False
        yield candidate
    if nothing:  # time was over before the search
        yield from from_span(context.with_options(refine=False), span)


def _no_units(context: Context) -> Candidate:
    nothing = np.zeros((0, context.source.features))
    return Candidate(Network(nothing), "No unit stands above the sampling error of the moments.")


# ---------------------------------------------------------------- truncated least squares


@dataclass(frozen=True)
class _Regression(Sums):
    """`phi^T phi` and `phi^T y` over the samples with `|phi| <= tau`."""

    gram: Array
    labels: Array


def _regressed(context: Context, resolved: Network) -> Network:
    """Algorithm 5, steps 3 and 4, and Claim D.14: output weights and linear part for S."""
    samples, s = context.problem.samples, context.standardisation
    spread, population = context.spread, context.source.population
    S = _within_reach(resolved, samples.size)
    alpha = S.output_weights / spread
    tau, radius = _bounds(context, S, alpha)
    scale = (s.label_mean, spread)
    if population is not None and population.activation.slope is not None:
        beta = expected_least_squares(population, S, alpha, scale, radius)
    else:
        beta = truncated_least_squares(samples, S, alpha, scale, tau, radius)
    m = S.units
    positive, negative = (spread * alpha * part for part in (beta[:m], beta[m : 2 * m]))
    return merge_signs(
        S.replace(
            output_weights=positive,
            linear=spread * beta[2 * m : -1],
            output_bias=s.label_mean + spread * beta[-1],
            activation=RELU,
        ),
        negative,
    )


def _within_reach(network: Network, samples: int) -> Network:
    """The units of G: a kink further out than any sample is none."""
    return network.keep(np.abs(network.biases) <= np.sqrt(2 * np.log(samples)))


def _bounds(context: Context, S: Network, alpha: Array) -> tuple[float, float]:
    """tau, and the radius of the ball of coefficients.

    B and m are not known: B is taken from the resolved units, m as asked for or as the order has
    room for; epsilon is the sampling error.
    """
    d, n = S.features, context.problem.samples.size
    B = float(max(1.0, np.max(np.abs(alpha), initial=0.0), np.max(np.abs(S.biases), initial=0.0)))
    m = max(context.units or count(d, order_of(context)), S.units)
    tau = 20 * m * (2 * S.units + d) * B * np.sqrt(np.log(m * d * B * (S.units + 1) * np.sqrt(n)))
    return float(tau), float(np.sqrt(2 * S.units) + m * (1 + B))


def truncated_least_squares(
    samples: Source,
    S: Network,
    alpha: Array,
    label_scale: tuple[Array, float],
    tau: float,
    radius: float,
) -> Array:
    """The coefficients of `phi(x) = (alpha sigma(z), alpha sigma(-z), x, 1)`."""
    mean, spread = label_scale

    def term(X: Array, y: Array) -> _Regression:
        z = X @ S.weights.T + S.biases
        phi = np.column_stack([alpha * RELU(z), alpha * RELU(-z), X, np.ones(len(X))])
        kept = np.linalg.norm(phi, axis=1) <= tau
        phi, t = phi[kept], (y[kept] - mean) / spread
        return _Regression(phi.T @ phi, phi.T @ t)

    sums = samples.total(term)
    return least_squares_in_ball(sums.gram, sums.labels, radius)


def expected_least_squares(
    population: Network, S: Network, alpha: Array, label_scale: tuple[Array, float], radius: float
) -> Array:
    """The same without sampling error: `E phi phi^T` and `E phi y` for standard normal inputs."""
    (mean, spread), m, d = label_scale, S.units, S.features
    p = 2 * m + d + 1  # entries of phi; the label comes after them, as one more output
    A, V, c = np.zeros((p + 1, 2 * m)), np.zeros((p + 1, d)), np.zeros(p + 1)
    A[: 2 * m], V[2 * m : -2] = np.diag(np.tile(alpha, 2)), np.eye(d)
    c[-2:] = 1.0, -float(mean) / spread
    W, b = np.vstack([S.weights, -S.weights]), np.append(S.biases, -S.biases)
    phi = Network(W, b, A, c, RELU, linear=V)
    last = np.zeros((p + 1, 1))
    last[-1] = 1 / spread
    label = population.replace(
        output_weights=last * population.output_weights,
        output_bias=last[:, 0] * population.output_bias,
        linear=None if population.linear is None else last * population.linear,
    )
    products = second_moment(((1.0, phi.canonical()), (1.0, label.canonical())))
    return least_squares_in_ball(products[:-1, :-1], products[:-1, -1], radius)


def least_squares_in_ball(gram: Array, labels: Array, radius: float) -> Array:
    """The shortest beta of norm at most `radius` that minimises `beta.G beta - 2 beta.labels`.

    On the sphere it is `(G + lambda)^-1 labels`, whose norm falls with lambda.
    """
    values, vectors = np.linalg.eigh(gram)
    kept = values > DEPENDENT_COLUMNS * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    along = vectors.T @ labels

    def excess(multiplier: float) -> float:
        return float(np.linalg.norm(along / (values + multiplier))) - radius

    multiplier = 0.0
    if excess(0.0) > 0:
        multiplier = brentq(excess, 0.0, float(np.linalg.norm(along)) / radius)
    return np.asarray(vectors @ (along / (values + multiplier)))
