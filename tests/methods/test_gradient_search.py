"""Faces of units under tops without linear terms, from samples made of their answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from helpers import FakeClock, judged
from provenet.certify.checks import Status
from provenet.certify.residual_form import at_the_face
from provenet.certify.result import Recovery
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, QuerySource, Source
from provenet.fitting.context import Context, Options, prepare
from provenet.lowest_layer.faces.search import FaceUnits, find_faces
from provenet.methods.gradient_search import gradient_search
from provenet.networks.activations import get_activation
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer, sigmoid_of_sum

TOPS = {
    "product": {(0, 1): 1.0},
    "parity": {(0,): 1.0, (1,): 1.0, (0, 1): -2.0},
    "all pairs": {(0, 1): 1.0, (0, 2): 0.5, (1, 2): -1.0},
    "hidden": {(0, 1): 1.0, (0,): -0.5},
}


def problem(top: str, features: int, t: float, activation: str, seed: int = 0) -> LayeredNetwork:
    """Two orthogonal units, or three that are not, under one of the tops."""
    rng = np.random.default_rng([seed, 3])
    W = np.linalg.qr(rng.standard_normal((features, features)))[0][: 3 if top == "all pairs" else 2]
    if top == "all pairs":
        W = W + 0.3 * np.roll(W, 1, axis=0)
        W /= np.linalg.norm(W, axis=1, keepdims=True)
    return LayeredNetwork(lowest_layer(W, t, activation), Polynomial(len(W), TOPS[top]))


def samples(
    f: Callable[[Array], Array], features: int, n: int, seed: int = 0, noise: float = 0.0
) -> ArraySource:
    rng = np.random.default_rng([seed, 5])
    X = rng.standard_normal((n, features))
    return ArraySource(X, f(X) + noise * rng.standard_normal(n))


def context(
    source: Source,
    activation: str,
    *,
    deadline: float = np.inf,
    seed: int = 0,
    progress: Callable[[str, float, str], None] = lambda stage, fraction, message: None,
    units: int | None = None,
    noise: float | None = None,
    refine: bool = True,
) -> Context:
    options = Options(units, noise, get_activation(activation), refine)
    return prepare(
        source,
        options,
        source.standardisation(),
        rng=np.random.default_rng(seed),
        progress=progress,
        deadline=deadline,
    )


def search(source: Source, activation: str, **options: object) -> Recovery:
    result = judged(context(source, activation, **options), "gradient-search")  # type: ignore[arg-type]
    assert result.method == "gradient-search" and result.message.endswith(".")
    return result


def off(result: Recovery, W: Array, T: Array) -> tuple[Array, Array]:
    """Angles and threshold errors of the units found, in their order, up to (w, t) = (-w, -t)."""
    assert result.network is not None and result.network.units == len(W), result.message
    found, thresholds = result.network.weights, -result.network.biases
    C = found @ W.T
    nearest = np.argmax(np.abs(C), axis=1)
    assert sorted(nearest) == list(range(len(W)))
    sign = np.sign(C[np.arange(len(W)), nearest])
    angles = np.linalg.norm(found * sign[:, None] - W[nearest], axis=1)
    return angles, np.abs(thresholds * sign - T[nearest])


def assert_within_errors(result: Recovery, network: LayeredNetwork, degrees: float) -> None:
    """Errors of at most 4.5 of the standard errors that are stated, and these small."""
    angles, thresholds = off(result, network.layer.weights, network.thresholds)
    assert result.layer is not None
    assert np.all(angles < 4.5 * result.layer.angle_errors)
    assert np.all(thresholds < 4.5 * result.layer.threshold_errors)
    assert np.degrees(angles.max()) < degrees
    assert np.degrees(result.layer.angle_errors.max()) < degrees


@pytest.mark.parametrize("t", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("features", [2, 3])
@pytest.mark.parametrize("top", ["product", "parity"])
def test_steps_are_found_within_their_errors(top: str, features: int, t: float) -> None:
    network = problem(top, features, t, "step")
    result = search(samples(network, features, 20_000), "step")
    # Samples leave a gap about each face: steps are never exact from samples alone.
    assert result.status is Status.WITHIN_NOISE, result.message
    assert_within_errors(result, network, degrees=1.5)
    assert result.layered is not None
    fresh = samples(network, features, 20_000, seed=9)
    wrong = np.abs(result.layered(fresh.X) - fresh.y) > 1e-6
    assert wrong.mean() < 0.02


@pytest.mark.parametrize("t", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("features", [2, 3])
def test_relus_are_exact(features: int, t: float) -> None:
    network = problem("product", features, t, "relu")
    result = search(samples(network, features, 10_000), "relu")
    assert result.status is Status.EXACT and result.layer is not None and result.layer.exact
    angles, thresholds = off(result, network.layer.weights, network.thresholds)
    assert angles.max() < 1e-12 and thresholds.max() < 1e-12
    assert result.layered is not None
    fresh = samples(network, features, 1000, seed=9)
    np.testing.assert_allclose(result.layered(fresh.X), fresh.y, atol=1e-11)


@pytest.mark.parametrize(("activation", "degrees"), [("step", 1.0), ("relu", 1e-9)])
def test_three_units_that_are_not_orthogonal(activation: str, degrees: float) -> None:
    network = problem("all pairs", 3, 0.5, activation)
    result = search(samples(network, 3, 30_000), activation)
    assert result.success, result.message
    angles, _ = off(result, network.layer.weights, network.thresholds)
    assert np.degrees(angles.max()) < degrees
    fresh = samples(network, 3, 1000, seed=9)
    assert result.layered is not None
    assert np.mean(np.abs(result.layered(fresh.X) - fresh.y) > 1e-6) < 0.02


@pytest.mark.parametrize(
    ("top", "activation", "noise"),
    [("product", "step", 0.2), ("parity", "step", 0.3), ("product", "relu", 0.1)],
)
def test_noise_is_stated_in_the_errors(top: str, activation: str, noise: float) -> None:
    network = problem(top, 2, 0.0, activation)
    result = search(samples(network, 2, 40_000, noise=noise), activation)
    assert result.status is Status.WITHIN_NOISE, result.message
    assert_within_errors(result, network, degrees=1.5)
    assert "standard errors" in result.message


def test_a_step_whose_mean_jump_vanishes_is_found_all_the_same() -> None:
    """`X_1 X_2 - X_1 / 2` through the origin: the jump of X_1 is 1/2 and -1/2 in equal parts."""
    network = problem("hidden", 2, 0.0, "step")
    result = search(samples(network, 2, 20_000), "step")
    assert result.success, result.message
    assert_within_errors(result, network, degrees=1.5)


def test_four_features() -> None:
    network = problem("product", 4, 0.0, "relu")
    result = search(samples(network, 4, 10_000), "relu")
    assert result.status is Status.EXACT
    assert off(result, network.layer.weights, network.thresholds)[0].max() < 1e-10


@pytest.mark.parametrize("activation", ["step", "relu"])
def test_inputs_of_any_mean_and_covariance(activation: str) -> None:
    network = problem("product", 3, 0.5, activation)
    Z = samples(network, 3, 30_000)
    mix = np.random.default_rng(6).standard_normal((3, 3)) + 2 * np.eye(3)
    result = search(ArraySource(Z.X @ mix.T + 1.0, Z.y), activation)
    W = network.layer.weights @ np.linalg.inv(mix)
    norm = np.linalg.norm(W, axis=1)
    layer = lowest_layer(W / norm[:, None], (network.thresholds + W.sum(axis=1)) / norm, activation)
    user = LayeredNetwork(layer, network.top)
    if activation == "relu":
        assert result.status is Status.EXACT
        assert max(e.max() for e in off(result, layer.weights, user.thresholds)) < 1e-11
    else:
        assert result.success
        assert_within_errors(result, user, degrees=3.0)
    assert result.layered is not None
    assert np.mean(np.abs(result.layered(Z.X @ mix.T + 1.0) - Z.y) > 1e-6) < 0.02


@pytest.mark.parametrize("top", ["product", "parity"])
def test_a_function_that_may_be_asked_gives_exact_steps(top: str) -> None:
    network = problem(top, 3, 0.5, "step")
    source = QuerySource(network, 3, 20_000, rng=1)
    result = search(source, "step")
    assert result.status is Status.EXACT, result.message
    angles, thresholds = off(result, network.layer.weights, network.thresholds)
    assert angles.max() < 1e-8 and thresholds.max() < 1e-8
    assert source.queries > 30_000
    rough = search(QuerySource(network, 3, 10_000, rng=1), "step", refine=False)
    assert rough.status is Status.WITHIN_NOISE


@pytest.mark.parametrize("activation", ["step", "relu"])
@pytest.mark.parametrize("name", ["wave", "polynomial", "noise"])
def test_smooth_functions_and_noise_have_no_face(name: str, activation: str) -> None:
    rng = np.random.default_rng(9)
    f = {
        "wave": lambda X: np.sin(2 * X[:, 0] + X[:, 1]),
        "polynomial": lambda X: X[:, 0] ** 3 * X[:, 1],
        "noise": lambda X: rng.standard_normal(len(X)),
    }[name]
    with pytest.raises(NoAnswer) as error:
        search(samples(f, 2, 20_000), activation)
    expected = "smooth" if name == "wave" else "samples would be needed"
    assert expected in str(error.value)


def test_a_missing_unit_is_not_passed_over() -> None:
    network = problem("product", 3, 0.5, "relu")
    source = samples(network, 3, 10_000)
    more = search(source, "relu", units=3)
    assert more.status is Status.PARTIAL and "3 units were asked for" in more.message
    fewer = search(source, "relu", units=1)
    assert fewer.status is Status.PARTIAL and "no noise" in fewer.message


@pytest.mark.parametrize(("noise", "seeds"), [(0.0, (2, 3, 6)), (0.002, (0, 1, 2))])
def test_two_relus_that_are_told_as_one_are_no_noise(noise: float, seeds: tuple[int, ...]) -> None:
    """They differ from one in a wedge of 0.05 radians, and nowhere else."""
    turn = np.array([[np.cos(0.05), -np.sin(0.05)], [np.sin(0.05), np.cos(0.05)]])
    for seed in seeds:
        rng = np.random.default_rng(seed)
        q = rng.standard_normal(2)
        W = np.stack([q, turn @ q]) / np.linalg.norm(q)
        X = rng.standard_normal((4000, 2))
        y = np.maximum(X @ W.T - 0.3, 0).sum(axis=1) + noise * rng.standard_normal(4000)
        result = search(ArraySource(X, y), "relu", seed=seed)
        assert result.status is Status.PARTIAL, result.message
        assert "no noise" in result.message


@pytest.mark.parametrize("law", ["normal", "cauchy", "sparse", "growing"])
def test_noise_does_not_know_of_the_face(law: str) -> None:
    """Of any law, and of a size that depends on the inputs; spikes in a wedge do."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        distance = np.abs(rng.standard_normal(20_000))
        noise = {
            "normal": rng.standard_normal(20_000),
            "cauchy": rng.standard_cauchy(20_000),
            "sparse": np.where(rng.random(20_000) < 0.01, rng.standard_normal(20_000), 1e-9),
            "growing": (1 + distance) * rng.standard_normal(20_000),
        }[law]
        assert not at_the_face(distance, noise)
        if law == "normal":
            assert at_the_face(distance, noise + 5 * (distance < 0.02))


