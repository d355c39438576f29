"""The last hidden layer and the outputs, from rows of any sign and answers."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from layered_problems import layers_of
from provenet.common.typing import Array
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.top import last_layer, left_of, outputs

WELL = 1e-9
"""Least squares on answers of rounding 1e-16; room for condition numbers of 1e6."""
LIVELY = {1: (1, 4, 8, 9, 12, 13), 3: (4, 9, 11, 12, 14)}
"""By outputs: seeds of 6-5-4 networks all of whose units are on for a fair part of all inputs."""
CASES = [(outputs, seed) for outputs, seeds in LIVELY.items() for seed in seeds]


def answered(net: pn.DeepNetwork, rng: np.random.Generator, n: int = 300) -> tuple[Array, Array]:
    """Random points and the answers there."""
    U = 2 * rng.standard_normal((n, net.features))
    return U, net(U).reshape(n, -1)


@pytest.mark.parametrize(("number", "seed"), CASES)
def test_reversed_units_are_turned_and_outputs_found(number: int, seed: int) -> None:
    net, rng = deep(6, 5, 4, number, rng=seed), np.random.default_rng(seed)
    (W, b), (A, c) = net.affine_maps[1:]
    signs = rng.choice([-1.0, 1.0], 4)
    known, (U, Y) = layers_of(net, 1), answered(net, rng)
    fit = last_layer(known, signs[:, None] * W, signs * b, U, Y, 1e-12)
    assert fit.top is not None and fit.explained.all() and fit.share == 1.0
    assert fit.top.always_on == 0 and len(fit.top.kept) == 4
    np.testing.assert_allclose(fit.top.W, W, atol=WELL)
    np.testing.assert_allclose(fit.top.b, b, atol=WELL)
    np.testing.assert_allclose(fit.top.A, A, atol=WELL)
    np.testing.assert_allclose(fit.top.c, c, atol=WELL)
    found, bias = outputs(known, W, b, U, Y)
    np.testing.assert_allclose(found.T, A, atol=WELL)
    np.testing.assert_allclose(bias, c, atol=WELL)


def test_what_a_missing_unit_leaves_explained() -> None:
    """One that is on at 2% of the points: where it is off the others explain the answer.

    The least squares are trimmed, which may fail: of 24 seeds and 4 units each it did for 9% where
    the unit was on at 3% of the points, and for 3% where at 1%.
    """
    right = 0
    for seed in LIVELY[1]:
        net, rng = deep(6, 5, 4, 1, rng=seed), np.random.default_rng(seed)
        (W, b), known = net.affine_maps[1], layers_of(net, 1)
        for unit in range(4):
            U, _ = answered(net, rng)
            biases = b.copy()
            biases[unit] = -np.quantile(known.h(U) @ W[unit], 0.98)
            rare = net.replace(biases=[net.biases[0], biases, net.biases[2]])
            kept = np.arange(4) != unit
            fit = last_layer(known, W[kept], biases[kept], U, rare(U)[:, None], 1e-12)
            on = rare.values(U, 1)[:, unit] > 0
            assert fit.explained[on].sum() <= 0.5 * on.sum()  # a linear part may explain a few
            assert fit.share == fit.explained.mean()
            right += np.array_equal(fit.explained, ~on)
    assert right >= 20


def test_a_fit_before_says_which_answers_to_trust() -> None:
    """Lines that were led to a missing unit: where it is on are three answers of eight then."""
    better = 0
    for seed in LIVELY[1]:
        net, rng = deep(6, 5, 4, 1, rng=seed), np.random.default_rng(seed)
        (W, b), known, kept = net.affine_maps[1], layers_of(net, 1), np.arange(4) != 0
        U, _ = answered(net, rng)
        on = net.values(U, 1)[:, 0] > 0
        off, most = U[~on], min(int(on.sum()) // 3, int((~on).sum()) // 5)
        if most < 20:
            continue
        before = last_layer(known, W[kept], b[kept], off, net(off)[:, None], 1e-12)
        led = np.vstack([off[: 5 * most], U[on][: 3 * most]])
        data = known, W[kept], b[kept], led, net(led)[:, None], 1e-12
        share = last_layer(*data, before).share
        assert share >= last_layer(*data).share
        better += bool(share > last_layer(*data).share)
    assert better >= 3


def test_rows_that_nothing_needs_are_left_out() -> None:
    net, rng = deep(6, 5, 4, 1, rng=1), np.random.default_rng(0)
    (W, b), (U, Y) = net.affine_maps[1], answered(net, rng)
    more = np.vstack([rng.standard_normal((1, 5)), W]), np.append(0.1, b)
    fit = last_layer(layers_of(net, 1), *more, U, Y, 1e-12)
    assert fit.top is not None
    np.testing.assert_array_equal(fit.top.kept, [1, 2, 3, 4])
    np.testing.assert_allclose(fit.top.W, W, atol=WELL)


def test_units_that_are_always_on_are_a_span() -> None:
    """They are a linear part: the function is right, the rows are anyone's."""
    net, rng = deep(6, 5, 4, 1, rng=1), np.random.default_rng(0)
    biases = [net.biases[0], net.biases[1] + np.array([100.0, 0, 0, 0]), net.biases[2]]
    net = net.replace(biases=biases)
    (W, b), (U, Y) = net.affine_maps[1], answered(net, rng)
    fit = last_layer(layers_of(net, 1), W[1:], b[1:], U, Y, 1e-12)
    assert fit.top is not None and fit.top.always_on == 1
    H = layers_of(net, 1).h(U)
    values = np.maximum(H @ fit.top.W.T + fit.top.b, 0) @ fit.top.A.T + fit.top.c
    np.testing.assert_allclose(values, Y, atol=1e-10 * np.abs(Y).max())


