"""The method "halfspaces" as `recover` runs it: on the user's inputs, with a status."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from helpers import is_a_sentence
from provenet.exceptions import NoAnswer
from provenet.methods.halfspaces import halfspaces
from provenet.result import Recovery, Status
from provenet.sources import ArraySource, QuerySource, Source
from provenet.typing import Array
from provenet.workspace import Wishes, Workspace, prepare

W = np.array([[0.8, 0.6, 0.0, 0.0], [0.0, -0.6, 0.8, 0.0], [-0.6, 0.0, 0.0, 0.8]])
T = np.array([1.2, 1.5, 1.8])
MIX = np.array([[1.0, 0.5, 0, 0], [0, 3.0, 0, 0.2], [0, 0.4, 0.5, 0], [0, 0, 0.3, 2.0]])
MEAN = np.array([1.0, -2.0, 0.5, 3.0])


def prepared(source: Source, seed: int = 0, **wishes: object) -> Workspace:
    return prepare(
        source,
        Wishes(**wishes),  # type: ignore[arg-type]
        source.standardisation(),
        rng=np.random.default_rng(seed),
        progress=lambda stage, fraction, message: None,
        deadline=time.monotonic() + 60,
    )


def recovered(source: Source, seed: int = 0, **wishes: object) -> Recovery:
    answers = list(halfspaces(prepared(source, seed, **wishes)))
    assert len(answers) == 1 and answers[0].method == "halfspaces"
    return answers[0]


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
    assert not result.layer.exact and result.layer.unexplained == 0


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
    """The same draw with every held-out label turned round: the same network, none predicted."""
    X = inputs(20_000, 4)
    y = fires(X)
    plain = recovered(ArraySource(X, y))
    source = ArraySource(X, y)
    workspace = prepared(source)
    held = np.flatnonzero(np.isin(X[:, 0], workspace.held_out.X[:, 0]))
    assert len(held) == 2000
    workspace.held_out.y[:] = 1 - workspace.held_out.y
    y[held] = 1 - y[held]
    turned = next(iter(halfspaces(workspace)))
    assert plain.network is not None and turned.network is not None
    np.testing.assert_array_equal(turned.network.weights, plain.network.weights)
    assert turned.status is plain.status
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


# ---------------------------------------------------------------- the paper as it stands


@pytest.mark.parametrize("intersection", [False, True])
@pytest.mark.parametrize("threshold", [None, 2.2])
def test_faithful_stops_at_the_directions_of_moments(
    intersection: bool, threshold: float | None
) -> None:
    """Orthonormal normals at 2.2, 3 of them, 200,000 samples: a few degrees, far from success.

    The allowed 15 degrees are three times the stated sampling error.
    """
    X = inputs(200_000, 9)
    y = np.any(X[:, :3] > 2.2, axis=1)
    y = ~y if intersection else y
    result = recovered(ArraySource(X, y.astype(float)), faithful=True, threshold=threshold)
    assert result.status is Status.PARTIAL and "not refined" in result.message
    assert result.network is not None and result.layer is not None
    found = result.network.weights * (-1 if intersection else 1)
    rows, columns = linear_sum_assignment(-found[:, :3])
    assert len(rows) == 3
    assert np.degrees(np.arccos(found[rows, columns].min())) < 15
    offsets = -result.network.biases * (-1 if intersection else 1)
    np.testing.assert_allclose(offsets, 2.2, atol=0.2 if threshold is None else 0.1)
    assert np.isnan(result.layer.threshold_errors).all()