def test_one_unit_is_spoken_of_as_one() -> None:
    x = np.random.default_rng(0).standard_normal((3000, 1))
    told: list[str] = []
    result = search(
        ArraySource(x, (x[:, 0] > 0.5).astype(float)),
        "step",
        units=2,
        progress=lambda stage, fraction, message: told.append(message),
    )
    assert "1 direction of 1 feature" in told and "on 1 unit" in told
    assert "the other shows no face" in result.message


def test_noise_that_was_given_is_held_against_the_answer() -> None:
    network = problem("product", 2, 0.0, "step")
    source = samples(network, 2, 20_000, noise=0.2)
    assert search(source, "step", noise=0.2).success
    result = search(source, "step", noise=0.02)
    assert result.status is Status.PARTIAL and "noise=0.02" in result.message


def test_a_top_that_is_no_polynomial_is_no_success() -> None:
    network = problem("product", 2, 0.5, "relu")
    network = replace(network, top=sigmoid_of_sum([3.0, 3.0]))
    result = search(samples(network, 2, 20_000), "relu")
    assert result.status is Status.PARTIAL and "no polynomial" in result.message


@pytest.mark.parametrize("looks", [0, 2])
def test_the_budget_stops_the_search(looks: int, clock: FakeClock) -> None:
    """Once time is over the clock is read a few times more, not before each of 1,500 directions."""
    network = problem("product", 4, 0.0, "step")
    clock.tick = 1.0
    given = context(samples(network, 4, 20_000), "step", deadline=clock.now + looks)
    with pytest.raises(NoAnswer, match="The budget was used up with"):
        next(gradient_search(given))
    assert looks < clock.reads < looks + 10


