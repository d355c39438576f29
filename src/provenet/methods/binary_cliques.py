"""`"binary-cliques"`: exponential units with 0/1 weights (GP19, Theorem 8, appendix D.1).

    f(x) = sum_S c_S prod_{p in S} exp(rho (w_p.x - t)),   w_p in {0, 1}^n with d ones each

Letters: `T_p` the support of unit p, `mu = exp(-rho (t - rho d / 2))` (ERRATA, GP19 20). With
disjoint supports `M_ij = E[f (x_i x_j - 1[i = j])] = rho^2 C(p, q)` for i in T_p, j in T_q, where
C(p) and C(p, q) are the coefficients of X_p and of X_p X_q in `P(mu (X_1 + 1), ..)`. If every C(p)
is larger than every C(p, q), a threshold between them makes a graph of the features whose cliques
are the units (Algorithm 3). The diagonal, `rho^2 C(p)` too, shows units of one feature, and
`E[f x_i] = rho C(p)` gives rho.

What the theorem leaves open is done so:

- *The threshold* is in a gap of the correlations, clear of all of them by some standard errors, and
  below the diagonal: features that have an effect are in a unit. Of several gaps the widest that
  makes sense is taken.
- *Overlaps.* The statement does not ask for disjoint supports, the proof does. If P is a sum, M is
  `sum_p b_p w_p w_p^T` off and on the diagonal, whatever the overlaps, and an edge means a common
  unit. The units are then among the maximal cliques; those that M does not need (nonnegative least
  squares) are dropped, and M must come out, up to what products may add. Not every family of sets
  can be read off its graph, and then that is said. Overlaps are answered only if polynomials of
  the units explain the labels to rounding. The same f may be a sum over overlapping sets and a sum
  of products over disjoint ones: the answer is the sum.
- *Tails.* Moments of f are heavy-tailed. By default the features are first sorted into classes that
  act through their sum alone (`alike_features`: one sharper test, on log f where labels
  are positive), and the graph is one of classes; `faithful=True` keeps to single features.
- *rho* from the moments is rough. If the labels are, to rounding, a polynomial of the units of a
  rho nearby, that is found by least squares. t cannot be told from the scale of P.

With 4 units of 3 ones among 12 features and products of up to 0.3 of a sum's term, 4000 samples do
for rho = 0.5 and 1 (50 of 50 seeds each); single features take 2e4 for rho = 0.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import nnls

from provenet.certify.layer import LayerCandidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.data.sources import ArraySource, MappedSource, Source
from provenet.fitting.context import Context
from provenet.lowest_layer.binary.alike import ROUNDING, alike_features, chance_level
from provenet.lowest_layer.binary.correlations import correlations, correlations_of
from provenet.lowest_layer.binary.exponential_top import (
    AMBIGUITIES,
    EXPLAINED,
    ExponentialTop,
    refuse_other_number,
    units_alone,
)
from provenet.lowest_layer.candidates import from_fit
from provenet.methods.tolerances import GAPS_TRIED, MOST_CLIQUES
from provenet.networks.layered import LayeredNetwork

_CLEAR = 2.0
"""Standard errors between the threshold and the nearest correlation."""
_LEAST_RHO = 0.05
"""One over the largest rho that samples could show: labels spread over e^(rho^2 ones)."""


@dataclass(frozen=True)
class Cliques:
    """0/1 weights of exponential units, and the gap that showed them."""

    weights: Array
    """(units, features), one unit a row, in the order of their features."""
    rho: float
    unexplained: float
    """Relative error with which a polynomial of the units at this rho explains the labels."""
    coefficients: Array
    """`C(p)`: of X_p in `P(mu (X_1 + 1), ..)`."""
    threshold: float
    """Features whose correlation `E[f x_i x_j]` exceeds this have a unit in common."""
    margin: float
    """Standard errors between the threshold and the nearest correlation."""
    evidence: str


# ------------------------------------------------- classes of features


def _averages(source: Source, classes: Array) -> MappedSource:
    """Samples seen through the sums of some features, divided so as to be standard normal."""
    sums = classes / np.sqrt(classes.sum(axis=1, keepdims=True))
    return MappedSource(source, partial(_project, sums), len(classes))


def _project(sums: Array, X: Array, y: Array) -> tuple[Array, Array]:
    return X @ sums.T, y


@dataclass(frozen=True)
class Blocks:
    """Correlations of classes of features: the means over their features."""

    classes: Array
    """(classes, features), 0/1."""
    linear: Array
    matrix: Array
    errors: Array
    unused: tuple[Array, Array]
    """Correlations of features without effect, and their errors."""
    samples: int | None


def single_features(data: Source | LayeredNetwork) -> Blocks:
    """Every feature with an effect is a class of its own."""
    c = correlations_of(data)
    errors = np.maximum(c.errors, ROUNDING * np.abs(c.matrix).max(initial=1e-300))
    used = np.diag(c.matrix) > (chance_level(len(c.linear)) + _CLEAR) * np.diag(errors)
    if not used.any():
        raise NoAnswer(
            "No E[f (x_i^2 - 1)] stands above its sampling error: take more samples, or look "
            "whether the labels depend on these features at all."
        )
    inside, beside = np.ix_(used, used), ~np.outer(used, used)
    return Blocks(
        np.eye(len(used))[used],
        c.linear[used],
        c.matrix[inside],
        errors[inside],
        (c.matrix[beside], errors[beside]),
        c.samples,
    )


def class_blocks(data: Source | LayeredNetwork) -> Blocks:
    """Features that act through their sum alone are a class, whose correlations are less noisy."""
    classes = alike_features(data).weights
    size = classes.sum(axis=1)
    if isinstance(data, LayeredNetwork):
        c, mean = correlations_of(data), classes / size[:, None]
        linear, matrix = mean @ c.linear, mean @ c.matrix @ mean.T
        errors = np.zeros_like(matrix)
    else:
        c = correlations(_averages(data, classes))
        scale = np.sqrt(np.outer(size, size))
        linear, matrix, errors = c.linear / np.sqrt(size), c.matrix / scale, c.errors / scale
    errors = np.maximum(errors, ROUNDING * np.abs(matrix).max(initial=1e-300))
    return Blocks(classes, linear, matrix, errors, (np.empty(0), np.empty(0)), c.samples)


# ------------------------------------------------- Algorithm 3: the correlation graph


@dataclass(frozen=True)
class Graph:
    """Which classes have a unit in common."""

    edges: AnyArray
    """(classes, classes), true on the diagonal."""
    below: float
    """Largest correlation that is no edge, or 0."""
    above: float
    """Smallest correlation that is an edge."""
    threshold: float
    margin: float


def graphs(blocks: Blocks) -> list[Graph]:
    """One for every gap below the diagonal, the widest first."""
    rows, columns = np.triu_indices(len(blocks.matrix))
    values = np.append(blocks.matrix[rows, columns], 0.0)  # 0: what nothing in common gives
    errors = np.append(blocks.errors[rows, columns], 0.0)
    order = np.argsort(values)
    values, errors = values[order], errors[order]
    lowest = float(np.diag(blocks.matrix).min())
    gaps = np.where((values[1:] > 0) & (values[1:] <= lowest), np.diff(values), 0.0)
    widest = np.argsort(-gaps)[:GAPS_TRIED]
    found = [_graph(blocks, values, errors, int(k) + 1) for k in widest if gaps[k] > 0]
    return sorted(found, key=lambda g: g.below - g.above)


def _graph(blocks: Blocks, values: Array, errors: Array, split: int) -> Graph:
    high, E = values[split:], errors[split:]
    low, e = (
        np.append(values[:split], blocks.unused[0]),
        np.append(errors[:split], blocks.unused[1]),
    )
    margin = float(np.min((high[:, None] - low) / (E[:, None] + e)))
    threshold = float(np.max(low + margin * e))
    return Graph(blocks.matrix >= high[0], float(low.max()), float(high[0]), threshold, margin)


def maximal_cliques(edges: AnyArray) -> list[list[int]]:
    """All maximal cliques of a graph (Bron and Kerbosch, with pivots)."""
    around = [set(np.flatnonzero(row).tolist()) - {i} for i, row in enumerate(edges)]

    def extend(clique: list[int], more: set[int], done: set[int]) -> Iterator[list[int]]:
        if not more and not done:
            yield clique
            return
        pivot = max(more | done, key=lambda v: len(more & around[v]))
        for v in sorted(more - around[pivot]):
            yield from extend([*clique, v], more & around[v], done & around[v])
            more, done = more - {v}, done | {v}

    found: list[list[int]] = []
    for clique in extend([], set(range(len(edges))), set()):
        found.append(sorted(clique))
        if len(found) > MOST_CLIQUES:
            raise NoAnswer(
                f"The correlation graph has more than {MOST_CLIQUES} maximal cliques: supports "
                "overlap too much for the units to be read off it."
            )
    return sorted(found)


# ------------------------------------------------- units from cliques


def explained_by(blocks: Blocks, graph: Graph, sets: AnyArray) -> tuple[Array, Array]:
    """Coefficients `b >= 0` of `M = sum_p b_p w_p w_p^T` on the edges, and what is left there."""
    rows, columns = np.nonzero(np.triu(graph.edges))
    design = (sets[:, rows] & sets[:, columns]).T.astype(float)
    target, errors = blocks.matrix[rows, columns], blocks.errors[rows, columns]
    b, _ = nnls(design / errors[:, None], target / errors)
    left = np.abs(target - design @ b)
    return np.asarray(b), np.maximum(left - chance_level(len(left)) * errors, 0.0)


def units_of(blocks: Blocks, graph: Graph, ones: int | None) -> tuple[Array, Array] | None:
    """Weights and coefficients b of the units that make this graph; None if it is no such graph."""
    cliques = maximal_cliques(graph.edges)
    sets = np.array([[a in c for a in range(len(graph.edges))] for c in map(set, cliques)])
    b, _ = explained_by(blocks, graph, sets)
    sets = sets[b > graph.threshold / 2]
    if len(sets) == 0:
        return None
    b, left = explained_by(blocks, graph, sets)
    if left.max() > max(graph.below, 0.0):
        return None
    weights = sets.astype(float) @ blocks.classes
    sizes = weights.sum(axis=1)
    several = sets.sum(axis=1).max() > 1
    if (several and len(set(sizes)) > 1) or (ones is not None and np.any(sizes != ones)):
        return None
    order = np.lexsort(-weights.T[::-1])
    return weights[order], b[order]


def _refusal(
    blocks: Blocks, found: list[Graph], ones: int | None, classes_differ: bool
) -> NoAnswer:
    """Why none of the graphs serves."""
    M, first = blocks.matrix, np.argmax(blocks.classes, axis=1)
    weakest = int(np.argmin(np.diag(M)))
    if not found:
        return NoAnswer(
            f"E[f (x_i^2 - 1)] is {M[weakest, weakest]:.3g} for feature {first[weakest]}: Theorem "
            "8 asks for positive coefficients of the sum's terms."
        )
    across = np.where(np.eye(len(M), dtype=bool), -np.inf, M)
    i, j = np.unravel_index(np.argmax(across), M.shape)
    excess = across[i, j] - M[weakest, weakest]
    noise = blocks.errors[i, j] + blocks.errors[weakest, weakest]
    if classes_differ and excess > _CLEAR * noise:
        return NoAnswer(
            f"E[f x_i x_j] is {across[i, j]:.3g} for features {first[i]} and {first[j]}, which "
            f"differ, and only {M[weakest, weakest]:.3g} within the unit of feature "
            f"{first[weakest]}: Theorem 8 asks that every product has a smaller coefficient than "
            "every term of the sum, and overlapping supports that would explain it do not show; "
            'if supports are disjoint and coefficients positive, use method="exponential".'
        )
    best = max(found, key=lambda g: g.margin)
    if best.margin >= _CLEAR:
        asked = "equally many" if ones is None else str(ones)
        return NoAnswer(
            f"The correlations E[f x_i x_j] above the gap at {best.threshold:.3g} do not make "
            f"cliques of {asked} features that explain them: take more samples; if that does not "
            "help, the weights are not 0/1 vectors of one size, or their supports overlap too much."
        )
    factor = 1.2 * ((_CLEAR + 3) / (max(best.margin, 0) + 3)) ** 2  # 3: chance narrows the gap
    more = "" if blocks.samples is None else f" (some {factor * blocks.samples:.1e})"
    return NoAnswer(
        f"The correlations E[f x_i x_j] show no clear gap: the best threshold, "
        f"{best.threshold:.3g}, is only {max(best.margin, 0):.1f} standard errors from the nearest "
        f"of them, and {_CLEAR:g} are asked for; take more samples{more}."
    )


# ------------------------------------------------- rho


def rho_from_moments(blocks: Blocks, weights: Array, b: Array) -> float:
    """From `E[f x_i] = sum_p b_p w_pi / rho`, over all features."""
    s = (b @ weights) @ blocks.classes.T
    linear = float(blocks.linear * blocks.classes.sum(axis=1) @ s)
    if linear <= _LEAST_RHO * float(s @ s):
        raise NoAnswer(
            "E[f x_i] is not positive where E[f (x_i^2 - 1)] is: weights are negative, the labels "
            "are even in the inputs, or samples are too few."
        )
    return float(s @ s) / linear


# ------------------------------------------------- the recipe


def binary_cliques(context: Context) -> Iterator[LayerCandidate]:
    """One candidate: the units, and their polynomial if that is to be fitted."""
    samples = context.fitted_samples
    with context.stage("cliques"):
        fitted = samples if context.refine else None
        found = find_cliques(context.source, fitted, faithful=context.faithful)
    refuse_other_number(len(found.weights), context.units)
    if not context.refine:
        weights, way = found.rho * found.weights, "cliques of correlations"
        yield units_alone(context, weights, way, (found.evidence,))
        return
    with context.stage("top"):
        fit = ExponentialTop(samples.X, samples.y, found.weights).fit(found.rho)
    notes = (found.evidence, context.gaussian.message)
    yield from_fit(context, fit, lambda network: notes, AMBIGUITIES, standardised=False)


def find_cliques(
    data: Source | LayeredNetwork,
    fitted: ArraySource | None = None,
    *,
    ones: int | None = None,
    faithful: bool = False,
) -> Cliques:
    """0/1 weights of exponential units, from standard normal samples or a network's population.

    `fitted` are samples to fit rho on; without them it is that of the moments. `ones` is the number
    of ones in every weight vector, the paper's d, if it is known.
    """
    blocks = single_features(data) if faithful else class_blocks(data)
    found = graphs(blocks)
    clear = [graph for graph in found if graph.margin >= _CLEAR]
    answers: list[Cliques] = []
    for graph in clear or ([] if faithful else _disjoint(blocks, found)):
        units = units_of(blocks, graph, ones)
        if units is not None:
            answers.append(_answer(fitted, blocks, graph, *units))
            if answers[-1].unexplained < EXPLAINED:
                return answers[-1]
    if not answers:
        raise _refusal(blocks, found, ones, classes_differ=not faithful)
    disjoint = [a for a in answers if a.weights.sum(axis=0).max() == 1]
    if not disjoint:
        raise NoAnswer(
            f"{len(answers[0].weights)} units with overlapping supports would explain the "
            "correlations E[f x_i x_j], but polynomials of them leave a relative error of "
            f"{answers[0].unexplained:.1e} in the labels: Theorem 8's condition on products fails, "
            "or the labels have noise, or samples are too few."
        )
    return disjoint[0]


def _disjoint(blocks: Blocks, found: list[Graph]) -> list[Graph]:
    """The graph without edges, if it looks right though it is not clear, for classes of one size.

    Features of a class are alike beyond doubt; only that no unit is made of several classes is then
    left to the proof's assumption of disjoint supports.
    """
    one_size = len(set(blocks.classes.sum(axis=1))) == 1
    return [g for g in found if one_size and np.sum(g.edges) == len(blocks.classes)]


def _answer(
    fitted: ArraySource | None, blocks: Blocks, graph: Graph, weights: Array, b: Array
) -> Cliques:
    """The units with their rho and coefficients, and why these."""
    rho, unexplained = rho_from_moments(blocks, weights, b), 0.0
    if fitted is not None:
        top = ExponentialTop(fitted.X, fitted.y, weights)
        sharper = top.best_rho(rho)
        _, unexplained = top.solved(sharper)
        rho = sharper if unexplained < EXPLAINED else rho
    kind = "features" if len(blocks.classes) == blocks.classes.sum() else "classes of features"
    evidence = (
        f"Correlations E[f x_i x_j] of {len(blocks.classes)} {kind} are at most {graph.below:.3g} "
        f"or at least {graph.above:.3g}, {graph.margin:.1f} standard errors from a threshold of "
        f"{graph.threshold:.3g}; the cliques of the larger ones are {len(weights)} units."
    )
    if unexplained > EXPLAINED:
        evidence += f" Their monomials explain the labels to {unexplained:.1e} only."
    if graph.margin < _CLEAR:
        evidence += " The gap is not clear: that no units overlap is assumed."
    return Cliques(weights, rho, unexplained, b / rho**2, graph.threshold, graph.margin, evidence)
