"""`"arbitrary-inputs"`: a few units, any inputs whatever, by sign patterns and linear programs.

BJW19, section 2: `y = A relu(W x)` without biases, on inputs that follow no distribution at all, as
long as the labels have as many independent outputs as there are units. Letters of the paper: its A
is our Y^T, U* our A, V* our W, X our X^T, V' (a basis of the row span of its A) our V^T; its y^i
are the values of unit i before the rectifier, here `X w_i`.

Then every unit's values `relu(X w_i)` lie in the span of the columns of Y, which the labels show.
Lemma 1 enumerates the sets of samples on which a vector of that span can be positive, O(n^k) of
them (`sign_patterns`). For such a pattern S, Algorithm 1 asks for w and z with

    x_n.w >= 1 on S,  x_n.w <= 0 off S,  v_n.z = x_n.w on S,  v_n.z = 0 off S,

and `V z` independent of the units found before. Algorithm 2 runs through the patterns until k such
units are found (Lemma 3: a greedy choice never has to be undone) and solves for A. Here:

- The equations are solved first, by a singular value decomposition: most patterns have no solution
  and cost no program. The inequalities on what is left, usually one dimension, are the program; so
  its answer is as precise as the data, not as HiGHS's tolerance.
- Independence is Remark 1's: one coordinate of the new vector in the complement of the old ones is
  >= 1 or <= -1. The complement is taken within the span, so these are at most 2 k programs and not
  2 n, and they are run only if the first program's own answer is not independent already.
- A pattern without a solution never has one later, nor has one whose solutions all depend on the
  units found: each pattern is tried once. Those with the most samples come first, because these
  say most about the unit.
- Without biases the network is positively homogeneous: samples are scaled to a common size, as are
  the features, so that neither outliers nor units of measurement decide anything.
- Corrected: the projection of Algorithm 1 is `Q^T (Q Q^T)^{-1} Q`, and Algorithm 2 must fail when
  no pattern serves. Zero is a ratio of singular values.

The theorem promises some network that explains the samples, and where the samples do not determine
the units there are several; the samples held out and the certificate tell.

Cost: `(2^k - 1) C(n, k)` small systems, at most about n^2 patterns for k = 3, a few programs of a
millisecond. Memory: a few dozen megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array
from provenet.fitting.activity.sign_patterns import (
    distinct_directions,
    most_patterns,
    pattern_blocks,
    span_basis,
    supports,
    unpack,
    vertex_count,
)
from provenet.fitting.tolerances import ZERO_RATIO
from provenet.fitting.workspace import Workspace
from provenet.methods.tolerances import (
    BALANCING_ROUNDS,
    MOST_ENUMERATED_SAMPLES,
    MOST_ENUMERATED_UNITS,
    SAME_SAMPLE,
)
from provenet.networks.network import Network

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


# ---------------------------------------------------------------- pure functions on arrays


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


def solution_space(spans: Spans, on: AnyArray) -> tuple[Array, Array]:
    """All (c, z) with `Q c = V z` on the pattern and `V z = 0` off it: bases (r, s) and (k, s)."""
    Q, V = spans.Q, spans.V
    M = np.hstack([np.where(on[:, None], Q, 0.0), np.where(on[:, None], -V, V)])
    _, s, Vt = np.linalg.svd(M, full_matrices=True)
    null = Vt[int(np.sum(s > ZERO_RATIO * s[0])) :].T
    return null[: Q.shape[1]], null[Q.shape[1] :]


def complement(Z: Array) -> Array:
    """Orthonormal rows that are orthogonal to the rows of Z, which are independent."""
    return np.asarray(np.linalg.svd(Z, full_matrices=True)[2][len(Z) :])


def algorithm_1(spans: Spans, on: AnyArray, found: FoundUnits, programs: Programs) -> FoundUnits:
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


def network_of(X: Array, Y: Array, spans: Spans, found: FoundUnits) -> Network:
    """Algorithm 2, steps 3 and 4: W from `X w = values`, A from the labels."""
    x, y = X / spans.size[:, None] / spans.feature_size, Y / spans.size[:, None]
    W = _least_squares(x, spans.Q @ found.linear.T).T
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    A = _least_squares(np.maximum(x @ W.T, 0.0), y).T
    W, A = correct(x, y, W, A)
    return Network(W / spans.feature_size, None, A, np.zeros(len(A)))


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


# ---------------------------------------------------------------- the recipe


def arbitrary_inputs(workspace: Workspace) -> Iterator[Candidate]:
    """Lemma 1 and Algorithm 2 on the samples to fit; one candidate."""
    X, Y = _with_inputs(*user_samples(workspace))
    spans = spans_of(X, Y)
    _check_units(workspace.units, spans.V.shape[1], Y.shape[1])
    patterns = _lemma_1(workspace, spans.V)
    found = _algorithm_2(workspace, spans, patterns)
    network = network_of(X, Y, spans, found)
    if workspace.problem.samples.y.ndim == 1:
        network = network.replace(output_weights=network.output_weights[0], output_bias=0.0)
    yield Candidate(
        workspace.standardisation.network_from_user(network), _evidence(found, len(patterns), X)
    )


def user_samples(workspace: Workspace) -> tuple[Array, Array]:
    """The samples to fit in the user's own coordinates, to the last digit where they are stored."""
    if workspace.source.size > MOST_ENUMERATED_SAMPLES:
        raise NoAnswer(
            f"The sign patterns of at most {MOST_ENUMERATED_SAMPLES} samples are enumerated, and "
            f'there are {workspace.source.size}: use method="lifting", which takes any inputs too, '
            'or method="expand-prune".'
        )
    samples, s = workspace.problem.samples, workspace.standardisation
    X = np.linalg.solve(s.whiten, samples.X.T).T + s.mean
    if workspace.source.fixed:
        raw, _ = workspace.source.rows(0, workspace.source.size)
        apart = cdist(samples.X, s.apply(raw))
        near = apart.min(axis=1) < SAME_SAMPLE
        X = np.where(near[:, None], raw[apart.argmin(axis=1)], X)
    return X, samples.y.reshape(len(X), -1)


