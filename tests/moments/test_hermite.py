"""Hermite moments: sums merge, equal their definition, and converge to the population."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from math import comb, sqrt
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from scipy.special import eval_hermitenorm, roots_genlaguerre

import provenet as pn
from helpers import (
    assert_symmetric,
    exact_tensors,
    hermite_tensor,
    identity_standardisation,
    numbers,
    random_standardisation,
    special_network,
)
from provenet.common.typing import Array
from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation
from provenet.moments.hermite import (
    GaussianCheck,
    MomentRequest,
    MomentSums,
    check_gaussian,
    estimate_moments,
    high_moments,
    memory_needed,
    moment_terms,
    population_moments,
    tensor_norm_squared,
)
from provenet.moments.symmetric import SymmetricTensor, count

NET = pn.random_network(3, 4, rng=5).replace(output_bias=0.7)
X, Y = pn.sample(NET, 60, noise=0.3, rng=6)


def general_request(order: int = 4) -> MomentRequest:
    """Everything at once: a standardisation, a subspace and a quadratic control variate."""
    rng = np.random.default_rng(7)
    basis = np.linalg.qr(rng.standard_normal((4, 3)))[0].T
    quadratic = rng.standard_normal((3, 3))
    return MomentRequest(random_standardisation(4, rng), order, basis, quadratic + quadratic.T)


# ---------------------------------------------------------------- Hermite tensors


@given(
    st.integers(0, 5), st.integers(1, 4).flatmap(lambda d: hnp.arrays(float, d, elements=numbers))
)
def test_norm_of_a_hermite_tensor_from_the_norm_of_the_point(k: int, x: np.ndarray) -> None:
    explicit = np.sum(hermite_tensor(k, x) ** 2)
    # Rounding of a polynomial whose terms reach |x|^10 = 36^5.
    found = tensor_norm_squared(k, np.array([x @ x]), len(x))[0]
    assert found == pytest.approx(explicit, rel=1e-10, abs=1e-7)


@pytest.mark.parametrize("k", [0, 2, 4, 6, 8])
@pytest.mark.parametrize("d", [1, 3, 10])
def test_mean_norm(k: int, d: int) -> None:
    """`E ||He_k(x)||^2 = d (d+1) .. (d+k-1)`: k! times the dimension of symmetric tensors."""
    t, weight = roots_genlaguerre(12, d / 2 - 1)  # |x|^2 / 2 has a Gamma(d/2) distribution
    mean = weight @ tensor_norm_squared(k, 2 * t, d) / weight.sum()
    # Gauss quadrature is exact for polynomials; rounding of the cancelling terms remains.
    assert mean == pytest.approx(np.prod(np.arange(d, d + k)), rel=1e-9)


# ---------------------------------------------------------------- sums


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


@pytest.mark.parametrize(("k", "order"), [(2, 2), (2, 4), (3, 3), (3, 4), (4, 4), (5, 5), (6, 6)])
@pytest.mark.parametrize("general", [False, True])
def test_moments_and_their_errors_are_their_definition(k: int, order: int, general: bool) -> None:
    request = MomentRequest(random_standardisation(4, np.random.default_rng(3)), order)
    if general:
        request = general_request(order)
        if k == 2:  # else T_2 is given, not estimated
            request = MomentRequest(request.standardisation, order, request.basis)
    found = MomentSums.of(request, X, Y).finish(request)
    terms = explicit_terms(request, k)
    rounding = 1e-14 * np.abs(terms).max()
    np.testing.assert_allclose(found.tensors[k], terms.mean(axis=0), rtol=0, atol=rounding)
    assert found.errors[k] == pytest.approx(sqrt(terms.var(axis=0).mean() / 60), rel=1e-9)


def test_lower_orders_come_from_the_standardisation() -> None:
    request = general_request()
    s, B = request.standardisation, request.basis
    tensors = MomentSums.of(request, X, Y).finish(request).tensors
    assert tensors[0] == pytest.approx(s.label_mean)
    np.testing.assert_allclose(tensors[1], B @ s.linear)
    np.testing.assert_array_equal(tensors[2], request.quadratic)


@given(st.lists(st.integers(0, 60), max_size=5), st.integers(2, 5))
def test_one_block_and_many_blocks_in_any_order_are_equal(cuts: list[int], order: int) -> None:
    request = general_request(order)
    parts = [MomentSums.of(request, X[i:j], Y[i:j]) for i, j in pairwise([0, *sorted(cuts), 60])]
    whole = MomentSums.of(request, X, Y)
    assert whole.raw.shape == (comb(3 + order, order),)  # distinct entries alone travel
    for merged in (reduce(add, parts), reduce(add, reversed(parts))):
        assert merged.n == 60
        for a, b in ((merged.raw, whole.raw), (merged.squares, whole.squares)):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13 * np.abs(b).max())


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


@pytest.mark.parametrize(("d", "order"), [(1, 4), (7, 4), (15, 4), (40, 3)])
def test_every_tile_of_products_finds_its_places(d: int, order: int) -> None:
    """Sizes with one matrix product and with several."""
    rng = np.random.default_rng(d)
    inputs, r = rng.standard_normal((50, d)), rng.standard_normal(50)
    request = MomentRequest(identity_standardisation(d), order)
    tensors = MomentSums.of(request, inputs, r).finish(request).tensors
    for T, expected in zip(tensors[3:], direct_moments(inputs, r)[: order - 2], strict=True):
        # Rounding of means of terms as large as 1e3, in double precision for 50 samples.
        np.testing.assert_allclose(T, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("label_scale", "input_scale"), [(1e-70, 1.0), (1.0, 1e12), (1e70, 1e12)])
def test_single_precision_costs_nothing_beside_the_sampling_error(
    label_scale: float, input_scale: float
) -> None:
    """Large blocks, at scales beyond its range, against double precision."""
    rng = np.random.default_rng(1)
    inputs, r = rng.standard_normal((9000, 9)), rng.standard_normal(9000)
    inputs, r = inputs * input_scale, (r + r**2) * label_scale
    request = MomentRequest(identity_standardisation(9), 4)
    moments = estimate_moments(pn.ArraySource(inputs, r), request)
    for k, expected in zip((3, 4), direct_moments(inputs, r), strict=True):
        # Measured over 50 seeds: 1e-6 to 3e-5 of the sampling error.
        assert np.abs(moments.tensors[k] - expected).max() < 1e-4 * moments.errors[k]
        assert_symmetric(moments.tensors[k] / moments.errors[k])


@pytest.mark.parametrize("order", [2, 3])
def test_several_outputs_are_one_at_a_time(order: int) -> None:
    s = random_standardisation(4, np.random.default_rng(3))
    both = np.column_stack([Y, Y**2 - X[:, 0]])
    many = Standardisation(
        s.mean, s.whiten, np.array([0.1, 0.2]), 1.0, np.stack([s.linear, -s.linear]), None
    )
    request = MomentRequest(many, order)
    found = MomentSums.of(request, X, both).finish(request).tensors
    for q in range(2):
        one = Standardisation(s.mean, s.whiten, many.label_mean[q], 1.0, many.linear[q], None)
        request = MomentRequest(one, order)
        alone = MomentSums.of(request, X, both[:, q]).finish(request).tensors
        for T, U in zip(found, alone, strict=True):
            np.testing.assert_allclose(T[q], U, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- samples and the population


def estimate(
    n: int, rng: np.random.Generator, quadratic: Array | None = None
) -> tuple[tuple[Array, ...], tuple[float, ...]]:
    """Moments of NET on fresh samples, its true `T_0` and `T_1` as control variates."""
    T = exact_tensors(NET)
    s = Standardisation(np.zeros(4), np.eye(4), float(T[0]), 1.0, T[1], None)
    request = MomentRequest(s, 4, quadratic=quadratic)
    found = MomentSums.of(request, *pn.sample(NET, n, rng=rng)).finish(request)
    return found.tensors, found.errors


def test_samples_approach_the_population_at_the_rate_of_their_errors() -> None:
    T = exact_tensors(NET)
    rng = np.random.default_rng(8)
    size = {}
    for n in (1000, 16_000):
        found = [estimate(n, rng) for _ in range(25)]
        for k in (2, 3, 4):
            size[n, k] = sqrt(np.mean([np.mean((t[k] - T[k]) ** 2) for t, _ in found]))
            predicted = sqrt(np.mean([e[k] ** 2 for _, e in found]))
            # The mean of 25 squared errors, over 10 or more distinct entries each, scatters by a
            # few per cent (over 50 seeds: 0.90 to 1.16).
            assert 0.8 < size[n, k] / predicted < 1.25
    for k in (2, 3, 4):
        # 16 times the samples: a quarter of the error (over 50 seeds: 3.2 to 5.5).
        assert 2.8 < size[1000, k] / size[16_000, k] < 6.0


def test_control_variates_keep_the_mean_and_lower_the_error() -> None:
    T = exact_tensors(NET)
    rng = np.random.default_rng(9)
    (_, plain), (tensors, better) = estimate(50_000, rng), estimate(50_000, rng, T[2])
    for k in (3, 4):
        assert better[k] < 0.85 * plain[k]  # over 50 seeds: 0.43 to 0.74
        # Over 50 seeds: 0.54 to 1.51 times its prediction.
        assert sqrt(np.mean((tensors[k] - T[k]) ** 2)) < 2 * better[k]


def test_high_orders_of_samples_are_the_populations_within_their_errors() -> None:
    net = pn.random_network(4, 3, rng=0)
    inputs = np.random.default_rng(1).standard_normal((40_000, 3))
    source = pn.ArraySource(inputs, net(inputs))
    found = high_moments(source, source.standardisation(), 8)
    truth = population_moments(net, 8)
    for k in range(2, 9):
        off = SymmetricTensor(3, k, found.symmetric[k].entries - truth.symmetric[k].entries)
        size = sqrt(off.squared_norm / 3**k)
        assert 0.1 * found.errors[k] < size < 5 * found.errors[k], k
    assert memory_needed(10, 6) > 8 * count(11, 6) and truth.errors == (0.0,) * 9


@pytest.mark.parametrize("k", range(5))
def test_population_moments_are_the_sum_over_units(k: int) -> None:
    """ATV21, Lemma 3.5, on a network with units to rescale, a linear term and a constant."""
    net = special_network(1).replace(linear=np.arange(6.0))
    scaled = net.replace(weights=2 * net.weights, biases=2 * net.biases).canonical()
    expected = np.zeros((6,) * k)
    for w, b, a in zip(net.weights, net.biases, 2 * net.output_weights, strict=True):
        power = np.ones(())
        for _ in range(k):
            power = np.multiply.outer(power, w)
        expected += a * net.activation.hermite(k, b) * power
    expected += {0: 0.3, 1: np.arange(6.0)}.get(k, 0.0)
    # Rounding of numbers near 5.
    np.testing.assert_allclose(exact_tensors(scaled)[k], expected, rtol=0, atol=1e-13)


def test_population_inside_a_subspace_is_the_projection() -> None:
    net = special_network(2).replace(linear=np.ones(6)).canonical()
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))[0].T
    inside = population_moments(net, 4, basis)
    for T, projected in zip(inside.tensors, exact_tensors(net), strict=True):
        for axis in range(T.ndim):
            projected = np.moveaxis(np.tensordot(basis, projected, axes=(1, axis)), 0, axis)
        np.testing.assert_allclose(T, projected, rtol=0, atol=1e-13)
    assert inside.errors == (0.0,) * 5


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("kind", ["arrays", "biased, with labels", "biased, inputs alone"])
def test_a_moment_is_the_mean_of_its_terms(kind: str, order: int) -> None:
    """`T_k(z, .., z) = mean of r He_k(z.u)`, for a unit vector z, to rounding."""
    inputs = np.random.default_rng(0).standard_normal((900, 3))  # few: in double precision
    y = 1 / (1 + np.exp(1 - inputs[:, 0])) + 1 / (1 + np.exp(1 - inputs[:, 1]))
    kept = np.random.default_rng(1).random(900) < y / y.max()
    source: Source = pn.ArraySource(inputs, y)
    if kind != "arrays":
        source = pn.BiasedSource(inputs[kept], y[kept] if kind == "biased, with labels" else None)
    basis = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 2)))[0].T
    quadratic = np.diag([0.3, -0.2]) if order == 4 else None
    request = MomentRequest(source.standardisation(), order, basis, quadratic)
    T = estimate_moments(source, request).tensors[order]
    u, r = moment_terms(source, request)(*source.rows(0, source.size))
    z = np.array([0.6, 0.8])
    for _ in range(order):
        T = T @ z
    assert float(T) == pytest.approx(np.mean(r * eval_hermitenorm(order, u @ z)), rel=1e-9)


# ---------------------------------------------------------------- Gaussian inputs


def test_statistics_of_the_inputs_are_those_of_scipy() -> None:
    """Three samples, each far from Gaussian in one of the three ways."""
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((20_000, 5))

    def check(inputs: Array) -> GaussianCheck:
        return check_gaussian(inputs, pn.ArraySource(inputs, inputs[:, 0]).standardisation())

    assert check(normal).ok
    skewed, heavy = normal.copy(), normal.copy()
    skewed[:, 3] += 0.05 * skewed[:, 3] ** 2
    heavy[:, 3] = rng.standard_t(6, 20_000)
    radial = normal * rng.choice([0.9, 1.1], (20_000, 1))
    centred = radial - radial.mean(axis=0)
    squares = np.sum(centred * np.linalg.solve(np.cov(radial.T), centred.T).T, axis=1)
    kurtosis = np.mean(squares**2) / np.mean(squares) ** 2 * 5 / 7 - 1
    expected = (
        (skewed, "skewed", np.abs(stats.skew(skewed)).max() / np.sqrt(6 / 20_000)),
        (heavy, "heavier", np.abs(stats.kurtosis(heavy)).max() / np.sqrt(24 / 20_000)),
        (radial, "spread unevenly", kurtosis / np.sqrt(8 / (20_000 * 5 * 7))),
    )
    for inputs, name, sigmas in expected:
        found = check(inputs)
        assert not found.ok and f"they are {name}" in found.message
        assert f"({sigmas:.0f} sigma)" in found.message
