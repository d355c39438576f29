"""The second-order condition: eigenvalues against dense Hessians, checks, and what is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.landscape.newton import minimise
from provenet.landscape.objective import Objective, Theorem
from provenet.landscape.objectives import objective
from provenet.landscape.second_order import SecondOrder, second_order, smallest_eigenvalue

NAMES = ("l2", "f2f4", "abs", "P'", "G", "F", "F-undercomplete")


def orthonormal(seed: int, units: int = 4) -> pn.Network:
    rng = np.random.default_rng([seed, 1])
    Q = np.linalg.qr(rng.standard_normal((units, units)))[0]
    return pn.Network(Q, output_weights=rng.uniform(0.5, 1.5, units))


def tilted(seed: int, units: int = 4) -> pn.Network:
    rng = np.random.default_rng([seed, 2])
    truth = orthonormal(seed, units)
    W = truth.weights + 0.2 * rng.standard_normal((units, units))
    return truth.replace(weights=W / np.linalg.norm(W, axis=1, keepdims=True))


def some_point(f: Objective, seed: int) -> Array:
    rng = np.random.default_rng([seed, 3])
    return f.retract(rng.standard_normal((f.units, f.features)) / np.sqrt(f.features))


def dense_hessian(f: Objective, B: Array) -> Array:
    """Between an orthonormal basis of the directions in which B may move, column by column."""
    basis = []
    for j in range(f.units):
        rows = np.linalg.svd(B[j : j + 1])[2][1:] if f.unit_rows else np.eye(f.features)
        for row in rows:
            V = np.zeros(B.shape)
            V[j] = row
            basis.append(V)
    g = f.gradient(B)
    images = [f.curvature(B, V, g) for V in basis]
    return np.einsum("nij,mij->mn", images, basis)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("units", [3, 8])  # 9 and 64 parameters: all eigenvalues, and Lanczos
def test_the_smallest_eigenvalue_is_that_of_the_dense_hessian(name: str, units: int) -> None:
    truth = tilted(0, units)
    f = objective(name, truth)
    for seed in range(2):
        B = some_point(f, seed)
        H = dense_hessian(f, B)
        np.testing.assert_allclose(H, H.T, rtol=0, atol=1e-10 * np.abs(H).max())
        values = np.linalg.eigvalsh(H)
        lowest, V = smallest_eigenvalue(f, B)
        # Lanczos to 1e-6 of the eigenvalue's size.
        size = np.abs(values).max()
        assert lowest == pytest.approx(values[0], abs=1e-6 * size)
        assert np.linalg.norm(V) == pytest.approx(1.0, abs=1e-9)
        np.testing.assert_allclose(f.tangent(B, V), V, rtol=0, atol=1e-5)
        product = f.curvature(B, V, f.gradient(B))
        np.testing.assert_allclose(product, lowest * V, rtol=0, atol=1e-4 * size)
        found = second_order(f, B)
        assert found.lowest == pytest.approx(lowest, abs=1e-6 * size)
        assert found.value == pytest.approx(f.value(B), rel=1e-12)
        assert found.slope == pytest.approx(np.linalg.norm(f.slope(B)), rel=1e-12)
        assert values[0] <= found.scale * (1 + 1e-9) <= np.abs(values).max() * (1 + 2e-9)


@pytest.mark.parametrize("units", [4, 8])
def test_eigenvalues_that_are_all_large(units: int) -> None:
    """P' at its truth with output weights of 100: a direction across the spheres does not count."""
    truth = orthonormal(0, units)
    truth = truth.replace(output_weights=100 * truth.output_weights)
    f = objective("P'", truth)
    values = np.linalg.eigvalsh(dense_hessian(f, truth.weights))
    assert values[0] > 100
    assert second_order(f, truth.weights).lowest == pytest.approx(values[0], rel=1e-6)


class Constant(Objective):
    def __init__(self, units: int) -> None:
        self.units = self.features = units

    def value(self, B: Array) -> float:
        return 1.0

    def gradient(self, B: Array) -> Array:
        return np.zeros(B.shape)

    def hessian_product(self, B: Array, V: Array) -> Array:
        return np.zeros(V.shape)


@pytest.mark.parametrize("units", [3, 8])
def test_no_curvature_at_all(units: int) -> None:
    found = second_order(Constant(units), np.eye(units))
    assert found.lowest == pytest.approx(0.0, abs=1e-12) and found.is_minimum


def test_the_same_answer_every_time() -> None:
    f = objective("F", tilted(0, 8))
    B = some_point(f, 0)
    assert second_order(f, B) == second_order(f, B)


