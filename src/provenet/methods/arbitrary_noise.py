"""`"arbitrary-noise"`: noise independent of the inputs but otherwise anything (BJW19, section 7).

Heavy tails, no variance, the same huge offset on all outputs of a sample, clusters: least squares
and plain moments see little else. Bounded functions of the labels still see the network.

**The paper's road** (`faithful=True`) is Algorithm 8 for a given number of units, and nothing more:

1. sketch the labels, `S Y`;
2. guess a left inverse M of `S A`: for the right guess `M S Y = relu(W X) + noise`;
3. for each guess and each row of it, learn the unit's direction from signs (`noisy_signs`);
4. regress the labels on the units so found, and keep the guess of least squared loss.

Three things make the enumeration practical and lose nothing. A row of M matters only up to a
positive factor, because only signs are taken: rows are directions, and every entry is a power of
1/2 of the largest (the paper's geometric grid), or zero. Rows do not interact before step 4, so
single rows are enumerated, not matrices, and then paired. A sketch with as many rows as outputs is
a change of basis and is left out. The paper's entries are all positive; a left inverse needs signs
(the rows of M are orthogonal to the other columns of `S A`), so the grid has them. A row and its
opposite give opposite directions, so one of them is enough. The grid is visited from coarse to
fine, each direction once, until the budget is used up or the finest level done. The added noise is
guessed in powers of two around the median size of `M S Y`, where the paper has the Frobenius norm.

**The default road** serves any number of units:

1. whiten the labels by Tyler's scatter matrix (`huber`);
2. span of the units from order 2 of bounded labels (`noisy_signs`): exact however heavy the noise;
   as many dimensions as stand above those of shuffled labels;
3. inside the span, Huber fits (`huber`) of absolute values and a linear part, started from a
   joint diagonalisation, from the sign step with the left inverse of the first fit's output
   weights (units <= outputs), and from random directions, until the best is reached twice;
4. signs, then the Huber fit of the network on all samples, weighted by the residuals' scatter;
5. the sign step once more, from the final output weights: for Gaussian inputs and noise that is
   independent of them it finds the same directions (Theorem 12), up to its sampling error; where it
   does not, the answer is partial.

What is handed on are pseudo-labels: the labels with residuals winsorised, so that the shared
refinement and its tests meet noise with a variance. Where the noise is far larger along some
direction of the outputs than along others, what is handed on are whitened outputs, and the answer
is mapped back at the end.
Inputs that are not Gaussian leave out step 2: units are searched for in winsorised labels instead
(`search`), twice, the second time in those about the first fit.

Letters of the paper: A, U, V, X, E are our `Y^T`, A, W, `X^T` and noise; m outputs, k units.
Memory: two copies of inputs and labels. Cost of the default road: a few dozen least-squares passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from provenet.certify.candidate import Candidate, Repaired
from provenet.certify.checks import Check, Status
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.context import Context
from provenet.fitting.final_fit import without_linear
from provenet.fitting.huber import (
    HUBER,
    RobustFit,
    WeightedFit,
    Whitening,
    huber_network,
    huber_weighted,
    usual_size,
    whitening,
)
from provenet.fitting.linear import with_output_layer
from provenet.fitting.model import Parameters
from provenet.fitting.noisy_signs import (
    BoundedSpan,
    SignDirections,
    all_row_guesses,
    best_units,
    learn_directions,
    span_from_bounded_labels,
    surest_directions,
)
from provenet.methods.stages.searched import searched
from provenet.methods.tolerances import (
    DRAWN_IN,
    FINEST_GUESSES,
    GUESS_SMEARS,
    RANDOM_SPAN_STARTS,
    ROBUST_START_ROWS,
    SAME_HUBER_LOSS,
    SIGN_STEP_ERRORS,
    SKETCH_ROWS_A_UNIT,
    SPAN_SEARCH_ROWS,
    SPAN_SEARCH_TOLERANCE,
    UNSURE_DEGREES,
)
from provenet.moments.decomposition import congruence
from provenet.networks.activations import ABS, RELU
from provenet.networks.network import Network
from provenet.networks.piecewise import as_absolute, in_activation, with_outputs_in_rows

_LOCATION = (
    "The output bias is that of the network plus the centre of the noise: nothing tells these two "
    "apart, and where noise is skewed its centre is not its mean. How far these are from each "
    "other is part of the standard error of the output bias."
)
_NOTHING = (
    "No unit stands above the noise of the labels: take more samples, or check that the labels "
    "belong to these inputs."
)
_NO_SIGN_STEP = (
    "No sign step confirms it: that needs Gaussian inputs, at least as many outputs as units, and "
    f"a standard error of at most {UNSURE_DEGREES:g} degrees."
)


def _enumerated(context: Context) -> Iterator[Candidate]:
    """Algorithm 8, level by level of the guess grid."""
    units = context.units
    if units is None or units > 2:
        asked = "an unknown number" if units is None else f"{units}"
        raise NoAnswer(
            f"Algorithm 8 enumerates guesses for units=1 or units=2, not for {asked}: leave out "
            "faithful=True for the robust start, which serves any."
        )
    samples = context.problem.samples
    X, Y = samples.X, samples.y.reshape(samples.size, -1)
    entries = min(Y.shape[1], SKETCH_ROWS_A_UNIT * units)
    with context.stage("search", "enumeration of left inverses"):
        sketched = Y @ _sketch(Y.shape[1], entries, context.rng).T
        learned, how_far = _learn_from_guesses(context, X, sketched)
        directions = surest_directions(learned)
    if len(directions) == 0:
        raise NoAnswer(_NOTHING)
    evidence = (
        f"The paper's enumeration (Algorithm 8) tried {how_far}, and kept {len(directions)} "
        "directions."
    )
    network = with_output_layer(X, Y, best_units(X, Y, directions, units), np.zeros(units))  # 4
    yield Candidate(_shaped(context, network), evidence)


def _sketch(outputs: int, rows: int, rng: np.random.Generator) -> Array:
    """Step 1. Orthonormal rows that span what a Gaussian sketch would."""
    if rows >= outputs:
        return np.eye(outputs)
    return np.linalg.qr(rng.standard_normal((outputs, rows)))[0].T


def _learn_from_guesses(
    context: Context, X: Array, sketched: Array
) -> tuple[list[SignDirections], str]:
    """Steps 2 to 3c: a direction from each row and each smear; and how far the guesses went."""
    learned: list[SignDirections] = []
    guesses, entries = 0, sketched.shape[1]
    for level, rows in all_row_guesses(entries, FINEST_GUESSES):
        values = sketched @ rows.T
        values -= np.median(values, axis=0)
        size = usual_size(values)
        learned += [learn_directions(X, values, s * size, context.rng) for s in GUESS_SMEARS]
        guesses += len(rows)
        message = f"{guesses} rows of the left inverse, level {level} of {FINEST_GUESSES}"
        context.progress("search", context.budget_used, message)
        if context.out_of_time:
            break
    stopped = ", when the budget was used up" if context.out_of_time else ""
    return learned, f"{guesses} rows of the left inverse down to level {level}{stopped}"


@dataclass(frozen=True)
class UnitsInSpan:
    """Units found inside a span, and how."""

    parameters: Parameters
    """Absolute values and a linear part, on all features, for whitened labels."""
    evidence: str


def fits_in_span(
    X: Array, Z: Array, span: BoundedSpan, units: int, context: Context
) -> Iterator[tuple[str, RobustFit]]:
    """Huber fits inside the span: from joint diagonalisation, sign step, random directions."""
    k, outputs = span.dimensions, Z.shape[1]
    fit = partial(
        huber_network,
        X @ span.basis.T,
        Z,
        activation=ABS,
        tolerance=SPAN_SEARCH_TOLERANCE,
        scale=np.ones(outputs),
        out_of_time=lambda: context.out_of_time,
    )

    def started(directions: Array) -> Parameters:
        theta = np.column_stack([directions, np.zeros(units)])
        return Parameters(theta, np.zeros((units + k + 1, outputs))).normalised(ABS)

    if k == units and len(span.slices) > 1:
        first = fit(started(congruence(span.slices)))
        yield "a joint diagonalisation", first
        if units <= outputs:
            learned = directions_of(X @ span.basis.T, Z, first.model)
            yield "the sign step", fit(started(learned.directions))
    for _ in range(RANDOM_SPAN_STARTS):
        yield "random directions", fit(started(context.rng.standard_normal((units, k))))


def directions_of(X: Array, Z: Array, model: Parameters) -> SignDirections:
    """The sign step with the left inverse of a model's output weights (units <= outputs)."""
    values = Z @ np.linalg.pinv(model.output_weights).T
    values = values - np.median(values, axis=0)
    return learn_directions(X, values, usual_size(values))


