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


def refused(*words: str, X: Any = X, y: Any = Y, **options: Any) -> None:
    """`recover` raises, and says these words."""
    options = {"budget": 5.0, "rng": 0, **options}  # should it not raise, it ends soon
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(X, y, **options)
    is_a_sentence(error, *words)


def changed(array: np.ndarray, **entries: float) -> np.ndarray:
    """A copy with the value `entries["at_5_1"]` at row 5, column 1, and so on."""
    copy = array.copy()
    for key, value in entries.items():
        copy[tuple(int(i) for i in key.split("_")[1:])] = value
    return copy


# ---------------------------------------------------------------- not finite


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite(bad: float) -> None:
    refused("X is not finite", "row 5", "remove or repair", X=changed(X, at_5_1=bad))
    refused("y is not finite", "row 7", "remove or repair", y=changed(Y, at_7=bad))


def test_infinities_of_both_signs() -> None:
    """Their sum is not a number: numpy must not be heard warning of it."""
    refused("X is not finite", "row 5", X=changed(X, at_5_1=np.inf, at_6_1=-np.inf))


def test_not_finite_far_down_the_file() -> None:
    X, y = pn.sample(NET, 10_000, rng=1)
    refused("X is not finite", "row 9876", X=changed(X, at_9876_2=np.nan), y=y)


# ---------------------------------------------------------------- shapes


def test_lengths_differ() -> None:
    refused("200 samples", "199", "as many", y=Y[:-1])


@pytest.mark.parametrize(("shape", "dimensions"), [((200,), "1"), ((2, 100, 3), "3"), ((), "0")])
def test_inputs_of_the_wrong_dimensions(shape: tuple[int, ...], dimensions: str) -> None:
    refused("two dimensions", dimensions, "reshape(-1, 1)", X=np.zeros(shape))


@pytest.mark.parametrize("shape", [(200, 1, 1), ()])
def test_labels_of_the_wrong_dimensions(shape: tuple[int, ...]) -> None:
    refused("y must have shape (samples,) or (samples, outputs)", str(shape), y=np.zeros(shape))


def test_labels_of_several_outputs() -> None:
    refused("y is constant", y=np.zeros((200, 2)))
    refused("nothing to learn from", "(200, 0)", y=np.zeros((200, 0)))
    bad = np.column_stack([Y, Y])
    bad[7, 1] = np.nan
    refused("y is not finite in row 7", y=bad)
    refused("serves one output, and y has 2", "rectified", y=bad, method="biased-relu")


def test_one_constant_output_beside_another_is_no_error() -> None:
    truth = pn.random_network(2, 3, outputs=2, rng=1)
    truth = truth.replace(output_weights=truth.output_weights * [[1.0], [0.0]], output_bias=[0, 5])
    inputs = np.random.default_rng(2).standard_normal((300, 3))
    result = pn.recover(inputs, truth(inputs), rng=3)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-10


@pytest.mark.parametrize(("n", "features"), [(0, 3), (200, 0)])
def test_nothing_there(n: int, features: int) -> None:
    refused("nothing to learn from", str((n, features)), X=np.zeros((n, features)), y=np.zeros(n))


def test_labels_left_out_or_given_twice() -> None:
    refused("y are missing", "give X and y", y=None)
    refused("leave y out", X=pn.ArraySource(X, Y))


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    "data",
    [
        np.array([["a", "b", "c"]] * 200),
        np.array([["a", "b", "c"]] * 200, dtype=object),
        X.astype(complex),
        np.zeros((200, 3), dtype="datetime64[s]"),
        np.zeros(200, dtype=[("a", float)]),
    ],
    ids=["strings", "objects", "complex", "dates", "records"],
)
def test_not_numbers(data: np.ndarray) -> None:
    refused("X must", "numbers", X=data)


def test_labels_that_are_not_numbers() -> None:
    refused("y must", "numbers", "NetworkClassifier", y=["cat", "dog"] * 100)
    refused("NetworkClassifier", y=np.array(["cat", "dog"] * 100, dtype=object))
    refused("y is not finite", "row 0", y=[None] * 200)  # numpy's way to say that it is missing


def test_rows_of_different_lengths() -> None:
    refused("X must be an array of numbers", X=[[1.0, 2.0], [3.0]], y=[1.0, 2.0])


