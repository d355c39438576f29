"""Deep networks in tables, pictures and on the page of a report, a layer at a time."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import provenet as pn
from provenet import plotting
from provenet.certify.checks import Status
from provenet.fitting.covariance import DeepErrors, StandardErrors
from provenet.networks.canonical import matched_layers
from provenet.report import gather
from provenet.report.console import describe, why_infinite
from provenet.report.layers import Layered
from provenet.report.tables import network_table, side_by_side
from provenet.report.units import unit_tables

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

NOISE = 0.05


def deep(outputs: int | None = None, seed: int = 0) -> pn.DeepNetwork:
    network = pn.random_network((3, 2), 6, outputs=outputs, activation="tanh", rng=seed)
    assert isinstance(network, pn.DeepNetwork)
    return network.canonical()


def render(table: object, width: int = 100) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


class Case:
    """A deep network, its samples, and what was made of them."""

    def __init__(self, samples: int, noise: float = 0.0, outputs: int | None = None) -> None:
        self.truth = deep(outputs)
        X, y = pn.sample(self.truth, samples, noise=noise, rng=1)
        self.source = pn.ArraySource(X, y)
        self.result = pn.recover(X, y, units=(3, 2), activation="tanh", rng=0)

    def page(self, path: Path, **options: Any) -> str:
        pn.write_report(path, self.result, self.source, **options)
        return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def exact() -> Case:
    return Case(500)


@pytest.fixture(scope="module")
def noisy() -> Case:
    return Case(2000, NOISE, outputs=2)


def words(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


# ---------------------------------------------------------------- layers


@pytest.mark.parametrize("outputs", [None, 1, 2])
def test_layers_are_those_of_the_network(outputs: int | None) -> None:
    network = deep(outputs)
    shown = Layered.of(network)
    assert [layer.units for layer in shown.layers] == [3, 2]
    assert [layer.inputs for layer in shown.layers] == [6, 3]
    assert shown.layers[0].output_weights is None and shown.layers[0].outputs is None
    A = shown.layers[1].output_weights
    assert A is not None and shown.layers[1].outputs == outputs
    np.testing.assert_array_equal(np.atleast_2d(A), network.weights[-1])
    np.testing.assert_array_equal(shown.output_bias, network.biases[-1])


@pytest.mark.parametrize("outputs", [None, 2])
def test_one_hidden_layer_is_the_same_as_a_deep_network_of_one(outputs: int | None) -> None:
    network = pn.random_network(3, 4, outputs=outputs, rng=0)
    flat, twin = Layered.of(network), Layered.of(pn.DeepNetwork.of(network))
    own = StandardErrors(
        network.weights, network.biases, network.output_weights, network.output_bias, None
    )
    maps = network.affine_maps
    other = DeepErrors(tuple(W for W, _ in maps), tuple(b for _, b in maps))
    spreads = Layered.of_errors(own, network), Layered.of_errors(other, network)
    assert flat.title(0) == ""
    for shown in (twin, *spreads):
        np.testing.assert_array_equal(shown.output_bias, flat.output_bias)
        for name in ("weights", "biases", "output_weights", "sizes"):
            np.testing.assert_array_equal(
                getattr(shown.layers[0], name), getattr(flat.layers[0], name)
            )


# ---------------------------------------------------------------- matching


def shuffled(network: pn.DeepNetwork, seed: int) -> pn.DeepNetwork:
    """The same function: units of every layer in another order and, as tanh is odd, sign."""
    rng = np.random.default_rng(seed)
    maps = [(W.copy(), b.copy()) for W, b in network.affine_maps]
    for k in range(network.layers):
        order, signs = rng.permutation(len(maps[k][1])), rng.choice([-1.0, 1.0], len(maps[k][1]))
        maps[k] = signs[:, None] * maps[k][0][order], signs * maps[k][1][order]
        maps[k + 1] = maps[k + 1][0][:, order] * signs, maps[k + 1][1]
    return network.replace(weights=[W for W, _ in maps], biases=[b for _, b in maps])


@pytest.mark.parametrize("seed", range(3))
def test_matched_layers_have_partners_in_their_rows(seed: int) -> None:
    truth = deep()
    layers = matched_layers(shuffled(truth, seed), truth)
    assert len(layers) == 2
    for layer in layers:
        assert np.max(layer.distances) < 1e-12  # rounding of parameters of about 1
        mine, theirs = layer.estimate.keep(layer.rows), layer.truth.keep(layer.columns)
        np.testing.assert_allclose(mine.weights, theirs.weights, atol=1e-12)
        np.testing.assert_allclose(mine.biases, theirs.biases, atol=1e-12)


def test_units_that_changed_places_are_put_back_for_the_layer_above() -> None:
    """The canonical order goes by the size of what a unit feeds, here alike up to a trifle."""
    network, trifle = deep(), np.array([1e-9, 0.0, -1e-9])
    W = network.weights[1] / np.linalg.norm(network.weights[1], axis=0)
    both = [
        network.replace(weights=(network.weights[0], W * (1 + move), network.weights[2]))
        for move in (trifle, -trifle)
    ]
    layers = matched_layers(*both)
    assert layers[0].rows.tolist() != layers[0].columns.tolist()
    assert max(np.max(layer.distances) for layer in layers) < 1e-8


def test_matched_layers_end_where_widths_differ() -> None:
    wider = pn.random_network((4, 2), 6, activation="tanh", rng=3)
    assert len(matched_layers(wider, deep())) == 1
    assert len(matched_layers(deep(), wider)) == 1


# ---------------------------------------------------------------- console


def test_a_table_a_layer_has_every_number() -> None:
    network = deep()
    text = render(network_table(Console(width=100), network))
    assert "Layer 1: 3 units on 6 features" in text and "Layer 2: 2 units on layer 1" in text
    for W, b in network.affine_maps:
        for value in (*W.ravel(), *b):
            assert f"{value:.6f}" in text
    upper, lower = text.split("Layer 2")
    assert "output" not in upper and "output" in lower


def test_standard_errors_of_every_layer_are_shown() -> None:
    network = deep()
    errors = DeepErrors(
        tuple(np.full_like(W, 0.01 * (k + 1)) for k, W in enumerate(network.weights)),
        tuple(np.full_like(b, 0.01 * (k + 1)) for k, b in enumerate(network.biases)),
    )
    text = render(network_table(Console(width=200), network, errors), 200)
    for k, (W, b) in enumerate(network.affine_maps):
        for value in (*W.ravel(), *b):
            assert f"{value:.3f} ± {0.01 * (k + 1):.3f}" in text


def test_deep_networks_side_by_side() -> None:
    truth = deep()
    text = render(side_by_side(Console(width=200), shuffled(truth, 1), truth, ("truth", "found")))
    assert text.count("truth") == 3 and "Layer 2" in text and "Output bias" in text  # also a note
    assert "no match" not in text
    wider = pn.random_network((4, 2), 6, activation="tanh", rng=3)
    text = render(side_by_side(Console(width=200), wider, truth, ("truth", "found")), 200)
    assert text.count("no match") == 1 and "Layer 2" not in text
    flat = pn.random_network(3, 6, activation="tanh", rng=3)
    text = render(side_by_side(Console(width=200), flat, truth, ("truth", "found")))
    assert "1 and 2 hidden layers have no partners" in text


def test_widths_in_words() -> None:
    network = deep(2)
    assert describe(network) == "6 features, 3 and 2 tanh units in 2 layers, 2 outputs"
    assert why_infinite(network, network) == ""
    told = " (0 units found, 3 and 2 units in 2 layers in the truth)"
    assert why_infinite(None, network) == told
    flat = pn.random_network(5, 6, activation="tanh", rng=0)
    told = " (3 and 2 units in 2 layers found, 5 units in the truth)"
    assert why_infinite(network, flat) == told


# ---------------------------------------------------------------- page


def test_a_page_has_every_layer_and_no_spectrum(exact: Case, tmp_path: Path) -> None:
    assert exact.result.status is Status.EXACT
    page = exact.page(tmp_path / "r.html", truth=exact.truth, command="provenet recover", seed=7)
    text, network = words(page), exact.result.network
    for W, b in network.affine_maps:
        for value in (*W.ravel(), *b):
            assert f" {value:.6f}" in text
    assert "A network of 6 features, 3 and 2 tanh units in 2 layers was found in 500" in text
    assert f"compared with the truth: {pn.parameter_error(network, exact.truth):.1e}." in text
    assert " units 3, 2 parameters 32 " in text
    for check in exact.result.checks:
        assert check.name in text and check.figure in text
    assert re.findall(r"<h3>(.*?)</h3>", page) == [
        "Predicted against observed",
        "Which inputs matter",
        "Error against samples used",
        "Truth against estimate",
        "Units of layer 1",
        "Units of layer 2",
    ]
    assert page.count('<table class="units">') == 2


def test_units_of_every_layer_have_their_distance_from_the_truth(noisy: Case) -> None:
    assert noisy.result.status is Status.WITHIN_NOISE
    tables = unit_tables(noisy.result, noisy.truth)
    assert [table.title[:7] for table in tables] == ["Layer 1", "Layer 2"]
    assert tables[0].headings[:3] == ("unit", "distance to truth", "bias")
    assert tables[1].headings[:5] == ("unit", "distance to truth", "out1", "out2", "bias")
    assert all("±" in row[2] for table in tables for row in table.rows)
    largest = max(float(row[1]) for table in tables for row in table.rows)
    # Two digits; the largest over units, as no other parameter is worse.
    error = pn.parameter_error(noisy.result.network, noisy.truth)
    assert largest == pytest.approx(error, rel=0.06)


def test_a_truth_of_another_depth_has_no_partners(exact: Case, tmp_path: Path) -> None:
    flat = pn.random_network(5, 6, activation="tanh", rng=0)
    tables = unit_tables(exact.result, flat)
    assert all(row[1] == "no match" for table in tables for row in table.rows)
    text = words(exact.page(tmp_path / "r.html", truth=flat))
    assert "infinite (3 and 2 units in 2 layers found, 5 units in the truth)" in text


@pytest.mark.parametrize("empty", [0, 1])
def test_a_layer_without_units_is_told(exact: Case, empty: int, tmp_path: Path) -> None:
    widths = [6, 3, 2, 1]
    widths[empty + 1] = 0
    weights = [np.ones((out, into)) for into, out in pairwise(widths)]
    network = pn.DeepNetwork(weights, activation="tanh")
    result = replace(exact.result, network=network, standard_errors=None, certificate=None)
    assert f"Layer {empty + 1}: 0 units" in render(network_table(Console(width=100), network))
    page = tmp_path / "r.html"
    pn.write_report(page, result, exact.source, truth=exact.truth)
    text = words(page.read_text(encoding="utf-8"))
    assert f"Units of layer {2 - empty} " in text and f"Units of layer {empty + 1} " not in text
    console = Console(width=100)
    assert "no match" in render(side_by_side(console, network, exact.truth, ("truth", "found")))


def test_deep_networks_are_fitted_again_on_parts_of_the_samples(noisy: Case) -> None:
    data = gather(noisy.result, noisy.source, truth=noisy.truth, rng=0)
    assert data.spectrum is None
    assert data.held_out is not None and data.held_out.unseen
    left = data.held_out.predict(data.held_out.X) - data.held_out.y
    # 400 labels: their root mean square is within 4 % of the noise, five times that allowed.
    assert float(np.sqrt(np.mean(left**2))) == pytest.approx(NOISE, rel=0.2)
    curve = data.curve
    assert curve is not None and curve.against_truth and curve.expected is not None
    assert curve.errors[-1] < curve.errors[0] / 2
    assert np.all(curve.errors < 3 * curve.expected)
    # All samples: the answer again, but for outputs that are weighted by the noise that each shows.
    error = pn.parameter_error(noisy.result.network, noisy.truth)
    assert curve.errors[-1] == pytest.approx(error, rel=0.05)


# ---------------------------------------------------------------- pictures; what serves one layer


def test_every_layer_is_in_the_picture_of_truth_and_estimate() -> None:
    truth = deep(2)
    ax = plotting.new_figure().add_subplot()
    plotting.truth_against_estimate(ax, truth, shuffled(truth, 1))
    clouds = {cloud.get_label(): np.asarray(cloud.get_offsets()) for cloud in ax.collections}
    assert {name: len(points) for name, points in clouds.items()} == {
        "weights": 3 * 6 + 2 * 3,
        "output weights": 2 * 2,
        "biases": 3 + 2,
    }
    for points in clouds.values():
        np.testing.assert_allclose(points[:, 0], points[:, 1], atol=1e-12)
    flat = pn.random_network(3, 6, activation="tanh", rng=0)
    with pytest.raises(pn.InvalidInput, match="same depth"):
        plotting.truth_against_estimate(ax, truth, flat)


def test_what_serves_one_hidden_layer_says_so() -> None:
    network = deep()
    ax = plotting.new_figure().add_subplot()
    calls: list[Any] = [
        lambda: pn.identifiability(network),  # type: ignore[arg-type]
        lambda: pn.flip_sets(network),  # type: ignore[arg-type]
        lambda: pn.population_risk(network, network),  # type: ignore[arg-type]
        lambda: pn.truncation_bound(network, network, 2),  # type: ignore[arg-type]
        lambda: pn.PopulationSource(network),  # type: ignore[arg-type]
        lambda: plotting.weights(ax, network),
        lambda: plotting.in_matched_order(network, network),
    ]
    for call in calls:
        with pytest.raises(pn.InvalidInput, match="one hidden layer"):
            call()


def test_a_deep_network_of_one_layer_is_served() -> None:
    network = pn.random_network(3, 4, rng=0)
    twin = pn.DeepNetwork.of(network)
    # Rounding of squares of about 1.
    assert pn.population_risk(twin, network) < 1e-14  # type: ignore[arg-type]
    assert pn.identifiability(twin).units == 3  # type: ignore[arg-type]


def test_estimators_say_that_they_fit_one_hidden_layer() -> None:
    X, y = pn.sample(deep(), 100, rng=0)
    estimators: list[tuple[Any, Any]] = [
        (pn.NetworkRegressor(units=(3, 2)), y),  # type: ignore[arg-type]
        (pn.HalfspaceClassifier(units=(3, 2)), y > 0),  # type: ignore[arg-type]
    ]
    for estimator, labels in estimators:
        with pytest.raises(pn.InvalidInput, match="one hidden layer"):
            estimator.fit(X, labels)
