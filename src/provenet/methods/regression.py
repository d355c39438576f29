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

1. Moments, and from them S (Algorithm 4). G, the units that can be resolved, has |b| up to
   `sqrt(2 log N)`, about the largest of N normal numbers.
2. Truncated least squares: samples with `|phi(x)| > tau` are left out, and coefficients are kept in
   a ball. tau and the ball are the paper's, with B and m from what was resolved. The paper's
   projected gradient descent approximates the minimum that is found here directly; columns are
   dependent (`sigma(z) - sigma(-z) = z`), so the shortest of all minima.
3. Consolidation.

`faithful=True` stops there. (The paper gives each step one half of the samples, for its proof; here
the moments see all and the regression all that are not held out.) By default units are resolved by
the stages of "biased-relu", and those that moments do not show are searched for in what is left;
least squares then moves all parameters with v free. A unit that changes sides on fewer samples than
it has parameters is fitted, so that these samples do not pull at the others, and then taken as
linear. Without noise nothing else is left where all others are found.

What it is worth: the error on samples that were not fitted, or on those that were if that is larger
(where units were taken as linear after the fit). It is a success ("within noise") when the error
beyond noise, as far as so many samples tell, is at most 1e-3 of the labels' spread; noise is what
was given or, left out, what is left if it has neither heavy tails nor anything that further units
explain. Up to a tenth of the spread it is partial, beyond that failed. It is never "exact": the
weights need not be those of the network. With noise the last step of least squares sees all
samples; the error is from before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from provenet.certify.candidate import Candidate
from provenet.certify.certificate import Certificate, closest_pair, condition_number, rarer_side
from provenet.certify.conclude import conclude
from provenet.certify.judgement import fewest_to_confirm
from provenet.certify.result import Recovery, Status
from provenet.common.typing import Array
from provenet.data.sources import Source
from provenet.data.sums import Sums
from provenet.fitting.moment_start import faithful_directions, find_span
from provenet.fitting.residuals import residual_on
from provenet.fitting.workspace import Workspace
from provenet.methods.stages.one_output import from_span
from provenet.methods.stages.searched import searched
from provenet.moments.scalars import recover_scalars
from provenet.networks.activations import RELU
from provenet.networks.conversions import linear_as_units, merge_linear_units, merge_signs
from provenet.networks.network import Network

NAME = "regression"
_SMALL_ERROR = 1e-3
_LARGE_ERROR = 0.1
_SIGMAS = 4.0
_HEAVY_TAILS = 4.0
_SEARCHES = 5
_SAME = 0.01
_MUCH_LARGER = 2.0
_ROUNDINGS = 100.0
_DEPENDENT = 1e-12
_MERGED = (
    "Units of large bias, which the samples do not tell from a linear function, are merged into a "
    "linear part: the last two units are its two signs. The sign of each other unit is a "
    "convention then, as reversing it changes only the linear part."
)
_RANK = {Status.FAILED: 0, Status.PARTIAL: 1, Status.WITHIN_NOISE: 2}


def regression(workspace: Workspace) -> Iterator[Recovery]:
    """The best predictor of a few sets of resolved units."""
    if workspace.faithful:
        workspace = _wishing(workspace, refine=False)
    found: list[_Predictor] = []
    for candidate in _faithful(workspace) if workspace.faithful else _resolved(workspace):
        with workspace.stage("regress"):
            start = replace(candidate, network=_regressed(workspace, candidate.network))
        found.append(_judged(workspace, conclude(workspace, start, NAME)))
        if found[-1].done or workspace.out_of_time or _no_better(found):
            break
    yield max(found, key=lambda predictor: predictor.value).recovery


@dataclass(frozen=True)
class _Predictor:
    """A predictor and its root mean square error: on samples held out or fitted, the larger."""

    recovery: Recovery
    error: float
    done: bool
    """A success that leaves no samples for another search to look at."""

    @property
    def unseen(self) -> float:
        """Root mean square error on the samples held out."""
        assert self.recovery.certificate is not None
        return self.recovery.certificate.residual

    @property
    def value(self) -> tuple[int, float]:
        """The better, the larger."""
        return _RANK[self.recovery.status], -self.unseen


