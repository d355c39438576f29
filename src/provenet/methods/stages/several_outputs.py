"""Candidates for several outputs from second moments (BJW19; see `rectified`), and a search.

With `faithful=True` there is one candidate, that of Algorithms 4, 5 and 6, and no search.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import StandardisedSource
from provenet.fitting.context import Context
from provenet.fitting.linear import fit_linear_part
from provenet.fitting.model import Parameters
from provenet.methods.stages.exact_finish import exact_finish, signs_by_projection
from provenet.methods.stages.searched import searched
from provenet.methods.tolerances import LARGEST_START_BIAS, ZERO_MOMENT
from provenet.moments.decomposition import congruence, jennrich
from provenet.moments.hermite import MomentRequest, Moments, estimate_moments
from provenet.moments.subspace import numerical_rank, stacked_noise_edge
from provenet.networks.activations import RELU
from provenet.networks.hermite import he
from provenet.networks.network import Network


def from_second_moments(context: Context) -> Iterator[Candidate]:
    """A candidate from the moments; then units that these could not show are searched for."""
    with context.stage("moments", "order 2, every output"):
        moments = estimate_moments(context.source, MomentRequest(context.standardisation, order=2))
    with context.stage("decompose"):
        W, evidence = directions(context, moments)
        biased = context.activation is RELU and not context.faithful
        b = biases_along(context, W) if biased else np.zeros(len(W))
        network = _finish(context, W, b)
    yield Candidate(network, evidence)
    if context.refine and context.activation is RELU and not context.faithful:
        yield from searched(context, np.column_stack([W, b]))


def directions(context: Context, moments: Moments) -> tuple[Array, str]:
    """Unit vectors along the units' weights, up to sign, and why there are that many."""
    T = moments.tensors[2]
    d = T.shape[1]
    left, sizes, _ = np.linalg.svd(T.transpose(1, 0, 2).reshape(d, -1), full_matrices=False)
    y = context.problem.samples.y
    spectrum = np.linalg.svd(y - y.mean(axis=0), compute_uv=False)
    edge = stacked_noise_edge(moments.errors[2], d, spectrum)
    units, evidence = _number_of_units(context, sizes, max(edge, ZERO_MOMENT * sizes[0]), spectrum)
    basis = left[:, :units].T
    inside = np.einsum("ia,qab,jb->qij", basis, T, basis, optimize=True)
    if units == 1:
        return basis, evidence
    if context.faithful:
        return jennrich(inside.transpose(1, 2, 0), units, context.rng) @ basis, evidence
    return np.asarray(congruence(inside) @ basis), evidence


def _number_of_units(
    context: Context, sizes: Array, edge: float, spectrum: Array
) -> tuple[int, str]:
    """As asked; as the rank of exact labels says; or as many as stand above the moments' noise."""
    above = int(np.sum(sizes > edge))
    rank = numerical_rank(spectrum)
    if context.units is not None:
        return context.units, f"{context.units} units were asked for; {above} show in T_2."
    if rank < len(spectrum) and above <= rank <= len(sizes):
        return rank, f"The labels span exactly {rank} dimensions; {above} units show in T_2."
    if above == 0:
        raise NoAnswer(
            "No unit stands above the sampling error of the second moments: take more samples, or "
            'use method="lifting" (exact labels) or "expand-prune", which need far fewer.'
        )
    return above, f"{above} singular values of the second moments stand above their noise."


def biases_along(context: Context, W: Array) -> Array:
    """Biases of ReLU units from orders 2 and 3 along their directions: `c_3 / c_2 = -b`.

    `E[y_q He_k(w_j.z)] = sum_i A_qi c_k(b_i) <w_i, w_j>^k` is linear in the coefficients.
    """
    s = context.standardisation
    source = StandardisedSource(context.source, s)

    def term(Z: Array, y: Array) -> Array:
        r = y - s.label_mean - Z @ s.linear.T
        z = Z @ W.T
        return np.array([r.T @ he(k, z) for k in (2, 3)])

    second, third = source.total(term) / source.size
    inner = W @ W.T
    zeta2, zeta3 = (
        np.linalg.lstsq(inner**k, sums.T, rcond=1e-10)[0] for k, sums in ((2, second), (3, third))
    )
    size = np.sum(zeta2**2, axis=1)
    b = -np.sum(zeta2 * zeta3, axis=1) / np.where(size > 0, size, 1.0)
    return np.asarray(np.clip(b, -LARGEST_START_BIAS, LARGEST_START_BIAS))


def _finish(context: Context, W: Array, b: Array) -> Network:
    """Algorithm 5; where that does not serve (noise, more units than outputs), Algorithm 6."""
    samples, activation = context.problem.samples, context.activation
    try:
        return exact_finish(samples.X, samples.y, W, b, activation)
    except NoAnswer:
        return signed_by_projection(context, W, b)


def signed_by_projection(context: Context, W: Array, b: Array) -> Network:
    """Algorithm 6 for the signs, then regression for the output weights (section 5.2)."""
    samples, activation = context.problem.samples, context.activation
    signs = signs_by_projection(samples, W, b, activation)
    theta = np.column_stack([W, b]) * signs[:, None]
    beta = np.zeros((len(W) + 1, *samples.label_shape))
    fitted, _ = fit_linear_part(samples, Parameters(theta, beta), activation)
    return fitted.network(activation)
