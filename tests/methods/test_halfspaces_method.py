"""The method "halfspaces" as `recover` runs it: on the user's inputs, with a status."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import provenet as pn
from helpers import is_a_sentence, judged
from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, QuerySource, Source
from provenet.fitting.context import Context, Options, prepare

W = np.array([[0.8, 0.6, 0.0, 0.0], [0.0, -0.6, 0.8, 0.0], [-0.6, 0.0, 0.0, 0.8]])
T = np.array([1.2, 1.5, 1.8])
MIX = np.array([[1.0, 0.5, 0, 0], [0, 3.0, 0, 0.2], [0, 0.4, 0.5, 0], [0, 0, 0.3, 2.0]])
MEAN = np.array([1.0, -2.0, 0.5, 3.0])


def prepared(source: Source, seed: int = 0, **options: object) -> Context:
    return prepare(
        source,
        Options(**options),  # type: ignore[arg-type]
        source.standardisation(),
        rng=np.random.default_rng(seed),
        progress=lambda stage, fraction, message: None,
        deadline=np.inf,
    )


def recovered(source: Source, seed: int = 0, **options: object) -> Recovery:
    answer = judged(prepared(source, seed, **options), "halfspaces")
    assert answer.method == "halfspaces" and answer.claim == "layer"
    return answer


def inputs(n: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((n, 4))


def fires(Z: Array) -> Array:
    return np.asarray(np.any(Z @ W.T > T, axis=1), float)


def check(result: Recovery, weights: Array, thresholds: Array) -> None:
    """Every unit within 4 of its own standard errors, of angles below one degree."""
    assert result.network is not None and result.layer is not None
    found, errors = result.network, result.layer
    rows, columns = linear_sum_assignment(-(found.weights @ weights.T))
    assert len(rows) == found.units == len(weights)
    chords = np.linalg.norm(found.weights[rows] - weights[columns], axis=1)
    assert np.all(chords < 4 * errors.angle_errors[rows])
    offsets = np.abs(-found.biases[rows] - thresholds[columns])
    assert np.all(offsets < 4 * errors.threshold_errors[rows])
    assert np.degrees(errors.angle_errors.max()) < 1


@pytest.mark.parametrize("intersection", [False, True])
def test_inputs_of_any_mean_and_covariance(intersection: bool) -> None:
    """Errors are stated on the user's inputs too, each beside its own unit."""
    Z = inputs(40_000, 0)
    X = Z @ MIX.T + MEAN
    y = 1 - fires(Z) if intersection else fires(Z)
    result = recovered(ArraySource(X, y), units=3)
    assert result.status is Status.WITHIN_NOISE and result.success
    assert "degrees" in result.message and "not fitted" in result.message
    V = W @ np.linalg.inv(MIX)
    norms, sign = np.linalg.norm(V, axis=1), -1 if intersection else 1
    check(result, sign * V / norms[:, None], sign * (T + V @ MEAN) / norms)
    assert result.layered is not None and result.network is not None
    assert result.network.activation.name == "step"
    np.testing.assert_array_equal(result.network.output_weights, np.ones(3))
    fresh = inputs(40_000, 1)
    labels = 1 - fires(fresh) if intersection else fires(fresh)
    assert np.mean(result.layered(fresh @ MIX.T + MEAN) == labels) > 0.999


def test_each_unit_has_its_own_evidence() -> None:
    """The rarer a unit fires alone, the fewer samples speak for it."""
    result = recovered(ArraySource(inputs(40_000, 2), fires(inputs(40_000, 2))))
    assert result.network is not None and result.layer is not None
    by_threshold = np.argsort(-result.network.biases)
    assert np.all(np.diff(result.layer.samples[by_threshold]) < 0)
    X = inputs(40_000, 2)
    inside = X @ W.T > T
    alone = [int(np.sum(inside[:, i] & (inside.sum(axis=1) == 1))) for i in range(3)]
    # A tenth of the drawn samples, 2000 of 40,000 here, is held out: 5%, give or take.
    np.testing.assert_allclose(result.layer.samples[by_threshold], alone, rtol=0.08)
    assert not result.layer.exact


