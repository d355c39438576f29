"""Fewer outputs than units: BJW19, Algorithm 7, and the opposite columns that it leaves out."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.methods.rank_deficient import algorithm_7, network_behind


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
    found = network_behind(X, Y, np.random.default_rng(1))
    # Over 50 seeds at most 2e-14.
    assert pn.parameter_error(found, truth) < 1e-10


@pytest.mark.parametrize("seed", range(4))
def test_opposite_columns_are_told_apart(seed: int) -> None:
    truth, X, Y = problem(5, 4, 2, 20_000, seed, {1: -0.7})
    found = network_behind(X, Y, np.random.default_rng(1))
    assert pn.parameter_error(found, truth) < 1e-10
    assert recover(X, Y).status is pn.Status.EXACT


def test_opposite_units_are_never_on_together() -> None:
    """`a relu(z) - a relu(-z)` is linear, but `a relu(z) - a' relu(-z)` is two pieces."""
    truth, X, _ = problem(4, 2, 2, 5000, 0, {1: -0.5})
    W = truth.weights.copy()
    W[1] = -W[0]
    pair = truth.replace(weights=W)
    found = network_behind(X, pair(X), np.random.default_rng(1))
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


@pytest.mark.parametrize(("bias_scale", "c"), [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 300.0)])
@pytest.mark.parametrize("opposite", [False, True])
def test_biases_and_an_output_bias_are_recovered(
    bias_scale: float, c: float, opposite: bool
) -> None:
    for seed in range(2):
        truth, X, _ = problem(4, 3, 2, 4000, seed, {1: -0.7} if opposite else None)
        rng = np.random.default_rng(seed)
        truth = truth.replace(
            biases=rng.uniform(-bias_scale, bias_scale, 3), output_bias=c * rng.standard_normal(2)
        )
        result = recover(X, truth(X))
        assert result.status is pn.Status.EXACT
        # Linear solves on labels less c: over 50 seeds at most 5e-14 of the size of c or of 1.
        # (With both, in 4 of 50 no sample has all units off: c shows on none, and it is said.)
        assert pn.parameter_error(result.network, truth) < 1e-10
        printed = recover(X, truth(X), faithful=True, refine=False)
        assert printed.status is pn.Status.FAILED
        # Without c lines are those of units, and their biases are the reason.
        assert ("output bias" in printed.message) == bool(c)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": {1: 0.7}}, "same direction"),
        ({"columns": {1: 0.7}, "biases": 1.0, "bias": 0.5}, "same direction"),
        ({"noise": 1e-6}, "samples have parallel labels"),
        ({"biases": 4.0, "bias": 0.5}, "an output bias that no sample shows alone"),
        ({"activation": "relu2"}, "no linear function"),
    ],
    ids=["parallel columns", "and biases", "noise", "output bias", "another activation"],
)
def test_violated_conditions_are_named(change: dict[str, object], words: str) -> None:
    """Each reason, and only where it is so."""
    truth, X, _ = problem(5, 3, 2, 20_000, 0, change.get("columns"))  # type: ignore[arg-type]
    truth = truth.replace(
        biases=np.full(3, float(change.get("biases", 0.0))),
        output_bias=np.full(2, float(change.get("bias", 0.0))),
        activation=change.get("activation", "relu"),
    )
    Y = truth(X)
    Y = Y + float(change.get("noise", 0.0)) * np.random.default_rng(3).standard_normal(Y.shape)
    result = recover(X, Y)
    assert result.status is pn.Status.FAILED and words in result.message
    assert ("same direction" in result.message) == ("columns" in change)


def test_a_unit_that_is_never_alone_shows_in_what_the_first_leaves() -> None:
    """Whenever the third unit is on, so is the first."""
    A = np.array([[1.0, 0, 1], [0, 1, 2]])
    truth = pn.Network(np.array([[1.0, 0], [-1, 0], [1, 0.0]]), [0.0, 0, -0.5], A)
    X = np.random.default_rng(0).standard_normal((2000, 2))
    found = network_behind(X, truth(X), np.random.default_rng(1))
    assert pn.parameter_error(found, truth) < 1e-10


# ---------------------------------------------------------------- as printed


def faithful(X: Array, Y: Array, **options: object) -> pn.Recovery:
    return recover(X, Y, faithful=True, refine=False, **options)


@pytest.mark.parametrize("seed", range(2))
def test_algorithm_7_as_printed(seed: int) -> None:
    truth, X, Y = problem(5, 3, 2, 4000, seed)
    for units in (None, 3):
        result = faithful(X, Y, units=units)
        assert result.status is pn.Status.EXACT
        assert pn.parameter_error(result.network, truth) < 1e-11  # as above


def test_as_printed_nothing_is_subtracted_and_no_pair_told_apart() -> None:
    """What the default goes on to find, the printed algorithm misses, and it is said."""
    _, X, Y = problem(10, 8, 3, 20_000, 0)
    few = algorithm_7(X, Y, None, np.random.default_rng(1))
    assert 0 < few.units < 8  # the others are on alone too rarely
    result = faithful(X, Y)
    assert result.status is pn.Status.FAILED and result.network.units == few.units
    assert "8 units" in faithful(X, Y, units=8).message
    _, X, Y = problem(5, 3, 2, 4000, 1, {1: -0.7})
    assert "no linear function" in faithful(X, Y).message


def test_one_output_is_refused_with_the_methods_that_serve() -> None:
    with pytest.raises(pn.InvalidInput, match=r"needs 2 outputs or more.*expand-prune"):
        recover(np.zeros((10, 2)), np.zeros(10))


def test_repeated_samples_are_no_lines() -> None:
    """Twenty copies of each: their labels are parallel, which once went round for ever."""
    truth = pn.random_network(2, 3, outputs=3, bias_scale=0.0, rng=0)
    X = np.repeat(np.random.default_rng(0).standard_normal((40, 3)), 20, axis=0)
    result = pn.recover(X, truth(X), method="rank-deficient", rng=0)
    assert not result.success or pn.parameter_error(result.network, truth) < 1e-8
