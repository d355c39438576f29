"""`"rank-deficient"`: fewer outputs than units, from samples with a single unit on (BJW19, 6).

Algorithm 7. Letters of the paper: its A is our Y transposed, U* our A, V* our W, S_i the samples of
line i. No biases and no output bias. Where only unit i is on, `y = a_i (w_i.x)`: such labels lie on
the line of a_i, and there `w_i` solves a linear system. Samples with several units on have labels
in directions that no other sample shares.

Beyond the paper: units that are found are subtracted, and lines sought in what is left; so a unit
must be alone on more samples than there are features only among the units not found yet. For the
first of k units in general directions that takes about `2^k` times as many samples, for the others
far fewer.

The argument asks for two or more outputs and no two columns of A parallel (ERRATA, BJW19 14). Two
columns of the same direction are noticed (no w solves the system) and named. Opposite columns put
both of their units on one line: there the labels' multiples are

    t = w_1.x or (w_1 - w_2).x where t > 0,     t = -w_2.x or (w_1 - w_2).x where t < 0,

two linear functions on either side, and `(t - p.x)(t - q.x) = 0` is linear in `p + q` and in the
symmetric part of `p q^T` (as in `lifting`): its discriminant `(p + q)(p + q)^T - 4 R` is
`(p - q)(p - q)^T`. Which function is which is tried on all samples of the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import Source
from provenet.data.tolerances import MOST_BYTES_IN_MEMORY
from provenet.fitting.activity.label_lines import LabelLine, label_lines
from provenet.fitting.workspace import Workspace
from provenet.methods.tolerances import SPARE_LABELS
from provenet.moments.sums import pair_products
from provenet.networks.network import Network

_SOLVED = 1e-8
"""Relative residual below which a linear system counts as solved."""
_LEFT = 1e-4
"""What is left of a label, over the largest label, where its direction is still known."""
_SAME_LEFT = 1e-9
"""How far directions of what is left may differ for rounding."""


def rank_deficient(workspace: Workspace) -> Iterator[Candidate]:
    """Algorithm 7 on the samples drawn; if those leave something out, on all that there are."""
    samples = workspace.problem.samples
    drawn = workspace.standardisation.undo(samples.X), samples.y
    with workspace.stage("lines"):
        try:
            network = algorithm_7(*drawn, workspace.units, workspace.rng)
        except NoAnswer:
            if len(drawn[0]) > _half(workspace) or not _all_can_be_held(workspace.source):
                raise
            everything = workspace.source.rows(0, workspace.source.size)
            network = algorithm_7(*everything, workspace.units, workspace.rng)
    evidence = (
        f"The labels of samples with a single unit on lie on lines of {network.units} units, and "
        "these explain all others."
    )
    yield Candidate(workspace.standardisation.network_from_user(network), evidence)


def _all_can_be_held(source: Source) -> bool:
    return source.fixed and source.bytes <= MOST_BYTES_IN_MEMORY


def _half(workspace: Workspace) -> float:
    return workspace.source.size / 2


def algorithm_7(X: Array, Y: Array, units: int | None, rng: np.random.Generator) -> Network:
    """The paper's steps 1 to 5, on exact labels; 1 to 4 again on what the units found leave.

    A sample that is given twice says no more than once: copies of one would make a line. Rounds end
    when they explain no further sample.
    """
    X, Y = _distinct(X, Y)
    unexplained = len(Y) + 1
    found = _lines_solved(X, label_lines(Y, X.shape[1] + SPARE_LABELS, rng), Y.shape[1])
    W, A = found.weights, found.columns
    while len(found.weights):
        left = Y - np.maximum(X @ W.T, 0.0) @ A
        left[np.linalg.norm(left, axis=1) < _LEFT * np.linalg.norm(Y, axis=1).max()] = 0.0
        before, unexplained = unexplained, int(np.count_nonzero(left.any(axis=1)))
        if unexplained >= before:
            break
        lines = label_lines(left, X.shape[1] + SPARE_LABELS, rng, _SAME_LEFT)
        found = _lines_solved(X, lines, Y.shape[1])
        W, A = np.vstack([W, found.weights]), np.vstack([A, found.columns])
    if not len(W):
        raise found.unsolved or NoAnswer(
            "No two samples have parallel labels: no unit is ever on alone, the labels have noise, "
            'or the units have biases. Take more samples, or use method="expand-prune".'
        )
    values = np.maximum(X @ W.T, 0.0)
    A = np.asarray(np.linalg.lstsq(values, Y, rcond=None)[0])  # step 5
    share = float(np.linalg.norm(values @ A - Y) / np.linalg.norm(Y))
    if share > _SOLVED or (units is not None and units > len(W)):
        raise found.unsolved or NoAnswer(
            f"{len(W)} units are on alone often enough to be found, and leave {share:.0e} of the "
            "labels unexplained: others are hardly ever alone. Take more samples, or use "
            'method="expand-prune".'
        )
    return Network(W, None, A.T)


def _distinct(X: Array, Y: Array) -> tuple[Array, Array]:
    """The samples without repetitions, in their order."""
    _, first = np.unique(np.column_stack([X, Y]), axis=0, return_index=True)
    if len(first) == len(X):
        return X, Y
    kept = np.sort(first)
    return X[kept], Y[kept]


@dataclass(frozen=True)
class _Found:
    """Units found on lines: weights of norm 1 and output weights, a unit a row of both."""

    weights: Array
    columns: Array
    unsolved: NoAnswer | None
    """Why the units of some line could not be told."""


def _lines_solved(X: Array, lines: list[LabelLine], outputs: int) -> _Found:
    """Steps 3 and 4 on every line that allows them."""
    weights, columns, unsolved = [np.empty((0, X.shape[1]))], [np.empty((0, outputs))], None
    for line in lines:
        try:
            W = _units_of_line(X[line.samples], line)
        except NoAnswer as error:
            unsolved = error
            continue
        norm = np.linalg.norm(W, axis=1)
        weights.append(W / norm[:, None])
        columns.append(np.outer(norm * _signs(line), line.direction))
    return _Found(np.vstack(weights), np.vstack(columns), unsolved)


def _signs(line: LabelLine) -> Array:
    """Of the multiples that the units on a line give, in the order of `_units_of_line`."""
    return np.array([1.0, -1.0]) if line.both_ways else np.sign(line.multiples[:1])


def _units_of_line(X: Array, line: LabelLine) -> Array:
    """The weights (rows, of any length) of the unit on a line, or of the two opposite ones."""
    w, solved = _solve(X, line.multiples)
    if solved and not line.both_ways:
        return np.asarray(np.sign(line.multiples[0]) * w[None])
    if not line.both_ways:
        raise NoAnswer(
            "Two units have output weights in the same direction: samples with only one of them on "
            'cannot be told from the other\'s. Use method="expand-prune", or "rectified" for '
            "Gaussian inputs."
        )
    return _opposite_pair(X, line.multiples)


def _solve(X: Array, t: Array) -> tuple[Array, bool]:
    w = np.asarray(np.linalg.lstsq(X, t, rcond=None)[0])
    return w, bool(np.linalg.norm(X @ w - t) < _SOLVED * np.linalg.norm(t))


def _opposite_pair(X: Array, t: Array) -> Array:
    """`w_1` and `w_2` of `t = relu(w_1.x) - relu(w_2.x)`, both with a positive factor.

    Either side may show any of its two functions, or both: every reading is tried on all samples.
    """
    above, below = (_linear_functions(X[side], t[side]) for side in (t > 0, t < 0))
    for p, q in product(above, below):
        for pair in ((p, -q), (p - q, -q), (p, p - q)):
            on = [X * (X @ w > 0)[:, None] for w in pair]
            # Linear where the units are on: exact, however far the first guess was off.
            both, solved = _solve(np.column_stack([on[0], -on[1]]), t)
            if solved:
                return both.reshape(2, -1)
    raise _untold()


def _untold() -> NoAnswer:
    return NoAnswer(
        "Two units have opposite output weights and could not be told apart on their line: take "
        'more samples, or use method="expand-prune".'
    )


def _linear_functions(X: Array, t: Array) -> Array:
    """The one or two linear functions (rows) that t takes, found without knowing which where."""
    d = X.shape[1]
    if len(t) < d + SPARE_LABELS:  # any so few labels are linear
        raise _untold()
    w, solved = _solve(X, t)
    if solved:
        return w[None]
    rows, columns = np.triu_indices(d)
    if len(t) < len(rows) + d + SPARE_LABELS:
        raise _untold()
    unknowns, solved = _solve(np.column_stack([t[:, None] * X, -pair_products(X)]), t**2)
    if not solved:
        raise _untold()
    s, R = unknowns[:d], np.zeros((d, d))
    R[rows, columns] = unknowns[d:]
    values, vectors = np.linalg.eigh(np.outer(s, s) - 2 * (R + R.T))
    r = np.sqrt(max(values[-1], 0.0)) * vectors[:, -1]
    return np.vstack([(s + r) / 2, (s - r) / 2])