def _search_in_span(context: Context, X: Array, Z: Array, span: BoundedSpan) -> UnitsInSpan:
    """The best of several starts; it ends when the least loss was reached twice.

    As many units as there are dimensions, for a unit that shows in no dimension would be fitted to
    noise; as many as asked for where the dimensions fill the space, and so say nothing.
    """
    units = span.dimensions
    if units == X.shape[1] and context.units is not None:
        units = context.units
    fits = fits_in_span(X[:SPAN_SEARCH_ROWS], Z[:SPAN_SEARCH_ROWS], span, units, context)
    first, best = next(fits)
    reached = f"only from {first}"
    for name, fit in fits:
        at_rest = fit.ended.at_rest and best.ended.at_rest
        if at_rest and abs(fit.loss - best.loss) < SAME_HUBER_LOSS * best.loss:
            reached = f"from {first} and from {name}"
            break
        if fit.loss < best.loss:
            first, best, reached = name, fit, f"only from {name}"
        if context.out_of_time:
            break
    evidence = (
        f"{span.dimensions} directions of order 2 of the bounded labels were kept, the weakest "
        f"{span.margin:.1f} times the strongest of shuffled labels; the least Huber loss in their "
        f"span was reached {reached}."
    )
    return UnitsInSpan(lifted(best.model, span.basis), evidence)


