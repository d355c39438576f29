"""`"biased-relu"`: ReLU units with biases from Hermite moments (ATV21).

Letters of the paper: its W has units as columns, here as rows; `f_k` is `T_k`. The coefficient of
`w_i^(x)k` in `T_k` is `(-1)^k a_i phi(b_i) He_{k-2}(b_i)` for k >= 2 (Lemma 3.5).

The faithful road is Algorithm 6 for order 1: Algorithm 4 (Jennrich on T_3 and on T_4, union without
duplicates, RecoverScalars), then Algorithm 3 (FixSigns). Its thresholds eta_1 (rank), eta_2 (weak
terms) and eta_3 (duplicates) are read from the sampling errors of the moments.

The default road projects to the span of the units first, starts from the indefinite power iteration
and fits all moments jointly (`decomposition`). Units too weak to show in `T_2` are then searched
for in what the found ones leave (`search`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.typing import Array
from provenet.fitting.levenberg_marquardt import Fit
from provenet.fitting.parameters import Parameters
from provenet.fitting.workspace import Workspace
from provenet.methods.expand_prune import expand_prune
from provenet.moments.decomposition import MomentFit, fit_moments, power_directions
from provenet.moments.decomposition.algorithm_4 import unit_directions
from provenet.moments.estimation import estimate_moments, moments_in_span
from provenet.moments.scalars import recover_scalars
from provenet.moments.subspace import Span, span_of_units
from provenet.moments.sums import MomentRequest, Moments
from provenet.moments.symmetric import SymmetricTensor
from provenet.networks.activations import ABS, RELU
from provenet.networks.conversions import as_absolute
from provenet.networks.network import Network
from provenet.networks.signs import fix_signs

_ATTEMPTS = 3
_RANDOM_STARTS = 10


def biased_relu(workspace: Workspace) -> Iterator[Candidate]:
    """Candidates from the moments; then units that the moments could not show are searched for."""
    if workspace.faithful:
        yield from _faithful(workspace)
        return
    span = find_span(workspace)
    if span.rank == 0:
        return
    yield from from_span(workspace, span)


def find_span(workspace: Workspace) -> Span:
    """The span of the units, from `T_2`."""
    with workspace.stage("moments", "order 2"):
        full = estimate_moments(workspace.source, MomentRequest(workspace.standardisation, order=2))
    return span_of_units(full.tensors[2], full.errors[2], workspace.units)


def from_span(workspace: Workspace, span: Span) -> Iterator[Candidate]:
    """Candidates by decomposition inside a span, then by search from the best of them."""
    moments = projected_moments(workspace, span)
    part = workspace.problem.for_width(span.rank)
    fits: list[Fit] = []
    for attempt in range(_ATTEMPTS):
        with workspace.stage("decompose"):
            found = moment_fit(workspace, moments, random=attempt == _ATTEMPTS - 1)
            network = network_of(workspace, found, span.basis)
        if not workspace.refine:
            yield Candidate(network, spectrum_evidence(span))
            return
        with workspace.stage("refine"):
            fits.append(part.refine(Parameters.of(as_absolute(network)), 30, 1e-3))
        if part.is_zero(fits[-1]):
            yield Candidate(fits[-1].parameters.network(ABS), spectrum_evidence(span))
            break
    best = min(fits, key=lambda fit: fit.rss)
    yield from expand_prune(workspace, best.parameters.theta)


def projected_moments(workspace: Workspace, span: Span) -> Moments:
    """`T_0 .. T_4` inside the span of the units."""
    with workspace.stage("moments", f"orders 3 and 4 in {span.rank} dimensions"):
        return moments_in_span(workspace.source, workspace.standardisation, span)


def spectrum_evidence(span: Span) -> str:
    """What the spectrum of `T_2` says about the number of units."""
    return (
        f"{span.rank} eigenvalues of the second moment were kept; the smallest is "
        f"{span.gap:.1f} times the noise level or the next one."
    )


def moment_fit(workspace: Workspace, moments: Moments, random: bool) -> MomentFit:
    """A fit in moment space from the power iteration, or the best of several random starts."""
    rng, T = workspace.rng, moments.tensors
    rank = len(T[2])
    if random:
        starts = [
            (rng.standard_normal((rank, rank)), rng.uniform(-1.5, 1.5, rank))
            for _ in range(_RANDOM_STARTS)
        ]
        return min((fit_moments(T, RELU, W, b) for W, b in starts), key=lambda fit: fit.risk)
    trust = (1 / max(moments.errors[3], 1e-12), 1 / max(moments.errors[4], 1e-12))
    W = power_directions(T[2], T[3], T[4], rng, trust)
    return fit_moments(T, RELU, W, np.clip(recover_scalars(T, W)[1], -2.5, 2.5))


def network_of(workspace: Workspace, fit: MomentFit, basis: Array) -> Network:
    """A fit in moment space as a network on standardised inputs, signs and constant settled."""
    s = workspace.standardisation
    b = np.clip(fit.b, -4.0, 4.0)
    signs = fix_signs(basis @ s.linear, fit.a, fit.W)
    W, b = fit.W * signs[:, None], b * signs
    c = s.label_mean - fit.a @ RELU.hermite(0, b)
    return Network(W @ basis, b, fit.a, c)


# ---------------------------------------------------------------- the paper's algorithm


def _faithful(workspace: Workspace) -> Iterator[Candidate]:
    """ATV21, Algorithm 6, on moments in all of the space."""
    moments, W, evidence = faithful_directions(workspace)
    if len(W) == 0:
        return
    a, b = recover_scalars(moments.tensors, W)
    signs = fix_signs(moments.tensors[1], a, W)
    W, b = W * signs[:, None], b * signs
    c = moments.tensors[0] - a @ RELU.hermite(0, b)
    yield Candidate(Network(W, b, a, c), evidence)


def faithful_directions(workspace: Workspace) -> tuple[Moments, Array, str]:
    """The moments and Algorithm 4's directions, up to sign; what was seen, in words."""
    with workspace.stage("moments", "orders 3 and 4"):
        moments = estimate_moments(
            workspace.source, MomentRequest(workspace.standardisation, order=4)
        )
    with workspace.stage("decompose"):
        return moments, *algorithm_4(moments, workspace.units, workspace.rng)


def algorithm_4(moments: Moments, units: int | None, rng: np.random.Generator) -> tuple[Array, str]:
    """Steps 1 to 4 of Algorithm 4, order 1: directions in `T_3` and `T_4`."""
    third, fourth = (SymmetricTensor.of_dense(moments.tensors[k]) for k in (3, 4))
    return unit_directions((third, fourth), moments.errors[3:5], 1, units, rng)