def test_a_file_name_is_no_array() -> None:
    refused("X must", X="samples.npz")


# ---------------------------------------------------------------- too little to see


def test_fewer_samples_than_parameters() -> None:
    refused("4 samples", "5 parameters", "3 features", "more samples", X=X[:4], y=Y[:4])
    refused("200 samples", "201 parameters", "50 units", "more samples", units=50)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1 / 3, 1e6 + 0.1])
def test_constant_labels(value: float) -> None:
    refused("y is constant", "check the labels", y=np.full(200, value))


def test_values_whose_squares_underflow_are_not_called_constant() -> None:
    refused("y holds values", "less than 1e-70", "rescale", y=1e-200 * Y)
    refused("y holds values", "less than 1e-70", "rescale", y=np.round(Y) * 5e-324)
    refused("X holds values", "less than 1e-70", "rescale", X=1e-300 * X)
    refused("y is constant", y=np.zeros(200))
    refused("Columns [0] of X are constant", X=changed(X, at_0_0=0.0) * [0.0, 1.0, 1.0])


def test_labels_that_hardly_vary_are_not_constant() -> None:
    source = as_source(X, 1e-9 * Y + 1e-3)
    assert pn.recover(source, rng=0, budget=10.0).network is not None


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1])
def test_constant_columns(value: float) -> None:
    columns = np.column_stack([X, np.full(200, value)])
    refused("[3]", "constant", "counted from 0", "remove them", X=columns)


def test_duplicated_columns() -> None:
    with pytest.raises(pn.InvalidInput, match=r"Columns \[[13]\] .*duplicated.*remove them\."):
        pn.recover(np.column_stack([X, X[:, 1]]), Y)


def test_linearly_dependent_columns() -> None:
    columns = np.column_stack([X, 2 * X[:, 0] - X[:, 2] + 5])
    with pytest.raises(pn.InvalidInput, match=r"Columns \[[023]\] .*linear combinations.*remove"):
        pn.recover(columns, Y)
    columns = np.column_stack([columns, 100 * X[:, 1] - 3])
    with pytest.raises(pn.InvalidInput, match=r"Columns \[\d, \d\] ") as error:
        pn.recover(columns, Y)
    is_a_sentence(error, "remove them")


# ---------------------------------------------------------------- options


@pytest.mark.parametrize("units", [0, -3])
def test_too_few_units(units: int) -> None:
    refused("at least 1", str(units), "leave it out", units=units)


@pytest.mark.parametrize("units", [2.0, 2.5, "3", True])
def test_units_that_are_no_number_of_units(units: Any) -> None:
    refused("whole number", repr(units), units=units)


def test_more_units_than_features_for_the_moment_route() -> None:
    refused("biased-relu", "4 > 3", "expand-prune", units=4, method="biased-relu")


@pytest.mark.parametrize("method", ["sgd", "", None])
def test_unknown_methods_list_the_known(method: Any) -> None:
    refused(repr(method), "unknown", *pn.METHODS, method=method)


@pytest.mark.parametrize(
    "layers", [0, -1, "two", 2.0, True, None, np.array([1, 2])], ids=lambda layers: repr(layers)
)
def test_layers_that_are_no_number_of_layers(layers: Any) -> None:
    refused("layers must be a whole number", "'auto'", repr(layers), layers=layers)
    refused("layers must be a whole number", repr(layers), layers=layers, units=(1, 2))


def test_as_many_widths_as_layers() -> None:
    refused("(5, 3)", "2 layers, not of 3", "as many", units=(5, 3), layers=3)
    refused("(5, 3)", "2 layers, not of 3", units=[5, 3], layers=3)
    refused("a width for every layer", "leave it out", units=())
    refused("a width for every layer", units=[], layers=2)


@pytest.mark.parametrize(("width", "words"), [(0, "at least 1"), (2.5, "whole"), (True, "whole")])
def test_widths_that_are_no_number_of_units(width: Any, words: str) -> None:
    refused("units", words, repr(width), units=(5, width))
    refused("units", words, repr(width), units=(width,))


