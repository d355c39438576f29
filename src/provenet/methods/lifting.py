"""`"lifting"`: several outputs without noise, whatever the inputs, from one linear system.

No paper. A unit `h = sigma(z)`, `z = w.x + b`, with slope s below zero (0 for ReLU, -1 for abs)
obeys `(h - z)(h - s z) = 0` on every sample. With independent output weights there are u_i, gamma_i
with `u_i.y - gamma_i = h_i`, so with x~ = (x, 1) the labels obey k quadratic relations

    y^T P y = y^T Q x~ + x~^T R x~,    P = u u^T,   Q = u q^T,   q = (1+s)(w, b) + (0, 2 gamma),
                                       R: gamma^2 + gamma (1+s) z + s z^2 with a minus sign.

They are linear in the lifted unknowns (P, Q, R). For ReLU R is a linear form in x~, since s = 0.

*The solutions are spanned by these k relations and no others*, provided that (1) the columns of A
are independent, (2) for every pair of units the inputs meet all four patterns of on and off, others
fixed, and (3) the samples on each pattern are in general position and each unit is on for k + d of
them or more and off for k (k + d + 1 each for other slopes): otherwise `h_i` or `h_i - z_i` times a
form in (h, x~) would vanish on all samples too.

Write a relation in h = (h_1 .. h_k) and z: inside one pattern `h_i = D_i z_i`, D_i in {1, s}, and
`sum_ij P_ij D_i D_j z_i z_j = sum_i D_i z_i Q_i.x~ + x~^T R x~` is an identity of polynomials in x.
As functions of the pattern `1`, `D_i` and `D_i D_j` are independent (2), so each coefficient
vanishes by itself: `P_ij z_i z_j = 0` gives `P_ij = 0` for i != j, and `D_i^2 = (1+s) D_i - s`
turns the diagonal into `(1+s) P_ii z_i = Q_i.x~` and `-s sum_i P_ii z_i^2 = x~^T R x~`. So the k
numbers P_ii determine everything, and the null space has dimension k. (With s = 1 there are no
units.) Where (2) fails, as for parallel units, the pairs that miss a pattern have relations of
their own, from which those of the units are told (`rank_one_relations`).

So: a null space by one QR factorisation and inverse iteration; `P = sum_i c_i u_i u_i^T` is
diagonalised jointly; and the discriminant of unit i's relation, `q q^T + 4 R = (1-s)^2 theta
theta^T`, is a matrix of rank one that holds its weights and bias. The gap between the singular
values of the solutions and the next is the certificate, and the number of units.

Cost: p = k(k+1)/2 + k(d+1) + (d+1) unknowns (for leaky ReLU and abs (d+1)(d+2)/2 at the end), about
as many samples, 4/3 p^3 operations, 8 p^2 bytes and a half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.fitting.context import Context
from provenet.fitting.linear import fit_linear_part
from provenet.fitting.model import Parameters
from provenet.fitting.residuals import residual_on
from provenet.methods.rank_one_relations import rank_one_elements
from provenet.methods.stages.exact_finish import exact_finish
from provenet.methods.tolerances import (
    EXTRA_VECTORS,
    FINISHED,
    INVERSE_ROUNDS,
    LARGEST_SYSTEM_BYTES,
    LIFTING_SPARE_ROWS,
    MORE_ROWS,
    ROWS_AN_UNKNOWN,
    SMALLEST_SOLUTION_GAP,
)
from provenet.moments.decomposition import congruence
from provenet.moments.subspace import possible_widths
from provenet.networks.activations import ABS, RELU
from provenet.networks.network import Network

_ZERO = 1e-9
"""Singular values below this fraction of the largest are zero."""


def lifting(context: Context) -> Iterator[Candidate]:
    """The network behind the quadratic relations that the labels obey; with noise, nearly obey."""
    samples = context.problem.samples
    relu = context.activation.slope == 0.0
    Y = samples.y
    left, sizes, _ = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
    nearly: list[tuple[int, Solutions]] = []
    reason = NoAnswer()
    for units in possible_widths(sizes, context.units):
        try:
            with context.stage("lift"):
                solutions = _solve(context, left[:, :units] * np.sqrt(len(Y)), relu)
        except NoAnswer as why:
            reason = why
            continue
        if solutions.exact:
            yield _candidate(context, solutions, units, relu)
            return
        nearly.append((units, solutions))
    if not nearly:
        raise reason
    for units, solutions in sorted(nearly, key=lambda found: -found[1].gap):
        yield _candidate(context, solutions, units, relu)


def _candidate(context: Context, solutions: Solutions, units: int, relu: bool) -> Candidate:
    features = context.problem.samples.features
    with context.stage("lift"):
        theta = units_behind(solutions, units, features, relu, context.rng)
        return Candidate(_network(context, theta), _evidence(solutions, units))


def _solve(context: Context, H: Array, relu: bool) -> Solutions:
    """The quadratic relations between the labels' coordinates and the inputs."""
    samples, units = context.problem.samples, H.shape[1]
    if units == 0:
        raise NoAnswer("The labels of the samples to fit are all the same: take more inputs.")
    unknowns = count_unknowns(units, samples.features, relu)
    _check_size(samples.size, unknowns, units)
    rows = min(samples.size, int(ROWS_AN_UNKNOWN * unknowns) + LIFTING_SPARE_ROWS)
    while True:
        context.progress("lift", -1.0, f"{unknowns} unknowns, {rows} samples")
        system = lifted_system(H[:rows], samples.X[:rows], relu)
        solutions = null_space(system, units, context.rng)
        more = min(samples.size, MORE_ROWS * rows)
        if len(solutions.vectors) == units or more == rows:
            break
        if 8.0 * more * unknowns > LARGEST_SYSTEM_BYTES:
            break
        rows = more  # some patterns of on and off are missing: further samples may have them
    _check_gap(solutions, units)
    return solutions


