"""Hard instances: formulas as networks, against brute force on both sides."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

import provenet as pn
from provenet.datasets.separability import (
    is_separable,
    negated,
    relu_separability,
    reversible,
    separating_network,
)


def holds(cnf, assignment):
    return all(any((literal > 0) == assignment[abs(literal) - 1] for literal in c) for c in cnf)


def solutions(cnf, variables):
    return [a for a in product([False, True], repeat=variables) if holds(cnf, a)]


def random_formula(variables, clauses, literals, seed):
    rng = np.random.default_rng(seed)
    return [
        [
            int(v * s)
            for v, s in zip(
                rng.permutation(variables)[:literals] + 1,
                rng.choice([-1, 1], literals),
                strict=True,
            )
        ]
        for _ in range(clauses)
    ]


def agree(cnf, variables, **options):
    """Whether the formula is satisfiable, once the network problem has said the same."""
    instance = relu_separability(cnf, variables, **options)
    network = separating_network(instance.X, instance.y, instance.output_weights)
    satisfiable = bool(solutions(cnf, variables))
    assert (network is not None) == satisfiable
    if network is not None:
        assignment = instance.assignment(network)
        opposite = tuple(not value for value in assignment)
        assert holds(instance.clauses, assignment) and holds(instance.clauses, opposite)
        assert holds(cnf, assignment) or holds(cnf, opposite)
        np.testing.assert_allclose(network(instance.X), instance.y, atol=1e-6)  # HiGHS's tolerance
    return satisfiable


@pytest.mark.parametrize(
    ("variables", "literals", "clauses", "seeds"),
    [(2, 1, 2, 8), (3, 1, 3, 8), (2, 2, 4, 10), (3, 2, 6, 12), (3, 3, 18, 8), (4, 3, 24, 4)],
)
def test_brute_force_and_the_network_agree(variables, literals, clauses, seeds):
    answers = {
        agree(random_formula(variables, clauses, literals, seed), variables)
        for seed in range(seeds)
    }
    assert answers == {True, False}


@pytest.mark.parametrize("seed", range(4))
def test_reversible_formulas_with_six_literals(seed):
    """As printed: six literals a clause, the negation of each clause among the clauses."""
    half = random_formula(6, 10, 6, seed)
    cnf = half + [list(negated(tuple(clause))) for clause in half]
    instance = relu_separability(cnf)
    assert {frozenset(c) for c in instance.clauses} == {frozenset(c) for c in cnf}
    assert agree(cnf, 6)


def test_an_unsatisfiable_reversible_formula_with_six_literals():
    every = [
        [s * v for s, v in zip(signs, range(1, 7), strict=True)]
        for signs in product([1, -1], repeat=6)
    ]
    assert len(relu_separability(every).clauses) == 64
    assert not agree(every, 6)


def test_the_printed_clause_has_the_printed_point():
    clause = (1, -2, 3, 4, -5, 6)
    instance = relu_separability([clause, negated(clause)])
    point = [-1, 1, -1, -1, 1, -1, -10, -10]
    np.testing.assert_array_equal(instance.X[0], point)
    assert instance.y[0] == 0
    np.testing.assert_array_equal(instance.output_weights, [1, 1])
    assert instance.X.shape == (2 + 2 * 6 + 5, 6 + 2)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("free", [False, True])
def test_networks_of_assignments_fit_exactly_when_they_satisfy(seed, free):
    cnf = random_formula(3, 7, 3, seed)
    instance = relu_separability(cnf, free_output_weights=free)
    for assignment in product([False, True], repeat=3):
        network = instance.network(assignment)
        fits = np.array_equal(network(instance.X), instance.y)
        assert fits == holds(instance.clauses, assignment)
        assert instance.assignment(network) == assignment


@pytest.mark.parametrize("cnf", [[[1]], [[1], [-1]], [[1, 2], [-1], [-2]], [[-1, 2], [1, -2]]])
def test_free_output_weights_change_nothing(cnf):
    variables = max(abs(literal) for clause in cnf for literal in clause)
    satisfiable = agree(cnf, variables, free_output_weights=True)
    instance = relu_separability(cnf, free_output_weights=True)
    assert instance.output_weights is None
    assert is_separable(instance.X, instance.y, [2.0, 0.25]) == satisfiable
    assert not is_separable(instance.X, instance.y, [1.0, -1.0])
    assert not is_separable(instance.X, instance.y, [-1.0, -1.0])


# ---------------------------------------------------------------- reversible formulas


def test_definition_4_as_printed_holds_for_every_formula():
    for seed in range(10):
        cnf = random_formula(3, 9, 2, seed)
        reversed_ = [negated(tuple(clause)) for clause in cnf]
        assert bool(solutions(cnf, 3)) == bool(solutions(reversed_, 3))
    # And does not allow to add the negated clauses: this one is satisfiable without them only.
    assert solutions([[1]], 1) and not solutions([[1], [-1]], 1)


@pytest.mark.parametrize("literals", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_reversible_formulas_have_both_an_assignment_and_its_opposite(literals, seed):
    cnf = random_formula(4, 8, literals, seed)
    own = set(solutions(cnf, 4))
    opposite = {tuple(not value for value in a) for a in own}
    made = reversible(tuple(map(tuple, cnf)))
    assert set(solutions(made, 4)) == own | opposite
    assert all(len(clause) <= 2 * literals for clause in made)


def test_a_reversible_formula_stays_as_it_is():
    cnf = ((1, 2, -3), (-1, -2, 3))
    assert reversible(cnf) == cnf
    assert reversible(((1, 1, 2), (-2, -1), (3, -3))) == ((1, 2), (-1, -2))


def test_degenerate_formulas():
    assert agree([], 1)
    assert not agree([[]], 1)
    assert not agree([[1], []], 1)
    assert agree([[1, -1]], 1)
    assert agree([[2]], 3)


@pytest.mark.parametrize(
    ("cnf", "variables"),
    [([[0]], None), ([[1.5]], None), ([[True]], None), ([1, 2], None), ([[3]], 2), ([], None)],
)
def test_bad_formulas_are_named(cnf, variables):
    with pytest.raises(pn.InvalidInput) as error:
        relu_separability(cnf, variables)
    assert str(error.value).endswith(".")


# ---------------------------------------------------------------- the decision


def separable_by_enumeration(X, y, alpha):
    """Every set of active units on every sample, one linear program each."""
    n, d = X.shape
    units = len(alpha)
    for active in product(product([0, 1], repeat=units), repeat=n):
        on = np.array(active)
        equal = np.concatenate([a * w * X for a, w in zip(on.T[:, :, None], alpha, strict=True)], 1)
        side = np.kron(np.eye(units), np.ones((n, 1))) @ np.kron(np.eye(units), np.ones((1, d)))
        side = side * np.tile(np.vstack([X] * units), units)
        side *= np.where(on.T.reshape(-1, 1) == 1, -1.0, 1.0)
        answer = linprog(
            np.zeros(units * d),
            side,
            np.zeros(units * n),
            equal,
            y,
            bounds=(None, None),
            method="highs",
        )
        if answer.status == 0:
            return True
    return False


@pytest.mark.parametrize("alpha", [(1.0, 1.0), (1.0, -2.0), (-1.0,)])
def test_the_search_agrees_with_trying_every_activity(alpha):
    answers = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.integers(-1, 2, (3, 2)).astype(float)
        y = rng.integers(-1 if min(alpha) < 0 else 0, 3 if max(alpha) > 0 else 1, 3).astype(float)
        answers.append(is_separable(X, y, alpha))
        assert answers[-1] == separable_by_enumeration(X, y, alpha)
    assert set(answers) == {True, False}


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_a_network_are_found_separable(seed):
    truth = pn.random_network(2, 3, bias_scale=0.0, rng=seed)
    X = np.random.default_rng(seed + 100).standard_normal((8, 3))
    network = separating_network(X, truth(X), truth.output_weights)
    np.testing.assert_allclose(network(X), truth(X), atol=1e-6)
    assert is_separable(X, truth(X))


def test_output_weights_of_zero_are_refused():
    with pytest.raises(pn.InvalidInput, match="other than 0"):
        is_separable(np.eye(2), np.ones(2), [1.0, 0.0])