def test_methods_and_layers_that_do_not_go_together() -> None:
    refused("'expand-prune'", "2 hidden layers", "'deep'", method="expand-prune", layers=2)
    refused("'expand-prune'", "2 hidden layers", "'deep'", method="expand-prune", units=(5, 3))
    refused("'expand-prune'", "2 hidden layers", method="expand-prune", layers="auto")
    refused("'deep'", "1 hidden layer:", "layers=2", method="deep", units=(3,))
    refused("'deep'", "1 hidden layer:", "layers=2", method="deep", layers="auto")


def test_what_several_layers_do_not_have() -> None:
    refused("cannot find the activation", "leave layers= out", activation="auto", layers=2)
    refused("cannot find the activation", activation="auto", layers="auto")
    refused("faithful=", "leave it out", faithful=True, layers=2)
    refused("'step'", "any smooth one", activation="step", layers=2)


def test_the_methods_that_layers_are_given_to() -> None:
    """By default one layer; the method for several means two, and "auto" one after the other."""

    def plan(layers: Any = 1, units: Any = None, method: str = "auto") -> Any:
        return tuple(read_layers(layers, units, method))

    assert plan() == ((1, "auto"),) and plan(units=4) == ((1, "auto"),)
    assert plan(2) == plan(method="deep") == plan(units=(5, 3)) == ((2, "deep"),)
    assert plan(3, method="deep") == plan(units=(5, 3, 2)) == ((3, "deep"),)
    assert plan(units=(5,)) == ((1, "auto"),)
    assert plan("auto") == ((1, "auto"), (2, "deep"), (3, "deep"))
    assert plan(2, units=8) == plan("auto", units=(5, 3)) == ((2, "deep"),)
    assert plan(np.int64(2)) == ((2, "deep"),)


def test_units_of_all_layers_are_not_counted_as_one_layer_s() -> None:
    """80 parameters and 100 samples; seven units of 60 features each would be 428."""
    net = pn.random_network((1, 6), 60, activation="tanh", rng=0)
    assert net.free_parameters == 80
    method = pn.METHODS["deep"]
    check_data(ArraySource(*pn.sample(net, 100, rng=1)), 7, method)
    with pytest.raises(pn.InvalidInput) as error:
        check_data(ArraySource(*pn.sample(net, 61, rng=1)), 7, method)
    is_a_sentence(error, "61 samples", "62 parameters")


def test_activations_that_are_unknown_or_not_served() -> None:
    refused("mish", "unknown", "relu", "provenet.Activation", activation="mish")
    refused("step", "relu", "any smooth one", activation="step")
    refused("sigmoid", "use method='auto'", activation="sigmoid", method="biased-relu")


@pytest.mark.parametrize("noise", [-0.1, np.nan, np.inf])
def test_noise_that_is_no_deviation(noise: float) -> None:
    refused("standard deviation", str(noise), noise=noise)


@pytest.mark.parametrize("budget", [0, -1.0, np.nan])
def test_budgets_that_are_no_time(budget: float) -> None:
    refused("positive number of seconds", str(budget), budget=budget)


@pytest.mark.parametrize("rng", [-1, "a", 1.5])
def test_a_seed_that_is_none(rng: object) -> None:
    refused("rng must be a whole number", repr(rng), rng=rng)


# ---------------------------------------------------------------- both doors


def recovered(**arguments: Any) -> None:
    pn.recover(X, Y, **{"budget": 5.0, "rng": 0, **arguments})


def extracted(**arguments: Any) -> None:
    pn.extract(NET, **{"features": 3, "budget": 500, "rng": 0, **arguments})


DOORS = pytest.mark.parametrize("door", [recovered, extracted])


@DOORS
@pytest.mark.parametrize("noise", ["x", [0.1], -0.1, np.nan, np.inf, True, 1j, np.zeros(2)])
def test_noise_at_both_doors(door: Callable[..., None], noise: Any) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        door(noise=noise)
    is_a_sentence(error, "noise", "standard deviation", repr(noise))


@DOORS
@pytest.mark.parametrize("units", ["x", {1}, np.nan, np.inf, 2.0, 0, -1, True, np.ones(2)])
def test_units_at_both_doors(door: Callable[..., None], units: Any) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        door(units=units)
    is_a_sentence(error, "units", repr(units))


@DOORS
@pytest.mark.parametrize("units", [(0,), (5, -3), (2.5, 1), (), ("a", 2)])
def test_widths_at_both_doors(door: Callable[..., None], units: Any) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        door(units=units)
    is_a_sentence(error, "units")


