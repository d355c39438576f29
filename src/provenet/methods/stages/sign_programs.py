"""Units from sign patterns: BJW19, Algorithms 1 and 2, as functions on arrays.

The network is `y = A relu(W x)`, and the labels have as many independent outputs as there are
units. Letters of the paper: its A is our Y^T, U* our A, V* our W, X our X^T, V' (a basis of the row
span of its A) our V^T; its y^i are the values of unit i before the rectifier, here `X w_i`.

Every unit's values `relu(X w_i)` lie in the span of the columns of Y, which the labels show. For a
set S of samples on which a vector of that span is positive, Algorithm 1 asks for w and z with

    x_n.w >= 1 on S,  x_n.w <= 0 off S,  v_n.z = x_n.w on S,  v_n.z = 0 off S,

and `V z` independent of the units found before (Remark 1: one coordinate of its part in their
complement is >= 1 or <= -1). Algorithm 2 goes through the sets until k such units are found (Lemma
3: a greedy choice never has to be undone), and solves for A. What changes no answer, here:

- The equations are solved first, by a singular value decomposition: most patterns have no solution
  and cost no program. The inequalities on what is left, usually one dimension, are the program; so
  its answer is as precise as the data, not as HiGHS's tolerance.
- Equations and spans are those of samples and features scaled to a common size, so that outliers
  and units of measurement do not decide what is zero. Signs and solutions do not depend on it.
- A pattern without a solution never has one later, nor has one whose solutions all depend on the
  units found.
- Corrected: the projection of Algorithm 1 is `Q^T (Q Q^T)^{-1} Q`, and zero is a ratio of singular
  values.

`algorithm_1` is the paper's, 2 n programs of Remark 1 and all, on samples of the size they have.
`independent_units` asks for `>= 1` of scaled samples, and takes the complement within the span: at
most 2 k programs, run only if the answer of the first is not independent already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from provenet.common.typing import AnyArray, Array
from provenet.methods.stages.sign_patterns import ZERO_RATIO, span_basis
from provenet.methods.tolerances import BALANCING_ROUNDS

_FEASIBLE, _INFEASIBLE = 0, 2
"""Derived: statuses of `scipy.optimize.linprog`."""


@dataclass(frozen=True)
class Spans:
    """What the samples allow, samples and features divided by their sizes.

    `Q c` are the values of linear functions of the inputs, `V z` the combinations of the outputs.
    """

    size: Array
    feature_size: Array
    Q: Array
    V: Array


@dataclass
class Programs:
    """Linear programs on one pattern; counts those run and those the solver could not decide."""

    run: int = 0
    undecided: int = 0

    def solve(self, values: Array, on: AnyArray, extra: Array | None = None) -> Array | None:
        """A t with `values t` >= 1 on the pattern, <= 0 off it and `extra.t >= 1`, or None."""
        A = np.where(on[:, None], -values, values)
        b = np.where(on, -1.0, 0.0)
        if extra is not None:
            A, b = np.vstack([A, -extra]), np.append(b, -1.0)
        answer = linprog(np.zeros(A.shape[1]), A, b, bounds=(None, None), method="highs")
        self.run += 1
        self.undecided += answer.status not in (_FEASIBLE, _INFEASIBLE)
        return np.asarray(answer.x) if answer.status == _FEASIBLE else None


@dataclass(frozen=True)
class FoundUnits:
    """Units so far, one a row: coefficients of Q before the rectifier, of V after it."""

    linear: Array
    rectified: Array
    active: tuple[int, ...] = ()
    """On how many samples each is active."""
    free: tuple[int, ...] = ()
    """How many directions of each unit the samples leave open."""

    @classmethod
    def nothing(cls, spans: Spans) -> FoundUnits:
        """No unit yet."""
        return cls(np.empty((0, spans.Q.shape[1])), np.empty((0, spans.V.shape[1])))

    def __len__(self) -> int:
        """How many units there are."""
        return len(self.linear)

    def with_unit(self, c: Array, z: Array, active: int, free: int) -> FoundUnits:
        """One unit more."""
        size = np.linalg.norm(z)
        return FoundUnits(
            np.vstack([self.linear, c / size]),
            np.vstack([self.rectified, z / size]),
            (*self.active, active),
            (*self.free, free),
        )


# ---------------------------------------------------------------- the spans


def spans_of(X: Array, Y: Array) -> Spans:
    """Bases of the two spans. Samples without inputs must have been left out."""
    size, feature_size = equilibrate(X)
    Q = span_basis(X / size[:, None] / feature_size)
    return Spans(size, feature_size, Q, span_basis(Y / size[:, None]))


def equilibrate(X: Array) -> tuple[Array, Array]:
    """Scales of the samples (n,) and of the features (d,) that make both comparable."""
    rows, columns = np.ones(len(X)), np.ones(X.shape[1])
    for _ in range(BALANCING_ROUNDS):
        columns = _positive((np.abs(X) / rows[:, None]).mean(axis=0))
        rows = _positive((np.abs(X) / columns).max(axis=1))
    return rows, columns


def _positive(sizes: Array) -> Array:
    return np.where(sizes > 0, sizes, 1.0)


def constant_unit(spans: Spans) -> FoundUnits:
    """The unit that is 1 everywhere, which stands for an output bias; both spans must have it."""
    ones = 1 / spans.size
    return FoundUnits.nothing(spans).with_unit(spans.Q.T @ ones, spans.V.T @ ones, len(ones), 0)


# ---------------------------------------------------------------- Algorithm 1


def solution_space(spans: Spans, on: AnyArray) -> tuple[Array, Array]:
    """All (c, z) with `Q c = V z` on the pattern and `V z = 0` off it: bases (r, s) and (k, s)."""
    Q, V = spans.Q, spans.V
    M = np.hstack([np.where(on[:, None], Q, 0.0), np.where(on[:, None], -V, V)])
    R = np.linalg.qr(M, mode="r")  # the same singular values, and no n x n factor
    _, s, Vt = np.linalg.svd(R, full_matrices=True)
    null = Vt[int(np.sum(s > ZERO_RATIO * s[0])) :].T
    return null[: Q.shape[1]], null[Q.shape[1] :]


def algorithm_1(spans: Spans, on: AnyArray, Y: Array, programs: Programs) -> Array | None:
    """The paper's: values y^i (n,) of a unit, independent of those found (rows of Y), or None."""
    C, _ = solution_space(spans, on)
    if C.shape[1] == 0:
        return None
    values = spans.size[:, None] * (spans.Q @ C)
    t = programs.solve(values, on)
    if t is not None and len(Y):
        t = next((s for s in _remark_1(values, on, Y, programs) if s is not None), None)
    return None if t is None else np.asarray(values @ t)


