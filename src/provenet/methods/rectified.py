"""`"rectified"`: several outputs, Gaussian inputs, exact or with noise (BJW19, sections 4 and 5).

Letters of the paper: its A is our Y transposed, U* our A, V* our W. Its Algorithm 4 contracts
`A (x) S_3(X)`, which vanishes for ReLU without bias; the second order does not (ERRATA, BJW19 9):

    T_q = E[y_q (z z^T - I)] = sum_i A_qi c_2(b_i) w_i w_i^T     for every output q,

a decomposition that is unique when the w_i are independent and no two columns of A are parallel.
So: the span of the units from all T_q side by side, joint diagonalisation of the T_q inside it
(Jennrich's algorithm on the way that is faithful to the paper), then

- without noise the exact finish (Algorithm 5, `refine.exact_finish`) if outputs are as many as
  units;
- with noise Algorithm 6 (`signs.signs_by_projection`) for the signs and regression for A (5.2).

Beyond the paper: biases, from `E[y_q He_3(w_i.z)]` (for ReLU `c_3/c_2 = -b`); least squares and,
for units too weak to show in the moments, the search of `"expand-prune"` from those found. Inputs
may have any covariance of full rank (Remark 3): everything runs on standardised inputs. One output
has no such decomposition of order 2: it goes to order 4 (`biased_relu`).

Cost: one pass of `outputs features^2` operations a sample; no array with more than a block of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import StandardisedSource
from provenet.fitting.levenberg_marquardt import exact_finish, fit_linear_part
from provenet.fitting.parameters import Parameters
from provenet.fitting.signs_by_projection import signs_by_projection
from provenet.fitting.workspace import Workspace
from provenet.methods.biased_relu import biased_relu
from provenet.methods.expand_prune import expand_prune
from provenet.moments.decomposition import congruence, jennrich
from provenet.moments.estimation import estimate_moments
from provenet.moments.subspace import numerical_rank, stacked_noise_edge
from provenet.moments.sums import MomentRequest, Moments
from provenet.networks.activations import RELU
from provenet.networks.hermite import he
from provenet.networks.network import Network

_ZERO = 1e-9
_LARGEST_BIAS = 3.0


def rectified(workspace: Workspace) -> Iterator[Candidate]:
    """A candidate from the moments; then units that these could not show are searched for."""
    if workspace.source.outputs is None:
        yield from _one_output(workspace)
        return
    with workspace.stage("moments", "order 2, every output"):
        moments = estimate_moments(
            workspace.source, MomentRequest(workspace.standardisation, order=2)
        )
    with workspace.stage("decompose"):
        W, evidence = directions(workspace, moments)
        biased = workspace.activation is RELU and not workspace.faithful
        b = biases_along(workspace, W) if biased else np.zeros(len(W))
        network = _finish(workspace, W, b)
    yield Candidate(network, evidence)
    if workspace.refine and workspace.activation is RELU:
        yield from expand_prune(workspace, np.column_stack([W, b]))


def _one_output(workspace: Workspace) -> Iterator[Candidate]:
    if workspace.activation is not RELU:
        raise NoAnswer(
            f"One output of {workspace.activation.name} units needs order 4, which is built for "
            "relu only: give two or more outputs."
        )
    yield from biased_relu(workspace)


def directions(workspace: Workspace, moments: Moments) -> tuple[Array, str]:
    """Unit vectors along the units' weights, up to sign, and why there are that many."""
    T = moments.tensors[2]
    d = T.shape[1]
    left, sizes, _ = np.linalg.svd(T.transpose(1, 0, 2).reshape(d, -1), full_matrices=False)
    y = workspace.problem.samples.y
    spectrum = np.linalg.svd(y - y.mean(axis=0), compute_uv=False)
    edge = stacked_noise_edge(moments.errors[2], d, spectrum)
    units, evidence = _number_of_units(workspace, sizes, max(edge, _ZERO * sizes[0]), spectrum)
    basis = left[:, :units].T
    inside = np.einsum("ia,qab,jb->qij", basis, T, basis, optimize=True)
    if units == 1:
        return basis, evidence
    if workspace.faithful:
        return jennrich(inside.transpose(1, 2, 0), units, workspace.rng) @ basis, evidence
    return np.asarray(congruence(inside).rows @ basis), evidence


def _number_of_units(
    workspace: Workspace, sizes: Array, edge: float, spectrum: Array
) -> tuple[int, str]:
    """As asked; as the rank of exact labels says; or as many as stand above the moments' noise."""
    above = int(np.sum(sizes > edge))
    rank = numerical_rank(spectrum)
    if workspace.units is not None:
        return workspace.units, f"{workspace.units} units were asked for; {above} show in T_2."
    if rank < len(spectrum) and above <= rank <= len(sizes):
        return rank, f"The labels span exactly {rank} dimensions; {above} units show in T_2."
    if above == 0:
        raise NoAnswer(
            "No unit stands above the sampling error of the second moments: take more samples, or "
            'use method="lifting" (exact labels) or "expand-prune", which need far fewer.'
        )
    return above, f"{above} singular values of the second moments stand above their noise."


def biases_along(workspace: Workspace, W: Array) -> Array:
    """Biases of ReLU units from orders 2 and 3 along their directions: `c_3 / c_2 = -b`.

    `E[y_q He_k(w_j.z)] = sum_i A_qi c_k(b_i) <w_i, w_j>^k` is linear in the coefficients.
    """
    s = workspace.standardisation
    source = StandardisedSource(workspace.source, s)

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
    return np.asarray(np.clip(b, -_LARGEST_BIAS, _LARGEST_BIAS))


def _finish(workspace: Workspace, W: Array, b: Array) -> Network:
    """Algorithm 5; where that does not serve (noise, more units than outputs), Algorithm 6."""
    samples, activation = workspace.problem.samples, workspace.activation
    try:
        return exact_finish(samples.X, samples.y, W, b, activation).network
    except NoAnswer:
        signs = signs_by_projection(samples, W, b, activation)
    theta = np.column_stack([W, b]) * signs[:, None]
    beta = np.zeros((len(W) + 1, *samples.label_shape))
    fitted, _ = fit_linear_part(samples, Parameters(theta, beta), activation)
    return fitted.network(activation)
