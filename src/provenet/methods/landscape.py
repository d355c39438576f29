"""`"landscape"`: minimise an objective that has no bad minima (GLM17).

One pass over the data gives `T_2` and, inside the span of the units, `T_4`; the chosen objective is
then minimised in that span without touching the data again, the directions of the units are read
off its minimum, and appendix B gives their signs. `"auto"` takes F for as many units as features
and F with its l2 term for fewer; inside the span, and in the norm of `sum a b b^T`, the two are one
and the same. `"l2"` and `"abs"` see all orders, so they run on samples.

`faithful=True` runs the paper's section 6 instead: stochastic gradient descent with a fresh batch
for every step (a draw from the samples, where there is no function to ask for more), in all of the
space, and the output weights of appendix B.

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
from provenet.data.sources import StandardisedSource
from provenet.fitting.moment_start import spectrum_evidence
from provenet.fitting.output_layer import with_output_layer
from provenet.fitting.workspace import Workspace
from provenet.landscape.constants import Constants, constants_for_whitened_F
from provenet.landscape.designed import Design
from provenet.landscape.fourth_order import SumOfFourthPowers, eigenvalues
from provenet.landscape.linear_layer import output_weights
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
from provenet.landscape.stochastic import Schedule, descend
from provenet.methods.tolerances import DESIGNED_BATCH, LOSS_STARTS, MOMENT_STARTS, STAYED
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
_BATCH = {"l2": 256, "f2f4": 8192, "abs": 8192}
_SCHEDULE = Schedule(steps=20_000, rate=1.0, plateau=10_000, every=2000, report=10)


def landscape(workspace: Workspace) -> Iterator[Candidate]:
    """A candidate for every start: of G and F the first should do, of the losses any may."""
    with workspace.stage("moments", "order 2"):
        span = span_of_source(
            workspace.source, workspace.standardisation, workspace.activation, workspace.units
        )
    _check_positive(workspace, span)
    name = _name(workspace, span)
    if workspace.faithful:
        yield _stochastic(workspace, name, span)
        return
    if name in ON_SAMPLES:
        statistics = None
        objective = _on_samples(workspace, name, span)
    else:
        with workspace.stage("moments", f"order 4 in {span.rank} dimensions"):
            statistics = sample_statistics(
                workspace.source, workspace.standardisation, workspace.activation, span
            )
            objective = _on_moments(workspace, name, statistics, span)
    for _ in range(_starts(workspace, name)):
        with workspace.stage("minimise"):
            descent = _minimise(workspace, objective)
            W = _units(objective, descent.B, span)
            if statistics is not None:
                W = _fitted_to_moments(workspace, statistics, W)
            network = _network(workspace, name, W @ span.basis, span)
        yield _candidate(name, objective, descent, network, span)


def _candidate(
    name: str, objective: Objective, descent: Descent, network: Network, span: Span
) -> Candidate:
    constants = objective.constants if isinstance(objective, Design) else None
    outcome = Outcome(name, constants, descent, second_order(objective, descent.B))
    return Candidate(network, spectrum_evidence(span), details=LandscapeDetails(outcome))


def _check_positive(workspace: Workspace, span: Span) -> None:
    """The eigenvalues of `sum a b b^T` have the signs of the output weights a."""
    level, shown = span.noise_level, int(np.sum(span.eigenvalues > span.noise_level))
    inputs = "" if workspace.gaussian.ok else f" {workspace.gaussian.message}"
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


def _name(workspace: Workspace, span: Span) -> str:
    """The objective that was asked for, or the one that serves networks of this shape."""
    if workspace.objective != "auto":
        return workspace.objective
    return "F" if span.rank == workspace.source.features else "F-undercomplete"


def _starts(workspace: Workspace, name: str) -> int:
    if name in LOSSES:
        return LOSS_STARTS
    return MOMENT_STARTS if workspace.refine else 1


def _on_moments(workspace: Workspace, name: str, statistics: Statistics, span: Span) -> Objective:
    """The objective in coordinates of the span, from the moments alone."""
    if name in WHITENED:
        found: Objective = _whitened(statistics, span, workspace.activation)
    else:
        found = moment_objective(name, statistics, span.rank, workspace.activation)
    truth = workspace.source.population
    if truth is not None:
        outside = not in_the_theorem(name, truth, span.rank)
        found.theorem = None if outside else found.theorem
    return found


def _on_samples(workspace: Workspace, name: str, span: Span) -> Objective:
    """A loss that sees all orders, on samples in coordinates of the span."""
    s, truth = workspace.standardisation, workspace.source.population
    if truth is not None:
        inside = truth.replace(weights=truth.weights @ span.basis.T, output_bias=0.0)
        return population_objective(name, inside, span.rank)
    samples = workspace.problem.samples
    y = samples.y - s.label_mean
    if name == "abs":  # even, so the linear part is noise to it
        y = y - samples.X @ s.linear
    X = samples.X @ span.basis.T
    return sample_objective(name, X, y, span.rank, workspace.activation, centred=True)


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


def _minimise(workspace: Workspace, objective: Objective) -> Descent:
    """The deterministic method from random rows of norm 1 on average."""
    m = objective.units
    if isinstance(objective, Design):
        size = objective.constants.penalty or objective.constants.interference
        theorem = objective.theorem
        slope = max(theorem.slope if theorem else 0.0, _ROUNDING * size * m)
        curvature = theorem.curvature if theorem else _SMALL * size
    else:
        slope = curvature = _SMALL * workspace.spread**2
    return minimise(
        objective,
        workspace.rng.standard_normal((m, m)) / np.sqrt(m),
        slope=slope,
        curvature=curvature,
        deadline=workspace.problem.deadline,
    )


def _units(objective: Objective, B: Array, span: Span) -> Array:
    """Unit vectors along the units in the coordinates of the span, up to sign.

    A row of F's minimum sees one unit and is blind to the others: the units are the inverse's
    (Theorem A.4). The other objectives have the units themselves for rows.
    """
    if isinstance(objective, Design) and not objective.euclidean:
        B = np.asarray(np.linalg.pinv(B).T * np.sqrt(np.diag(span.quadratic)), dtype=float)
    return np.asarray(B / np.linalg.norm(B, axis=1, keepdims=True))


def _fitted_to_moments(workspace: Workspace, statistics: Statistics, W: Array) -> Array:
    """The units of least f2f4 loss near those found, rows of norm 1.

    G and F are made for their landscape; at the answer f2f4, the population risk as far as these
    moments show it, weights the same moments by what they are worth.
    """
    loss = moment_objective("f2f4", statistics, len(W), workspace.activation)
    scale = workspace.spread**2
    descent = minimise(
        loss, W, slope=_SMALL * scale, curvature=_SMALL * scale, deadline=workspace.problem.deadline
    )
    stayed = np.all(np.sum(descent.B * W, axis=1) > STAYED)
    return descent.B if descent.converged and stayed else W


def _network(workspace: Workspace, name: str, W: Array, span: Span) -> Network:
    """Units along the rows of W with signs, output weights and output bias (appendix B)."""
    s, activation = workspace.standardisation, workspace.activation
    second = coefficients(activation)[0] * span.basis.T @ span.quadratic @ span.basis
    a, W = output_weights(s.linear, second, W, activation, orthogonal=name == "G")
    biases = W @ s.whiten @ s.mean  # none on the user's inputs
    if workspace.faithful:
        constant = s.label_mean - float(activation.hermite(0, 0.0)) * a.sum()
        return Network(W, biases, a, constant, activation)
    samples = workspace.problem.samples
    return with_output_layer(samples.X, samples.y, W, biases, activation)


# ---------------------------------------------------------------- the paper's experiment


def _stochastic(workspace: Workspace, name: str, span: Span) -> Candidate:
    """Section 6: a fresh batch for every step, in all of the space, for half of the time."""
    s, activation, m = workspace.standardisation, workspace.activation, span.rank
    d = workspace.source.features
    constants, rate = _constants_and_rate(workspace, name, span)
    samples = StandardisedSource(workspace.source, s)
    size = min(_BATCH.get(name, DESIGNED_BATCH), workspace.source.size)

    def fresh() -> tuple[Array, Array]:
        drawn = samples.draw(size, workspace.rng)
        return drawn.X, drawn.y

    def on(X: Array, y: Array) -> Objective:
        y = y - s.label_mean
        return sample_objective(name, X, y, m, activation, constants=constants, centred=True)

    with workspace.stage("minimise", f"batches of {size}"):
        descent = descend(
            on,
            fresh,
            workspace.rng.standard_normal((m, d)) / np.sqrt(d) * _row_length(name, span),
            replace(_SCHEDULE, rate=rate),
            deadline=(workspace.started + workspace.problem.deadline) / 2,
        )
        if descent.ran_away:
            raise _no_minimum(size)
        last = on(*fresh())
        rows = descent.B if name not in WHITENED else np.linalg.pinv(descent.B).T
        W = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        network = _network(workspace, name, W, span)
    return _candidate(name, last, descent, network, span)


def _row_length(name: str, span: Span) -> float:
    """Of the rows to start from: at most 1 in the objective's norm, whatever the labels' scale."""
    return float(1 / np.sqrt(span.eigenvalues[0])) if name in WHITENED else 1.0


def _no_minimum(batch: int) -> NoAnswer:
    return NoAnswer(
        f"The paper's stochastic descent ran away: moments of {batch} samples, in all of the "
        "space, are so noisy that the objective falls without end. Take more samples, leave out "
        'faithful=, which stays in the span of the units, or use objective="l2".'
    )


def _constants_and_rate(
    workspace: Workspace, name: str, span: Span
) -> tuple[Constants | None, float]:
    """Constants from the second moment, and a step well below one over the curvature."""
    a = span.eigenvalues[: span.rank]
    if name in LOSSES:
        return None, float(0.25 / (a.sum() * a.max()))
    N = span.basis.T @ span.quadratic @ span.basis
    known = Statistics((N, N), SumOfFourthPowers(a, span.basis), error=0.0)
    chosen = choose_constants(name, known, span.rank, workspace.activation)
    chosen = replace(chosen, penalty=_LEAST_PENALTY * chosen.penalty)
    sharpest = 1.0 if name == "G" else float(a.max())
    return chosen, 0.05 / (chosen.penalty * sharpest)
