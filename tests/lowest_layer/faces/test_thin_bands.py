"""Differences of thin bands: closed form = quadrature = samples; smooth functions have no face."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

from provenet.common.typing import Array
from provenet.lowest_layer.faces.thin_bands import (
    BANDS,
    PEAK,
    Labels,
    Peak,
    band_profile,
    is_face,
    net_size,
    peak_at,
    scan,
    sphere_net,
    thinner_and_thinner,
)
from provenet.lowest_layer.faces.tilts import TILT, asked_tilt, measured_tilt
from provenet.moments.subspace import complement
from provenet.networks.hermite import hermite_rows

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)
COS = 0.6
"""Of the angle between the two units below."""


def band_means(g: Callable[[Array], Array], h: float) -> Array:
    """Means of a function of u over the eight bands, by quadrature within each."""
    centres = (np.arange(-BANDS, BANDS) + 0.5) * h
    return g(centres[:, None] + NODES * h / 2) @ NODE_WEIGHTS / 2


def mean_of_other(s: Array, t: float, order: int) -> Array:
    """`E[u(w_2.x - t) | w_1.x = s]`: w_2.x is normal there, of mean COS s, variance 1 - COS^2."""
    sigma = np.sqrt(1 - COS**2)
    a = (COS * s - t) / sigma
    return norm.cdf(a) if order == 1 else sigma * (a * norm.cdf(a) + norm.pdf(a))


def product_of_two(n: int, t: float, order: int, seed: int = 0) -> Labels:
    """Samples of `X_1 X_2`, w_1 the first axis of three."""
    X = np.random.default_rng(seed).standard_normal((n, 3))
    U = np.column_stack([X[:, 0], COS * X[:, 0] + np.sqrt(1 - COS**2) * X[:, 1]]) - t
    H = (U > 0).astype(float) if order == 1 else np.maximum(U, 0)
    return Labels.of(X, H.prod(axis=1))


@pytest.mark.parametrize("order", [1, 2])
def test_weights_see_their_own_order_alone(order: int) -> None:
    for k in range(order + 2):
        assert abs(PEAK[order] @ band_means(lambda u, k=k: u**k, 1.0)) < 1e-12
    face = band_means(lambda u: np.where(u > 0, u ** (order - 1), 0.0), 1.0)
    assert abs(PEAK[order] @ face - 1) < 1e-12
    # One order lower, blind to the face: a move of the face is seen, the face itself is not.
    assert abs(TILT[order] @ face) < 1e-12
    if order == 2:
        assert abs(TILT[2] @ band_means(lambda u: (u > 0).astype(float), 1.0) - 1) < 1e-12


@pytest.mark.parametrize("t", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("order", [1, 2])
def test_the_peak_is_the_jump_or_kink(order: int, t: float) -> None:
    """`E[dP/dX_1 | w_1.x = t]` in closed form, by quadrature and from samples (Lemmas 8 and 19)."""
    truth = float(mean_of_other(np.array(t), t, order))

    def g(u: Array) -> Array:
        """`E[f | w_1.x = t + u]`."""
        return np.where(u > 0, u ** (order - 1), 0.0) * mean_of_other(t + u, t, order)

    def by_quadrature(h: float) -> float:
        return float(PEAK[order] @ band_means(g, h)) / h ** (order - 1)

    # What the slope of the other unit adds falls with h: for a jump it is a kink, a power of h.
    errors = [abs(by_quadrature(h) - truth) for h in (0.02, 0.01)]
    assert errors[1] < 0.02 * truth and errors[1] < 0.6 * errors[0]
    h = 0.1
    peak = peak_at(product_of_two(400_000, t, order), np.eye(3)[0], t, order, h)
    assert abs(peak.height - by_quadrature(h)) < 4 * peak.error
    assert peak.error < 0.2 * truth


def test_the_difference_of_two_bands_is_the_jump_times_the_density() -> None:
    """C_2 of the text, in its own words: `phi(t) E[dP/dX_i | w_i.x = t]`."""
    t, h, n = 0.5, 0.02, 1_000_000
    data = product_of_two(n, t, 1, seed=1)
    u = data.X[:, 0] - t
    term = data.y * (((u > 0) & (u < h)).astype(float) - ((u < 0) & (u > -h))) / h
    truth = norm.pdf(t) * float(mean_of_other(np.array(t), t, 1))
    assert abs(term.mean() - truth) < 4 * term.std() / np.sqrt(n) + h
    peak = peak_at(data, np.eye(3)[0], t, 1, 0.05)
    assert abs(peak.height * norm.pdf(t) - truth) < 4 * peak.error * norm.pdf(t) + 0.01


@pytest.mark.parametrize("order", [1, 2])
def test_smooth_functions_fade_as_the_cube_of_the_width(order: int) -> None:
    def at(h: float) -> float:
        return float(PEAK[order] @ band_means(lambda u: np.sin(2 * u + 0.7), h)) / h ** (order - 1)

    assert 6 < at(0.1) / at(0.05) < 9


@pytest.mark.parametrize("order", [1, 2])
def test_faces_and_smooth_functions_are_told_apart(order: int) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((100_000, 2))
    z = np.array([0.6, 0.8])
    face = np.maximum(X @ z - 0.3, 0) ** (order - 1) * (X @ z > 0.3)
    start = Peak(z, 0.3, 0.0, 1.0, 0.2)
    assert is_face(thinner_and_thinner(Labels.of(X, face), start, order, 0.2, 0.1), order)
    smooth = Labels.of(X, np.sin(4 * X @ z))
    peaks, _ = scan(smooth, z[None], 0.25, order, 0.2, lambda fraction: True)
    assert peaks, "in wide bands the sine stands out: that is what the levels are for"
    assert not is_face(thinner_and_thinner(smooth, peaks[0], order, 0.2, 0.1), order)


@pytest.mark.parametrize("weighted", [False, True])
def test_profiles_are_the_plain_sums(weighted: bool) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((5000, 2)), rng.standard_normal(5000)
    w = rng.uniform(0.5, 2, 5000) if weighted else np.ones(5000)
    z, s, h = np.array([0.8, -0.6]), 0.25, 0.2
    data = Labels(X, y, 1.0, w if weighted else None)
    band = np.floor((X @ z - s) / h).astype(int) + BANDS
    means = [np.average(y[band == j], weights=w[band == j]) for j in range(2 * BANDS)]
    profile = band_profile(data, z, 1, h, s - 1, s + 1)
    j = int(np.argmin(np.abs(profile.offsets - s)))
    np.testing.assert_allclose(profile.heights[j], PEAK[1] @ np.array(means), atol=1e-12)


def test_errors_are_standard_errors() -> None:
    """Pure noise: heights over errors have variance 1; 400 places, 10 per cent allowed off."""
    rng = np.random.default_rng(4)
    heights = []
    for _ in range(400):
        X = rng.standard_normal((4000, 1))
        data = Labels.of(X, rng.standard_normal(4000))
        heights.append(peak_at(data, np.ones(1), 0.0, 1, 0.1).height)
    error = peak_at(data, np.ones(1), 0.0, 1, 0.1).error
    assert abs(np.std(heights) / error - 1) < 0.15


def test_the_other_side_of_a_face() -> None:
    """Along -z at -s a jump has the other sign and a kink the same."""
    data = product_of_two(50_000, 0.4, 1, seed=5)
    z = np.eye(3)[0]
    for order, sign in ((1, -1.0), (2, 1.0)):
        here, there = peak_at(data, z, 0.4, order, 0.1), peak_at(data, -z, -0.4, order, 0.1)
        assert abs(here.height - sign * there.height) < 1e-9 * abs(here.height) + 1e-12


@pytest.mark.parametrize("features", [1, 2, 3, 4])
def test_the_net_covers_all_directions(features: int) -> None:
    step = 0.3
    Z = sphere_net(features, step)
    assert len(Z) == net_size(features, step)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0)
    X = np.random.default_rng(6).standard_normal((2000, features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    furthest = np.arccos(np.clip(np.abs(X @ Z.T).max(axis=1), -1, 1)).max()
    assert furthest <= step * np.sqrt(max(features - 1, 0)) / 2 + 1e-7


def test_a_scan_can_be_stopped() -> None:
    data, Z = product_of_two(2000, 0.0, 1), sphere_net(3, 0.5)
    assert scan(data, Z, 0.5, 1, 0.2, lambda fraction: False) == ([], 0)
    assert scan(data, Z, 0.5, 1, 0.2, lambda fraction: fraction < 0.5)[1] == len(Z) // 2


@pytest.mark.parametrize("order", [1, 2])
def test_a_newton_step_finds_the_face(order: int) -> None:
    """From 0.02 off in two steps, within four standard errors; with questions in three."""
    rng = np.random.default_rng(7)
    w, t = np.array([0.6, 0.8, 0.0]), 0.4
    across = complement(w)
    z = w + 0.02 * across[0] - 0.01 * across[1]
    z /= np.linalg.norm(z)

    def f(X: Array) -> Array:
        u = X @ w - t
        return (u > 0) * u ** (order - 1) * (1 + 0.5 * X @ across[0])

    X = rng.standard_normal((400_000, 3))
    direction, offset = z, t
    for _ in range(2):
        tilt = measured_tilt(Labels.of(X, f(X)), direction, offset, order, 0.1)
        direction, offset = tilt.applied(direction, offset)
    assert np.linalg.norm(direction - w) < 4 * tilt.angle_error < 0.1
    assert abs(offset - t) < 4 * tilt.shift_error < 0.1
    direction, offset = z, t
    for _ in range(3):
        asked, height, error = asked_tilt(f, direction, offset, order, 0.1, 4000, rng)
        direction, offset = asked.applied(direction, offset)
    # Beside sampling, a step is off by its square over the width of the bands.
    assert np.linalg.norm(direction - w) < 4 * asked.angle_error + 2 * asked.size**2 / 0.1 < 0.02
    assert abs(height - 1) < 4 * error + 0.05


def test_polynomials_are_orthonormal() -> None:
    """By Gauss-Hermite quadrature in two dimensions: all products up to degree 4."""
    x, weights = np.polynomial.hermite_e.hermegauss(12)
    weights = weights / weights.sum()
    grid = np.array([(a, b) for a in x for b in x])
    rows = hermite_rows(grid, 4)
    assert len(rows) == 15
    np.testing.assert_allclose(
        (rows * np.outer(weights, weights).ravel()) @ rows.T, np.eye(15), atol=1e-10
    )


def test_complements_are_orthonormal() -> None:
    z = np.array([0.36, -0.48, 0.8])
    across = complement(z)
    np.testing.assert_allclose(across @ across.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(across @ z, 0.0, atol=1e-12)