def lifted(model: Parameters, basis: Array) -> Parameters:
    """A model in coordinates of a basis as one on all features."""
    theta = np.column_stack([model.theta[:, :-1] @ basis, model.theta[:, -1]])
    m = model.units
    return Parameters(
        theta, np.vstack([model.beta[:m], basis.T @ model.beta[m:-1], model.beta[-1:]])
    )


# ---- The finish on all samples


@dataclass(frozen=True)
class Finished:
    """A candidate, and what its labels are whitened by, if they are."""

    candidate: Candidate
    white: Whitening | None = None


def _finish(context: Context, start: Network, evidence: str) -> Finished:
    """Huber's estimate from all samples, and the winsorised labels it is judged on."""
    exact = _without_noise(context, start)
    if exact is not None:
        sentence = f"{evidence} The labels carry no noise: none were winsorised."
        return Finished(Candidate(exact, sentence))
    inputs, labels = context.source.rows(0, context.source.size)
    X, Y = context.standardisation.apply(inputs), labels.reshape(len(labels), -1)
    with context.stage("refine", "robust fit"):
        found = huber_weighted(X, Y, start, lambda: context.out_of_time)
    findings = _findings(context, X, found)
    sentence = " ".join([evidence, *_how(found), *(() if findings else (_NO_SIGN_STEP,))])
    on = context.on(ArraySource(inputs, found.labels.reshape(labels.shape)))
    if found.white is None:
        network, repaired = _shaped(context, found.network), Repaired(on)
    else:
        network = found.white.whitened(found.network)
        repaired = Repaired(on, found.white.restored_errors)
    candidate = Candidate(
        network, sentence, repaired=repaired, ambiguities=(_LOCATION,), findings=findings
    )
    return Finished(candidate, found.white)


def _without_noise(context: Context, start: Network) -> Network | None:
    """The network that least squares finds, if it leaves nothing of the labels."""
    parameters = Parameters.of(as_absolute(_shaped(context, start)))
    part = context.problem.for_width(start.units)
    fit = part.refine(parameters, 20, 1e-2)
    if not (context.refine and part.is_zero(fit)):
        return None
    fit = context.problem.refine(fit.parameters, 5, 1e-3)
    return fit.parameters.network(ABS) if context.problem.is_zero(fit) else None


def _findings(context: Context, X: Array, found: WeightedFit) -> tuple[Check, ...]:
    """Step 5, which asks for Gaussian inputs."""
    check = agreement(X, found.whitened, found.fit.model) if context.gaussian.ok else None
    return () if check is None else (check,)


def _how(found: WeightedFit) -> Iterator[str]:
    """What was done to the labels."""
    fit = found.fit
    rest = "" if fit.ended.at_rest and found.ended.at_rest else " (stopped before it came to rest)"
    yield (
        f"Huber fit{rest}: residuals winsorised at {HUBER:g} sigma, which drew in "
        f"{100 * fit.clipped:.0f}% of the labels; the certificate refers to these."
    )
    if found.white is not None:
        yield (
            f"Along some directions of the outputs the noise is up to {found.unevenness:.0f} times "
            "larger than along others: the outputs are weighted accordingly, and so are residual "
            "and noise."
        )


