"""Hard instances: satisfiability as the training problem of a network with two units.

BJW19, section 3. Deciding whether some W solves `alpha relu(W x_n) = y_n` for all n is NP-hard for
two units and one output (Theorem 2), by a reduction from reversible 6-SAT through *ReLU
separability* (Definition 5, Proposition 2): for sets P and Q of vectors find w, v with

    p.w <= 0 and p.v <= 0 for p in P,        relu(q.w) + relu(q.v) = 1 for q in Q.

The network problem is the same thing: samples P with label 0, samples Q with label 1, and output
weights alpha = (1, 1). Letters of the paper: its x, y are our w, v (the rows of W, its V), its
matrix X has samples as columns.

The construction, for variables u_1 .. u_n, in n + 2 features; e_i are the unit vectors:

1. e_i and -e_i in Q for i <= n: (w_i, v_i) = (1, -1) or (-1, 1). Unit w holds the truth values as
   signs, unit v those of the opposite assignment.
2. e_i and -2 e_i in Q for i = n + 1, n + 2: (w_i, v_i) = (1, -1/2) or (-1/2, 1); and
   e_{n+1} + e_{n+2} in Q: these two are not the same. So `w_{n+1} + w_{n+2} = 1/2`, and v alike.
3. A clause of s literals, with signs l_i, is not violated when `sum l_i w_i >= -(s - 1)` (the sum
   is -s or at least 2 - s). With step 2 that is `p.w <= 0` for p = (-l, -2 (s-1), -2 (s-1)) in P;
   s = 6 gives the paper's -10. The same p.v <= 0 says that the opposite assignment satisfies the
   clause too.

So the instance has a solution exactly when some assignment and its opposite both satisfy all
clauses. With output weights that are free (`free_output_weights`) one feature and the samples
+-e_{n+3} with label 1 are added, which force both output weights to be positive; the scale of a
unit moves into its weights.

Corrections to the text:

- Definition 4 calls a formula psi reversible when psi and psi-bar (every literal negated) are both
  satisfiable or both not. That holds for every formula, since an assignment satisfies psi when its
  opposite satisfies psi-bar, and the "without loss of generality" of Proposition 2, that psi
  contains the negation of each of its clauses, would then be wrong: `u_1` is satisfiable,
  `u_1 and not u_1` is not. What is needed, and what makes the proof work, is that psi and psi-bar
  have *the same* satisfying assignments. `reversible` makes such a formula from any other:
  `psi or psi-bar`, multiplied out into the clauses `c_i or not-c_j` (not-c: each literal of c
  negated), which is satisfiable exactly when psi is and has six literals a clause where psi has
  three: hence 6-SAT.
- Theorem 2 with free alpha: the solution for alpha = (1, 1) is `alpha_1 w`, not `w / alpha_1`; and
  A' has r + s + 2 columns, not r + s + 4.

Size: a clause gives a sample, each variable two, five more for step 2; a formula that is not
reversible as it stands has the square of its clauses first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
from scipy.optimize import linprog

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.networks.network import Network

Clause = tuple[int, ...]

_TOLERANCE = 1e-6
"""Convention: error of a label, over its size or 1, with which it counts as fitted: ten times what
HiGHS lets constraints be off."""
_PARALLEL = 1e-14
"""Derived: how far a cosine of opposite samples may be from -1: 45 roundings, as sums over features
have."""
_FEASIBLE, _INFEASIBLE = 0, 2
"""Derived: statuses of `scipy.optimize.linprog`."""


@dataclass(frozen=True, eq=False)
class Separability:
    """A formula as samples: a network of two units without biases fits them iff it is satisfiable.

    Samples are ordered as in the paper: clauses (label 0), then the rest (label 1).
    """

    X: Array
    """Inputs (n, features)."""
    y: Array
    """Labels (n,), 0 or 1."""
    output_weights: Array | None
    """(1, 1) where they are given with the problem, None where they are free."""
    variables: int
    clauses: tuple[Clause, ...]
    """The clauses that became samples: a reversible formula, satisfiable if the given one is."""

    def network(self, assignment: Sequence[bool]) -> Network:
        """The network that a satisfying assignment of `clauses` stands for."""
        if len(assignment) != self.variables:
            raise InvalidInput(
                f"The formula has {self.variables} variables, not {len(assignment)}: give a truth "
                "value for each."
            )
        w = np.where(np.asarray(assignment, dtype=bool), 1.0, -1.0)
        free = [] if self.output_weights is not None else [1.0]
        rows = [[*w, 1.0, -0.5, *free], [*-w, -0.5, 1.0, *(-f for f in free)]]
        return Network(rows, output_weights=[1.0, 1.0])

    def assignment(self, network: Network) -> tuple[bool, ...]:
        """The assignment that a network with two units that fits the samples stands for."""
        return tuple(bool(w > 0) for w in network.weights[0, : self.variables])


# ---------------------------------------------------------------- formulas


def negated(clause: Clause) -> Clause:
    """Every literal negated."""
    return tuple(-literal for literal in clause)


def reversible(cnf: Iterable[Clause]) -> tuple[Clause, ...]:
    """`psi or psi-bar` in clauses: satisfied by an assignment iff psi is by it or its opposite.

    A formula that contains the negation of each of its clauses is reversible as it stands and is
    returned unchanged, but for clauses that always hold.
    """
    clauses = _tidy(cnf)
    if {frozenset(c) for c in clauses} == {frozenset(negated(c)) for c in clauses}:
        return clauses
    return _tidy((*c, *negated(other)) for c in clauses for other in clauses)


def _tidy(cnf: Iterable[Clause]) -> tuple[Clause, ...]:
    """Each literal of a clause once, each clause once, none that holds whatever the assignment."""
    sets = {frozenset(c): None for c in cnf}
    return tuple(tuple(sorted(c, key=abs)) for c in sets if not any(-literal in c for literal in c))


def _checked(cnf: Any, variables: int | None) -> tuple[tuple[Clause, ...], int]:
    try:
        clauses = [list(clause) for clause in cnf]
    except TypeError:
        raise InvalidInput(
            "A formula is a list of clauses, each a list of numbers such as [[1, -2], [2, 3]]."
        ) from None
    literals = [literal for clause in clauses for literal in clause]
    for literal in literals:
        if not isinstance(literal, Integral) or isinstance(literal, bool) or literal == 0:
            raise InvalidInput(
                f"A literal is a whole number other than 0, i for variable i or -i for its "
                f"negation, not {literal!r}."
            )
    needed = max((abs(int(literal)) for literal in literals), default=0)
    if variables is None:
        variables = needed
    if variables < max(needed, 1):
        raise InvalidInput(
            f"The formula needs at least {max(needed, 1)} variables, not {variables}."
        )
    return tuple(tuple(int(literal) for literal in clause) for clause in clauses), variables


# ---------------------------------------------------------------- the reduction


def relu_separability(
    cnf: Iterable[Iterable[int]],
    variables: int | None = None,
    *,
    free_output_weights: bool = False,
) -> Separability:
    """Samples that a network of two units without biases fits iff the formula is satisfiable.

    Parameters
    ----------
    cnf
        Clauses of literals as in DIMACS files: i for variable i, -i for its negation. Any number of
        literals a clause; a formula that does not contain the negations of its clauses is made
        reversible first (`reversible`).
    variables
        Number of variables; the largest that occurs when left out.
    free_output_weights
        Whether the output weights are part of the question; otherwise they are (1, 1).
    """
    given, variables = _checked(cnf, variables)
    clauses = reversible(given)
    X, y = _samples(_clause_points(clauses, variables), _variable_points(variables))
    if free_output_weights:
        X, y = _with_free_output_weights(X, y)
    weights = None if free_output_weights else np.ones(2)
    return Separability(X, y, weights, variables, clauses)


def _clause_points(clauses: Sequence[Clause], variables: int) -> Array:
    """Step 3: the set P."""
    P = np.zeros((len(clauses), variables + 2))
    for p, clause in zip(P, clauses, strict=True):
        literals = np.array(clause, dtype=int)
        p[np.abs(literals) - 1] = -np.sign(literals)
        p[-2:] = -2.0 * (len(clause) - 1)
    return P


def _variable_points(variables: int) -> Array:
    """Steps 1 and 2: the set Q."""
    e = np.eye(variables + 2)
    return np.vstack([e[:-2], -e[:-2], e[-2:], -2 * e[-2:], e[-2:].sum(axis=0)])


def _samples(P: Array, Q: Array) -> tuple[Array, Array]:
    return np.vstack([P, Q]), np.concatenate([np.zeros(len(P)), np.ones(len(Q))])


def _with_free_output_weights(X: Array, y: Array) -> tuple[Array, Array]:
    """One feature more and its two signs with label 1: both output weights must be positive."""
    wider = np.pad(X, ((0, 2), (0, 1)))
    wider[-2:, -1] = 1.0, -1.0
    return wider, np.append(y, [1.0, 1.0])


# ---------------------------------------------------------------- the decision


def is_separable(X: Array, y: Array, output_weights: Any = None, units: int = 2) -> bool:
    """Whether a network without biases fits the samples exactly: see `separating_network`."""
    return separating_network(X, y, output_weights, units) is not None


def separating_network(
    X: Array, y: Array, output_weights: Any = None, units: int = 2
) -> Network | None:
    """A network `alpha relu(W x)` that fits the samples exactly, or None if there is none.

    With `output_weights` alpha (units,) given, W is the question; without, both are, and since a
    unit's scale can move into its weights only the signs of alpha matter: each is tried.

    For each choice of the units that are active on each sample the question is a linear program, so
    the answer is exact up to the solver's tolerance, in time exponential in the number of samples
    at worst. The search fixes the choice for one sample at a time, always one that the present
    program's solution does not fit, and goes back where a program has no solution.
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if output_weights is not None:
        return _PatternSearch(X, y, _nonzero(output_weights)).solve()
    for negative in range(units + 1):
        alpha = np.repeat([1.0, -1.0], [units - negative, negative])
        found = _PatternSearch(X, y, alpha).solve()
        if found is not None:
            return found
    return None


