"""Satisfiability as the training problem of a network with two units (BJW19, section 3).

Deciding whether some W solves `alpha relu(W x_n) = y_n` for all n is NP-hard for two units and one
output (Theorem 2), by a reduction from reversible 6-SAT through *ReLU separability* (Definition 5,
Proposition 2): for sets P and Q of vectors find w, v with

    p.w <= 0 and p.v <= 0 for p in P,        relu(q.w) + relu(q.v) = 1 for q in Q.

That is the network problem with samples P of label 0, samples Q of label 1 and alpha = (1, 1). The
construction, for variables u_1 .. u_n, in n + 2 features; e_i are the unit vectors:

1. e_i and -e_i in Q for i <= n: (w_i, v_i) = (1, -1) or (-1, 1). Unit w holds the truth values as
   signs, unit v those of the opposite assignment.
2. e_i and -2 e_i in Q for i = n + 1, n + 2: (w_i, v_i) = (1, -1/2) or (-1/2, 1); and
   e_{n+1} + e_{n+2} in Q: these two are not the same. So `w_{n+1} + w_{n+2} = 1/2`, and v alike.
3. A clause of s literals, with signs l_i, is not violated when `sum l_i w_i >= -(s - 1)`. With step
   2 that is `p.w <= 0` for p = (-l, -2 (s-1), -2 (s-1)) in P; s = 6 gives the paper's -10. The same
   p.v <= 0 says that the opposite assignment satisfies the clause too.

So the instance has a solution exactly when some assignment and its opposite both satisfy all
clauses. Where alpha is free one feature and the samples +-e_{n+3} of label 1 are added, which force
both output weights to be positive; the scale of a unit moves into its weights.

Corrections to the text. Definition 4 calls psi reversible when psi and psi-bar (every literal
negated) are both satisfiable or both not. That holds for every formula; what the proof needs is
that both have *the same* satisfying assignments. `reversible` makes such a formula from any other:
`psi or psi-bar` in clauses, satisfiable exactly when psi is, with six literals a clause where psi
has three. In Theorem 2 with free alpha the solution for (1, 1) is `alpha_1 w`, not `w / alpha_1`,
and A' has r + s + 2 columns, not r + s + 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
from scipy.optimize import linprog

import provenet as pn
from provenet.common.typing import Array

Clause = tuple[int, ...]
"""Literals as in DIMACS files: i for variable i, -i for its negation."""


def negated(clause: Clause) -> Clause:
    return tuple(-literal for literal in clause)


def reversible(cnf: Iterable[Clause]) -> tuple[Clause, ...]:
    """`psi or psi-bar` in clauses: satisfied by an assignment iff psi is by it or its opposite.

    A formula that contains the negation of each of its clauses stays as it is.
    """
    clauses = _tidy(cnf)
    if {frozenset(c) for c in clauses} == {frozenset(negated(c)) for c in clauses}:
        return clauses
    return _tidy((*c, *negated(other)) for c in clauses for other in clauses)


def _tidy(cnf: Iterable[Clause]) -> tuple[Clause, ...]:
    """Each literal of a clause once, each clause once, none that holds whatever the assignment."""
    sets = dict.fromkeys(frozenset(clause) for clause in cnf)
    return tuple(tuple(sorted(c, key=abs)) for c in sets if not any(-literal in c for literal in c))


def relu_separability(
    cnf: Iterable[Clause], variables: int, free_output_weights: bool = False
) -> tuple[Array, Array]:
    """Samples X, y that two units without biases fit iff the formula, made reversible, holds."""
    clauses, e = reversible(cnf), np.eye(variables + 2)
    P = np.zeros((len(clauses), variables + 2))
    for p, clause in zip(P, clauses, strict=True):
        literals = np.array(clause, dtype=int)
        p[np.abs(literals) - 1] = -np.sign(literals)
        p[-2:] = -2.0 * (len(clause) - 1)
    Q = np.vstack([e[:-2], -e[:-2], e[-2:], -2 * e[-2:], e[-2:].sum(axis=0)])
    X, y = np.vstack([P, Q]), np.repeat([0.0, 1.0], [len(P), len(Q)])
    if free_output_weights:
        X, y = np.pad(X, ((0, 2), (0, 1))), np.append(y, [1.0, 1.0])
        X[-2:, -1] = 1.0, -1.0
    return X, y


def assignment_of(network: pn.Network, variables: int) -> tuple[bool, ...]:
    """The assignment that a network which fits the samples stands for."""
    return tuple(bool(w > 0) for w in network.weights[0, :variables])


def separating_network(X: Array, y: Array, alpha: Sequence[float]) -> pn.Network | None:
    """A network `alpha relu(W x)` that fits the samples exactly, or None if there is none.

    Given the units that are active on each sample the problem is a linear program, so the answer is
    exact up to the solver's tolerance, in time exponential in the number of samples at worst. The
    search fixes the active units of one sample at a time, always one that the present program's
    solution does not fit, and goes back where a program has no solution.
    """
    a, d, stack = np.asarray(alpha, dtype=float), X.shape[1], [dict[int, tuple[bool, ...]]()]
    # The label 0 leaves units of one sign no choice, and a positive one needs one that is active.
    alike = bool((a > 0).all())
    choices = [
        [on for on in product([False, True], repeat=len(a)) if not alike or any(on) == bool(label)]
        for label in y
    ]
    stack[0].update({i: own[0] for i, own in enumerate(choices) if len(own) == 1})
    while stack:
        fixed = stack.pop()
        rows, active = list(fixed), np.array([*fixed.values()]).reshape(-1, len(a))
        x = X[rows]
        blocks = np.eye(len(a))[None, :, :, None] * x[:, None, None, :]
        sides = np.where(active, -1.0, 1.0)[:, :, None, None] * blocks
        sums = (active * a)[:, :, None] * x[:, None, :]
        answer = linprog(
            np.zeros(a.size * d),
            sides.reshape(-1, a.size * d),
            np.zeros(len(rows) * a.size),
            sums.reshape(-1, a.size * d),
            y[rows],
            bounds=(None, None),
        )
        if answer.status == 2:  # infeasible
            continue
        W = answer.x.reshape(a.size, d)
        error = np.abs(np.maximum(X @ W.T, 0.0) @ a - y) / np.maximum(np.abs(y), 1.0)
        worst = int(np.argmax(error))
        if error[worst] < 1e-6:  # ten times what HiGHS lets constraints be off
            return pn.Network(W, output_weights=a)
        stack += [{**fixed, worst: own} for own in choices[worst]]
    return None
