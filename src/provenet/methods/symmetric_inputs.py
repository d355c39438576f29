"""`"symmetric-inputs"`: ReLU units without biases, inputs x and -x equally likely.

BJW19, section 4.3 (Definitions 9, 10, Theorem 8, Corollary 5), with the algorithm of Ge,
Kuditipudi, Li and Wang (2018). The paper's A is our Y^T, its U* our A, its V* our W, its m, k, d
our outputs, units, features. `y = A relu(W x) + c + e`: A (outputs, units) and W (units, features)
of rank `units`, the noise e independent of x and otherwise anything, the output bias c unknown.

1. *Linear part.* `relu(z) = z/2 + |z|/2` and the second half is even, so for symmetric x the
   regression of y on x is `A W / 2`: `M = 2 E[y x^T] E[x x^T]^-1 = A W`.
2. *As many outputs as units.* M has rank `units` and the noise plays no part in it. Canonical
   correlations of y with x against their sampling error give the number of units, and the
   canonical vectors B give `B y` with `units` entries; B spans `A^T Cov(y)^-1`, for which the
   noise of `B y` is least. From here y and M stand for `B (y - E y)` and `B M`, A for `B A`.
3. *Lifting.* Row i of `A^-1` is a u with `u.y - g = relu(w_i.x) + noise` for the right offset g,
   and `u M x = w_i.x`. Because `h (h - z) = 0` for `h = relu(z)`, the expectation given x of
   `(u.y - g)(u.y - g - u M x)` is the variance of `u.e` whatever x is:

       Cov[ y^T P y - y^T P M x - q.(2 y - M x),  t(x) ] = 0,   P = u u^T,  q = g u

   for every function t (covariances, not moments: that takes out the noise and g^2, as the last
   column of the paper's augmented distinguishing matrix does). The paper takes `t = x x^T`; ours is
   `x x^T / (1 + |x|^2 / features)`, which heavy tails do not upset, and where these
   equations are few, `x x^T / (1 + |x|^2 / features)^2` too. This is linear in (P, q), with
   features^2/2 equations or twice that for units^2/2 + units unknowns; the solutions are the
   combinations of the `units` pairs (P_i, q_i) exactly when the distinguishing matrix
   (Definition 10, with our t) has full rank.
4. *Simultaneous diagonalisation* of the null space, `P = U^T diag(.) U`, gives the rows u_i, and
   `W = U M` follows with its sign up to that of u_i; `Cov[u.y, t(x)(w, w)] > 0` settles it.
5. A and c by linear least squares; without noise the exact finish. Where that fails, least squares
   on some samples must leave nothing that t(x) explains, else units outnumber the outputs.

Cost: a pass for Cov(y), then one of `n units^2 features^2 / 2` operations in matrix products of
distinct products; the matrix of equations has units^2/2 by features^2/2 entries, and no array has
samples times those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, Source
from provenet.data.sums import Sums
from provenet.fitting.exact_finish import exact_finish
from provenet.fitting.output_layer import with_output_layer
from provenet.fitting.parameters import Parameters
from provenet.fitting.workspace import Workspace
from provenet.methods.tolerances import (
    CHECK_EXCESS,
    CHECK_ROWS,
    CHECK_STEPS,
    CHECK_TOLERANCE,
    CORRELATION_MARGIN,
    DOUBT,
    LIFTED_BLOCK_ROWS,
)
from provenet.moments.decomposition import congruence
from provenet.moments.sums import pair_products
from provenet.networks.conversions import as_absolute
from provenet.networks.network import Network

# ---------------------------------------------------------------- are the inputs symmetric?


def asymmetry(X: Array) -> float:
    """Largest odd moment of order 1 or 3 over what sampling alone would give the largest."""
    powers = np.hstack([np.ones((len(X), 1)), pair_products(X)])
    return excess_of_means(powers, X)


def hidden_units(R: Array, X: Array) -> float:
    """Largest correlation of R with an even function of x over what sampling would give.

    R is what the canonical vectors leave of the labels: noise alone, unless there are units whose
    weights depend on those of the others.
    """
    G = even_functions(X, X.shape[1])
    return excess_of_means(R - R.mean(axis=0), G - G.mean(axis=0))


def excess_of_means(F: Array, G: Array) -> float:
    """The largest of the means of `F_i G_j` over a bound for what sampling alone gives it.

    Each mean is divided by its own sampling error. If all are zero, the largest of so many standard
    normal numbers exceeds the bound with probability one in a million.
    """
    total, squares = F.T @ G, (F**2).T @ G**2
    score = np.abs(total) / np.sqrt(np.maximum(squares - total**2 / len(F), 1e-300))
    return float(score.max() / norm.isf(DOUBT / (2 * score.size)))


# ---------------------------------------------------------------- step 2: units and outputs


@dataclass(frozen=True)
class Reduction:
    """`B (y - mean)` has one entry a unit."""

    B: Array
    rest: Array
    """Rows that give what the canonical vectors leave of the labels."""
    mean: Array
    correlations: Array
    """Canonical correlations of the labels with the inputs, falling."""
    noise_level: float
    """The largest that sampling alone produces."""

    @property
    def units(self) -> int:
        """Rank of `A W`: the number of units."""
        return len(self.B)


def reduce_outputs(
    covariance: Array, mean: Array, linear: Array, n: int, units: int | None
) -> Reduction:
    """The canonical vectors of the labels that correlate with standardised inputs.

    `linear` (outputs, features) is the regression of y on x; n samples. Directions in which y does
    not vary at all (no noise, more outputs than units) are left out first.
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-12 * values[-1]
    whiten = (vectors[:, kept] / np.sqrt(values[kept])).T
    left, correlations, _ = np.linalg.svd(whiten @ linear)
    # Independent errors of size 1/sqrt(n): the edge of their singular values (Marchenko, Pastur).
    level = CORRELATION_MARGIN * (np.sqrt(linear.shape[1]) + np.sqrt(len(whiten))) / np.sqrt(n)
    level = max(float(level), 1e-10)
    rank = int(np.sum(correlations > level)) if units is None else min(units, len(correlations))
    B, rest = left[:, :rank].T @ whiten, left[:, rank:].T @ whiten
    return Reduction(B, rest, mean, correlations, level)


