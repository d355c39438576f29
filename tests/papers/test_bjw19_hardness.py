"""The reduction from satisfiability (BJW19, Theorem 2), against brute force."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks" / "papers"))

import bjw19_hardness as hardness

Cnf = list[tuple[int, ...]]


def solutions(cnf: Cnf, variables: int) -> set[tuple[bool, ...]]:
    return {
        values
        for values in product([False, True], repeat=variables)
        if all(any((literal > 0) == values[abs(literal) - 1] for literal in c) for c in cnf)
    }


def random_formula(variables: int, clauses: int, literals: int, seed: int) -> Cnf:
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(variables)[:literals] + 1 for _ in range(clauses)]
    return [tuple(int(v) for v in row * rng.choice([-1, 1], literals)) for row in rows]


@pytest.mark.parametrize(
    ("variables", "literals", "clauses", "seeds"), [(2, 1, 2, 8), (2, 2, 4, 8), (3, 2, 8, 8)]
)
def test_brute_force_and_the_network_agree(
    variables: int, literals: int, clauses: int, seeds: int
) -> None:
    answers = set()
    for seed in range(seeds):
        cnf = random_formula(variables, clauses, literals, seed)
        X, y = hardness.relu_separability(cnf, variables)
        network = hardness.separating_network(X, y, [1.0, 1.0])
        own = solutions(cnf, variables)
        assert (network is not None) == bool(own)
        answers.add(bool(own))
        if network is not None:
            values = hardness.assignment_of(network, variables)
            assert values in own or tuple(not value for value in values) in own
            np.testing.assert_allclose(network(X), y, atol=1e-6)  # HiGHS's tolerance
    assert answers == {True, False}


def test_the_printed_clause_has_the_printed_point() -> None:
    clause = (1, -2, 3, 4, -5, 6)
    X, y = hardness.relu_separability([clause, hardness.negated(clause)], 6)
    np.testing.assert_array_equal(X[0], [-1, 1, -1, -1, 1, -1, -10, -10])
    assert y[0] == 0 and X.shape == (2 + 2 * 6 + 5, 6 + 2)


def test_definition_4_as_printed_holds_for_every_formula() -> None:
    for seed in range(10):
        cnf = random_formula(3, 9, 2, seed)
        assert bool(solutions(cnf, 3)) == bool(solutions([*map(hardness.negated, cnf)], 3))
    # And does not allow to add the negated clauses: this one is satisfiable without them only.
    assert solutions([(1,)], 1) and not solutions([(1,), (-1,)], 1)


@pytest.mark.parametrize("literals", [1, 2, 3])
def test_reversible_formulas_have_both_an_assignment_and_its_opposite(literals: int) -> None:
    for seed in range(5):
        cnf = random_formula(4, 8, literals, seed)
        own = solutions(cnf, 4)
        made = hardness.reversible(cnf)
        assert solutions([*made], 4) == own | {tuple(not v for v in values) for values in own}
        assert all(len(clause) <= 2 * literals for clause in made)
        assert hardness.reversible(made) == made


@pytest.mark.parametrize("cnf", [[(1,)], [(1, 2)], [(-1, 2), (1, -2)]])
def test_theorem_2_with_free_alpha_multiplies(cnf: list[tuple[int, ...]]) -> None:
    """`alpha_1 relu(x.p) = relu(alpha_1 x.p)`: with (1, 1) alpha x solves it, not x / alpha."""
    variables = max(abs(literal) for clause in cnf for literal in clause)
    X, y = hardness.relu_separability(cnf, variables)
    free_X, free_y = hardness.relu_separability(cnf, variables, free_output_weights=True)
    assert len(free_X) == len(X) + 2  # r + s + 2 columns, not r + s + 4
    alpha = np.array([2.0, 0.25])
    network = hardness.separating_network(free_X, free_y, alpha)
    assert network is not None
    V = network.weights[:, :-1]

    def solves(V: np.ndarray) -> bool:
        # HiGHS's tolerance, times alpha.
        return np.allclose(np.maximum(X @ V.T, 0).sum(axis=1), y, rtol=0, atol=1e-5)

    assert solves(alpha[:, None] * V) and not solves(V / alpha[:, None])
    assert hardness.separating_network(X, y, [1.0, 1.0]) is not None
