"""Units of one output from Hermite moments (ATV21), as a start for least squares or as an answer.

The coefficient of `w_i^(x)k` in `T_k` is `(-1)^k a_i phi(b_i) He_{k-2}(b_i)` for k >= 2 (Lemma
3.5): the range of `T_2` is the span of independent units, and inside it orders 2 to 4 are fitted
jointly from the indefinite power iteration (`moments.decomposition`). Algorithm 4 works on `T_3`
and `T_4` in all of the space instead; of order l it works on `T_2l+1` and `T_2l+2`, where the
powers `w_i^(x)l` must be independent (Theorem 3.2), which general units are up to
`binomial(d + l - 1, l)` of them. (The factor 0.99 in that number is Corollary 3.3's, for weights
that were perturbed at random: ERRATA, ATV21 24.) Signs come from `T_1`, the constant from `T_0`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.common.typing import Array
from provenet.data.passes import available_memory
from provenet.fitting.context import Context
from provenet.moments.decomposition import (
    MomentFit,
    fit_moments,
    power_directions,
    recover_scalars,
    unit_directions,
)
from provenet.moments.hermite import (
    MomentRequest,
    Moments,
    estimate_moments,
    high_moments,
    memory_needed,
)
from provenet.moments.subspace import Span, span_of_units
from provenet.moments.symmetric import count
from provenet.networks.activations import RELU
from provenet.networks.network import Network
from provenet.networks.signs import fix_signs


def find_span(context: Context) -> Span:
    """The span of the units, from `T_2`."""
    with context.stage("moments", "order 2"):
        full = estimate_moments(context.source, MomentRequest(context.standardisation, order=2))
    return span_of_units(full.tensors[2], full.errors[2], context.units)


def projected_moments(context: Context, span: Span) -> Moments:
    """`T_0 .. T_4` inside the span of the units."""
    with context.stage("moments", f"orders 3 and 4 in {span.rank} dimensions"):
        request = MomentRequest(context.standardisation, 4, span.basis, span.quadratic)
        return estimate_moments(context.source, request)


def spectrum_evidence(span: Span) -> str:
    """What the spectrum of `T_2` says about the number of units."""
    return (
        f"{span.rank} eigenvalues of the second moment were kept; the smallest is "
        f"{span.gap:.1f} times the noise level or the next one."
    )


def moment_fit(context: Context, moments: Moments, random: bool, starts: int = 10) -> MomentFit:
    """A fit in moment space from the power iteration, or the best of several random starts.

    Biases of random starts are within 1.5: a unit beyond changes sides on fewer than 7% of normal
    inputs.
    """
    rng, T = context.rng, moments.symmetric
    rank = T[2].d
    if random:
        drawn = [
            (rng.standard_normal((rank, rank)), rng.uniform(-1.5, 1.5, rank)) for _ in range(starts)
        ]
        return min((fit_moments(T, RELU, W, b) for W, b in drawn), key=lambda fit: fit.risk)
    W = power_directions(T, moments.errors, rng)
    return fit_moments(T, RELU, W, np.clip(recover_scalars(T, W)[1], -2.5, 2.5))


def network_of(context: Context, fit: MomentFit, basis: Array) -> Network:
    """A fit in moment space as a network on standardised inputs, signs and constant settled."""
    s = context.standardisation
    b = np.clip(fit.b, -4, 4)  # a unit beyond changes sides on 3 normal inputs of 100,000
    signs = fix_signs(basis @ s.linear, fit.a, fit.W)
    W, b = fit.W * signs[:, None], b * signs
    c = s.label_mean - fit.a @ RELU.hermite(0, b)
    return Network(W @ basis, b, fit.a, c)


def faithful_directions(context: Context) -> tuple[Moments, Array, str]:
    """The moments and Algorithm 4's directions, up to sign; what was seen, in words."""
    with context.stage("moments", "orders 3 and 4"):
        moments = estimate_moments(context.source, MomentRequest(context.standardisation, order=4))
    with context.stage("decompose"):
        return moments, *algorithm_4(moments, context.units, context.rng)


def algorithm_4(moments: Moments, units: int | None, rng: np.random.Generator) -> tuple[Array, str]:
    """Steps 1 to 4 of Algorithm 4, order 1: directions in `T_3` and `T_4`."""
    return unit_directions(moments.symmetric[3:5], moments.errors[3:5], 1, units, rng)


# ---------------------------------------------------------------- any order


@dataclass(frozen=True)
class UnitsUpToSign:
    """The output of Algorithm 4, on standardised inputs."""

    network: Network
    """Weights of norm 1 and biases up to a common sign a unit, output weights; no constant."""
    moments: Moments
    evidence: str
    """What was seen in the two tensors, in words."""


def units_of_order(context: Context, order: int) -> UnitsUpToSign:
    """Algorithm 1 (from a population) or 4 (from samples); no units if none stands out."""
    _check_memory(context.source.features, order)
    top = 2 * order + 2
    with context.stage("moments", f"up to order {top}"):
        moments = high_moments(context.source, context.standardisation, top)
    if context.out_of_time:
        raise NoAnswer(f"The budget was used up by the moments up to order {top}: give budget=.")
    with context.stage("decompose"):
        T, errors = moments.symmetric, moments.errors[top - 1 :]
        W, evidence = unit_directions(T[top - 1 :], errors, order, context.units, context.rng)
        if len(W) == 0:
            return UnitsUpToSign(Network(W), moments, evidence)
        a, b = recover_scalars(T, W, order)
    return UnitsUpToSign(Network(W, b, a), moments, evidence)


def smallest_order(features: int, units: int) -> int:
    """The order that has room for so many units."""
    if features == 1:
        return 1  # all units are parallel, whatever the order
    order = 1
    while units > count(features, order):
        order += 1
    return order


def _check_memory(features: int, order: int) -> None:
    needed, there = memory_needed(features, 2 * order + 2), available_memory()
    if needed > there / 2:
        raise InvalidInput(
            f"Moments up to order {2 * order + 2} of {features} features need {needed / 1e9:.3g} "
            f"GB, and {there / 1e9:.3g} are at hand: lower order=, or leave faithful out."
        )
