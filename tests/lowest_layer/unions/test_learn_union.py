"""Unions and intersections from their labels: normals, offsets, errors and problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from helpers import is_a_sentence
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.lowest_layer.unions import HalfspaceSet, learn_union

SIGMAS = 4.0
"""Standard errors allowed. Over 125 random problems (2 to 8 features, 1 to 6 halfspaces, up to 10%
of the labels flipped) the worst angle was 2.7 of them off and the worst offset 3.4."""


@dataclass(frozen=True)
class Truth:
    W: Array
    t: Array
    intersection: bool = False

    def labels(self, X: Array) -> Array:
        inside = (X @ self.W.T - self.t) > 0
        return (inside.all(axis=1) if self.intersection else inside.any(axis=1)).astype(float)

    def source(self, n: int, seed: int, flips: float = 0.0) -> ArraySource:
        rng = np.random.default_rng([seed, 1])
        X = rng.standard_normal((n, self.W.shape[1]))
        y = self.labels(X)
        return ArraySource(X, np.where(rng.random(n) < flips, 1 - y, y))


def normals(units: int, features: int, seed: int) -> Array:
    """Unit rows with pairwise |cos| of at most 0.5."""
    rng = np.random.default_rng(seed)
    W = np.empty((0, features))
    while len(W) < units:
        w = rng.standard_normal(features)
        w /= np.linalg.norm(w)
        if np.max(np.abs(W @ w), initial=0.0) <= 0.5:
            W = np.vstack([W, w])
    return W


def tilted(w: Array, degrees: float) -> Array:
    """Another unit vector at this angle."""
    across = np.linalg.svd(w[None])[2][1]
    return np.asarray(np.cos(np.radians(degrees)) * w + np.sin(np.radians(degrees)) * across)


def check(found: HalfspaceSet, truth: Truth, worst_degrees: float) -> None:
    """Every true halfspace is there, within its stated errors, and these are small."""
    assert found.success, found.problems
    assert found.units == len(truth.t) and found.intersection == truth.intersection
    rows, columns = linear_sum_assignment(-(found.weights @ truth.W.T))
    chords = np.linalg.norm(found.weights[rows] - truth.W[columns], axis=1)
    assert np.all(chords < SIGMAS * found.angle_errors[rows])
    offsets = np.abs(found.thresholds[rows] - truth.t[columns])
    assert np.all(offsets < SIGMAS * found.threshold_errors[rows])
    assert np.degrees(chords.max()) < worst_degrees
    np.testing.assert_allclose(np.linalg.norm(found.weights, axis=1), 1.0, atol=1e-12)


# Limits on angles are some three times the largest standard error that comes out: they fail if the
# errors, against which all else is measured, are stated too large.


@pytest.mark.parametrize("seed", range(3))
def test_a_union_with_unequal_thresholds(seed: int) -> None:
    truth = Truth(normals(4, 6, seed), np.array([1.0, 1.4, 1.8, 2.2]))
    source = truth.source(50_000, seed)
    found = learn_union(source, rng=seed)
    check(found, truth, 0.6)
    assert found.training_errors == 0 and found.flip_rate == 0 and found.separated.all()
    np.testing.assert_array_equal(found(source.X), source.y)
    fresh = np.random.default_rng([seed, 2]).standard_normal((100_000, 6))
    assert np.mean(found(fresh) == truth.labels(fresh)) > 0.999


def test_an_intersection_of_halfspaces_around_the_origin() -> None:
    truth = Truth(normals(5, 5, 3), np.array([-1.0, -1.3, -1.6, -1.9, -2.2]), intersection=True)
    check(learn_union(truth.source(50_000, 3), 5, rng=3), truth, 0.4)


@pytest.mark.parametrize("intersection", [False, True])
def test_the_commoner_label_may_be_that_of_the_union(intersection: bool) -> None:
    """Read as usual these labels are no union, and no intersection; so the other way is tried."""
    truth = Truth(normals(3, 5, 4), np.zeros(3), intersection)
    source = truth.source(30_000, 4)
    assert (np.mean(source.y) > 0.5) == (not intersection)
    check(learn_union(source, rng=4), truth, 0.3)


def test_the_two_readings_agree_on_complements() -> None:
    truth = Truth(normals(3, 4, 5), np.array([1.0, 1.5, 2.0]))
    source = truth.source(20_000, 5)
    union = learn_union(source, rng=5, intersection=False)
    other = learn_union(ArraySource(source.X, 1 - source.y), rng=5, intersection=True)
    np.testing.assert_array_equal(other.weights, -union.weights)
    np.testing.assert_array_equal(other.thresholds, -union.thresholds)
    X = source.X[:1000]
    np.testing.assert_array_equal(other(X), 1 - union(X))


@pytest.mark.parametrize("flips", [1e-3, 0.1])
def test_flipped_labels(flips: float) -> None:
    truth = Truth(normals(3, 5, 6), np.array([1.0, 1.3, 1.6]))
    found = learn_union(truth.source(30_000, 6, flips), rng=6)
    check(found, truth, 0.6)
    # A share of some 25,000 labels far from the faces: four standard deviations.
    assert abs(found.flip_rate - flips) < 4 * np.sqrt(flips / 25_000)
    assert any("flipped" in sentence for sentence in found.evidence)


@pytest.mark.parametrize("t", [-0.5, 0.0, 2.0])
def test_one_halfspace_of_any_height(t: float) -> None:
    truth = Truth(normals(1, 8, 7), np.array([t]))
    found = learn_union(truth.source(30_000, 7), 1, rng=7, intersection=False)
    check(found, truth, 0.35)


def test_more_halfspaces_than_features() -> None:
    angles = 2 * np.pi * np.arange(5) / 5
    truth = Truth(np.column_stack([np.cos(angles), np.sin(angles)]), np.full(5, 1.5))
    check(learn_union(truth.source(30_000, 8), rng=8), truth, 0.1)


def test_inputs_that_are_not_gaussian() -> None:
    truth = Truth(normals(3, 4, 9), np.array([1.0, 1.2, 1.4]))
    X = np.random.default_rng(9).uniform(-np.sqrt(3), np.sqrt(3), (30_000, 4))
    check(learn_union(ArraySource(X, truth.labels(X)), rng=9), truth, 0.12)


def test_the_same_seed_gives_the_same_answer() -> None:
    source = Truth(normals(3, 4, 10), np.array([1.0, 1.5, 2.0])).source(2_000, 10, 0.001)
    one, two = (learn_union(source, rng=3) for _ in range(2))
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one.angle_errors, two.angle_errors)


def test_hidden_samples_do_not_count() -> None:
    """Every one of them has a wrong label, and none is noticed."""
    truth = Truth(normals(2, 4, 11), np.array([1.0, 1.5]))
    source = truth.source(30_000, 11)
    hidden = np.random.default_rng(11).permutation(30_000)[:3000]
    source.y[hidden] = 1 - source.y[hidden]
    found = learn_union(source, rng=11, hidden=hidden)
    check(found, truth, 0.15)
    assert found.training_errors == 0 and found.samples == 27_000


def test_labels_of_two_values_and_above_a_level() -> None:
    truth = Truth(normals(2, 3, 12), np.array([1.0, 1.5]))
    source = truth.source(20_000, 12)
    check(learn_union(ArraySource(source.X, 3 * source.y - 1), rng=12), truth, 0.15)
    noisy = source.y + np.random.default_rng(12).uniform(-0.4, 0.4, 20_000)
    check(learn_union(ArraySource(source.X, noisy), rng=12, above=0.5), truth, 0.15)


# ---------------------------------------------------------------- what can stand against it


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (lambda X: np.zeros(len(X)), ("never fire", "more samples")),
        (lambda X: np.ones(len(X)), ("always fire", "more samples")),
        (lambda X: X[:, 0] > 3.8, ("too high for 20000 samples", "would be needed")),
        (lambda X: np.round(X[:, 0]), ("more than two values",)),
        (lambda X: np.sum(X**2, axis=1) < 2, ("no union",)),
        (lambda X: np.random.default_rng(1).random(len(X)) < 0.3, ("too many labels are flipped",)),
    ],
    ids=["never", "always", "too high", "not two-valued", "ball", "random"],
)
def test_labels_without_an_answer(labels: object, words: tuple[str, ...]) -> None:
    X = np.random.default_rng(13).standard_normal((20_000, 4))
    with pytest.raises(NoAnswer) as error:
        learn_union(ArraySource(X, np.asarray(labels(X), float)), rng=13)  # type: ignore[operator]
    is_a_sentence(error, *words)


def only_problem(found: HalfspaceSet) -> str:
    assert not found.success and len(found.problems) == 1, found.problems
    return found.problems[0]


def test_one_threshold_too_high_says_how_many_samples_are_needed() -> None:
    """Of 50,000 samples 5 are beyond it: as many as features."""
    truth = Truth(np.eye(5)[:2], np.array([1.5, 3.7]))
    found = learn_union(truth.source(50_000, 1), rng=14)
    problem = only_problem(found)
    assert found.units == 1 and found.is_union
    assert "too high" in problem and "would be needed" in problem


def test_halfspaces_that_are_too_close() -> None:
    """Of 50,000 samples 9 lie where 0.3 degrees show: enough for doubt, not for two normals."""
    w = normals(1, 5, 0)[0]
    found = learn_union(Truth(np.stack([w, tilted(w, 0.3)]), np.ones(2)).source(50_000, 0), rng=16)
    assert "too close" in only_problem(found) and found.is_union
    assert np.degrees(found.angle_errors[0]) > 0.05
    apart = Truth(np.stack([w, tilted(w, 3.0)]), np.ones(2))
    check(learn_union(apart.source(50_000, 0), rng=16), apart, 0.15)


def test_two_faces_that_look_like_one_are_split() -> None:
    w = normals(1, 10, 0)[0]
    truth = Truth(np.stack([w, tilted(w, 0.6)]), np.ones(2))
    check(learn_union(truth.source(100_000, 0), rng=0), truth, 0.1)


@pytest.mark.parametrize(
    "labels",
    [
        lambda X: X[:, 0] * X[:, 1] > 0,
        lambda X: (X[:, 0] > 1) ^ (X[:, 1] > 1),
        lambda X: (np.abs(X[:, 0]) < 1) ^ (X[:, 1] > 2),
        lambda X: np.sum(X**2, axis=1) < 4,
    ],
    ids=["parity", "exclusive or", "strip without a halfspace", "ball with many faces"],
)
def test_labels_of_no_union(labels: object) -> None:
    X = np.random.default_rng(17).standard_normal((3000, 4))
    found = learn_union(ArraySource(X, labels(X).astype(float)), rng=17)  # type: ignore[operator]
    assert not found.is_union and "no union" in found.problems[0]


def test_one_feature_with_flips() -> None:
    truth = Truth(np.ones((1, 1)), np.ones(1))
    found = learn_union(truth.source(2000, 0, 0.05), rng=0)
    assert found.success and found.units == 1 and found.angle_errors[0] == 0
    assert abs(found.thresholds[0] - 1) < SIGMAS * found.threshold_errors[0]


def test_one_contradiction_is_not_passed_over() -> None:
    """A label that is wrong near the face and none far from it: 25 degrees hide behind it."""
    w = np.array([1.0, 0.0])
    source = Truth(np.stack([w, tilted(w, 25.0)]), np.ones(2)).source(200, 17)
    found = learn_union(source, rng=17)
    assert found.units == 1 and found.training_errors > 0 and found.flip_rate == 0
    assert not found.success and any("contradict" in problem for problem in found.problems)


def test_no_error_is_far_smaller_than_the_samples_allow() -> None:
    """With n samples, `n phi(1)` of them a unit of margin at the face, whatever the cell."""
    truth = Truth(np.array([[1.0, 0.0]]), np.ones(1))
    for seed in range(10):
        found = learn_union(truth.source(1000, seed), rng=seed)
        check(found, truth, 3.0)
        # 2 / density, which is known to 20%.
        assert found.angle_errors[0] > 0.8 * 2 / (1000 * 0.242)


def test_two_halfspaces_taken_for_one_are_found_by_searching_again() -> None:
    """Four in two features from 400 samples: the first search takes two of them for one."""
    W = np.array([[0.99, -0.1], [0.29, -0.96], [-0.95, 0.3], [-0.08, 1.0]])
    t = np.array([-0.84, -1.34, -1.18, -0.95])
    truth = Truth(W / np.linalg.norm(W, axis=1, keepdims=True), t, True)
    found = learn_union(truth.source(400, 0), rng=0)
    assert found.units == 4 and found.training_errors == 0 and found.success