@pytest.mark.parametrize("common", [0, 1])
def test_errors_stand_beside_their_units(common: int) -> None:
    """A halfspace of 1 in 120 samples beside one of 1 in 3: errors differ tenfold or more."""
    X = inputs(20_000, 10)
    t = np.where(np.arange(2) == common, 0.5, 2.4)
    result = recovered(ArraySource(X, np.any(X[:, :2] - t > 0, axis=1).astype(float)))
    assert result.success and result.network is not None and result.layer is not None
    rare = int(np.argmin(result.network.biases))
    for errors in (result.layer.angle_errors, result.layer.threshold_errors):
        assert errors[rare] > 3 * errors[1 - rare]


def test_labels_of_plus_and_minus_one_and_a_queried_function() -> None:
    source = QuerySource(lambda X: 2 * fires(X) - 1, 4, 40_000, rng=3)
    result = recovered(source)
    assert result.success
    check(result, W, T)


def test_held_out_samples_are_kept_from_the_fit() -> None:
    """The accuracy stated counts labels that no fit saw: with flips it is their share."""
    X = inputs(20_000, 4)
    y = fires(X)
    flips = np.random.default_rng(4).random(len(y)) < 0.05
    result = recovered(ArraySource(X, np.where(flips, 1 - y, y)))
    assert result.success
    check(result, W, T)
    stated = re.search(r"of (\d+) samples that were not fitted (\d+) are predicted", result.message)
    assert stated is not None
    samples, right = map(int, stated.groups())
    assert samples == 2000
    # Four standard deviations of a share of 2000, and the faces' own errors far below it.
    assert abs(right / samples - 0.95) < 4 * np.sqrt(0.05 * 0.95 / samples)


def test_unseen_labels_do_not_change_the_answer() -> None:
    """The same draw with every held-out label turned round: the same network, none predicted.

    Which is no success.
    """
    X = inputs(20_000, 4)
    y = fires(X)
    plain = recovered(ArraySource(X, y))
    source = ArraySource(X, y)
    context = prepared(source)
    held = np.flatnonzero(np.isin(X[:, 0], context.held_out.X[:, 0]))
    assert len(held) == 2000
    context.held_out.y[:] = 1 - context.held_out.y
    y[held] = 1 - y[held]
    turned = judged(context, "halfspaces")
    assert plain.network is not None and turned.network is not None
    np.testing.assert_array_equal(turned.network.weights, plain.network.weights)
    assert plain.status is Status.WITHIN_NOISE and turned.status is Status.PARTIAL
    assert "labels that were not fitted are wrong, 100%" in turned.message
    assert "2000 samples that were not fitted 0 are" in turned.message


def test_the_same_seed_gives_the_same_answer() -> None:
    X = inputs(20_000, 5)
    one, two = (recovered(ArraySource(X, fires(X)), seed=5) for _ in range(2))
    assert one.network is not None and two.network is not None
    np.testing.assert_array_equal(one.network.weights, two.network.weights)
    assert one.message == two.message


def test_a_threshold_that_is_given_is_said_to_be_unused() -> None:
    X = inputs(20_000, 6)
    assert "not used" in recovered(ArraySource(X, fires(X)), threshold=2.0).message


# ---------------------------------------------------------------- statuses