def test_too_few_answers_say_nothing() -> None:
    net, rng = deep(6, 5, 4, 1, rng=1), np.random.default_rng(0)
    (W, b), (U, Y) = net.affine_maps[1], answered(net, rng, n=8)
    fit = last_layer(layers_of(net, 1), W, b, U, Y, 1e-12)
    assert fit.top is None and not fit.explained.any()


def test_what_a_network_leaves() -> None:
    net, rng = deep(6, 5, 4, 1, rng=1), np.random.default_rng(0)
    U, Y = answered(net, rng)
    assert left_of(net, np.zeros(U.shape[1]), [(U, Y)]) < 1e-299
    off = net.replace(biases=[*net.biases[:-1], net.biases[-1] + 0.01 * np.abs(Y).max()])
    assert left_of(off, np.zeros(U.shape[1]), [(U[:9], Y[:9]), (U[9:], Y[9:])]) == pytest.approx(
        0.01, rel=0.1
    )  # weights lower both a little


def test_in_the_span_of_all_slopes_the_same_top_is_found() -> None:
    """Of 20 inputs only the five directions of the rows matter; one unit's row is not given."""
    net, rng = deep(20, 5, 2, rng=0), np.random.default_rng(0)
    (W, b), (A, c) = net.affine_maps
    b = np.append(b[:4], 100.0)  # the last is always on
    net, signs = net.replace(biases=(b, c)), np.array([1.0, -1.0, -1.0, 1.0])
    U, Y = answered(net, rng)
    span, R = np.linalg.qr(W.T)[0].T, signs[:, None] * W[:4]
    fit = last_layer(KnownLayers(5), R @ span.T, signs * b[:4], U @ span.T, Y, 1e-12)
    found, whole = fit.by_inputs(span), last_layer(KnownLayers(20), R, signs * b[:4], U, Y, 1e-12)
    assert found.top is not None and whole.top is not None
    assert found.top.always_on == whole.top.always_on == 1
    np.testing.assert_allclose(found.top.W[:4], W[:4], atol=WELL)
    np.testing.assert_allclose(found.L, whole.L, atol=WELL)
    np.testing.assert_allclose(found.top.A[:, :4], A[:, :4], atol=WELL)
    across = found.top.W[4] - found.top.W[4] @ W[4] * W[4] / (W[4] @ W[4])
    assert np.abs(across).max() < WELL
