"""Several layers: what `extract` makes of what a search found, right or slightly wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provenet as pn
from deep_searches import Finds, deep, found_layers
from helpers import is_a_sentence
from provenet.certify.answered import AGREES, Answered
from provenet.certify.shown import WeightsShown
from provenet.common.exceptions import BudgetSpent
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.extraction.layers.traced import LayerFound
from provenet.extraction.tolerances import FURTHER_SEARCHES
from provenet.report import write_report

NET = deep(10, 10, 10, 1, rng=1)
SHAPES = ((10, 10, 10, 1), (20, 8, 6, 4, 1), (12, 8, 5, 3), (6, 10, 8, 1))
PARTIAL, FAILED = pn.Status.PARTIAL, pn.Status.FAILED


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("seed", [0, 2])
def test_the_right_network_is_exact(
    sizes: tuple[int, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = deep(*sizes, rng=seed)
    search = Finds(monkeypatch, net)
    result = pn.extract(net, sizes[0], rng=seed)
    assert result.status is pn.Status.EXACT and result.claim == "network", result.message
    assert isinstance(result.network, pn.DeepNetwork) and result.network.widths == sizes[1:-1]
    assert result.network.outputs == net.outputs
    assert pn.parameter_error(result.network, net) < 1e-12  # it was given
    assert search.calls == 1 and search.layers == [None]
    assert "at most 1.0% of standard normal inputs are off" in result.message
    assert len(result.layers_found) == len(sizes) - 2 and "layer 2: " in str(result)


def test_what_was_asked_before_is_handed_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Finds(monkeypatch, NET)
    pn.extract(NET, 10, rng=0)
    (handed,) = search.handed
    np.testing.assert_allclose(handed.y[:, 0], NET(handed.X), rtol=1e-14)  # sums in other orders
    assert len(handed) < 300  # one line, and gradients beside two of its kinks


# ---------------------------------------------------------------- attacks on the judge


def changed(net: pn.DeepNetwork, change: Callable[[list[Array], list[Array]], None]) -> Any:
    """A copy with other weights and biases."""
    weights, biases = [W.copy() for W in net.weights], [b.copy() for b in net.biases]
    change(weights, biases)
    return net.replace(weights=weights, biases=biases)


def without(layer: int, unit: int) -> Callable[[list[Array], list[Array]], None]:
    def change(weights: list[Array], biases: list[Array]) -> None:
        weights[layer] = np.delete(weights[layer], unit, axis=0)
        biases[layer] = np.delete(biases[layer], unit)
        weights[layer + 1] = np.delete(weights[layer + 1], unit, axis=1)

    return change


def off_by(layer: int, unit: int, below: int, size: float) -> Any:
    def change(weights: list[Array], biases: list[Array]) -> None:
        weights[layer][unit, below] += size

    return change


def bias_off(layer: int, unit: int, size: float) -> Any:
    def change(weights: list[Array], biases: list[Array]) -> None:
        biases[layer][unit] += size

    return change


def reversed_unit(layer: int, unit: int) -> Any:
    def change(weights: list[Array], biases: list[Array]) -> None:
        weights[layer][unit] *= -1
        biases[layer][unit] *= -1

    return change


WRONG: dict[str, Any] = {
    "a unit of the first layer missing": without(0, 3),
    "a unit of the second layer missing": without(1, 7),
    "a weight of the second layer off": off_by(1, 4, 4, 1e-6),
    "a weight of the first layer off": off_by(0, 2, 1, 1e-7),
    "a bias off": bias_off(1, 0, 1e-7),
    "a sign": reversed_unit(1, 5),
    "an output weight": off_by(2, 0, 3, 1e-7),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_network_that_is_slightly_wrong_is_not_exact(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Finds(monkeypatch, changed(NET, WRONG[what]))
    result = pn.extract(NET, 10, rng=0)
    assert not result.success
    assert search.calls == 1 + FURTHER_SEARCHES  # it was refuted, and asked to go on
    assert len(search.handed[1])  # with what refuted it


@pytest.mark.parametrize("part", [0.97, 0.999])
def test_a_clipped_output_is_not_exact(part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = np.quantile(NET(np.random.default_rng(0).standard_normal((20_000, 10))), part)
    Finds(monkeypatch, NET)
    result = pn.extract(lambda X: np.minimum(NET(X), limit), 10, rng=0)
    assert result.status is FAILED and "never exceed" in result.message


def rare_weights(net: pn.DeepNetwork) -> Array:
    """(unit, unit below) of the second layer: weights that do not show at 2,000 inputs."""
    X = np.random.default_rng(5).standard_normal((2000, net.features))
    allowed = Answered(X, net(X)).allowed(AGREES)
    return np.argwhere(WeightsShown(net, X, allowed).hidden[0])


def test_a_weight_that_hardly_ever_shows_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is aimed at: no random point would tell that it is wrong."""
    unit, below = rare_weights(NET)[0]
    Finds(monkeypatch, NET)
    assert pn.extract(NET, 10, rng=0).status is pn.Status.EXACT
    Finds(monkeypatch, changed(NET, off_by(1, unit, below, 1e-3)))
    result = pn.extract(NET, 10, rng=0)
    assert not result.success


