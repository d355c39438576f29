"""Corrupted labels are found and repaired: matrices built from their answer."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import AnyArray, Array
from provenet.fitting.least_squares import Ended
from provenet.fitting.low_rank import (
    RobustPCA,
    Separation,
    decode,
    principal_component_pursuit,
    robust_pca,
)


def labels(
    units: int, outputs: int, n: int, seed: int, *, output_bias: float = 0.0, noise: float = 0.0
) -> Array:
    """Labels of a random network of ReLU units on Gaussian inputs."""
    network = pn.random_network(units, 12, outputs=outputs, bias_scale=0.0, rng=seed)
    c = output_bias * np.random.default_rng([seed, 1]).standard_normal(outputs)
    return pn.sample(network.replace(output_bias=c), n, noise=noise, rng=300 + seed)[1]


def corrupt(Y: Array, share: float, size: float, seed: int) -> tuple[Array, AnyArray]:
    rng = np.random.default_rng([seed, 2])
    hit = rng.random(Y.shape) < share
    return np.where(hit, size * rng.standard_normal(Y.shape), Y), hit


def take_apart(Y: Array) -> RobustPCA:
    return robust_pca(Y, np.random.default_rng(77))


@pytest.mark.parametrize(
    ("units", "outputs", "share", "size", "output_bias"),
    [
        (5, 40, 0.1, 100.0, 0.0),
        (5, 40, 0.1, 1.0, 0.0),
        (5, 40, 0.3, 100.0, 1.0),
        (5, 12, 0.1, 100.0, 0.0),
        (1, 5, 0.1, 10.0, 0.0),
    ],
    ids=["far", "near", "much", "few outputs", "one unit"],
)
def test_exact_from_corrupted_entries(
    units: int, outputs: int, share: float, size: float, output_bias: float
) -> None:
    L = labels(units, outputs, 800, 0, output_bias=output_bias)
    Y, hit = corrupt(L, share, size, 0)
    found = take_apart(Y)
    kept = found.determined
    assert found.status is Separation.SEPARATED and found.ended is Ended.CONVERGED
    assert found.rank == units + (output_bias != 0)
    assert kept.mean() > 0.95
    np.testing.assert_array_equal(found.corrupted[kept], hit[kept])
    assert found.corrupted[~kept].all()
    # Least squares on clean entries: over 20 seeds at most 7e-13, with the fewest spare entries.
    np.testing.assert_allclose(found.low_rank[kept], L[kept], rtol=0, atol=1e-9)
    assert not found.noise.any() and found.gap > 1e6


def test_outputs_of_very_different_size_and_rows_beyond_those_of_the_column_space() -> None:
    scales = np.logspace(-6, 6, 20)
    L = labels(4, 20, 2000, 5)
    Y, hit = corrupt(L, 0.1, 3.0, 5)
    found = robust_pca(Y * scales, np.random.default_rng(77), rows_for_space=750)
    np.testing.assert_array_equal(found.corrupted, hit)
    np.testing.assert_allclose(found.low_rank / scales, L, rtol=0, atol=1e-9)


def test_heavy_tails_are_no_corruption() -> None:
    """Entries far beyond the usual size that agree with the others of their row are clean."""
    rng = np.random.default_rng(6)
    L = rng.standard_t(2, (1000, 3)) @ rng.standard_normal((3, 12))
    assert (np.abs(L) > 50).any()
    Y, hit = corrupt(L, 0.05, 50.0, 6)
    found = take_apart(Y)
    kept = found.determined
    assert kept.mean() > 0.99
    np.testing.assert_array_equal(found.corrupted[kept], hit[kept])


def test_a_row_with_too_few_clean_entries_is_not_guessed() -> None:
    L = labels(3, 12, 2000, 7)
    Y, hit = corrupt(L, 0.05, 50.0, 7)
    Y[:20, :10] += 1.0 + np.random.default_rng(8).random((20, 10))
    found = take_apart(Y)
    assert not found.determined[:20].any() and found.corrupted[:20].all()
    assert found.determined[20:].mean() > 0.99
    np.testing.assert_array_equal(
        found.corrupted[20:][found.determined[20:]], hit[20:][found.determined[20:]]
    )


def test_noise_is_told_from_corruption() -> None:
    L = labels(5, 30, 1000, 9)
    noise = np.random.default_rng(10).standard_normal(L.shape)
    Y, hit = corrupt(L + 0.01 * noise, 0.1, 100.0, 9)
    found = take_apart(Y)
    assert found.status is Separation.SEPARATED and found.rank == 5
    # Outputs of small size carry more of the noise of z than the formula allows for.
    np.testing.assert_allclose(found.noise, 0.01, rtol=0.5)
    # Corruption within five standard deviations of the truth passes: 0.1 * 0.1 / 250 = 4e-5.
    assert np.mean(found.corrupted != hit) < 2e-4


@pytest.mark.parametrize(
    ("units", "outputs", "share", "size", "status"),
    [
        (8, 6, 0.1, 100.0, Separation.NO_LOW_RANK),
        (12, 10, 0.0, 1.0, Separation.NO_LOW_RANK),
        (4, 12, 0.5, 1.0, Separation.NO_LOW_RANK),
    ],
    ids=["more units than outputs", "without corruption too", "half of all entries"],
)
def test_no_low_rank_is_said(
    units: int, outputs: int, share: float, size: float, status: Separation
) -> None:
    Y, _ = corrupt(labels(units, outputs, 1500, 11), share, size, 11)
    assert take_apart(Y).status is status


def test_an_output_that_is_corrupted_throughout_is_not_repaired() -> None:
    L = labels(3, 12, 2000, 12)
    L[:, 4] = np.random.default_rng(13).standard_normal(2000)
    assert take_apart(L).status is Separation.UNCHECKED_OUTPUT


def test_most_rows_without_enough_clean_entries() -> None:
    """Three clean entries of a row fit anything of rank three."""
    Y = labels(3, 12, 500, 15)
    lost = np.arange(500) % 9 > 3
    rng = np.random.default_rng(16)
    for i in np.flatnonzero(lost):
        Y[i, rng.permutation(12)[:9]] += 1000 * rng.standard_normal(9)
    assert take_apart(Y).status is Separation.TOO_CORRUPTED


def test_decoding_finds_the_sparsest_errors() -> None:
    """12 of 40 entries of every row wrong: beyond the fit of least absolute residuals alone."""
    rng = np.random.default_rng(17)
    V = np.linalg.qr(rng.standard_normal((40, 5)))[0]
    Z = rng.standard_normal((200, 5))
    Y = Z @ V.T
    for row in Y:
        row[rng.permutation(40)[:12]] += 100 * rng.standard_normal(12)
    found = decode(Y, np.ones(Y.shape, bool), V)
    # A little of the corruption is left until the clean entries alone are fitted.
    right = np.abs(found - Z).max(axis=1) < 1e-6
    assert right.mean() > 0.97


# ---------------------------------------------------------------- principal component pursuit


def parts(n: int, columns: int, rank: int, share: float, seed: int) -> tuple[Array, Array]:
    """A matrix of low rank, incoherent, and a sparse one of the same size."""
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, columns))
    hit = rng.random(L.shape) < share
    return L, np.where(hit, 5 * rng.standard_normal(L.shape), 0.0)


def wrong(found: Array, truth: Array) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


@pytest.mark.parametrize("seed", range(5))
def test_exact_where_the_theorem_holds(seed: int) -> None:
    """Rank 3 of 100 columns and 5% corrupted: well inside the region of exact recovery."""
    L, S = parts(200, 100, 3, 0.05, seed)
    found = principal_component_pursuit(L + S)
    assert found.ended is Ended.CONVERGED and found.rank == 3
    # The augmented Lagrangian stops at 1e-7 of the labels; over 20 seeds the worst was 1e-7.
    assert wrong(found.low_rank, L) < 1e-5
    np.testing.assert_array_equal(np.abs(found.sparse) > 1e-3, np.abs(S) > 1e-3)


def test_missing_entries_cost_nothing() -> None:
    """Entries that are not usable may hold anything: the same answer, whatever is in them."""
    L, S = parts(200, 100, 3, 0.05, 7)
    usable: AnyArray = S == 0
    found = principal_component_pursuit(L + 1e6 * S, usable)
    assert found.rank == 3 and wrong(found.low_rank, L) < 1e-4
    other = principal_component_pursuit(np.where(usable, L, np.pi), usable)
    np.testing.assert_array_equal(found.low_rank, other.low_rank)


def test_parts_add_up_even_without_low_rank() -> None:
    Y = np.random.default_rng(0).standard_normal((300, 10))
    found = principal_component_pursuit(Y)
    assert wrong(found.low_rank + found.sparse, Y) < 1e-6
