"""`"rank-deficient"`: fewer outputs than units, from samples with a single unit on (BJW19, 6).

Algorithm 7. Letters of the paper: its A is our Y transposed, U* our A, V* our W, S_i the samples of
line i. Where only unit i is on, `y = a_i (w_i.x)`: such labels lie on the line of a_i, and there
`w_i` solves a linear system. Samples with several units on have labels in directions that no other
sample shares. `faithful=True` runs it as printed (`algorithm_7`): every line of as many labels as
there are features (Lemma 21), one system each, and A from all samples.

Beyond the paper, by default:

- Units that are found are subtracted, and lines sought in what is left; so a unit must be alone on
  more samples than there are features only among the units not found yet. For the first of k units
  in general directions that takes about `2^k` times as many samples, for the others far fewer.
- Biases: the argument is the same with a constant feature, `y = a_i (w_i.x + b_i)`. It is tried
  where units without biases do not explain the labels.
- An output bias c is the label of the samples on which no unit is on, the only one that different
  inputs share; it is subtracted first.

The argument asks for two or more outputs and no two columns of A parallel (ERRATA, BJW19 14). Two
columns of the same direction are noticed (no w solves the system, but two solve parts of it) and
named. Opposite columns put both of their units on one line, where as printed no w solves the
system: there the labels' multiples are

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
from provenet.fitting.context import Context
from provenet.methods.stages.label_lines import (
    LabelLine,
    distinct_samples,
    label_lines,
    shared_label,
    with_constant,
)
from provenet.methods.tolerances import PIECE_TRIES, SPARE_LABELS
from provenet.moments.symmetric import monomials
from provenet.networks.network import Network

_SOLVED = 1e-8
"""Relative residual below which a linear system counts as solved."""
_LEFT = 1e-4
"""What is left of a label, over the largest label, where its direction is still known."""
_SAME_LEFT = 1e-9
"""How far directions of what is left may differ for rounding."""


def rank_deficient(context: Context) -> Iterator[Candidate]:
    """Algorithm 7 on the samples drawn; if those leave something out, on all but those held out."""
    samples = context.problem.samples
    drawn = context.standardisation.undo(samples.X), samples.y
    with context.stage("lines"):
        try:
            network = _network(context, *drawn)
        except NoAnswer:
            if len(drawn[0]) > context.source.size / 2 or not _can_be_held(context.source):
                raise
            X, Y = context.source.rows(0, context.source.size)
            seen = np.delete(np.arange(len(X)), context.hidden_rows)
            network = _network(context, X[seen], Y[seen])
    evidence = f"The labels of samples with a single unit on lie on lines of {network.units} units."
    yield Candidate(context.standardisation.network_from_user(network), evidence)


def _can_be_held(source: Source) -> bool:
    return source.fixed and source.holdable


def _network(context: Context, X: Array, Y: Array) -> Network:
    if context.faithful:
        return algorithm_7(X, Y, context.units, context.rng)
    return network_behind(X, Y, context.rng)


# ---------------------------------------------------------------- as printed


def algorithm_7(X: Array, Y: Array, units: int | None, rng: np.random.Generator) -> Network:
    """The paper's steps 1 to 5, and nothing else; the fullest lines where there are more."""
    X, Y = distinct_samples(X, Y)
    fewest = max(X.shape[1], 2)  # every label lies on a line
    lines = label_lines(Y, fewest, rng)[:units]  # steps 1 and 2
    if len(lines) < (units or 1):
        raise NoAnswer(
            f"{fewest} or more labels lie on a line {len(lines)} times, and {units or 1} units "
            "would do so: they are hardly ever on alone, some share the direction of their output "
            "weights, the labels have noise, or the network an output bias. Take more samples, or "
            "leave out faithful=True."
        )
    W = np.vstack([_weights_on(X[line.samples], line) for line in lines])  # steps 3 and 4
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    A, _ = _output_weights(X, Y, W)  # step 5
    return Network(W, None, A.T)


def _weights_on(X: Array, line: LabelLine) -> Array:
    """Steps 3 and 4 on a line: the label of the first sample stands for the unit's column."""
    multiples = line.multiples / line.multiples[0]
    w, solved = _solve(X, multiples)
    if not solved and np.ptp(multiples) < _SOLVED:
        raise NoAnswer(
            f"The labels of {len(X)} samples are one and the same, as where no unit is on: it is "
            "the network's output bias, which Algorithm 7 does not have. Leave out faithful=True."
        )
    if not solved:
        raise NoAnswer(
            f"The labels of {len(X)} samples lie on one line, but are no linear function of the "
            "inputs there, as a single unit's without a bias would be: leave out faithful=True."
        )
    return w


# ---------------------------------------------------------------- and beyond


def network_behind(X: Array, Y: Array, rng: np.random.Generator) -> Network:
    """Algorithm 7 in rounds; with biases, if units without do not explain the labels.

    A sample that is given twice says no more than once: copies of one would make a line.
    """
    X, Y = distinct_samples(X, Y)
    c = shared_label(Y)
    try:
        W, A = _in_rounds(X, Y - c, rng, rounded=bool(c.any()))
        return Network(W, None, A.T, c)
    except NoAnswer:
        W, A = _in_rounds(with_constant(X), Y - c, rng, rounded=bool(c.any()))
        return Network(W[:, :-1], W[:, -1], A.T, c)