@DOORS
@pytest.mark.parametrize("rng", ["x", -1, 1.5, np.nan, object])
def test_seeds_at_both_doors(door: Callable[..., None], rng: Any) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        door(rng=rng)
    is_a_sentence(error, "rng must be a whole number", repr(rng))


@DOORS
@pytest.mark.parametrize("progress", [3, "x", True])
def test_progress_at_both_doors(door: Callable[..., None], progress: Any) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        door(progress=progress)
    is_a_sentence(error, "progress must be a function", repr(progress))


@pytest.mark.parametrize("path", [3, 1.5, ["a.npz"], b"a.npz", True])
def test_names_of_files_at_both_doors(path: Any) -> None:
    for door, name in ((recovered, "checkpoint"), (extracted, "cache")):
        with pytest.raises(pn.InvalidInput) as error:
            door(**{name: path})
        is_a_sentence(error, name, "name of a file", repr(path))


@pytest.mark.parametrize("budget", ["x", [1], None, 1j])
def test_budgets_of_the_wrong_kind(budget: Any) -> None:
    refused("positive number of seconds", repr(budget), budget=budget)


@pytest.mark.parametrize("budget", ["x", [1], 1.5, 0, np.nan])
@pytest.mark.parametrize("name", ["budget", "features", "outputs"])
def test_counts_of_an_extraction(name: str, budget: Any) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        extracted(**{name: budget})
    is_a_sentence(error, name, "whole number from 1 on", repr(budget))


# ---------------------------------------------------------------- sources


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (X, Y[:-1], ("200", "199")),
        (X, Y[:, None, None], ("shape (samples,)",)),
        (X[:, 0], Y, ("two dimensions",)),
    ],
    ids=["lengths", "outputs", "dimensions"],
)
def test_arrays_given_as_a_source(X: np.ndarray, y: np.ndarray, words: tuple[str, ...]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(pn.ArraySource(X, y), budget=5.0)
    is_a_sentence(error, *words)


def test_values_in_a_source_are_checked() -> None:
    with pytest.raises(pn.InvalidInput, match="row 5"):
        pn.recover(pn.ArraySource(changed(X, at_5_1=np.nan), Y))
    with pytest.raises(pn.InvalidInput, match="constant"):
        pn.recover(pn.ArraySource(X, np.ones(200)))


def test_a_constant_function() -> None:
    source = pn.QuerySource(lambda X: np.full(len(X), 0.1), 3, 1000, rng=0)
    refused("constant", X=source, y=None)


def test_too_few_samples_of_a_function() -> None:
    refused("3 samples", "more samples", X=pn.QuerySource(NET, 3, 3, rng=0), y=None)


def test_answers_that_cannot_be_used() -> None:
    refused("shape (", X=pn.QuerySource(lambda X: X, 3, 1000), y=None)
    refused("finite", X=pn.QuerySource(lambda X: X[:, 0] * np.nan, 3, 1000), y=None)


@pytest.mark.parametrize(
    "options",
    [{"units": 0}, {"units": 4, "method": "biased-relu"}, {"method": "sgd"}, {"budget": 0}],
)
def test_bad_options_cost_no_queries(options: dict[str, Any]) -> None:
    source = pn.QuerySource(NET, 3, 1000)
    with pytest.raises(pn.InvalidInput):
        pn.recover(source, **options)
    assert source.queries == 0


# ---------------------------------------------------------------- what is accepted


@pytest.mark.parametrize("method", ["gradient-search", "sparse-noise", "arbitrary-noise"])
def test_more_samples_than_a_method_holds_in_memory(method: str) -> None:
    """10^8 samples that take no memory: none of them is looked at."""
    inputs = np.broadcast_to(1.0, (10**8, 3))
    labels = inputs if method == "sparse-noise" else inputs[:, 0]
    bytes_of_all = 8 * (inputs.size + labels.size)
    most = 2**31 * 10**8 // bytes_of_all
    refused(method, "in memory", "2.15 GB", f"at most {most}", X=inputs, y=labels, method=method)


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
    assert isinstance(source, ArraySource)
    assert np.shares_memory(source.X, X) and np.shares_memory(source.y, Y)
    again = as_source(source, None)
    assert again.X is source.X and again.y is source.y
    queries = pn.QuerySource(NET, 3, 1000)
    assert as_source(queries, None) is queries
