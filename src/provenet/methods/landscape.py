"""`"landscape"`: minimise an objective that has no bad minima (GLM17).

One pass over the data gives `T_2` and, inside the span of the units, `T_4`; the chosen objective is
then minimised in that span without touching the data again, the directions of the units are read
off its minimum, and appendix B gives their signs. `"auto"` takes F for as many units as features
and F with its l2 term for fewer; inside the span, and in the norm of `sum a b b^T`, the two are one
and the same. `"l2"` and `"abs"` see all orders, so they run on samples.

`faithful=True` runs the paper's section 6 instead, and nothing after it: stochastic gradient
descent with a fresh batch for every step (the next of the samples in random order, where there is
no function to ask for more), in all of the space, from random rows in the span of the units. The
losses descend in (a, B); G and F have the output weights of appendix B. Batches and steps are the
paper's at 50 features and fewer below (`landscape.stochastic`); what they cost is told before the
first step, and a budget that cannot hold it is refused then. The labels' mean is taken off, and for
all but l2 their linear part, which these do not see.

Beyond the paper: inputs of any covariance, an output bias, noise; a last descent on f2f4 from the
minimum of G or F, with the same moments; output weights by regression on samples, which is far less
sensitive to errors in B than Algorithm 2; the safeguard against sampling error in
`landscape.designed`.

Memory: `units^4 / 4` numbers a few times over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.common.words import duration
from provenet.data.passes import working_time
from provenet.data.sources import StandardisedSource
from provenet.fitting.context import Context
from provenet.fitting.linear import with_output_layer
from provenet.landscape.constants import Constants, constants_for_whitened_F
from provenet.landscape.designed import Design
from provenet.landscape.fourth_order import SumOfFourthPowers, eigenvalues
from provenet.landscape.joint import JointLoss
from provenet.landscape.linear_layer import output_weights
from provenet.landscape.losses import SampleLoss
from provenet.landscape.newton import Descent, minimise
from provenet.landscape.objective import Objective
from provenet.landscape.objectives import (
    LOSSES,
    choose_constants,
    in_the_theorem,
    moment_objective,
    population_objective,
    sample_objective,
)
from provenet.landscape.outcome import LandscapeDetails, Outcome
from provenet.landscape.second_order import second_order
from provenet.landscape.statistics import (
    Statistics,
    coefficients,
    sample_statistics,
    span_of_source,
)
from provenet.landscape.stochastic import (
    Batches,
    Plan,
    descend,
    plan,
    rate_of_loss,
    seconds_a_step,
)
from provenet.landscape.tolerances import (
    DESIGNED_RATE,
    ROUGH_EIGENVALUE,
    ROUGH_SAMPLES,
)
from provenet.methods.stages.moment_units import spectrum_evidence
from provenet.methods.tolerances import LOSS_STARTS, MOMENT_STARTS, SHARE_OF_DESCENT, STAYED
from provenet.moments.subspace import Span
from provenet.networks.activations import Activation
from provenet.networks.network import Network

WHITENED = ("F", "F-undercomplete")
ON_SAMPLES = ("l2", "abs")
_ROUNDING = 1e-14
"""The slope that rounding leaves, over the penalty's weight and the number of units."""
_SMALL = 1e-9
"""Slope and curvature that count as zero for a loss, over the square of the labels' spread."""
_LEAST_PENALTY = 0.1
"""The least lambda that Theorem 5.1 allows, over the one chosen: longer steps."""