def _in_rounds(
    X: Array, Y: Array, rng: np.random.Generator, *, rounded: bool
) -> tuple[Array, Array]:
    """Weights and output weights, a unit a row: steps 1 to 4 on labels and on what units leave.

    Rounds end when they explain no further sample. Labels that are differences are `rounded`.
    """
    fewest, largest = X.shape[1] + SPARE_LABELS, np.linalg.norm(Y, axis=1).max()
    W, A = np.empty((0, X.shape[1])), np.empty((0, Y.shape[1]))
    left, unexplained = Y.copy(), len(Y) + 1
    while True:
        if len(W) or rounded:
            left[np.linalg.norm(left, axis=1) < _LEFT * largest] = 0.0
        before, unexplained = unexplained, int(np.count_nonzero(left.any(axis=1)))
        if unexplained >= before:
            break
        same = {"same": _SAME_LEFT} if len(W) or rounded else {}
        found = _lines_solved(X, label_lines(left, fewest, rng, **same), Y.shape[1])
        if not len(found.weights):
            break
        W, A = np.vstack([W, found.weights]), np.vstack([A, found.columns])
        left = Y - np.maximum(X @ W.T, 0.0) @ A
    if not len(W):
        raise found.unsolved or NoAnswer(
            f"No {fewest} samples have parallel labels, as they would where a single unit is on: "
            "no unit is on alone so often, the labels have noise, or an output bias that no sample "
            'shows alone. Take more samples, or use method="expand-prune".'
        )
    A, share = _output_weights(X, Y, W)  # step 5
    if share > _SOLVED:
        raise found.unsolved or NoAnswer(
            f"The units that are on alone on {fewest} samples or more are {len(W)}, and leave "
            f"{share:.0e} of the labels unexplained, in which no {fewest} are parallel: if there "
            "are other units, they are on alone more rarely. Take more samples, or use "
            'method="expand-prune".'
        )
    return W, A


def _output_weights(X: Array, Y: Array, W: Array) -> tuple[Array, float]:
    """Those of all units, one a row, and the share of the labels that they leave."""
    values = np.maximum(X @ W.T, 0.0)
    A = np.asarray(np.linalg.lstsq(values, Y, rcond=None)[0])
    return A, float(np.linalg.norm(values @ A - Y) / np.linalg.norm(Y))


@dataclass(frozen=True)
class _Found:
    """Units found on lines: weights of norm 1 and output weights, a unit a row of both."""

    weights: Array
    columns: Array
    unsolved: NoAnswer | None
    """Why the units of some line could not be told."""


def _lines_solved(X: Array, lines: list[LabelLine], outputs: int) -> _Found:
    """Steps 3 and 4 on every line that allows them: its inputs must be in general position."""
    weights, columns, unsolved = [np.empty((0, X.shape[1]))], [np.empty((0, outputs))], None
    for line in lines:
        if np.linalg.matrix_rank(X[line.samples]) < X.shape[1]:
            continue
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
    if line.both_ways:
        return _opposite_pair(X, line.multiples)
    if _has_two_pieces(X, line.multiples):
        raise NoAnswer(
            "Two units have output weights in the same direction: samples with only one of them on "
            'cannot be told from the other\'s. Use method="expand-prune", or "rectified" for '
            "Gaussian inputs."
        )
    raise NoAnswer(
        f"The labels of {len(X)} samples lie on one line, but are no linear function of the inputs "
        "there, as those of a single ReLU unit would be: several units may share a direction of "
        'output weights, or the units be others. Use method="expand-prune".'
    )


def _solve(X: Array, t: Array) -> tuple[Array, bool]:
    w = np.asarray(np.linalg.lstsq(X, t, rcond=None)[0])
    return w, bool(np.linalg.norm(X @ w - t) < _SOLVED * np.linalg.norm(t))


def _has_two_pieces(X: Array, t: Array) -> bool:
    """Whether the labels of a line follow two linear functions: samples near each other tell."""
    enough, first = X.shape[1] + SPARE_LABELS, None
    for near in np.linspace(0, len(X) - 1, PIECE_TRIES).astype(int):
        around = np.argsort(np.linalg.norm(X - X[near], axis=1))[:enough]
        w, solved = _solve(X[around], t[around])
        follow = np.abs(X @ w - t) < _SOLVED * np.abs(t).max()
        if not solved or np.sum(follow) < enough:
            continue
        if first is not None and np.sum(first & follow) < X.shape[1]:
            return True
        first = follow if first is None else first
    return False


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
        "Labels lie on both sides of one line, as those of units with opposite output weights, and "
        'two such units could not be told: take more samples, or use method="expand-prune".'
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
    unknowns, solved = _solve(np.column_stack([t[:, None] * X, -monomials(X, 2)]), t**2)
    if not solved:
        raise _untold()
    s, R = unknowns[:d], np.zeros((d, d))
    R[rows, columns] = unknowns[d:]
    values, vectors = np.linalg.eigh(np.outer(s, s) - 2 * (R + R.T))
    r = np.sqrt(max(values[-1], 0.0)) * vectors[:, -1]
    return np.vstack([(s + r) / 2, (s - r) / 2])
