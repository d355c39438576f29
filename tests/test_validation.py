"""Bad input: one clear sentence that names the problem and a way out, before any work is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.data.sources import ArraySource
from provenet.validation import as_source, check_data, read_layers

NET = pn.random_network(2, 3, rng=0)
X, Y = pn.sample(NET, 200, rng=1)


def recovered(X: Any = X, y: Any = Y, **options: Any) -> None:
    pn.recover(X, y, **{"budget": 5.0, "rng": 0, **options})  # should it not raise, it ends soon


def extracted(**options: Any) -> None:
    pn.extract(NET, **{"features": 3, "budget": 500, "rng": 0, **options})


def refused(*words: str, by: Callable[..., None] = recovered, **options: Any) -> None:
    """`recover` raises, and says these words."""
    with pytest.raises(pn.InvalidInput) as error:
        by(**options)
    is_a_sentence(error, *words)


def changed(array: np.ndarray, **entries: float) -> np.ndarray:
    """A copy with the value `entries["at_5_1"]` at row 5, column 1, and so on."""
    copy = array.copy()
    for key, value in entries.items():
        copy[tuple(int(i) for i in key.split("_")[1:])] = value
    return copy


# ---------------------------------------------------------------- samples


MANY, LABELS = pn.sample(NET, 10_000, rng=1)
TWO = np.column_stack([Y, Y])
WORDS = np.array([["a", "b", "c"]] * 200)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ({"X": changed(X, at_5_1=np.nan, at_9_0=1)}, ["X is not finite", "row 5", "repair"]),
        ({"X": changed(X, at_5_1=np.inf, at_6_1=-np.inf)}, ["X is not finite", "row 5"]),
        ({"X": changed(MANY, at_9876_2=-np.inf), "y": LABELS}, ["X is not finite", "row 9876"]),
        ({"y": changed(Y, at_7=np.inf)}, ["y is not finite", "row 7", "remove or repair"]),
        ({"y": changed(TWO, at_7_1=np.nan)}, ["y is not finite in row 7"]),
        ({"y": [None] * 200}, ["y is not finite", "row 0"]),  # numpy's way to say: missing
        ({"X": np.zeros(200)}, ["X must", "two dimensions", "not 1", "reshape(-1, 1)"]),
        ({"X": np.zeros((2, 100, 3))}, ["X must", "two dimensions", "not 3"]),
        ({"X": np.zeros((0, 3))}, ["X has 0", "y has 200"]),
        ({"X": np.zeros((200, 0))}, ["X has shape (200, 0)", "nothing to learn from"]),
        ({"X": np.zeros((199, 3))}, ["199 samples", "200", "a row for each"]),
        ({"y": np.zeros((200, 1, 1))}, ["y must have shape (samples,)", "(200, 1, 1)"]),
        ({"y": np.zeros(())}, ["y must have shape (samples,)", "()"]),
        ({"y": np.zeros((200, 0))}, ["nothing to learn from", "(200, 0)"]),
        ({"y": np.zeros((2, 200))}, ["y has 2:"]),
        ({"y": None}, ["y are missing", "give X and y"]),
        ({"X": pn.ArraySource(X, Y)}, ["leave y out"]),
        ({"y": TWO, "method": "biased-relu"}, ["one output, and y has 2", "expand-prune"]),
        ({"X": WORDS}, ["X "]),
        ({"X": WORDS.astype(object)}, ["X "]),
        ({"X": X.astype(complex)}, ["X "]),
        ({"X": [[1.0, 2.0], [3.0]]}, ["X "]),
        ({"X": np.ma.masked_less(X, 0)}, ["X "]),
        ({"X": "samples.npz"}, ["X "]),
        ({"y": ["cat", "dog"] * 100}, ["y must", "numbers", "NetworkClassifier"]),
        ({"y": np.array(["cat", "dog"] * 100, dtype=object)}, ["NetworkClassifier"]),
        ({"X": X[:4], "y": Y[:4]}, ["4 samples", "5 parameters", "3 features", "more samples"]),
        ({"units": 50}, ["200 samples", "201 parameters", "50 units", "more samples"]),
        ({"y": 1e-200 * Y}, ["y is constant", "rescale"]),
        ({"X": 1e-300 * X}, ["X", "constant", "rescale"]),
        ({"y": 1e80 * Y}, ["beyond 1e+70", "overflow"]),
    ],
)
def test_samples_that_cannot_be_used(samples: dict[str, Any], words: list[str]) -> None:
    refused(*words, **samples)
    if list(samples) == ["X"] and type(samples["X"]) is np.ndarray:
        refused(*words, X=pn.ArraySource(samples["X"], Y), y=None)


@pytest.mark.parametrize("value", [0.0, -1 / 3, 1e6 + 0.1])
def test_what_is_constant(value: float) -> None:
    refused("y is constant", "check the labels", y=np.full(200, value))
    refused("y is constant", y=np.full((200, 2), value))
    refused("[3]", "constant", "remove them", X=np.column_stack([X, np.full(200, value)]))


def test_few_samples_and_small_differences_that_do() -> None:
    # Seven units of 60 features each would have 428 parameters; in layers they may have 80.
    net = pn.random_network((1, 6), 60, activation="tanh", rng=0)
    check_data(ArraySource(*pn.sample(net, 100, rng=1)), 7, pn.METHODS["deep"])
    check_data(as_source(X, 1e-9 * Y + 1e-3), 2, pn.METHODS["auto"])
    truth = pn.random_network(2, 3, outputs=2, rng=1)
    truth = truth.replace(output_weights=truth.output_weights * [[1.0], [0.0]], output_bias=[0, 5])
    result = pn.recover(X, truth(X), rng=3)  # one constant output beside another
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-10


def test_dependent_columns() -> None:
    with pytest.raises(pn.InvalidInput, match=r"Columns \[[13]\] .*duplicated.*remove them"):
        pn.recover(np.column_stack([X, X[:, 1]]), Y)
    columns = np.column_stack([X, 2 * X[:, 0] - X[:, 2] + 5])
    with pytest.raises(pn.InvalidInput, match=r"Columns \[[023]\] .*linear combinations.*remove"):
        pn.recover(columns, Y)


@pytest.mark.parametrize("method", ["gradient-search", "sparse-noise", "arbitrary-noise"])
def test_more_samples_than_a_method_holds_in_memory(method: str) -> None:
    """10^8 samples that take no memory: none of them is read."""
    inputs = np.broadcast_to(1.0, (10**8, 3))
    labels = inputs if method == "sparse-noise" else inputs[:, 0]
    most = 2**31 * 10**8 // (8 * (inputs.size + labels.size))
    refused(method, "in memory", "2.15 GB", f"at most {most}", X=inputs, y=labels, method=method)


def test_functions_that_cannot_be_used_cost_no_queries() -> None:
    constant = pn.QuerySource(lambda X: np.full(len(X), 0.1), 3, 1000, rng=0)
    refused("constant", X=constant, y=None)
    refused("3 samples", "more samples", X=pn.QuerySource(NET, 3, 3, rng=0), y=None)
    for options in ({"units": 0}, {"units": 4, "method": "biased-relu"}, {"budget": 0}):
        source = pn.QuerySource(NET, 3, 1000)
        refused(X=source, y=None, **options)
        assert source.queries == 0


def test_lists_integers_booleans_and_columns_are_samples_too() -> None:
    for inputs, labels in (
        (X.tolist(), Y.tolist()),
        (X.astype(np.float32), Y[:, None]),
        (np.arange(12).reshape(4, 3), np.array([True, False, True, True])),
        (X.astype(object), Y.astype(object)),
    ):
        source = as_source(inputs, labels)
        assert source.features == 3 and source.outputs is None
        x, y = source.rows(0, 2)
        assert x.dtype == y.dtype == np.float64
        np.testing.assert_allclose(x, np.asarray(inputs, dtype=float)[:2])
        np.testing.assert_allclose(y, np.ravel(np.asarray(labels, dtype=float))[:2])


def test_arrays_are_not_copied_and_sources_pass_through() -> None:
    source = as_source(X, Y)
    assert isinstance(source, ArraySource) and as_source(source, None) is source
    assert np.shares_memory(source.X, X) and np.shares_memory(source.y, Y)
    queries = pn.QuerySource(NET, 3, 1000)
    assert as_source(queries, None) is queries


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"units": 4, "method": "biased-relu"}, ["biased-relu", "4 > 3", "expand-prune"]),
        ({"units": (5, 3), "layers": 3}, ["(5, 3)", "2 layers, not of 3"]),
        ({"units": [], "layers": 2}, ["a width for every layer"]),
        ({"units": (5, True)}, ["units", "whole", "True"]),
        ({"method": "sgd"}, ["'sgd'", "unknown", *pn.METHODS]),
        ({"method": None}, ["None", "unknown"]),
        ({"method": "expand-prune", "layers": 2}, ["'expand-prune'", "2 hidden layers", "'deep'"]),
        ({"method": "expand-prune", "layers": "auto"}, ["'expand-prune'", "2 hidden layers"]),
        ({"method": "deep", "units": (3,)}, ["'deep'", "1 hidden layer:", "layers=2"]),
        ({"activation": "auto", "layers": 2}, ["cannot find the activation", "leave layers= out"]),
        ({"faithful": True, "layers": 2}, ["faithful=", "leave it out"]),
        ({"activation": "mish"}, ["mish", "unknown", "relu", "provenet.Activation"]),
        ({"activation": "step"}, ["step", "relu", "any smooth one"]),
        ({"activation": "sigmoid", "method": "biased-relu"}, ["sigmoid", "use method='auto'"]),
        ({"link": "probit"}, ["link must be one of", "leave it out"]),
        ({"link": "logit", "method": "lowest-layer"}, ["labels as they are", "link='identity'"]),
        ({"budget": 0}, ["positive number of seconds", "0"]),
        ({"budget": None}, ["positive number of seconds", "None"]),
        ({"checkpoint": b"a.npz"}, ["checkpoint", "name of a file"]),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], words: list[str]) -> None:
    refused(*words, **options)


@pytest.mark.parametrize("layers", [0, -1, "two", 2.0, True, None, np.array([1, 2])], ids=repr)
def test_layers_that_are_no_number_of_layers(layers: Any) -> None:
    for by in (recovered, extracted):
        refused("layers must be a whole number", "'auto'", repr(layers), by=by, layers=layers)


def test_the_methods_that_layers_are_given_to() -> None:
    """By default one layer; the method for several means two, and "auto" one after the other."""

    def plan(layers: Any = 1, units: Any = None, method: str = "auto") -> Any:
        return read_layers(layers, units, method)

    assert plan() == plan(units=4) == plan(units=(5,)) == [(1, "auto")]
    assert plan(2) == plan(method="deep") == plan(units=(5, 3)) == [(2, "deep")]
    assert plan(2, units=8) == plan("auto", (5, 3)) == plan(np.int64(2)) == [(2, "deep")]
    assert plan(3, method="deep") == plan(units=(5, 3, 2)) == [(3, "deep")]
    assert plan("auto") == [(1, "auto"), (2, "deep"), (3, "deep")]


@pytest.mark.parametrize("by", [recovered, extracted])
@pytest.mark.parametrize(
    ("option", "values", "words"),
    [
        ("noise", ["x", [0.1], -0.1, np.nan, True, 1j, np.zeros(2)], ["standard deviation"]),
        ("units", ["x", {1}, np.nan, 2.0, 0, -1, True, np.ones(2)], ["units"]),
        ("units", [(0,), (5, -3), (2.5, 1), (), ("a", 2)], ["units"]),
        ("rng", ["x", -1, 1.5, np.nan, object], ["rng must be a whole number"]),
        ("progress", [3, "x", True], ["progress must be a function"]),
    ],
)
def test_options_of_recover_and_extract(
    by: Callable[..., None], option: str, values: list[Any], words: list[str]
) -> None:
    for value in values:
        refused(*words, by=by, **{option: value})


@pytest.mark.parametrize("value", ["x", [1], 1.5, 0])
@pytest.mark.parametrize("name", ["budget", "features", "outputs"])
def test_counts_of_an_extraction(name: str, value: Any) -> None:
    refused(name, "whole number from 1 on", repr(value), by=extracted, **{name: value})
    refused("cache", "name of a file", by=extracted, cache=3)
