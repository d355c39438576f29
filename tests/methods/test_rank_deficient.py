"""Fewer outputs than units: BJW19, Algorithm 7, and the opposite columns that it leaves out."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.methods.rank_deficient import algorithm_7


def problem(
    d: int, k: int, o: int, n: int, seed: int, columns: dict[int, float] | None = None
) -> tuple[pn.Network, Array, Array]:
    """`columns` replaces output columns by multiples of the first."""
    truth = pn.random_network(k, d, outputs=o, bias_scale=0.0, rng=seed)
    A = truth.output_weights.copy()
    for i, factor in (columns or {}).items():
        A[:, i] = factor * A[:, 0]
    truth = truth.replace(output_weights=A)
    return truth, *pn.sample(truth, n, rng=500 + seed)


def recover(X: Array, Y: Array, **options: object) -> pn.Recovery:
    return pn.recover(X, Y, method="rank-deficient", rng=9, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("d", "k", "o"), [(3, 3, 2), (6, 4, 2), (6, 5, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_exact_with_fewer_outputs_than_units(d: int, k: int, o: int, seed: int) -> None:
    truth, X, Y = problem(d, k, o, 20_000, seed)
    result = recover(X, Y)
    assert result.status is pn.Status.EXACT
    # Linear solves: over 50 seeds at most 1e-13.
    assert pn.parameter_error(result.network, truth) < 1e-11


@pytest.mark.parametrize("seed", range(4))
def test_units_are_found_in_what_others_leave(seed: int) -> None:
    """Of 8 units some are alone too rarely: they show once the others are subtracted."""
    truth, X, Y = problem(10, 8, 3, 20_000, seed, {1: -0.7} if seed % 2 else None)
    on = X @ truth.weights.T > 0
    alone = [int(np.sum(on[:, i] & (on.sum(axis=1) == 1))) for i in range(8)]
    assert min(alone) < 10 < max(alone)
    found = algorithm_7(X, Y, None, np.random.default_rng(1))
    # Over 50 seeds at most 2e-14.
    assert pn.parameter_error(found, truth) < 1e-10


@pytest.mark.parametrize("seed", range(4))
def test_opposite_columns_are_told_apart(seed: int) -> None:
    truth, X, Y = problem(5, 4, 2, 20_000, seed, {1: -0.7})
    found = algorithm_7(X, Y, None, np.random.default_rng(1))
    assert pn.parameter_error(found, truth) < 1e-10
    assert recover(X, Y).status is pn.Status.EXACT


def test_opposite_units_are_never_on_together() -> None:
    """`a relu(z) - a relu(-z)` is linear, but `a relu(z) - a' relu(-z)` is two pieces."""
    truth, X, _ = problem(4, 2, 2, 5000, 0, {1: -0.5})
    W = truth.weights.copy()
    W[1] = -W[0]
    pair = truth.replace(weights=W)
    found = algorithm_7(X, pair(X), None, np.random.default_rng(1))
    assert pn.parameter_error(found, pair) < 1e-10


def test_rare_single_units_are_found_among_all_samples() -> None:
    """In the samples drawn, 18,000, a unit is alone too rarely; in all 200,000 often enough."""
    truth = pn.Network(
        np.array([[1.0, 0, 0], [0.999, 0.0447, 0], [0, 0, 1.0]]), None, [[1.0, -1, 2], [0.5, 1, -1]]
    ).canonical()
    X = np.random.default_rng(0).standard_normal((200_000, 3))
    W = truth.weights
    alone = (X @ W.T > 0).sum(axis=1) == 1
    rarest = min(int(np.sum(alone & (X @ w > 0))) for w in W)
    assert rarest > 100
    result = recover(X, truth(X))
    assert result.success and pn.parameter_error(result.network, truth) < 1e-9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": {1: 0.7}}, "same direction"),
        ({"noise": 1e-6}, "No two samples have parallel labels"),
        ({"bias": 0.5}, "expand-prune"),
    ],
    ids=["parallel columns", "noise", "output bias"],
)
def test_violated_conditions_are_named(change: dict[str, object], words: str) -> None:
    _, X, Y = problem(5, 3, 2, 20_000, 0, change.get("columns"))  # type: ignore[arg-type]
    Y = Y + float(change.get("noise", 0.0)) * np.random.default_rng(3).standard_normal(Y.shape)
    result = recover(X, Y + float(change.get("bias", 0.0)))
    assert result.status is pn.Status.FAILED and words in result.message


def test_a_unit_that_is_never_alone_is_named() -> None:
    """Whenever the third unit is on, so is the first."""
    truth = pn.Network(np.array([[1.0, 0], [-1, 0], [1, 0.0]]), [0.0, 0, 0], np.eye(2, 3))
    A = np.array([[1.0, 0, 1], [0, 1, 2]])
    X = np.random.default_rng(0).standard_normal((2000, 2))
    h = np.maximum(X @ truth.weights.T + [0, 0, -0.5], 0)
    with pytest.raises(NoAnswer, match=r"hardly ever alone|same direction"):
        algorithm_7(X, h @ A.T, None, np.random.default_rng(1))


def test_one_output_is_refused_with_the_methods_that_serve() -> None:
    with pytest.raises(pn.InvalidInput, match=r"expand-prune.*biased-relu"):
        recover(np.zeros((10, 2)), np.zeros(10))


def test_repeated_samples_are_no_lines() -> None:
    """Twenty copies of each: their labels are parallel, which once went round for ever."""
    truth = pn.random_network(2, 3, outputs=3, bias_scale=0.0, rng=0)
    X = np.repeat(np.random.default_rng(0).standard_normal((40, 3)), 20, axis=0)
    result = pn.recover(X, truth(X), method="rank-deficient", rng=0)
    assert not result.success or pn.parameter_error(result.network, truth) < 1e-8