# ---------------------------------------------------------------- what no answer tells


def never_together() -> pn.DeepNetwork:
    """`relu(x_0)` and `relu(-x_0)` are never both on, and unit 0 above is on with the first."""
    rng = np.random.default_rng(0)
    first = np.vstack([np.eye(1, 6), -np.eye(1, 6), rng.standard_normal((4, 6))])
    second = np.vstack([[1.0, -0.7, 0, 0, 0, 0], rng.standard_normal((2, 6))])
    biases = [np.array([0, 0, 0.1, -0.2, 0.3, 0.2]), np.array([-0.5, 0.2, 0.3]), [0.1]]
    return pn.DeepNetwork([first, second, [[1.0, -1.2, 0.8]]], biases)


def test_weights_between_units_that_are_never_on_together_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = never_together()
    Finds(monkeypatch, net)
    result = pn.extract(net, 6, rng=0)
    assert result.status is PARTIAL and "the function is exact at these" in result.message
    assert "1 weight between units that are never on together" in result.message
    (ambiguity,) = [text for text in result.ambiguities if "do not show" in text]
    assert "of layer 2 from units" in ambiguity
    other = changed(net, off_by(1, 0, 1, -0.2))  # as good a network
    X = np.random.default_rng(0).standard_normal((10_000, 6))
    np.testing.assert_array_equal(other(X), net(X))