def _with_inputs(X: Array, Y: Array) -> tuple[Array, Array]:
    """Without the samples x = 0, where a network without biases is zero whatever its weights."""
    empty = ~X.any(axis=1)
    if Y[empty].any():
        raise NoAnswer(
            "A sample with x = 0 has a label other than 0, so the network has biases, which this "
            'method does not take: use method="lifting".'
        )
    return X[~empty], Y[~empty]


def _check_units(units: int | None, rank: int, outputs: int) -> None:
    if rank == 0:
        raise NoAnswer("No sample to fit has a label other than 0: take more samples.")
    if units is not None and outputs < units:
        raise NoAnswer(
            f"{outputs} outputs are fewer than the {units} units asked for: use "
            'method="rank-deficient" (Gaussian inputs) or method="expand-prune".'
        )
    if units is not None and rank < units:
        raise NoAnswer(
            f"The labels have rank {rank}, fewer than the {units} units asked for (dependent "
            'output weights, or a unit that no sample activates): use method="rank-deficient" '
            '(Gaussian inputs) or method="expand-prune".'
        )
    if units is not None and rank > units:
        raise NoAnswer(
            f"The labels have rank {rank}, more than the {units} units asked for: there are more "
            'units, biases (use method="lifting") or noise (use method="rectified").'
        )
    if rank > MOST_ENUMERATED_UNITS:
        raise NoAnswer(
            f"The labels have rank {rank}, and the sign patterns of at most "
            f'{MOST_ENUMERATED_UNITS} units are enumerated: use method="lifting", or '
            'method="rectified" if the rank comes from noise.'
        )


def _lemma_1(workspace: Workspace, V: Array) -> AnyArray:
    """All sign patterns of the labels' span that some vector of it can have as its support."""
    D, member = distinct_directions(V)
    total, done = vertex_count(*D.shape), 0
    cost = (
        f"{total} vertices of {len(D)} distinct labels to look at, at most "
        f"{most_patterns(*D.shape)} patterns, a linear program for each that passes the rank tests"
    )
    with workspace.stage("patterns", cost):
        packed: list[AnyArray] = []
        for done, block in pattern_blocks(D):
            packed.append(block)
            workspace.progress("patterns", done / total, cost)
            if workspace.out_of_time:
                raise _out_of_time(f"{done} of {total} vertices were looked at for sign patterns")
        patterns = unpack(np.concatenate(packed), member)
        kept = supports(V, patterns)
        workspace.progress(
            "patterns", 1.0, f"{len(patterns)} patterns, {len(kept)} of them pass the rank test"
        )
    return kept


def _algorithm_2(workspace: Workspace, spans: Spans, patterns: AnyArray) -> FoundUnits:
    """Step 1: run through the patterns until there are as many independent units as dimensions."""
    units, programs, found = spans.V.shape[1], Programs(), FoundUnits.nothing(spans)
    with workspace.stage("programs", f"{len(patterns)} patterns to try"):
        for tried, on in enumerate(patterns):
            if workspace.out_of_time:
                raise _out_of_time(
                    f"{tried} of {len(patterns)} patterns were tried and {len(found)} of {units} "
                    "units found"
                )
            found = algorithm_1(spans, on, found, programs)
            workspace.progress(
                "programs",
                (tried + 1) / len(patterns),
                f"{programs.run} programs, {len(found)} of {units} units",
            )
            if len(found) == units:
                return found
    unclear = f", {programs.undecided} undecided" if programs.undecided else ""
    raise NoAnswer(
        f"Of {len(patterns)} sign patterns ({programs.run} linear programs{unclear}) only "
        f"{len(found)} independent ones belong to units without biases, and the labels have rank "
        f'{units}: for biases use method="lifting", for noise method="rectified", for fewer '
        'outputs than units method="expand-prune".'
    )


def _out_of_time(reached: str) -> NoAnswer:
    return NoAnswer(f"The budget was used up when {reached}: give more time with budget=.")


def _evidence(found: FoundUnits, patterns: int, X: Array) -> str:
    few, features = min(found.active), X.shape[1]
    text = (
        f"The labels have rank {len(found)}; of {patterns} sign patterns tried in turn the first "
        f"{len(found)} independent ones gave the units, the least active one on {few} of "
        f"{len(X)} samples."
    )
    if any(found.free):
        text += f" The samples leave {sum(found.free)} directions of the {features} weights open."
    return text
