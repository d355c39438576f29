"""Corrupted labels are found and repaired: matrices built from their answer."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import AnyArray, Array
from provenet.fitting.least_squares import Ended
from provenet.fitting.robust.low_rank import (
    RobustPCA,
    Separation,
    decode,
    robust_pca,
    weighted_rows,
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
    np.testing.assert_allclose(found.low_rank + found.sparse, Y, rtol=0, atol=1e-9)
    assert not found.noise.any() and found.gap > 1e6


def test_labels_without_corruption_are_left_alone() -> None:
    L = labels(4, 10, 1000, 3)
    found = take_apart(L)
    assert found.status is Separation.SEPARATED and found.rank == 4
    assert not found.corrupted.any() and not found.sparse.any()


def test_rows_beyond_those_of_the_column_space_are_decoded_too_and_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The many rounds of the column space see a few thousand rows; all others are decoded once.

    A decoding solves 31 small systems a row, and cleaning it a few more.
    """
    monkeypatch.setattr("provenet.fitting.robust.low_rank.ROWS_FOR_SPACE", 750)
    L = labels(5, 40, 3000, 4)
    Y, hit = corrupt(L, 0.1, 100.0, 4)
    solved: list[int] = []

    def counted(Y: Array, weights: Array, V: Array) -> Array:
        solved.append(len(Y))
        return weighted_rows(Y, weights, V)

    monkeypatch.setattr("provenet.fitting.robust.low_rank.weighted_rows", counted)
    found = take_apart(Y)
    # Measured: 156 systems for each of 750 rows, 35 for each of the others.
    assert sum(solved) < 250 * 750 + 40 * len(Y)
    np.testing.assert_array_equal(found.corrupted, hit)
    np.testing.assert_allclose(found.low_rank, L, rtol=0, atol=1e-10)


def test_outputs_of_very_different_size() -> None:
    scales = np.logspace(-6, 6, 20)
    L = labels(4, 20, 2000, 5)
    Y, hit = corrupt(L, 0.1, 3.0, 5)
    found = take_apart(Y * scales)
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


def test_an_output_that_is_corrupted_throughout_is_named() -> None:
    L = labels(3, 12, 2000, 12)
    L[:, 4] = np.random.default_rng(13).standard_normal(2000)
    found = take_apart(L)
    assert found.status is Separation.UNCHECKED_OUTPUT
    np.testing.assert_array_equal(np.flatnonzero(found.unchecked), [4])


def test_too_few_rows_prove_nothing() -> None:
    """Three rows have rank three whatever is corrupted in them."""
    Y, _ = corrupt(labels(3, 12, 2000, 14)[:3], 0.2, 100.0, 14)
    assert take_apart(Y).status is not Separation.SEPARATED


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


def test_weighted_rows_are_weighted_least_squares() -> None:
    rng = np.random.default_rng(18)
    V, Y, w = rng.standard_normal((7, 3)), rng.standard_normal((11, 7)), rng.random((11, 7))
    found = weighted_rows(Y, w, V)
    for z, y, weights in zip(found, Y, w, strict=True):
        root = np.sqrt(weights)
        plain = np.linalg.lstsq(root[:, None] * V, root * y, rcond=None)[0]
        np.testing.assert_allclose(z, plain, rtol=0, atol=1e-11)


def test_time_that_is_over_stops_it_and_is_told() -> None:
    Y, _ = corrupt(labels(5, 40, 800, 0), 0.1, 100.0, 0)
    found = robust_pca(Y, np.random.default_rng(0), lambda: True)
    assert found.ended is Ended.OUT_OF_TIME and found.low_rank.shape == Y.shape


def test_rows_whose_weights_leave_a_part_free_have_the_smallest_solution() -> None:
    V = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    Y, weights = np.array([[3.0, 5.0, 0.0]]), np.array([[1.0, 0.0, 1.0]])
    np.testing.assert_allclose(weighted_rows(Y, weights, V), [[3.0, 0.0]], atol=1e-12)