def _no_better(found: list[_Predictor]) -> bool:
    """Whether searches have met: the next would end there too. Bad minima differ."""
    last = [predictor.error for predictor in found[-2:]]
    return len(found) == _SEARCHES or (len(last) == 2 and abs(last[1] / last[0] - 1) < _SAME)


# ---------------------------------------------------------------- the resolved units


def _faithful(workspace: Workspace) -> Iterator[Candidate]:
    """Steps 1 and 2: the output of Algorithm 4."""
    moments, W, evidence = faithful_directions(workspace)
    if len(W) == 0:
        yield _no_units(workspace)
        return
    a, b = recover_scalars(moments.tensors, W)
    yield Candidate(Network(W, b, a), evidence)


def _resolved(workspace: Workspace) -> Iterator[Candidate]:
    """Units that moments show, then those that a search finds; no more than were asked for."""
    span = find_span(_wishing(workspace, units=None))
    if span.rank == 0:
        yield _no_units(workspace)
        if workspace.refine:
            yield from searched(workspace)
        return
    span = replace(span, basis=span.basis[: workspace.units])
    nothing = True
    for candidate in from_span(workspace, span):
        nothing = False
        yield candidate
    if nothing:  # time was over before the search
        yield from from_span(_wishing(workspace, refine=False), span)


def _wishing(workspace: Workspace, **wishes: Any) -> Workspace:
    return replace(workspace, wishes=replace(workspace.wishes, **wishes))


def _no_units(workspace: Workspace) -> Candidate:
    nothing = np.zeros((0, workspace.source.features))
    return Candidate(Network(nothing), "No unit stands above the sampling error of the moments.")


# ---------------------------------------------------------------- truncated least squares


@dataclass(frozen=True)
class _Regression(Sums):
    """`phi^T phi` and `phi^T y` over the samples with `|phi| <= tau`."""

    gram: Array
    labels: Array


def _regressed(workspace: Workspace, resolved: Network) -> Network:
    """Algorithm 5, steps 3 and 4, and Claim D.14: output weights and linear part for S."""
    samples, s = workspace.problem.samples, workspace.standardisation
    spread = workspace.spread
    S = _within_reach(resolved, samples.size)
    alpha = S.output_weights / spread
    tau, radius = _bounds(workspace, S, alpha)
    beta = truncated_least_squares(samples, S, alpha, (s.label_mean, spread), tau, radius)
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


def _bounds(workspace: Workspace, S: Network, alpha: Array) -> tuple[float, float]:
    """tau, and the radius of the ball of coefficients.

    B and m are not known: B is taken from the resolved units, m as asked for or, as order 1 has it,
    the number of features; epsilon is the sampling error.
    """
    d, n = S.features, workspace.problem.samples.size
    B = float(max(1.0, np.max(np.abs(alpha), initial=0.0), np.max(np.abs(S.biases), initial=0.0)))
    m = max(workspace.units or d, S.units)
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


def least_squares_in_ball(gram: Array, labels: Array, radius: float) -> Array:
    """The shortest beta of norm at most `radius` that minimises `beta.G beta - 2 beta.labels`.

    On the sphere it is `(G + lambda)^-1 labels`, whose norm falls with lambda.
    """
    values, vectors = np.linalg.eigh(gram)
    kept = values > _DEPENDENT * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    along = vectors.T @ labels

    def excess(multiplier: float) -> float:
        return float(np.linalg.norm(along / (values + multiplier))) - radius

    multiplier = 0.0
    if excess(0.0) > 0:
        multiplier = brentq(excess, 0.0, float(np.linalg.norm(along)) / radius)
    return np.asarray(vectors @ (along / (values + multiplier)))


# ---------------------------------------------------------------- what it is worth