def count_unknowns(units: int, features: int, relu: bool) -> int:
    """Entries of P, Q and R."""
    d = features + 1
    return units * (units + 1) // 2 + units * d + (d if relu else d * (d + 1) // 2)


def _check_size(samples: int, unknowns: int, units: int) -> None:
    needed = unknowns - units + LIFTING_SPARE_ROWS // 2
    if samples < needed:
        raise NoAnswer(
            f"The lifted system of {units} units has {unknowns} unknowns and needs {needed} "
            f'samples to fit, and there are {samples}: take more, or use method="expand-prune".'
        )
    if 12.0 * unknowns**2 > LARGEST_SYSTEM_BYTES:
        raise NoAnswer(
            f"The lifted system has {unknowns} unknowns, too many for a matrix in memory: use "
            'method="rectified" (Gaussian inputs) or "expand-prune".'
        )


def lifted_system(H: Array, X: Array, relu: bool) -> Array:
    """Rows `[h_i h_j, -h_i x~, -x~]`, for any slope `-x~_i x~_j` at the end; in Fortran order."""
    n, k = H.shape
    x = np.column_stack([X, np.ones(n)])
    d = x.shape[1]
    M = np.empty((n, count_unknowns(k, d - 1, relu)), order="F")
    at = 0
    for i in range(k):
        np.multiply(H[:, i : i + 1], H[:, i:], out=M[:, at : at + k - i])
        at += k - i
    for i in range(k):
        np.multiply(-H[:, i : i + 1], x, out=M[:, at : at + d])
        at += d
    for i in range(d - 1 if relu else 0, d):
        first = 0 if relu else i
        np.multiply(-x[:, i : i + 1], x[:, first:], out=M[:, at : at + d - first])
        at += d - first
    return M


@dataclass(frozen=True)
class Solutions:
    """A basis of the null space (rows), and the smallest singular values, relative, rising."""

    vectors: Array
    singular_values: Array

    @property
    def exact(self) -> bool:
        """Whether the relations hold to rounding."""
        return bool(self.singular_values[len(self.vectors) - 1] < _ZERO)

    @property
    def gap(self) -> float:
        """The first singular value that is not of the null space over the last that is."""
        last, first = self.singular_values[len(self.vectors) - 1 : len(self.vectors) + 1]
        return float(first / max(last, 1e-17))


def null_space(system: Array, dimension: int, rng: np.random.Generator) -> Solutions:
    """The `dimension` smallest singular vectors, or all that belong to zeros if these are more.

    By QR and inverse subspace iteration. Overwrites the system.
    """
    scale = np.linalg.norm(system, axis=0)
    system /= scale
    p = system.shape[1]
    work = int(lapack.dgeqrf_lwork(*system.shape)[0])  # the default is too small for blocks
    factored, *_ = lapack.dgeqrf(system, lwork=work, overwrite_a=True)
    R = factored[:p]
    size = np.abs(np.diag(R)).max()
    tiny = np.flatnonzero(np.abs(np.diag(R)) < 1e-16 * size)
    R[tiny, tiny] = 1e-16 * size
    zeros = wanted = dimension
    while zeros >= wanted:  # more relations than units: all of them are wanted, and one that is not
        wanted = min(zeros + EXTRA_VECTORS, p)
        Z, sizes = _smallest(R, wanted, zeros, size, rng)
        zeros = int(np.sum(sizes < _ZERO))
    dimension = max(dimension, zeros)
    return Solutions((Z[:, :dimension] / scale[:, None]).T, sizes)