def landscape(context: Context) -> Iterator[Candidate]:
    """A candidate for every start: of G and F the first should do, of the losses any may."""
    with context.stage("moments", "order 2"):
        span = span_of_source(
            context.source, context.standardisation, context.activation, context.units
        )
    _check_positive(context, span)
    name = _name(context, span)
    if context.faithful:
        yield _stochastic(context, name, span)
        return
    if name in ON_SAMPLES:
        statistics = None
        objective = _on_samples(context, name, span)
    else:
        with context.stage("moments", f"order 4 in {span.rank} dimensions"):
            statistics = sample_statistics(
                context.source, context.standardisation, context.activation, span
            )
            objective = _on_moments(context, name, statistics, span)
    for _ in range(_starts(context, name)):
        with context.stage("minimise"):
            descent = _minimise(context, objective)
            W = _units(objective, descent.B, span)
            if statistics is not None:
                W = _fitted_to_moments(context, statistics, W)
            network = _network(context, name, W @ span.basis, span)
        yield _candidate(name, objective, descent, network, span)


def _candidate(
    name: str, objective: Objective, descent: Descent, network: Network, span: Span
) -> Candidate:
    constants = objective.constants if isinstance(objective, Design) else None
    outcome = Outcome(name, constants, descent, second_order(objective, descent.B))
    return Candidate(network, spectrum_evidence(span), details=LandscapeDetails(outcome))


def _check_positive(context: Context, span: Span) -> None:
    """The eigenvalues of `sum a b b^T` have the signs of the output weights a."""
    level, shown = span.noise_level, int(np.sum(span.eigenvalues > span.noise_level))
    inputs = "" if context.gaussian.ok else f" {context.gaussian.message}"
    if np.any(span.eigenvalues < -level):
        raise NoAnswer(
            'The method "landscape" needs positive output weights and Gaussian inputs, and the '
            "second moment has a negative eigenvalue: some weight is negative, or the inputs are "
            'not Gaussian. Use method="expand-prune", which needs neither, or "biased-relu", which '
            f"needs no sign.{inputs}"
        )
    if shown == 0 or shown < span.rank:
        raise NoAnswer(
            f'The method "landscape" needs positive output weights that show in the second moment, '
            f"and {shown} of {span.rank or 1} do: the others are zero or the samples too few. Give "
            'fewer units or more samples, or use method="expand-prune", which needs neither.'
            f"{inputs}"
        )


def _name(context: Context, span: Span) -> str:
    """The objective that was asked for, or the one that serves networks of this shape."""
    if context.options.objective != "auto":
        return context.options.objective
    return "F" if span.rank == context.source.features else "F-undercomplete"


def _starts(context: Context, name: str) -> int:
    if name in LOSSES:
        return LOSS_STARTS
    return MOMENT_STARTS if context.refine else 1


def _on_moments(context: Context, name: str, statistics: Statistics, span: Span) -> Objective:
    """The objective in coordinates of the span, from the moments alone."""
    if name in WHITENED:
        found: Objective = _whitened(statistics, span, context.activation)
    else:
        found = moment_objective(name, statistics, span.rank, context.activation)
    truth = context.source.population
    if truth is not None:
        outside = not in_the_theorem(name, truth, span.rank)
        found.theorem = None if outside else found.theorem
    return found


def _on_samples(context: Context, name: str, span: Span) -> Objective:
    """A loss that sees all orders, on samples in coordinates of the span."""
    s, truth = context.standardisation, context.source.population
    if truth is not None:
        inside = truth.replace(weights=truth.weights @ span.basis.T, output_bias=0.0)
        return population_objective(name, inside, span.rank)
    samples = context.problem.samples
    y = samples.y - s.label_mean
    if name == "abs":  # even, so the linear part is noise to it
        y = y - samples.X @ s.linear
    X = samples.X @ span.basis.T
    return sample_objective(name, X, y, span.rank, context.activation, centred=True)


def _whitened(statistics: Statistics, span: Span, activation: Activation) -> Design:
    """F in the norm of `M = sum a b b^T` (Theorem A.2): conditioned by the output weights alone.

    There the fourth moment is `sum_i o_i^(x)4 / a_i` with orthonormal o_i, so its eigenvalues tell
    the range of `1 / a_i`; that of M bounds it. Inside the span the l2 term has nothing to do.
    """
    m, M = span.rank, np.diag(span.quadratic)
    white = statistics.transformed(np.diag(1 / np.sqrt(M)))
    weights = np.clip(eigenvalues(white.fourth, m)[-m:], 1 / M.max(), 1 / M.min())
    c_4 = coefficients(activation)[1]
    return Design(white, constants_for_whitened_F(weights, c_4, m, white.error), m)