def _nonzero(output_weights: Any) -> Array:
    alpha = np.asarray(output_weights, dtype=float)
    if alpha.ndim != 1 or not alpha.all():
        raise InvalidInput("output_weights must be a list of numbers other than 0, one a unit.")
    return alpha


Active = tuple[bool, ...]


@dataclass(frozen=True)
class _PatternSearch:
    """Depth-first search over which units are active on which samples."""

    X: Array
    y: Array
    alpha: Array

    def solve(self) -> Network | None:
        pairs = self.opposite_samples()
        choices = _consistent([list(self.choices(y)) for y in self.y], pairs)
        if not all(choices):
            return None
        forced = {i: only[0] for i, only in enumerate(choices) if len(only) == 1}
        stack = [forced]
        while stack:
            fixed = stack.pop()
            W = self.program(fixed)
            if W is None:
                continue
            worst = self.worst_sample(W)
            if worst is None:
                return Network(W, output_weights=self.alpha)
            first = len(fixed) == len(forced)
            for active in choices[worst]:
                if not (first and self.is_exchanged(active)):
                    stack.append(
                        {**_implied(active, pairs[worst], choices), **fixed, worst: active}
                    )
        return None

    def opposite_samples(self) -> list[AnyArray]:
        """For each sample those in the opposite direction, where no unit is positive on both."""
        norm = np.linalg.norm(self.X, axis=1)
        inner, size = self.X @ self.X.T, np.outer(norm, norm)
        opposite = (inner < 0) & (inner <= (_PARALLEL - 1) * size)
        return [np.flatnonzero(row) for row in opposite]

    def choices(self, y: float) -> Iterator[Active]:
        """Sets of active units that can give the label.

        With active units of one sign the label has that sign. (Label 0 would make all active values
        0, which is the case of no active unit.)
        """
        for active in product([False, True], repeat=len(self.alpha)):
            signs = set(np.sign(self.alpha[list(active)]))
            if len(signs) == 2 or signs == {np.sign(y)} or (not signs and y == 0):
                yield active

    def is_exchanged(self, active: Active) -> bool:
        """Whether exchanging units, all alike as yet, makes another choice of this one."""
        return bool(np.all(self.alpha == self.alpha[0])) and list(active) != sorted(active)

    def worst_sample(self, W: Array) -> int | None:
        """The sample that is fitted worst, or None when all are fitted."""
        error = np.abs(np.maximum(self.X @ W.T, 0.0) @ self.alpha - self.y)
        error /= np.maximum(np.abs(self.y), 1.0)
        worst = int(np.argmax(error))
        return worst if error[worst] > _TOLERANCE else None

    def program(self, fixed: dict[int, Active]) -> Array | None:
        """Weights that fit the fixed samples, each with its active units."""
        d, units = self.X.shape[1], len(self.alpha)
        if not fixed:
            return np.zeros((units, d))
        rows = list(fixed)
        active = np.array([fixed[row] for row in rows])
        x = self.X[rows]
        sides = np.where(active, -1.0, 1.0)[:, :, None, None] * _one_unit(x, units)
        sums = (active * self.alpha)[:, :, None] * x[:, None, :]
        answer = linprog(
            np.zeros(units * d),
            sides.reshape(-1, units * d),
            np.zeros(len(rows) * units),
            sums.reshape(-1, units * d),
            self.y[rows],
            bounds=(None, None),
            method="highs",
        )
        if answer.status not in (_FEASIBLE, _INFEASIBLE):
            raise RuntimeError(f"HiGHS could not decide a linear program: {answer.message}")
        return np.reshape(answer.x, (units, d)) if answer.status == _FEASIBLE else None


def _disjoint(active: Active, choices: list[Active]) -> list[Active]:
    """The choices in which none of these units is active."""
    return [
        other for other in choices if not any(a and b for a, b in zip(active, other, strict=True))
    ]


def _consistent(choices: list[list[Active]], pairs: list[AnyArray]) -> list[list[Active]]:
    """Without the choices that leave an opposite sample none."""
    return [
        [active for active in own if all(_disjoint(active, choices[j]) for j in opposite)]
        for own, opposite in zip(choices, pairs, strict=True)
    ]


def _implied(active: Active, opposite: AnyArray, choices: list[list[Active]]) -> dict[int, Active]:
    """Choices for opposite samples that this one leaves as the only ones."""
    left = {int(j): _disjoint(active, choices[j]) for j in opposite}
    return {j: only[0] for j, only in left.items() if len(only) == 1}


def _one_unit(x: AnyArray, units: int) -> Array:
    """(n, units, units, d): x in the place of one unit's weights, zeros in those of the others."""
    return np.asarray(np.eye(units)[None, :, :, None] * x[:, None, None, :])
