"""Hermite moments: sums merge, equal their definition, and converge to the population."""

from __future__ import annotations

import pickle
from functools import reduce
from itertools import pairwise
from math import comb, sqrt
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import (
    assert_symmetric,
    exact_tensors,
    hermite_tensor,
    identity_standardisation,
    random_standardisation,
)
from provenet.common.typing import Array
from provenet.data.standardisation import LinearSums, Standardisation
from provenet.moments.estimation import estimate_moments
from provenet.moments.packed import distinct_products
from provenet.moments.sums import MomentRequest, MomentSums, pair_products

NET = pn.random_network(3, 4, rng=5).replace(output_bias=0.7)
X, Y = pn.sample(NET, 60, noise=0.3, rng=6)


def general_request(order: int = 4) -> MomentRequest:
    """Everything at once: a standardisation, a subspace and a quadratic control variate."""
    rng = np.random.default_rng(7)
    basis = np.linalg.qr(rng.standard_normal((4, 3)))[0].T
    quadratic = rng.standard_normal((3, 3))
    return MomentRequest(random_standardisation(4, rng), order, basis, quadratic + quadratic.T)


def flat(sums: MomentSums) -> Array:
    return np.concatenate([[sums.n], *(np.ravel(part) for part in sums.raw), sums.squares])


def assert_equal_sums(first: MomentSums, second: MomentSums) -> None:
    # The order of additions alone differs: rounding relative to the largest sum of either kind.
    scale = np.abs(flat(first)).max()
    np.testing.assert_allclose(flat(first), flat(second), rtol=1e-12, atol=1e-14 * scale)


# ---------------------------------------------------------------- sums merge


@given(st.lists(st.integers(0, 60), max_size=5), st.integers(2, 4))
def test_one_block_many_blocks_and_merged_are_equal(cuts: list[int], order: int) -> None:
    request = general_request(order)
    edges = [0, *sorted(cuts), 60]
    parts = [MomentSums.of(request, X[i:j], Y[i:j]) for i, j in pairwise(edges)]
    whole = MomentSums.of(request, X, Y)
    assert_equal_sums(reduce(add, parts), whole)
    assert_equal_sums(reduce(add, reversed(parts)), whole)


@given(st.integers(1, 30), st.integers(31, 59))
def test_merging_is_associative_and_commutative(i: int, j: int) -> None:
    request = general_request()
    a, b, c = (
        MomentSums.of(request, X[rows], Y[rows]) for rows in (slice(i), slice(i, j), slice(j, 60))
    )
    assert_equal_sums((a + b) + c, a + (b + c))
    assert_equal_sums(a + b, b + a)


@given(st.integers(1, 59))
def test_linear_sums_merge(cut: int) -> None:
    origin = X.mean(axis=0)
    whole = LinearSums.of(X, Y, origin, 0.5)
    merged = LinearSums.of(X[:cut], Y[:cut], origin, 0.5) + LinearSums.of(
        X[cut:], Y[cut:], origin, 0.5
    )
    assert merged.n == whole.n == 60
    for name in ("x", "xx", "y", "yy", "xy"):
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), atol=1e-11)


def test_linear_sums_are_their_definition() -> None:
    sums = LinearSums.of(X, Y, np.ones(4), 2.0)
    np.testing.assert_allclose(sums.x, sum(x - 1 for x in X), atol=1e-12)
    np.testing.assert_allclose(sums.xx, sum(np.outer(x - 1, x - 1) for x in X), atol=1e-12)
    np.testing.assert_allclose(
        sums.xy, sum((y - 2) * (x - 1) for x, y in zip(X, Y, strict=True)), atol=1e-12
    )
    assert sums.y == pytest.approx(sum(Y - 2)) and sums.yy == pytest.approx(sum((Y - 2) ** 2))


# ---------------------------------------------------------------- sums are their definition


def explicit_terms(request: MomentRequest, k: int) -> Array:
    """`r He_k(u)` of every sample, term by term."""
    s = request.standardisation
    terms = []
    for x, y in zip(X, Y, strict=True):
        z = s.whiten @ (x - s.mean)
        r = y - s.label_mean - s.linear @ z
        u = z if request.basis is None else request.basis @ z
        if request.quadratic is not None:
            r -= np.sum(request.quadratic * (np.outer(u, u) - np.eye(len(u)))) / 2
        terms.append(r * hermite_tensor(k, u))
    return np.array(terms)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("general", [False, True])