@pytest.mark.parametrize(
    ("labels", "options", "status", "words"),
    [
        (fires, {"units": 2}, Status.PARTIAL, "more than the 2 asked for"),
        (fires, {"units": 4}, Status.PARTIAL, "fewer than the 4 asked for"),
        (lambda X: (X[:, 0] > 1.5) | (X[:, 1] > 3.75), {}, Status.PARTIAL, "would be needed"),
        (
            lambda X: (X[:, 0] > 1) | (X @ [np.cos(0.005), np.sin(0.005), 0, 0] > 1),
            {},
            Status.PARTIAL,
            "too close",
        ),
        (lambda X: (X[:, 0] > 1) ^ (X[:, 1] > 1), {}, Status.FAILED, "no union"),
    ],
    ids=["too few asked for", "too many asked for", "too high", "too close", "no union"],
)
def test_statuses(labels: object, options: dict[str, object], status: Status, words: str) -> None:
    X = inputs(50_000 if status is Status.PARTIAL else 15_000, 7)
    result = recovered(ArraySource(X, labels(X).astype(float)), **options)  # type: ignore[operator]
    assert result.status is status and words in result.message
    assert result.network is not None and result.layered is not None
    assert result.layered.units == result.network.units and "not fitted" in result.message


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (lambda X: np.zeros(len(X)), ("more samples",)),
        (lambda X: np.arange(len(X)) % 3, ("more than two values",)),
        (lambda X: X[:, 0] > 3.6, ("too high", "would be needed")),
    ],
    ids=["never", "not two-valued", "too high"],
)
def test_no_answer(labels: object, words: tuple[str, ...], faithful: bool) -> None:
    X = inputs(20_000, 8)
    source = ArraySource(X, np.asarray(labels(X), float))  # type: ignore[operator]
    with pytest.raises(NoAnswer) as error:
        recovered(source, faithful=faithful)
    is_a_sentence(error, *words)


def test_values_between_those_that_were_fitted() -> None:
    """Of 7 values 2 are held out, one of them beside the face: its labels are missed."""
    x = np.random.default_rng(0).integers(-3, 4, (2000, 1)).astype(float)
    result = pn.recover(x, (x[:, 0] > 1).astype(float), method="halfspaces", rng=0)
    assert result.status is Status.PARTIAL
    assert "that were not fitted are wrong" in result.message
    # With another choice of the 2 all is predicted, and nothing confirmed.
    result = pn.recover(x, (x[:, 0] > 1).astype(float), method="halfspaces", rng=1)
    assert result.status is Status.PARTIAL


@pytest.mark.parametrize(("n", "status"), [(150, Status.PARTIAL), (200, Status.WITHIN_NOISE)])
def test_few_samples_confirm_nothing(n: int, status: Status) -> None:
    X = inputs(n, 0)[:, :2]
    result = recovered(ArraySource(X, (X[:, 0] > 1).astype(float)))
    assert result.status is status
    assert ("Only 15 different inputs" in result.message) == (n == 150)


def pair(seed: int) -> tuple[Array, Array, Array]:
    """Two halfspaces of two features 25 degrees apart, 200 samples: mostly told as one."""
    angle = np.radians(25)
    weights = np.array([[1, 0], [np.cos(angle), np.sin(angle)]])
    return weights, np.ones(2), np.random.default_rng(seed).standard_normal((200, 2))