def label_covariance(source: Source, mean: Array) -> Array:
    """Covariance of the labels, (outputs, outputs)."""

    def term(_: Array, y: Array) -> Array:
        centred = y - mean
        return np.asarray(centred.T @ centred)

    return np.asarray(source.total(term) / source.size)


# ---------------------------------------------------------------- step 3: the lifted equations


@dataclass(frozen=True)
class LiftedSums(Sums):
    """Sums of F, G and `F^T G`: F the lifted unknowns' factors, G the distinct entries of t(x)."""

    n: int
    F: Array
    G: Array
    FG: Array

    @classmethod
    def of(cls, X: Array, y: Array, M: Array) -> LiftedSums:
        """The sums over samples with as many labels as units, M (units, features)."""
        F, G = lifted_factors(y, X @ M.T), even_functions(X, len(M))
        return cls(len(X), F.sum(axis=0), G.sum(axis=0), F.T @ G)

    def equations(self) -> Array:
        """`Cov[F, G]`: one row an unknown, one column an equation."""
        covariance: Array = self.FG / self.n - np.outer(self.F, self.G) / self.n**2
        return covariance


def even_functions(X: Array, units: int) -> Array:
    """The distinct entries of t(x), of both kinds where one gives few equations."""
    features = X.shape[1]
    damping = 1 / (1 + np.mean(X**2, axis=1, keepdims=True))
    first: Array = pair_products(X) * pair_scale(features) * damping
    if pairs(features) >= 2 * (pairs(units) + units):
        return first
    return np.hstack([first, 2 * damping * first])


def pairs(size: int) -> int:
    """Distinct entries of a symmetric matrix."""
    return size * (size + 1) // 2