@pytest.mark.parametrize("bias", [-90.0, 90.0])
def test_a_unit_that_never_switches_is_named(bias: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the box it is never on, or always."""
    net = changed(deep(6, 5, 4, 1), lambda W, b: b[1].__setitem__(2, bias))
    Finds(monkeypatch, net)
    result = pn.extract(net, 6, low=-2.0, high=2.0, rng=0)
    assert result.status is PARTIAL and "of layer 2 could be asked" in result.message
    assert "The function is exact at these points" in result.message
    assert any("switch and the answers show it" in text for text in result.ambiguities)


def test_units_that_may_be_reversed_together_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """`relu(z + 0.3) + relu(-z + 0.5)`, reversed, is the same but for a constant."""

    def opposite(weights: list[Array], biases: list[Array]) -> None:
        weights[1][1], biases[1][:2] = -weights[1][0], [0.3, 0.5]
        weights[2][0, :2] = 0.8

    net = changed(deep(6, 5, 4, 1), opposite)
    Finds(monkeypatch, net)
    result = pn.extract(net, 6, rng=0)
    assert result.status is PARTIAL and "2 signs of units are open" in result.message


@pytest.mark.parametrize(
    ("error", "words"), [(1e-7, "rounding lets some be off"), (np.inf, "could not be measured")]
)
def test_rounding_that_leaves_rows_unknown_is_partial(
    error: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Finds(monkeypatch, NET, error=error)
    result = pn.extract(NET, 10, rng=0)
    assert result.status is PARTIAL and words in result.message


def test_of_a_unit_that_is_always_on_no_error_is_stated() -> None:
    """Its weights and bias are positive: the constant above it does as well as its bias."""

    def positive(weights: list[Array], biases: list[Array]) -> None:
        weights[1][2], biases[1][2] = np.abs(weights[1][2]), 0.5

    net = changed(deep(8, 6, 4, 1), positive)
    result = pn.extract(net, 8, rng=0)
    assert result.status is PARTIAL and "they are always on" in result.message
    assert result.certificate is not None
    assert result.certificate.parameter_error_bound == np.inf
    assert result.network is not None
    X = np.random.default_rng(0).standard_normal((1000, 8))
    np.testing.assert_allclose(result.network(X), net(X), atol=1e-9)


# ---------------------------------------------------------------- the first layers alone


def some_layers(net: pn.DeepNetwork, *units: int) -> tuple[LayerFound, ...]:
    """The first units of some layers; those with all of them are whole."""
    found = zip(units, found_layers(net), strict=False)
    return tuple(
        LayerFound(own.weights[:n], own.biases[:n], True)
        if n == len(own.weights)
        else LayerFound(own.weights[:n], own.biases[:n], False, "gradients unexplained")
        for n, own in found
    )


DEEPER = deep(20, 8, 6, 4, 1)


@pytest.mark.parametrize(("units", "known"), [((8, 3), 1), ((8, 6, 2), 2)])
def test_first_layers_that_are_whole_are_partial(
    units: tuple[int, ...], known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Finds(monkeypatch, DEEPER, layers=some_layers(DEEPER, *units))
    result = pn.extract(DEEPER, 20, rng=0)
    assert result.status is PARTIAL and result.claim == "layer" and search.calls == 1
    assert len(result.layers_found) == len(units) and result.network.layers == known
    assert f"layer {known}: {units[known - 1]} units, all gradients explained" in result.message
    assert f"layer {known + 1}: {units[known]} units, gradients unexplained" in result.message
    X = np.random.default_rng(0).standard_normal((20, 20))
    scales = np.linalg.norm(DEEPER.weights[0], axis=1)
    if known == 1:
        np.testing.assert_allclose(result.network(X) * scales, DEEPER.values(X, 0), atol=1e-12)


def test_layers_that_are_not_whole_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    Finds(monkeypatch, DEEPER, layers=some_layers(DEEPER, 5))
    result = pn.extract(DEEPER, 20, rng=0)
    assert result.status is FAILED and "layer 1: 5 units, gradients unexplained" in result.message
    assert result.network is None


def test_layers_that_are_called_whole_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    own = found_layers(DEEPER)[0]
    rng = np.random.default_rng(0)
    no_unit = rng.standard_normal((1, 20)) / np.sqrt(20)
    lies = {
        "units are missing": LayerFound(own.weights[:7], own.biases[:7], True),
        "do not bend": LayerFound(
            np.vstack([own.weights, no_unit]), np.append(own.biases, 0.1), True
        ),
    }
    for words, layer in lies.items():
        Finds(monkeypatch, DEEPER, layers=(layer,))
        result = pn.extract(DEEPER, 20, rng=0)
        assert result.status is FAILED and words in result.message


# ---------------------------------------------------------------- budgets, and what is asked


def test_a_search_that_was_stopped_says_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    Finds(monkeypatch, NET, layers=some_layers(NET, 10, 2), spent=BudgetSpent(900, 500))
    result = pn.extract(NET, 10, budget=1000, rng=0)
    assert result.status is PARTIAL and "raise budget" in result.message
    assert "layer 2: 2 units" in result.message
    Finds(monkeypatch, NET, spent=BudgetSpent(900, 500))
    result = pn.extract(NET, 10, budget=1000, rng=0)
    assert result.status is PARTIAL and "not confirmed" in result.message
    assert pn.parameter_error(result.network, NET) < 1e-12


@pytest.mark.parametrize("budget", [100, 200, 300, 500, 700])
def test_a_budget_is_kept_and_never_makes_a_success_of_little(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Finds(monkeypatch, NET, first=lambda ask, box, rng: ask(box.sample(50, rng)))
    result = pn.extract(NET, 10, budget=budget, rng=0)
    assert not result.success and result.queries is not None and result.queries <= budget
    assert "raise budget" in result.message


def test_a_search_that_raises_what_is_spent_ends_in_a_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asks_for_ever(ask: Any, box: Any, rng: Any) -> None:
        while True:
            ask(box.sample(50, rng))

    Finds(monkeypatch, NET, first=asks_for_ever)
    result = pn.extract(NET, 10, budget=2000, rng=0)
    assert result.status is FAILED and "raise budget" in result.message


def test_the_number_of_layers_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Finds(monkeypatch, NET)
    assert pn.extract(NET, 10, layers=2, rng=0).status is pn.Status.EXACT
    assert search.layers == [2] and len(search.handed[0]) == 30  # no line was traced
    assert pn.extract(NET, 10, units=(10, 10), rng=0).status is pn.Status.EXACT
    assert search.layers == [2, 2]
    result = pn.extract(NET, 10, units=(10, 9), rng=0)
    assert result.status is PARTIAL and "not (10, 9)" in result.message
    result = pn.extract(NET, 10, layers=1, rng=0)
    assert result.status is FAILED and "one hidden layer" in result.message
    assert search.calls == 3


def test_layers_that_cannot_be_are_refused_in_a_sentence() -> None:
    for given, words in (
        ({"layers": 0}, "layers must be"),
        ({"layers": True}, "layers must be"),
        ({"layers": 1.5}, "layers must be"),
        ({"layers": "two"}, "layers must be"),
        ({"layers": 3, "units": (4, 2)}, "widths of 2 layers"),
        ({"units": ()}, "a width for every layer"),
        ({"units": (4, 0)}, "at least 1"),
    ):
        with pytest.raises(pn.InvalidInput, match=words) as refused:
            pn.extract(NET, 10, **given)  # type: ignore[arg-type]
        is_a_sentence(refused)


# ---------------------------------------------------------------- one layer stays one


@pytest.mark.parametrize("seed", range(6))
def test_one_layer_is_never_looked_for_in_several(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Finds(monkeypatch)
    sizes = [(10, 5), (5, 12), (20, 10), (3, 4), (1, 3), (30, 3)][seed]
    net = pn.random_network(sizes[1], sizes[0], bias_scale=1.0, rng=seed)
    alone, told = pn.extract(net, sizes[0], layers=1, rng=seed), pn.extract(net, sizes[0], rng=seed)
    assert search.calls == 0 and told.status is alone.status
    assert told.queries is not None and alone.queries is not None
    assert told.queries <= alone.queries + 15  # three a place, at two places or five


def test_a_function_that_no_search_explains_is_judged_as_one_layer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = Finds(monkeypatch)
    result = pn.extract(lambda X: np.max(X, axis=1), 6, rng=0)
    assert result.status is FAILED and "of several layers it is none" in result.message
    assert search.calls == 1


# ---------------------------------------------------------------- what is shown of it


@pytest.mark.parametrize("whole", [True, False])
def test_a_page_of_it_can_be_written(
    whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    layers = None if whole else some_layers(DEEPER, 8, 3)
    Finds(monkeypatch, DEEPER, layers=layers)
    result = pn.extract(DEEPER, 20, rng=0)
    X = np.random.default_rng(0).standard_normal((200, 20))
    write_report(tmp_path / "page.html", result, ArraySource(X, DEEPER(X)), truth=DEEPER)
    page = (tmp_path / "page.html").read_text()
    assert "layer 2" in page and ("8, 6 and 4" in page if whole else "A lowest layer of" in page)
    assert "layer 1" in result._repr_html_()