def _smallest(
    R: Array, wanted: int, dimension: int, size: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The smallest singular values of a triangle over `size`, rising, and their vectors.

    The first `dimension` decide when they are good enough.
    """
    Z = rng.standard_normal((len(R), wanted))
    for _ in range(INVERSE_ROUNDS):
        Z, _ = np.linalg.qr(solve_triangular(R, Z, trans="T", check_finite=False))
        Z, triangle = np.linalg.qr(solve_triangular(R, Z, check_finite=False))
        smallest = 1 / np.linalg.svd(triangle, compute_uv=False)[:dimension] / size
        if smallest.max() < _ZERO * 1e-3:
            break  # zeros: no further round would tell more
    _, sizes, rotation = np.linalg.svd(blas.dtrmm(1.0, R, Z), full_matrices=False)
    return np.asarray(Z @ rotation[::-1].T), np.asarray(sizes[::-1] / size)


def _check_gap(solutions: Solutions, units: int) -> None:
    """Whether the relations are at least as many as the units."""
    zeros = int(np.sum(solutions.singular_values < _ZERO))
    if zeros < units and (zeros > 0 or solutions.gap < SMALLEST_SOLUTION_GAP):
        raise NoAnswer(
            f"The labels obey {zeros} quadratic relations, fewer than the {units} dimensions that "
            "they span: there are more units than outputs, units with dependent output weights, "
            'another activation, or much noise. Use method="expand-prune", or "rectified" for '
            "Gaussian inputs."
        )


def units_behind(
    solutions: Solutions, units: int, features: int, relu: bool, rng: np.random.Generator
) -> Array:
    """Weights and bias (up to sign and scale) of every unit, from the solutions."""
    d, pairs = features + 1, units * (units + 1) // 2
    count = len(solutions.vectors)
    rows, columns = np.triu_indices(units)
    P = np.zeros((count, units, units))
    P[:, rows, columns] = solutions.vectors[:, :pairs] / np.where(rows == columns, 1, 2)
    P = P + P.transpose(0, 2, 1) - P * np.eye(units)
    Q = solutions.vectors[:, pairs : pairs + units * d].reshape(count, units, d)
    R = np.array([_quadratic_form(v[pairs + units * d :], d, relu) for v in solutions.vectors])
    if count > units:
        U, c = rank_one_elements(np.concatenate([P, Q], axis=2), units, rng)
        c /= np.einsum("is,ia,sab,ib->i", c, U, P, U, optimize=True)[:, None]
    else:
        U = congruence(P) if units > 1 else np.ones((1, 1))
        target = np.einsum("ia,ib->iab", U, U).reshape(units, -1)
        c = np.linalg.lstsq(P.reshape(count, -1).T, target.T, rcond=None)[0].T
    q = np.einsum("is,iu,sud->id", c, U, Q)
    discriminant = np.einsum("ia,ib->iab", q, q) + 4 * np.einsum("is,sab->iab", c, R)
    values, vectors = np.linalg.eigh(discriminant)
    largest = np.argmax(np.abs(values), axis=1)
    return np.asarray(vectors[np.arange(units), :, largest])


def _quadratic_form(entries: Array, d: int, relu: bool) -> Array:
    """The symmetric matrix of R; a linear form in x~ is one with the constant as second factor."""
    R = np.zeros((d, d))
    if relu:
        R[-1] = entries
    else:
        R[np.triu_indices(d)] = entries
    return (R + R.T) / 2


def _network(context: Context, theta: Array) -> Network:
    """Exact for ReLU if the labels are; otherwise the best network of absolute values.

    A unit that is off wherever another is deceives the exact finish: then least squares finishes.
    """
    samples = context.problem.samples
    if context.activation is RELU:
        try:
            finished = exact_finish(samples.X, samples.y, theta[:, :-1], theta[:, -1])
            if residual_on(samples, finished) <= FINISHED * context.spread:
                return finished
        except NoAnswer:
            pass  # noise: least squares finishes
    beta = np.zeros((len(theta) + theta.shape[1], *samples.label_shape))
    fitted, _ = fit_linear_part(samples, Parameters(theta, beta), ABS, passes=2)
    return fitted.network(ABS)


def _evidence(solutions: Solutions, units: int) -> str:
    relations = len(solutions.vectors)
    those = "" if relations == units else f", {units} of them a single unit's,"
    end = ":" if relations == units else f" and {relations - units} of pairs of units:"
    return (
        f"The labels obey {relations} quadratic relations{those}{end} the next singular value of "
        f"the lifted system is {solutions.gap:.1e} times larger."
    )