def pair_scale(size: int) -> Array:
    """Weights under which the distinct entries of a symmetric matrix have its Frobenius norm."""
    rows, columns = np.triu_indices(size)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))


def lifted_factors(y: Array, v: Array) -> Array:
    """What multiplies each distinct entry of P, then each entry of q (v = M x)."""
    rows, columns = np.triu_indices(y.shape[1])
    mixed = (y[:, rows] * v[:, columns] + v[:, rows] * y[:, columns]) / 2
    quadratic = (pair_products(y) - mixed) * pair_scale(y.shape[1])
    return np.hstack([quadratic, v - 2 * y])


def lifted_sums(source: Source, whiten: Array, reduction: Reduction, M: Array) -> LiftedSums:
    """One pass over all samples; inputs are whitened, not shifted, so that -x stays -x."""

    def term(X: Array, y: Array) -> LiftedSums:
        reduced = (y - reduction.mean) @ reduction.B.T
        return LiftedSums.of(X @ whiten.T, reduced, M)

    return source.total(term, rows=LIFTED_BLOCK_ROWS)


@dataclass(frozen=True)
class NullSpace:
    """Symmetric matrices P (units of them) that solve the lifted equations, and how surely."""

    P: Array
    gap: float
    """The smallest singular value that is not of the null space over the largest that is."""


def null_space(equations: Array, units: int) -> NullSpace:
    """The `units` best solutions of the lifted equations."""
    vectors, values, _ = np.linalg.svd(equations, full_matrices=True)
    values = np.concatenate([values, np.zeros(len(vectors) - len(values))])
    rows, columns = np.triu_indices(units)
    solutions = vectors[: len(rows), -units:].T / pair_scale(units)
    P = np.zeros((units, units, units))
    P[:, rows, columns] = P[:, columns, rows] = solutions
    return NullSpace(P, float(values[-units - 1] / max(values[-units], 1e-12 * values[0])))


# ---------------------------------------------------------------- step 4: the units


def unit_directions(U: Array, M: Array, label_squares: Array) -> Array:
    """`W = U M`, each row of the sign for which `Cov[u.y, t(x)(w, w)]` is positive.

    `label_squares` (units, distinct pairs) is `Cov[y, t(x)]`.
    """
    W = U @ M
    quadratic = pair_products(W) * pair_scale(W.shape[1])
    sign = np.sign(np.sum((U @ label_squares) * quadratic, axis=1))
    return np.asarray(np.where(sign == 0, 1.0, sign)[:, None] * W)


def find_directions(sums: LiftedSums, M: Array) -> tuple[Array, NullSpace]:
    """W (units, features) on whitened inputs, and the null space it was read from."""
    units = len(M)
    equations = sums.equations()
    null = null_space(equations, units)
    # The factor of q is M x - 2 y, and M x is odd: what is left of it is -2 Cov[y, G].
    label_squares = -equations[-units:, : pairs(M.shape[1])]
    return unit_directions(congruence(null.P).rows, M, label_squares), null


# ---------------------------------------------------------------- step 5 and the recipe


def symmetric_inputs(workspace: Workspace) -> Iterator[Candidate]:
    """The recipe: symmetry, reduction, lifted equations, diagonalisation, finish."""
    s, source, samples = workspace.standardisation, workspace.source, workspace.problem.samples
    whitened = samples.X + s.whiten @ s.mean
    with workspace.stage("moments", "are the inputs symmetric?"):
        _require_symmetry(whitened)
    with workspace.stage("moments", "linear part and number of units"):
        reduction = _reduced(workspace)
        _require_all_units(reduction, whitened, samples.y)
        M = 2 * reduction.B @ s.linear
    with workspace.stage("moments", f"lifted equations for {reduction.units} units"):
        sums = lifted_sums(source, s.whiten, reduction, M)
    with workspace.stage("decompose"):
        W, null = find_directions(sums, M)
    yield from _candidates(workspace, whitened, W, _evidence(reduction, null))