@pytest.mark.parametrize(
    ("B", "words"),
    [
        (np.eye(4)[:3], ["(3, 4)", "(4, 4)"]),
        (np.ones(4), ["(4,)", "(4, 4)"]),
        (np.full((4, 4), np.nan), ["finite"]),
        (np.diag([1.0, 1.0, 1.0, np.inf]), ["finite"]),
        (2 * np.eye(4), ["norm 1", "divide"]),
        (np.zeros((4, 4)), ["norm 1", "divide"]),
    ],
)
def test_a_matrix_that_will_not_do_gets_one_sentence(B: Array, words: list[str]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        second_order(objective("f2f4", orthonormal(0)), B)
    is_a_sentence(error, *words)


@pytest.mark.parametrize("units", [3, 8])
@pytest.mark.parametrize("name", ["G", "F"])
def test_a_matrix_so_large_that_its_powers_overflow(name: str, units: int) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        second_order(objective(name, orthonormal(0, units)), 1e200 * np.eye(units))
    is_a_sentence(error, "large")


def test_rows_of_any_norm_are_welcome_where_they_are_free() -> None:
    assert np.isfinite(second_order(objective("G", orthonormal(0)), 2 * np.eye(4)).lowest)


# What the theorems say


def minimum(f: Objective, seed: int) -> Array:
    assert f.theorem is not None
    start = some_point(f, seed)
    found = minimise(f, start, slope=f.theorem.slope / 10, curvature=f.theorem.curvature)
    assert found.converged
    return found.B


def a_minimum(name: str, seed: int = 0) -> tuple[Objective, Array]:
    f = objective(name, orthonormal(seed) if name == "G" else tilted(seed))
    return f, minimum(f, seed)


@pytest.mark.parametrize(("name", "theorem"), [("G", "Theorem 5.1"), ("F", "Theorem A.4")])
def test_the_minimum_of_a_population_is_certified(name: str, theorem: str) -> None:
    found = second_order(*a_minimum(name))
    assert found.theorem_applies and found.is_minimum and found.sampling == 0.0
    assert found.message.startswith("A local minimum:")
    assert theorem in found.message and found.message.endswith("so it is near a global one.")


@pytest.mark.parametrize("name", ["G", "F"])
@pytest.mark.parametrize("size", [1e-6, 1e-2, 1.0])
def test_a_point_beside_it_is_not(name: str, size: float) -> None:
    f, B = a_minimum(name)
    V = np.random.default_rng([0, 4]).standard_normal(B.shape)
    found = second_order(f, B + size * V)
    assert not found.theorem_applies
    assert found.message.endswith("no guarantee.")
    if size > 1e-5:
        assert not found.is_minimum and found.message.startswith("Not a local minimum:")


def saddles(f: Objective, B: Array) -> dict[str, Array]:
    """Points where the gradient vanishes, from a minimum B."""
    zero = np.zeros(B.shape)
    row = B.copy()
    row[0] = 0.0
    found = {"all rows zero": zero, "a row zero": row}
    # Two rows on one unit: kept so by symmetry, with the norm that is at rest there.
    twice = B.copy()
    twice[1] = twice[0]
    found["two rows alike"] = minimise(f, twice, slope=1e-12, curvature=np.inf).B
    return found


@pytest.mark.parametrize("name", ["G", "F"])
@pytest.mark.parametrize("kind", ["all rows zero", "a row zero", "two rows alike"])
def test_a_saddle_is_not_a_minimum(name: str, kind: str) -> None:
    """Theorem 2.3.2: the slope is nothing, and yet an eigenvalue is below -tau_0."""
    f, B = a_minimum(name)
    assert f.theorem is not None
    found = second_order(f, saddles(f, B)[kind])
    assert found.slope < 1e-9
    assert found.lowest < -f.theorem.curvature
    assert not found.is_minimum and not found.theorem_applies


@pytest.mark.parametrize("name", ["G", "F"])
def test_samples_are_never_certified_by_a_theorem_on_populations(name: str) -> None:
    truth = orthonormal(0) if name == "G" else tilted(0)
    X, y = pn.sample(truth, 20_000, rng=np.random.default_rng([0, 5]))
    f = objective(name, ArraySource(X, y))
    assert f.theorem is not None
    B = minimise(f, some_point(f, 0), slope=f.theorem.slope / 10, curvature=f.theorem.curvature).B
    found = second_order(f, B)
    assert found.is_minimum and found.sampling > found.theorem.slope
    assert not found.theorem_applies
    assert "Sampling error" in found.message and found.message.endswith("no guarantee.")


@pytest.mark.parametrize("name", ["l2", "f2f4", "abs", "P'"])
def test_without_a_theorem_nothing_is_promised(name: str) -> None:
    truth = orthonormal(0)
    found = second_order(objective(name, truth), truth.weights)
    assert found.theorem is None and found.is_minimum and not found.theorem_applies
    assert found.message.startswith("A local minimum:")
    assert found.message.endswith("No theorem says whether such are global.")


THEOREM = Theorem("Theorem 9.9", slope=1e-3, curvature=1e-2)
JUST = SecondOrder(0.0, slope=1e-3, lowest=-1e-2, scale=1e5, sampling=0.0, theorem=THEOREM)


@pytest.mark.parametrize(
    ("change", "applies"),
    [
        ({}, True),
        ({"slope": 1.1e-3}, False),
        ({"lowest": -1.1e-2}, False),
        ({"sampling": 1e-4}, False),
        ({"slope": 5e-4, "sampling": 4e-4}, True),
        ({"slope": np.nan}, False),
        ({"lowest": np.nan}, False),
        ({"sampling": np.nan}, False),
        ({"theorem": None}, False),
    ],
)
def test_when_a_theorem_applies(change: dict[str, float], applies: bool) -> None:
    """Slope with sampling error at most epsilon, no eigenvalue below -tau_0; nan: no."""
    found = replace(JUST, **change)
    assert found.theorem_applies is applies
    assert ("near a global one" in found.message) is applies
    assert found.message.endswith(".") and "\n" not in found.message


def test_what_counts_as_zero_is_measured_by_the_hessian() -> None:
    assert JUST.is_minimum
    assert not replace(JUST, scale=1e2).is_minimum
    assert not replace(JUST, slope=np.nan).is_minimum
