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

`faithful=True` is section 4.3 as printed, and nothing after it: Theorem 8 with the paper's
equations (`lifted_labels`: `t = x x^T`, no damping, no output bias), then Corollary 5: steps 4 to 8
of Algorithm 3 (`stages.exact_finish`). With noise these fail, and Theorem 8's estimate is returned
with A by regression.

Whether inputs are symmetric is asked of all samples drawn, each as often as it occurs: repeated
inputs are held out together, so what is left to fit of discrete inputs is not symmetric. How well
inputs tell pairs of units apart is measured on them too (`distinguishing`).

Cost: a pass for Cov(y), then one of `n units^2 features^2 / 2` operations in matrix products of
distinct products; the matrix of equations has units^2/2 by features^2/2 entries, and no array has
samples times those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.stats import norm

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.context import Context
from provenet.fitting.linear import with_output_layer
from provenet.fitting.model import Parameters
from provenet.methods.stages.distinguishing import DistinguishingMatrix, distinguishing
from provenet.methods.stages.exact_finish import exact_finish
from provenet.methods.stages.lifted_labels import (
    NullSpace,
    Reduction,
    even_functions,
    find_directions,
    label_covariance,
    lifted_sums,
    paper_directions,
    reduce_outputs,
)
from provenet.methods.tolerances import (
    CHECK_EXCESS,
    CHECK_ROWS,
    CHECK_STEPS,
    CHECK_TOLERANCE,
    DOUBT,
)
from provenet.moments.symmetric import monomials
from provenet.networks.network import Network
from provenet.networks.piecewise import as_absolute

# ---------------------------------------------------------------- are the inputs symmetric?


def asymmetry(X: Array) -> float:
    """Largest odd moment of order 1 or 3 over what sampling alone would give the largest."""
    powers = np.hstack([np.ones((len(X), 1)), monomials(X, 2)])
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


# ---------------------------------------------------------------- step 5 and the recipe


def symmetric_inputs(context: Context) -> Iterator[Candidate]:
    """The recipe: symmetry, reduction, lifted equations, diagonalisation, finish."""
    s, drawn = context.standardisation, context.drawn
    X = drawn.X + s.whiten @ s.mean
    with context.stage("moments", "are the inputs symmetric?"):
        _require_symmetry(X)
    with context.stage("moments", "linear part and number of units"):
        reduction = _reduced(context)
        _require_all_units(reduction, X, drawn.y)
        M = 2 * reduction.B @ s.linear
    with context.stage("moments", f"lifted equations for {reduction.units} units"):
        sums = lifted_sums(context.source, s.whiten, reduction, M, context.faithful)
    with context.stage("decompose"):
        if context.faithful:
            W, null = paper_directions(sums, M, reduction.B @ s.label_mean)
        else:
            W, null = find_directions(sums, M)
        apart = distinguishing(X, W)
    yield from _candidates(context, W, _evidence(reduction, null), apart)


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


def _require_fit(context: Context, network: Network, apart: DistinguishingMatrix) -> None:
    """Least squares from the answer must leave nothing that an even function of x explains."""
    samples = context.problem.samples
    some = ArraySource(samples.X[:CHECK_ROWS], samples.y[:CHECK_ROWS])
    problem = replace(context.problem, samples=some)
    start = Parameters.of(as_absolute(network))
    fit = problem.refine(start, CHECK_STEPS, CHECK_TOLERANCE)
    if problem.is_zero(fit):
        return
    left = some.y - fit.parameters.network(problem.activation)(some.X)
    excess = hidden_units(left, some.X)
    if excess > CHECK_EXCESS:
        singular = ", or these inputs do not tell the units apart" if apart.is_singular else ""
        raise NoAnswer(
            f"{network.units} units leave a part of the labels that depends on the inputs (a "
            f"correlation is {excess:.1f} times what sampling explains): there are more units than "
            f"independent outputs, or too few samples{singular}. {apart.message} Methods "
            '"expand-prune" and "rank-deficient" serve fewer outputs than units.'
        )


def _reduced(context: Context) -> Reduction:
    """Step 2, or why it cannot be done."""
    s, source, units = context.standardisation, context.source, context.units
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


def _candidates(
    context: Context, W: Array, why: str, apart: DistinguishingMatrix
) -> Iterator[Candidate]:
    """The exact finish where it succeeds; then, or on the paper's road else, the estimate."""
    s, samples = context.standardisation, context.problem.samples
    X, Y = samples.X + s.whiten @ s.mean, samples.y
    finished = None
    if not context.noise:
        with context.stage("finish"):
            finished = _exact(X, Y, W)
        if finished is not None:
            yield _candidate(context, finished, why, apart)
    if finished is not None and context.faithful:
        return
    network = with_output_layer(X, Y, W, np.zeros(len(W)))
    if context.refine and not context.faithful:
        with context.stage("refine", "is anything left?"):
            _require_fit(context, _on_standardised(context, network), apart)
    yield _candidate(context, network, why, apart)


def _candidate(
    context: Context, network: Network, why: str, apart: DistinguishingMatrix
) -> Candidate:
    return Candidate(
        _on_standardised(context, network),
        f"{why} {apart.message}",
        details=apart,
    )


def _exact(X: Array, Y: Array, W: Array) -> Network | None:
    """The exact finish, None where the labels carry noise or the directions are too far off."""
    try:
        return exact_finish(X, Y, W)
    except NoAnswer:
        return None


def _on_standardised(context: Context, network: Network) -> Network:
    """A network on whitened inputs as one on standardised ones, which are shifted."""
    s = context.standardisation
    return network.replace(biases=network.biases + network.weights @ (s.whiten @ s.mean))


def _evidence(reduction: Reduction, null: NullSpace) -> str:
    return (
        f"{reduction.units} canonical correlations of labels and inputs were kept; the smallest "
        f"is {reduction.correlations[reduction.units - 1]:.2g} and sampling alone gives up to "
        f"{reduction.noise_level:.2g}. As many solutions of the lifted equations stand out by a "
        f"factor of {null.gap:.1f}."
    )
