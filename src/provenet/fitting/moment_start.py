"""Units of one output from Hermite moments (ATV21), as a start for least squares or as an answer.

The coefficient of `w_i^(x)k` in `T_k` is `(-1)^k a_i phi(b_i) He_{k-2}(b_i)` for k >= 2 (Lemma
3.5): the range of `T_2` is the span of independent units, and inside it orders 2 to 4 are fitted
jointly from the indefinite power iteration (`moments.decomposition`). Algorithm 4 works on `T_3`
and `T_4` in all of the space instead. Signs come from `T_1`, the constant from `T_0`.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.fitting.tolerances import (
    LARGEST_BIAS,
    LEAST_ERROR,
    POWER_BIAS,
    RANDOM_STARTS,
    START_BIAS,
)
from provenet.fitting.workspace import Workspace
from provenet.moments.decomposition import (
    MomentFit,
    fit_moments,
    power_directions,
    recover_scalars,
    unit_directions,
)
from provenet.moments.hermite import MomentRequest, Moments, estimate_moments, moments_in_span
from provenet.moments.subspace import Span, span_of_units
from provenet.moments.symmetric import SymmetricTensor
from provenet.networks.activations import RELU
from provenet.networks.network import Network
from provenet.networks.signs import fix_signs


def find_span(workspace: Workspace) -> Span:
    """The span of the units, from `T_2`."""
    with workspace.stage("moments", "order 2"):
        full = estimate_moments(workspace.source, MomentRequest(workspace.standardisation, order=2))
    return span_of_units(full.tensors[2], full.errors[2], workspace.units)


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
            (rng.standard_normal((rank, rank)), rng.uniform(-START_BIAS, START_BIAS, rank))
            for _ in range(RANDOM_STARTS)
        ]
        return min((fit_moments(T, RELU, W, b) for W, b in starts), key=lambda fit: fit.risk)
    third, fourth = (1 / max(error, LEAST_ERROR) for error in moments.errors[3:5])
    W = power_directions(T[2], T[3], T[4], rng, (third, fourth))
    return fit_moments(T, RELU, W, np.clip(recover_scalars(T, W)[1], -POWER_BIAS, POWER_BIAS))


def network_of(workspace: Workspace, fit: MomentFit, basis: Array) -> Network:
    """A fit in moment space as a network on standardised inputs, signs and constant settled."""
    s = workspace.standardisation
    b = np.clip(fit.b, -LARGEST_BIAS, LARGEST_BIAS)
    signs = fix_signs(basis @ s.linear, fit.a, fit.W)
    W, b = fit.W * signs[:, None], b * signs
    c = s.label_mean - fit.a @ RELU.hermite(0, b)
    return Network(W @ basis, b, fit.a, c)


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