def _minimise(context: Context, objective: Objective) -> Descent:
    """The deterministic method from random rows of norm 1 on average."""
    m = objective.units
    if isinstance(objective, Design):
        size = objective.constants.penalty or objective.constants.interference
        theorem = objective.theorem
        slope = max(theorem.slope if theorem else 0.0, _ROUNDING * size * m)
        curvature = theorem.curvature if theorem else _SMALL * size
    else:
        slope = curvature = _SMALL * context.spread**2
    return minimise(
        objective,
        context.rng.standard_normal((m, m)) / np.sqrt(m),
        slope=slope,
        curvature=curvature,
        deadline=context.problem.deadline,
    )


def _units(objective: Objective, B: Array, span: Span) -> Array:
    """Unit vectors along the units in the coordinates of the span, up to sign.

    A row of F's minimum sees one unit and is blind to the others: the units are the inverse's
    (Theorem A.4). The other objectives have the units themselves for rows.
    """
    if isinstance(objective, Design) and not objective.euclidean:
        B = np.asarray(np.linalg.pinv(B).T * np.sqrt(np.diag(span.quadratic)), dtype=float)
    return np.asarray(B / np.linalg.norm(B, axis=1, keepdims=True))


def _fitted_to_moments(context: Context, statistics: Statistics, W: Array) -> Array:
    """The units of least f2f4 loss near those found, rows of norm 1.

    G and F are made for their landscape; at the answer f2f4, the population risk as far as these
    moments show it, weights the same moments by what they are worth.
    """
    loss = moment_objective("f2f4", statistics, len(W), context.activation)
    scale = context.spread**2
    descent = minimise(
        loss, W, slope=_SMALL * scale, curvature=_SMALL * scale, deadline=context.problem.deadline
    )
    stayed = np.all(np.sum(descent.B * W, axis=1) > STAYED)
    return descent.B if descent.converged and stayed else W


def _network(context: Context, name: str, W: Array, span: Span) -> Network:
    """Units along the rows of W with their signs (appendix B), output weights by regression."""
    s, activation = context.standardisation, context.activation
    second = coefficients(activation)[0] * span.basis.T @ span.quadratic @ span.basis
    _, W = output_weights(s.linear, second, W, activation, orthogonal=name == "G")
    biases = W @ s.whiten @ s.mean  # none on the user's inputs
    samples = context.problem.samples
    return with_output_layer(samples.X, samples.y, W, biases, activation)


# ---------------------------------------------------------------- the paper's experiment


def _stochastic(context: Context, name: str, span: Span) -> Candidate:
    """Section 6: a fresh batch for every step, in all of the space; then appendix B."""
    s, m, scale = context.standardisation, span.rank, float(span.eigenvalues[0])
    constants, rate = _constants_and_rate(context, name, span)
    condition = scale / float(span.eigenvalues[m - 1])
    size = context.source.size if context.source.fixed else np.inf
    own = plan(name, context.source.features, rate, condition=condition, samples=size)
    fresh = Batches(StandardisedSource(context.source, s), own.batch, context.rng)
    linear = s.linear if name != "l2" else np.zeros_like(s.linear)  # noise to even objectives

    def on(X: Array, y: Array) -> Objective:
        y = y - s.label_mean - X @ linear
        if name not in LOSSES:
            return sample_objective(name, X, y, m, context.activation, constants=constants)
        loss = sample_objective(name, X, y / scale, m, context.activation, centred=True)
        assert isinstance(loss, SampleLoss)
        return JointLoss(loss)

    start = _start(context, name, span)
    seconds = own.seconds(seconds_a_step(on, fresh, start))
    deadline = _deadline(context, own, seconds)
    with context.stage("minimise", f"{own.words}, about {duration(seconds)}"):
        descent = descend(on, fresh, start, own.schedule, deadline=deadline)
        if descent.ran_away:
            raise _no_minimum(own.batch)
        X, y = fresh()
        last = second_order(on(X[:ROUGH_SAMPLES], y[:ROUGH_SAMPLES]), descent.B, ROUGH_EIGENVALUE)
    network = _papers_network(context, name, descent.B, span)
    outcome = Outcome(name, constants, descent, last, planned=own.schedule.steps)
    return Candidate(network, spectrum_evidence(span), details=LandscapeDetails(outcome))