def _remark_1(values: Array, on: AnyArray, Y: Array, programs: Programs) -> Iterator[Array | None]:
    """The 2 n programs: coordinate t of what is not in the span of `f(y^j)` is <= -1, or >= 1."""
    Q = np.maximum(Y, 0.0)
    rectified = np.where(on[:, None], values, 0.0)
    new = rectified - Q.T @ np.linalg.solve(Q @ Q.T, Q @ rectified)
    if np.linalg.norm(new) <= ZERO_RATIO * np.linalg.norm(rectified):
        return
    for row in new:
        for side in (-row, row):
            yield programs.solve(values, on, side)


def complement(Z: Array) -> Array:
    """Orthonormal rows that are orthogonal to the rows of Z, which are independent."""
    return np.asarray(np.linalg.svd(Z, full_matrices=True)[2][len(Z) :])


def independent_units(
    spans: Spans, on: AnyArray, found: FoundUnits, programs: Programs
) -> FoundUnits:
    """The units found, and all of one pattern that are independent of them and of each other."""
    C, Z = solution_space(spans, on)
    while len(found) < len(Z):
        new = complement(found.rectified) @ Z
        t = _independent_solution(spans.Q @ C, on, new, programs)
        if t is None:
            break
        found = found.with_unit(C @ t, Z @ t, int(on.sum()), C.shape[1] - 1)
    return found


def _independent_solution(
    values: Array, on: AnyArray, new: Array, programs: Programs
) -> Array | None:
    """A solution of the program whose new part `new t` is not zero (Remark 1)."""
    if np.linalg.norm(new) <= ZERO_RATIO:
        return None
    t = programs.solve(values, on)
    if t is None or _is_new(new, t):
        return t
    further = (programs.solve(values, on, extra) for extra in (*new, *-new))
    return next((t for t in further if t is not None and _is_new(new, t)), None)


def _is_new(new: Array, t: Array) -> bool:
    return bool(np.linalg.norm(new @ t) > ZERO_RATIO * np.linalg.norm(t))


# ---------------------------------------------------------------- Algorithm 2, steps 3 and 4


def printed_weights(X: Array, Y: Array, values: Array) -> tuple[Array, Array]:
    """The paper's: A and then W from the units' values (units, n) before the rectifier."""
    A = _least_squares(np.maximum(values, 0.0).T, Y).T
    return _least_squares(X, values.T).T, A


def weights_of(X: Array, Y: Array, spans: Spans, found: FoundUnits) -> tuple[Array, Array]:
    """W from `X w = values`, A from the labels, and both once more for what rounding left."""
    x, y = X / spans.size[:, None] / spans.feature_size, Y / spans.size[:, None]
    W = _least_squares(x, spans.Q @ found.linear.T).T
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    A = _least_squares(np.maximum(x @ W.T, 0.0), y).T
    W, A = correct(x, y, W, A)
    return W / spans.feature_size, A


def _least_squares(M: Array, b: Array) -> Array:
    return np.asarray(np.linalg.lstsq(M, b, rcond=ZERO_RATIO)[0], dtype=float)


def correct(x: Array, y: Array, W: Array, A: Array) -> tuple[Array, Array]:
    """Both linear systems once more, jointly and for what rounding left: the last digit."""
    z = x @ W.T
    h, on = np.maximum(z, 0.0), z > 0
    by_W = np.einsum("ni,oi,nd->noid", on, A, x).reshape(y.size, W.size)
    by_A = np.einsum("ni,op->nopi", h, np.eye(len(A))).reshape(y.size, A.size)
    step = _least_squares(np.hstack([by_W, by_A]), (y - h @ A.T).ravel())
    return W + step[: W.size].reshape(W.shape), A + step[W.size :].reshape(A.shape)