def test_what_was_found_in_time_is_returned_as_a_part(clock: FakeClock) -> None:
    """The clock is read before each of 147 directions: time ends within the second scan."""
    network = problem("product", 3, 0.5, "step")
    given = context(samples(network, 3, 20_000, noise=0.1), "step")
    clock.tick = 1.0
    in_time = replace(given.problem, deadline=clock.now + 270.0)
    result = judged(replace(given, problem=in_time), "gradient-search")
    assert result.status is Status.PARTIAL and "budget" in result.message
    assert_within_errors(result, network, degrees=2.0)


def test_the_same_seed_gives_the_same_answer() -> None:
    network = problem("parity", 2, 0.5, "step")
    first, second = (
        search(samples(network, 2, 10_000, noise=0.1), "step", seed=3) for _ in range(2)
    )
    assert first.network is not None and second.network is not None
    assert np.array_equal(first.network.weights, second.network.weights)
    assert np.array_equal(first.network.biases, second.network.biases)
    assert first.message == second.message


def test_held_out_samples_are_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(source: Source, *args: object, **options: object) -> FaceUnits:
        seen.append(source.size)
        return find_faces(source, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("provenet.methods.gradient_search.find_faces", spy)
    network = problem("product", 2, 0.0, "relu")
    given = context(samples(network, 2, 10_000), "relu")
    next(gradient_search(given))
    assert seen == [10_000 - given.held_out.size] and given.held_out.size > 500


def test_progress_rises_to_the_end() -> None:
    told: list[float] = []
    network = problem("product", 3, 0.5, "step")
    search(
        samples(network, 3, 10_000),
        "step",
        progress=lambda stage, fraction, message: told.append(fraction),
    )
    fractions = [f for f in told if f >= 0]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0 and len(fractions) > 100


@pytest.mark.parametrize(
    ("features", "n", "activation", "words"),
    [
        (5, 3000, "step", ("exponentially", '"lowest-layer"', '"halfspaces"', '"expand-prune"')),
        (3, 1000, "step", ("1650",)),
        (3, 3000, "sigmoid", ("sigmoid", '"step"', '"relu"')),
    ],
)
def test_what_cannot_be_searched_is_refused(
    features: int, n: int, activation: str, words: tuple[str, ...]
) -> None:
    source = samples(lambda X: (X[:, 0] > 0).astype(float), features, n)
    with pytest.raises(NoAnswer) as error:
        search(source, activation)
    message = str(error.value)
    assert "\n" not in message and message.endswith(".")
    assert all(word in message for word in words), message
