"""Pictures draw on the axes they are given, and what they draw is the data."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet import plotting
from provenet.common.typing import Array
from provenet.moments.subspace import Span

pytest.importorskip("matplotlib")


@pytest.fixture
def ax() -> Any:
    return plotting.new_figure().add_subplot()


def lines(ax: Any) -> dict[str, Array]:
    """The points of every line by its name in the legend."""
    return {line.get_label(): np.column_stack(line.get_data()) for line in ax.get_lines()}


def clouds(ax: Any) -> dict[str, Array]:
    return {cloud.get_label(): np.asarray(cloud.get_offsets()) for cloud in ax.collections}


def drawn(ax: Any) -> Any:
    """Everything is laid out and painted, so that a fault in an artist shows."""
    ax.figure.canvas.draw()
    return ax


def test_spectrum_shows_sizes_noise_level_and_rank(ax: Any) -> None:
    values = np.array([-3.0, 2.0, 0.5, -0.2, 0.1])
    span = Span(np.eye(5)[:2], values, noise_level=0.7)
    assert plotting.spectrum(ax, span) is ax
    found = lines(drawn(ax))
    assert np.array_equal(found["2 kept"], [[1, 3.0], [2, 2.0]])
    assert np.array_equal(found["3 left"], [[3, 0.5], [4, 0.2], [5, 0.1]])
    assert set(found["noise level"][:, 1]) == {0.7}
    assert ax.get_yscale() == "log"


def test_spectrum_of_plain_numbers_keeps_all_of_a_full_rank(ax: Any) -> None:
    plotting.spectrum(ax, np.array([2.0, 1.0, 0.0]), rank=9)
    assert np.array_equal(lines(drawn(ax))["3 kept"][:, 1], [2.0, 1.0, 0.0])


@pytest.mark.parametrize("outputs", [None, 3])
def test_weights_are_a_heat_map_with_a_row_for_each_unit(ax: Any, outputs: int | None) -> None:
    network = pn.random_network(4, 6, outputs=outputs, rng=0)
    assert plotting.weights(ax, network) is ax
    W, A, b = (np.asarray(image.get_array()) for image in drawn(ax).get_images())
    assert np.array_equal(W, network.weights)
    assert np.array_equal(A, np.atleast_2d(network.output_weights).T)
    assert np.array_equal(b, network.biases[:, None])
    for image in ax.get_images():  # white is zero
        assert image.norm.vmin == -image.norm.vmax == -np.abs(image.get_array()).max()
    assert [text.get_text() for text in ax.get_xticklabels()][-2:] == ["out", "bias"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "1", "2", "3"]


def test_two_heat_maps_can_have_the_same_colours(ax: Any) -> None:
    network = pn.random_network(3, 5, rng=0)
    half = network.replace(weights=network.weights / 2)
    plotting.weights(ax, half, like=network)
    assert ax.get_images()[0].norm.vmax == np.abs(network.weights).max()


def test_a_large_heat_map_names_some_of_its_columns(ax: Any) -> None:
    plotting.weights(ax, pn.random_network(30, 200, rng=0))
    names = [text.get_text() for text in drawn(ax).get_xticklabels()]
    assert 5 <= len(names) <= 14
    assert names[:3] == ["1", "20", "40"]
    assert ax.get_xticks()[1] == 19.5  # the middle of column 20


@pytest.mark.parametrize("samples", [50, 3001])
def test_predictions_stand_over_labels(ax: Any, samples: int) -> None:
    network = pn.random_network(3, 4, rng=0)
    X, y = pn.sample(network, samples, noise=0.1, rng=1)
    assert plotting.predicted_against_observed(ax, network, X, y) is ax
    points = clouds(drawn(ax))["labels"]
    every = 1 if samples == 50 else 2
    assert np.array_equal(points, np.column_stack([y, network(X)])[::every])


def test_predictions_of_all_outputs_are_drawn(ax: Any) -> None:
    network = pn.random_network(3, 4, outputs=5, rng=0)
    X, y = pn.sample(network, 20, rng=1)
    plotting.predicted_against_observed(ax, network, X, y)
    assert len(clouds(ax)["labels"]) == 100


def test_errors_are_drawn_over_samples_with_what_is_expected(ax: Any) -> None:
    samples, errors = np.array([100, 200, 400]), np.array([0.2, 0.15, 0.0])
    expected = np.array([0.3, 0.2, 0.1])
    assert plotting.error_against_samples(ax, samples, errors, expected) is ax
    found = lines(drawn(ax))
    assert np.array_equal(found["refitted"][:, 0], samples)
    assert np.array_equal(found["refitted"][:2, 1], errors[:2])
    assert 0 < found["refitted"][2, 1] < 1e-16  # a logarithmic axis has no zero
    assert np.array_equal(found["from standard errors"][:, 1], expected)


def test_truth_and_estimate_are_matched_unit_by_unit(ax: Any) -> None:
    truth = pn.random_network(5, 4, rng=0)
    other = truth.keep(np.array([3, 0, 4, 1, 2]))
    assert plotting.truth_against_estimate(ax, truth, other) is ax
    found = clouds(drawn(ax))
    assert {name: len(points) for name, points in found.items()} == {
        "weights": 20,
        "output weights": 5,
        "biases": 5,
    }
    for points in found.values():  # a permutation of units changes nothing
        assert np.array_equal(points[:, 0], points[:, 1])
    assert np.array_equal(np.sort(found["biases"][:, 0]), np.sort(truth.canonical().biases))


def test_partners_stand_in_the_same_row() -> None:
    truth = pn.random_network(5, 4, rng=0).canonical()
    rows = np.array([4, 1, 3])
    found = truth.keep(rows).replace(output_weights=truth.output_weights[rows] * 1.0001)
    left, right = plotting.in_matched_order(truth, found)
    assert (left.units, right.units) == (5, 3)
    assert np.allclose(left.weights[:3], right.weights, atol=1e-12)


def test_without_matplotlib_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(pn.InvalidInput, match=r"pip install .provenet\[plot\]"):
        plotting.new_figure()


def test_calibration_is_the_share_of_each_group(ax: Any) -> None:
    said = np.repeat([0.1, 0.5, 0.9], 40)
    happened = np.concatenate([np.arange(40) < 4, np.arange(40) < 30, np.arange(40) < 36])
    assert plotting.calibration(ax, said[::-1], happened[::-1].astype(float)) is ax
    (bars,) = drawn(ax).containers
    points = np.column_stack(bars.lines[0].get_data())
    assert len(points) == 10 and np.all(np.diff(points[:, 0]) >= 0)
    # Groups of twelve: their mean over all is that of the labels, 70 of 120.
    assert np.isclose(points[:, 1].mean(), 70 / 120)
    lengths = [np.ptp(segment[:, 1]) for segment in bars.lines[2][0].get_segments()]
    assert np.isclose(lengths[0], 4 * np.sqrt(0.1 * 0.9 / 12))