def _start(context: Context, name: str, span: Span) -> Array:
    """Random rows in the span of the units, of norm 1 or so; a loss has its output weights beside.

    In the objective's own norm rows of F are at most 1, whatever the labels' scale. Outside of the
    span nothing but the l2 term of F, which is tiny, would ever draw them back.
    """
    m, a = span.rank, span.eigenvalues[: span.rank]
    rows = context.rng.standard_normal((m, m)) / np.sqrt(m) @ span.basis
    if name in LOSSES:
        return np.column_stack([rows, np.full(m, a.mean() / a[0])])
    return np.asarray(rows / np.sqrt(a[0])) if name in WHITENED else rows


def _deadline(context: Context, own: Plan, seconds: float) -> float:
    """When to stop; no beginning where the budget cannot hold it."""
    now = working_time()
    left = SHARE_OF_DESCENT * (context.problem.deadline - now)
    if seconds > left:
        needed = (now - context.started + seconds) / SHARE_OF_DESCENT
        raise NoAnswer(
            f"The paper's stochastic descent takes {own.words} here, about {duration(seconds)}, "
            f"and the budget leaves it {duration(max(left, 0.0))}: give budget={needed:.0f}, or "
            "leave out faithful=, which takes one pass over the samples."
        )
    return now + left


def _papers_network(context: Context, name: str, B: Array, span: Span) -> Network:
    """The network of a descent's end: a loss has its output weights, G and F those of appendix B.

    Signs are appendix B's where the objective does not see them.
    """
    s, activation = context.standardisation, context.activation
    a = None
    if name in LOSSES:
        B, a = B[:, :-1], span.eigenvalues[0] * B[:, -1]
    rows = B if name not in WHITENED else np.linalg.pinv(B).T
    W = np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    if name != "l2":
        second = coefficients(activation)[0] * span.basis.T @ span.quadratic @ span.basis
        found, W = output_weights(s.linear, second, W, activation, orthogonal=name == "G")
        a = found if a is None else a
    assert a is not None
    constant = s.label_mean - float(activation.hermite(0, 0.0)) * a.sum()
    return Network(W, W @ s.whiten @ s.mean, a, constant, activation)


def _no_minimum(batch: int) -> NoAnswer:
    return NoAnswer(
        f"The paper's stochastic descent ran away: moments of {batch} samples, in all of the "
        "space, are so noisy that the objective falls without end. Take more samples, leave out "
        'faithful=, which stays in the span of the units, or use objective="l2".'
    )


def _constants_and_rate(context: Context, name: str, span: Span) -> tuple[Constants | None, float]:
    """Constants from the second moment, and a step well below one over the curvature."""
    if name in LOSSES:
        return None, rate_of_loss(name, context.source.features, context.activation)
    a = span.eigenvalues[: span.rank]
    N = span.basis.T @ span.quadratic @ span.basis
    known = Statistics((N, N), SumOfFourthPowers(a, span.basis), error=0.0)
    chosen = choose_constants(name, known, span.rank, context.activation)
    chosen = replace(chosen, penalty=_LEAST_PENALTY * chosen.penalty)
    sharpest = 1.0 if name == "G" else float(a.max())
    return chosen, DESIGNED_RATE / (chosen.penalty * sharpest)