def test_moments_and_their_errors_are_their_definition(k: int, general: bool) -> None:
    if general:
        request = general_request()
        if k == 2:  # then T_2 is given, not estimated
            request = MomentRequest(request.standardisation, 4, request.basis)
    else:
        request = MomentRequest(random_standardisation(4, np.random.default_rng(3)), 4)
    moments = MomentSums.of(request, X, Y).finish(request)
    terms = explicit_terms(request, k)
    # Rounding of means of terms as large as 1e4.
    np.testing.assert_allclose(moments.tensors[k], terms.mean(axis=0), rtol=0, atol=1e-11)
    assert moments.errors[k] == pytest.approx(sqrt(terms.var(axis=0).mean() / 60), rel=1e-9)
    assert moments.samples == 60 and len(moments.tensors) == len(moments.errors) == 5


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_tensors_are_symmetric(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    request = MomentRequest(identity_standardisation(d), 4)
    sums = MomentSums.of(request, rng.standard_normal((10, d)), rng.standard_normal(10))
    for T in sums.finish(request).tensors[2:]:
        assert_symmetric(T)


def test_lower_orders_come_from_the_standardisation() -> None:
    s = random_standardisation(4, np.random.default_rng(3))
    quadratic = np.diag([1.0, 2.0, 3.0, 4.0])
    request = MomentRequest(s, 4, quadratic=quadratic)
    tensors = MomentSums.of(request, X, Y).finish(request).tensors
    assert tensors[0] == s.label_mean
    np.testing.assert_array_equal(tensors[1], s.linear)
    np.testing.assert_array_equal(tensors[2], quadratic)


def test_lower_orders_inside_a_subspace() -> None:
    request = general_request()
    s = request.standardisation
    tensors = MomentSums.of(request, X, Y).finish(request).tensors
    assert tensors[0] == pytest.approx(s.label_mean)
    np.testing.assert_allclose(tensors[1], request.basis @ s.linear)


def test_products_of_pairs_and_their_order() -> None:
    rng = np.random.default_rng(0)
    v, scaled = rng.standard_normal((2, 4, 5))
    i, j = np.triu_indices(4)
    np.testing.assert_array_equal(distinct_products(v, scaled), v[i] * scaled[j])
    np.testing.assert_array_equal(pair_products(v.T), (v[i] * v[j]).T)


def direct_moments(inputs: Array, r: Array) -> tuple[Array, Array]:
    """Means of `r He_3(u)` and `r He_4(u)`, over all indices, in double precision."""
    n, d = inputs.shape
    eye = np.eye(d)
    squares = np.einsum("ni,nj->nij", inputs, inputs).reshape(n, -1)
    M1, M2 = r @ inputs / n, (inputs.T * r) @ inputs / n
    T3 = ((inputs.T * r) @ squares / n).reshape((d,) * 3)
    T4 = ((squares.T * r) @ squares / n).reshape((d,) * 4)
    for places in ("a,bc", "b,ac", "c,ab"):
        T3 = T3 - np.einsum(f"{places}->abc", M1, eye)
    for places in ("ab,cd", "ac,bd", "ad,bc", "bc,ad", "bd,ac", "cd,ab"):
        T4 = T4 - np.einsum(f"{places}->abcd", M2, eye)
    for places in ("ab,cd", "ac,bd", "ad,bc"):
        T4 = T4 + r.mean() * np.einsum(f"{places}->abcd", eye, eye)
    return T3, T4


@pytest.mark.parametrize(("d", "order"), [(5, 4), (7, 4), (8, 4), (15, 4), (31, 3), (40, 3)])
def test_every_group_of_products_finds_its_places(d: int, order: int) -> None:
    """Sizes with one matrix product and with several, the last of them full or not."""
    rng = np.random.default_rng(d)
    inputs, r = rng.standard_normal((50, d)), rng.standard_normal(50)
    request = MomentRequest(identity_standardisation(d), order)
    tensors = MomentSums.of(request, inputs, r).finish(request).tensors
    for T, expected in zip(tensors[3:], direct_moments(inputs, r)[: order - 2], strict=True):
        # Rounding of means of terms as large as 1e3, in double precision for 50 samples.
        np.testing.assert_allclose(T, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("label_scale", [1e-70, 1.0, 1e70])
@pytest.mark.parametrize("input_scale", [1.0, 1e12])
def test_rounding_of_many_samples_is_nothing_beside_their_error(
    label_scale: float, input_scale: float
) -> None:
    """Blocks in single precision, at scales beyond its range, against double precision."""
    rng = np.random.default_rng(1)
    inputs, r = rng.standard_normal((9000, 9)), rng.standard_normal(9000)
    inputs, r = inputs * input_scale, (r + r**2) * label_scale
    request = MomentRequest(identity_standardisation(9), 4)
    moments = estimate_moments(pn.ArraySource(inputs, r), request)
    for k, expected in zip((3, 4), direct_moments(inputs, r), strict=True):
        off = np.abs(moments.tensors[k] - expected).max()
        # The largest of all entries; over 50 seeds: 8e-7 to 2.2e-5 of the sampling error.
        assert off < 1e-4 * moments.errors[k]
        # Symmetric to the rounding of double precision all the same.
        assert_symmetric(moments.tensors[k] / moments.errors[k])


def estimate(n: int, rng: np.random.Generator, quadratic: Array | None = None) -> MomentSums:
    """Moments of NET on fresh samples, its true `T_0` and `T_1` as control variates."""
    T = exact_tensors(NET)
    s = Standardisation(np.zeros(4), np.eye(4), float(T[0]), 1.0, T[1], None)
    request = MomentRequest(s, 4, quadratic=quadratic)
    inputs, labels = pn.sample(NET, n, rng=rng)
    return MomentSums.of(request, inputs, labels).finish(request)


def test_samples_approach_the_population_at_the_rate_of_their_errors() -> None:
    T = exact_tensors(NET)
    rng = np.random.default_rng(8)
    size = {}
    for n in (1000, 16_000):
        found = [estimate(n, rng) for _ in range(25)]
        for k in (2, 3, 4):
            off = [np.mean((m.tensors[k] - T[k]) ** 2) for m in found]
            size[n, k] = sqrt(np.mean(off))
            predicted = sqrt(np.mean([m.errors[k] ** 2 for m in found]))
            # The mean of 25 squared errors, over 10 or more distinct entries each, scatters by a
            # few per cent (over 50 seeds: 0.90 to 1.16).
            assert 0.8 < size[n, k] / predicted < 1.25
    for k in (2, 3, 4):
        # 16 times the samples: a quarter of the error (over 50 seeds: 3.2 to 5.5).
        assert 2.8 < size[1000, k] / size[16_000, k] < 6.0


def test_control_variates_keep_the_mean_and_lower_the_error() -> None:
    T = exact_tensors(NET)
    rng = np.random.default_rng(9)
    plain, better = estimate(50_000, rng), estimate(50_000, rng, T[2])
    for k in (3, 4):
        assert better.errors[k] < 0.85 * plain.errors[k]  # over 50 seeds: 0.43 to 0.74
        off = better.tensors[k] - T[k]
        # Over 50 seeds: 0.54 to 1.51 times its prediction.
        assert sqrt(np.mean(off**2)) < 2 * better.errors[k]


@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_errors_of_the_lower_orders(offset: float) -> None:
    inputs, labels = pn.sample(NET.replace(output_bias=offset), 5000, noise=0.5, rng=4)
    source = pn.ArraySource(inputs, labels)
    s = source.standardisation()
    errors = estimate_moments(source, MomentRequest(s, 2)).errors
    # The mean of y has error std(y) / sqrt(n); a regression removes the linear part from it.
    z = s.apply(inputs)
    r = labels - s.label_mean - z @ s.linear
    assert 0.9 * r.std() < errors[0] * sqrt(5000) < 1.1 * labels.std()
    assert errors[1] * sqrt(5000) == pytest.approx(np.std(r[:, None] * z), rel=0.1)


# ---------------------------------------------------------------- standardisation


@given(st.integers(0, 10**6), st.booleans())
def test_networks_there_and_back(seed: int, linear: bool) -> None:
    rng = np.random.default_rng(seed)
    s = random_standardisation(3, rng)
    net = pn.random_network(4, 3, rng=rng)
    if linear:
        net = net.replace(linear=rng.standard_normal(3), output_bias=0.4)
    user = s.network_to_user(net)
    inputs = rng.standard_normal((20, 3))
    # Rounding times the condition number of the whitening.
    tolerance = 1e-13 * np.linalg.cond(s.whiten) * 10
    np.testing.assert_allclose(user(inputs), net(s.apply(inputs)), rtol=0, atol=tolerance)
    back = s.network_from_user(user)
    for name in ("weights", "biases", "output_weights", "output_bias"):
        np.testing.assert_allclose(
            getattr(back, name), getattr(net, name), rtol=0, atol=tolerance * 10
        )
    if linear:
        np.testing.assert_allclose(back.linear, net.linear, rtol=0, atol=tolerance * 10)
    assert s.features == 3


def test_room_is_used_again_and_does_not_travel() -> None:
    """What an earlier block left behind is in no sum of the next; one of them is not full."""
    rng = np.random.default_rng(4)
    inputs, r = rng.standard_normal((2, 1500, 4)), rng.standard_normal((2, 1500))
    used = general_request()
    first = MomentSums.of(used, inputs[0] * 100, r[0])
    again = MomentSums.of(used, inputs[1], r[1])
    np.testing.assert_array_equal(
        flat(again), flat(MomentSums.of(general_request(), inputs[1], r[1]))
    )
    assert np.abs(flat(first)).max() > np.abs(flat(again)).max()
    assert len(pickle.dumps(used)) == len(pickle.dumps(general_request()))


def test_only_distinct_entries_travel() -> None:
    """However they are computed: machines of a cluster must agree about their order."""
    for d, order in ((3, 3), (9, 4), (20, 4)):
        request = MomentRequest(identity_standardisation(d), order)
        sums = MomentSums.of(request, np.ones((5, d)), np.ones(5))
        assert [part.shape for part in sums.raw] == [(comb(d + order, order),)]