def _require_symmetry(X: Array) -> None:
    excess = asymmetry(X)
    if excess > 1:
        raise NoAnswer(
            f"The inputs are not symmetric about zero: an odd moment is {excess:.1f} times what "
            'sampling explains; methods "lifting" and "expand-prune" serve any inputs.'
        )


def _require_all_units(reduction: Reduction, X: Array, Y: Array) -> None:
    if len(reduction.rest) == 0:
        return
    excess = hidden_units((Y - reduction.mean) @ reduction.rest.T, X)
    if excess > 1:
        raise NoAnswer(
            f"The labels show more than {reduction.units} units (a correlation is {excess:.1f} "
            "times what sampling explains), but no more with independent weights or no more were "
            'asked for; methods "lifting" and "expand-prune" serve dependent weights.'
        )


def _require_fit(workspace: Workspace, network: Network) -> None:
    """Least squares from the answer must leave nothing that an even function of x explains."""
    samples = workspace.problem.samples
    some = ArraySource(samples.X[:CHECK_ROWS], samples.y[:CHECK_ROWS])
    problem = replace(workspace.problem, samples=some)
    start = Parameters.of(as_absolute(network))
    fit = problem.refine(start, CHECK_STEPS, CHECK_TOLERANCE)
    if problem.is_zero(fit):
        return
    left = some.y - fit.parameters.network(problem.activation)(some.X)
    excess = hidden_units(left, some.X)
    if excess > CHECK_EXCESS:
        raise NoAnswer(
            f"{network.units} units leave a part of the labels that depends on the inputs (a "
            f"correlation is {excess:.1f} times what sampling explains): there are more units than "
            'independent outputs, or too few samples; methods "expand-prune" and "rank-deficient" '
            "serve fewer outputs than units."
        )


def _reduced(workspace: Workspace) -> Reduction:
    """Step 2, or why it cannot be done."""
    s, source, units = workspace.standardisation, workspace.source, workspace.units
    covariance = label_covariance(source, s.label_mean)
    reduction = reduce_outputs(covariance, s.label_mean, s.linear, source.size, units)
    if reduction.units == 0 or (units is not None and reduction.units < units):
        raise NoAnswer(
            f"The labels show {reduction.units} independent units"
            + (f", not {units}" if units else "")
            + ": output weights are dependent or the noise hides units; method "
            '"expand-prune" serves dependent output weights.'
        )
    return reduction


def _candidates(workspace: Workspace, X: Array, W: Array, why: str) -> Iterator[Candidate]:
    """The exact finish where it succeeds, then the estimate itself."""
    Y = workspace.problem.samples.y
    if workspace.refine and not workspace.noise:
        with workspace.stage("finish"):
            finished = _exact(X, Y, W)
        if finished is not None:
            yield Candidate(_on_standardised(workspace, finished), why)
    network = _on_standardised(workspace, with_output_layer(X, Y, W, np.zeros(len(W))))
    if workspace.refine:
        with workspace.stage("refine", "is anything left?"):
            _require_fit(workspace, network)
    yield Candidate(network, why)


def _exact(X: Array, Y: Array, W: Array) -> Network | None:
    """The exact finish, None where the labels carry noise or the directions are too far off."""
    try:
        return exact_finish(X, Y, W).network
    except NoAnswer:
        return None


def _on_standardised(workspace: Workspace, network: Network) -> Network:
    """A network on whitened inputs as one on standardised ones, which are shifted."""
    s = workspace.standardisation
    return network.replace(biases=network.biases + network.weights @ (s.whiten @ s.mean))


def _evidence(reduction: Reduction, null: NullSpace) -> str:
    return (
        f"{reduction.units} canonical correlations of labels and inputs were kept; the smallest "
        f"is {reduction.correlations[reduction.units - 1]:.2g} and sampling alone gives up to "
        f"{reduction.noise_level:.2g}. As many solutions of the lifted equations stand out by a "
        f"factor of {null.gap:.1f}."
    )