def agreement(X: Array, Z: Array, model: Parameters) -> Check | None:
    """Whether the sign step finds a model's directions (Theorem 12); None where it cannot tell.

    Its distance from each is compared with its own sampling error, the root mean square of it.
    """
    if model.units > Z.shape[1] or X.shape[1] == 1:  # of one feature a direction is a sign
        return None
    learned = directions_of(X, Z, model)
    if np.degrees(learned.standard_errors.max()) > UNSURE_DEGREES:
        return None
    own = model.theta[:, :-1] / np.linalg.norm(model.theta[:, :-1], axis=1, keepdims=True)
    away = np.arccos(np.clip(np.sum(own * learned.directions, axis=1), -1, 1))
    allowed = SIGN_STEP_ERRORS * learned.standard_errors
    worst = int(np.argmax(away / allowed))
    found, needed = np.degrees(away[worst]), np.degrees(allowed[worst])
    return Check(
        "the sign step finds the same directions",
        bool(away[worst] <= allowed[worst]),
        f"{found:.1f} degrees away",
        f"at most {needed:.1f} ({SIGN_STEP_ERRORS:g} standard errors)",
        f"The signs of the labels point {found:.0f} degrees away from a unit, where sampling "
        f"explains {needed:.1f}: the noise depends on the inputs, or a unit is wrong. Take more "
        "samples, or look at what the noise depends on.",
        Status.PARTIAL,
        samples=len(X),
    )


def _shaped(context: Context, network: Network) -> Network:
    """With plain numbers as labels the network has plain numbers as outputs."""
    if context.source.outputs is not None:
        return network
    constant = float(np.asarray(network.output_bias).ravel()[0])
    return network.replace(output_weights=network.output_weights[0], output_bias=constant)


# ---- The method


def arbitrary_noise(context: Context) -> Iterator[Candidate]:
    """Algorithm 8 where it is asked for; otherwise a robust start and Huber's estimate."""
    if context.faithful:
        yield from _enumerated(context)
    else:
        yield from _robust(context)


def _robust(context: Context) -> Iterator[Candidate]:
    """The default road; what the start misses is searched for in the labels it has repaired."""
    X, Y = _drawn(context)
    white = whitening(Y)
    if context.gaussian.ok:
        finished = _from_moments(context, X, Y, white)
        yield finished.candidate
    else:
        rough = next(searched(_winsorised(context, white)), None)
        if rough is None:
            return
        finished = _from_search(context, rough, None)
    repaired, known = finished.candidate.repaired, Parameters.of(finished.candidate.network)
    on = context if repaired is None else repaired.context
    for other in searched(on, known.theta):
        yield _from_search(context, other, finished.white).candidate


def _from_moments(context: Context, X: Array, Y: Array, white: Whitening) -> Finished:
    """Steps 1 to 5 for Gaussian inputs."""
    Z = white.apply(Y)
    with context.stage("moments", "order 2 of bounded labels"):
        span = span_from_bounded_labels(X, Z, context.units, context.rng)
    if span.dimensions == 0:
        raise NoAnswer(_NOTHING)
    with context.stage("search", "Huber fits in the span of the units"):
        found = _search_in_span(context, X, Z, span)
    network = without_linear(in_activation(found.parameters.network(ABS), RELU))
    return _finish(context, white.restored(network), found.evidence)


def _from_search(context: Context, other: Candidate, white: Whitening | None) -> Finished:
    """Steps 4 and 5 from units found in repaired labels, `white` what these are whitened by."""
    if other.network.units == 0:
        raise NoAnswer(_NOTHING)
    network = without_linear(with_outputs_in_rows(in_activation(other.network, RELU)))
    start = network if white is None else white.restored(network)
    return _finish(context, start, f"Searched in winsorised labels: {other.width_evidence}")


def _drawn(context: Context) -> tuple[Array, Array]:
    """Samples for the start, standardised: more than are fitted where there are many in memory."""
    samples, source = context.problem.samples, context.source
    X, y = samples.X, samples.y
    if source.fixed and source.size > 2 * samples.size:
        drawn = source.draw(min(source.size, ROBUST_START_ROWS), context.rng)
        X, y = context.standardisation.apply(drawn.X), drawn.y
    return X, y.reshape(len(y), -1)


def _winsorised(context: Context, white: Whitening) -> Context:
    """Labels drawn in about their medians: where there is no fit yet."""
    inputs, labels = context.source.rows(0, context.source.size)
    Z = white.apply(labels.reshape(len(labels), -1))
    drawn_in = white.centre + np.clip(Z, -DRAWN_IN, DRAWN_IN) @ white.backward
    return context.on(ArraySource(inputs, drawn_in.reshape(labels.shape)))