def four(seed: int) -> tuple[Array, Array, Array]:
    """Four halfspaces of two features, 400 samples."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0, 2 * np.pi, 4)
    weights = np.column_stack([np.cos(angles), np.sin(angles)])
    return weights, np.ones(4), rng.standard_normal((400, 2))


@pytest.mark.parametrize(
    ("problem", "seeds"),
    [(pair, (1, 11, 16, 25, 53)), (four, (4, 9, 18, 20, 23))],
    ids=["two", "four"],
)
def test_a_face_that_stands_for_two_has_no_small_error(
    problem: Callable[[int], tuple[Array, Array, Array]], seeds: tuple[int, ...]
) -> None:
    """A success has every halfspace within 6 stated errors of a true one.

    Before, these seeds were successes off by 9 to 280 of them.
    """
    for seed in seeds:
        weights, thresholds, Z = problem(seed)
        y = np.any(Z @ weights.T - thresholds > 0, axis=1).astype(float)
        result = pn.recover(Z, y, method="halfspaces", rng=seed)
        if not result.success:
            continue
        assert result.network is not None and result.layer is not None
        angles = np.linalg.norm(result.network.weights[:, None] - weights, axis=2)
        offsets = np.abs(-result.network.biases[:, None] - thresholds)
        off = np.maximum(
            angles / result.layer.angle_errors[:, None],
            offsets / result.layer.threshold_errors[:, None],
        )
        assert off.min(axis=1).max() < 6, (seed, result.message)


def test_a_version_space_that_collapses_is_a_sign_of_two() -> None:
    """No label contradicts the one face: just so, within a hundredth of the usual error."""
    weights, thresholds, Z = pair(25)
    y = np.any(Z @ weights.T - thresholds > 0, axis=1).astype(float)
    result = pn.recover(Z, y, method="halfspaces", rng=25)
    assert result.status is Status.PARTIAL and "far less room" in result.message
    assert result.layer is not None and np.degrees(result.layer.angle_errors[0]) > 1


@pytest.mark.parametrize("flips", [0.0, 0.05])
def test_one_feature(flips: float) -> None:
    """A point cannot be tilted to make two of it. Grammar is that of one."""
    x = np.random.default_rng(0).standard_normal((2000, 1))
    y = (x[:, 0] > 1).astype(float)
    y = np.where(np.random.default_rng(1).random(2000) < flips, 1 - y, y)
    told: list[str] = []
    result = pn.recover(
        x, y, method="halfspaces", rng=0, progress=lambda stage, done, text: told.append(text)
    )
    assert result.success and result.network is not None and result.layer is not None
    assert abs(-result.network.biases[0] - 1) < 4 * result.layer.threshold_errors[0]
    assert "1 face" in told and "1 halfspace of a union" in result.message
    faithful = pn.recover(x, y, method="halfspaces", rng=0, faithful=True)
    assert "1 halfspace" in faithful.message or "1 direction" in faithful.message
    assert "step 2" in faithful.timings and "refine" not in faithful.timings


# ---------------------------------------------------------------- the paper as it stands


@pytest.mark.parametrize("intersection", [False, True])
@pytest.mark.parametrize(("threshold", "objective"), [(None, "auto"), (2.2, "simultaneous")])
def test_theorem_6_whole(intersection: bool, threshold: float | None, objective: str) -> None:
    """Both steps on 100,000 samples of orthonormal normals at 2.2: coarse, and said to be.

    A unit is off by what is stated, or chance; 3 times that was not seen in 25 seeds. Offsets have
    errors of their own, of samples on either side.
    """
    X = inputs(100_000, 9)
    y = np.any(X[:, :3] > 2.2, axis=1)
    y = ~y if intersection else y
    result = recovered(
        ArraySource(X, y.astype(float)), faithful=True, threshold=threshold, objective=objective
    )
    assert result.status is Status.PARTIAL and "coarse" in result.message
    assert result.network is not None and result.layer is not None
    sign = -1 if intersection else 1
    rows, columns = linear_sum_assignment(-sign * result.network.weights[:, :3])
    truth = sign * np.eye(4)[columns]
    off = np.linalg.norm(result.network.weights[rows] - truth, axis=1)
    assert len(rows) == 3 and np.degrees(off.max()) < 8
    assert np.all(off < 3 * result.layer.angle_errors[rows])
    offsets = np.abs(-sign * result.network.biases - 2.2)
    assert np.all(offsets < 5 * result.layer.threshold_errors)
    first = result.layer.first
    assert first is not None and first.turned is not None
    assert np.all(np.sum(first.weights * result.network.weights, axis=1) > np.cos(0.4))
    assert result.layered is not None and "Found: 3 halfspaces of a" in result.message


def test_theorem_6_by_questions_of_an_intersection() -> None:
    """Algorithm 1 asks labels that are turned over; 1e-2 rad is reached."""
    w = np.array([0.6, 0.8])
    source = QuerySource(lambda X: (X @ w < 1.8).astype(float), 2, 30_000, rng=3)
    result = recovered(source, faithful=True)
    assert result.success and result.network is not None
    assert np.linalg.norm(result.network.weights[0] + w) < 1e-2
    assert abs(result.network.biases[0] - 1.8) < 0.02


def test_step_two_that_cannot_go_on_leaves_step_one() -> None:
    """Samples past the threshold are too few to see a rise: step 1 is said not to be refined."""
    X = inputs(20_000, 10)
    result = recovered(ArraySource(X, (X[:, 0] > 2.7).astype(float)), faithful=True)
    assert result.status is Status.PARTIAL and "not refined" in result.message
    assert result.layer is not None and result.layer.first is None


def test_an_objective_that_is_not_used_is_said_to_be_so() -> None:
    X = inputs(20_000, 6)
    source = ArraySource(X, fires(X))
    assert "objective given was not used" in recovered(source, objective="simultaneous").message