def _judged(workspace: Workspace, concluded: Recovery) -> _Predictor:
    """The consolidated network, and a status that speaks of its predictions alone."""
    assert concluded.network is not None and concluded.certificate is not None
    network, certificate = concluded.network, concluded.certificate
    kept = merge_linear_units(network, workspace.inputs, fewest_to_confirm(network))
    if kept.units < network.units:
        certificate = _of_predictor(workspace, kept, certificate)
    error = max(certificate.residual, residual_on(workspace.fitted_samples, kept))
    status, advice = _status(workspace, concluded, error)
    predictor = linear_as_units(kept)
    recovery = replace(
        concluded,
        network=predictor,
        status=status,
        message=_message(certificate, predictor.units, error) + advice,
        certificate=certificate,
        standard_errors=None,
        ambiguities=concluded.ambiguities if kept.linear is None else (_MERGED,),
    )
    return _Predictor(recovery, error, recovery.success and not _few_stand_out(concluded))


def _of_predictor(workspace: Workspace, network: Network, certificate: Certificate) -> Certificate:
    """The certificate of a network from which units were taken."""
    residual = residual_on(workspace.held_out, network)
    return replace(
        certificate,
        residual=residual,
        relative_residual=residual / workspace.spread,
        samples_held_out=workspace.held_out.size,
        parameters=network.free_parameters,
        condition=condition_number(network),
        weakest_unit=None,
        closest_pair=closest_pair(network, workspace.inputs),
        rarer_side=rarer_side(network, workspace.inputs),
    )


def _message(certificate: Certificate, units: int, error: float) -> str:
    number = "1 unit" if units == 1 else f"{units} units"
    message = (
        f"A predictor with {number}: root mean square error {certificate.residual:.3g} on "
        f"{certificate.samples_held_out} samples that were not fitted, "
        f"{certificate.relative_residual:.1e} of their spread; its weights need not be those of "
        "the network."
    )
    if error <= max(_MUCH_LARGER * certificate.residual, _ROUNDINGS * certificate.rounding):
        return message
    return message + (
        f" On the samples given for the fit it is {error:.3g}: a few of them stand out, as they do "
        "beyond the kink of a unit that is taken as linear."
    )


def _status(workspace: Workspace, concluded: Recovery, error: float) -> tuple[Status, str]:
    """The status, and what to try next."""
    certificate = concluded.certificate
    assert certificate is not None
    noise = workspace.noise
    if noise is None:
        noise = certificate.noise if _is_noise(concluded) else 0.0
    chance = _SIGMAS * np.sqrt(2 / certificate.samples_held_out)
    overfit = certificate.parameters / certificate.samples_fitted
    explained = noise**2 * (1 + chance + overfit) + (_SMALL_ERROR * workspace.spread) ** 2
    if error**2 <= explained:
        return Status.WITHIN_NOISE, ""
    if error**2 <= noise**2 + (_LARGE_ERROR * workspace.spread) ** 2:
        return Status.PARTIAL, (
            " What is left is noise, or units that were not resolved: give noise= if it is known, "
            f"or take more samples{_beyond_the_paper(workspace)}."
        )
    return Status.FAILED, (
        f" An error above {_LARGE_ERROR} of the spread is no prediction: units were not resolved, "
        "or labels are not those of such a network. Take more samples, give noise= if it is known, "
        f"or more time with budget={_beyond_the_paper(workspace)}."
    )


def _few_stand_out(concluded: Recovery) -> bool:
    """Whether tails are heavy, as when a unit was not resolved beyond whose kink samples lie."""
    certificate = concluded.certificate
    assert certificate is not None
    return certificate.noise > 0 and certificate.residual_kurtosis > _HEAVY_TAILS


def _is_noise(concluded: Recovery) -> bool:
    """Whether what is left looks like noise: light tails, and nothing that more units explain."""
    return concluded.status is not Status.FAILED and not _few_stand_out(concluded)


def _beyond_the_paper(workspace: Workspace) -> str:
    return ", or leave out faithful= and refine=" if not workspace.refine else ""
