"""What is counted of models of several layers, and how many samples each is given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting.search.policy import fitted_form, policy_of
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.tolerances import MOST_SHARE_OF_SAMPLES
from provenet.networks.activations import ABS, RELU, get_activation


def problem_of(
    n: int, features: int, outputs: int | None, activation: str, layers: int = 2
) -> Problem:
    shape = (n,) if outputs is None else (n, outputs)
    source = ArraySource(np.zeros((n, features)), np.zeros(shape))
    return Problem(source, 1.0, activation=get_activation(activation), layers=layers)


@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=4),
    st.integers(1, 4),
    st.sampled_from([None, 1, 3]),
    st.sampled_from(["relu", "tanh", "relu2", "gelu"]),
)
def test_parameters_are_counted_as_the_network_does(
    widths: list[int], features: int, outputs: int | None, activation: str
) -> None:
    network = pn.random_network(widths, features, outputs=outputs, activation=activation, rng=0)
    problem = problem_of(50, features, outputs, activation, len(widths))
    assert problem.parameters(*widths) == network.free_parameters


@given(
    st.integers(50, 5000),
    st.integers(1, 30),
    st.sampled_from([None, 3]),
    st.sampled_from(["relu", "tanh"]),
    st.integers(2, 4),
)
def test_the_widest_layers_are_determined_with_something_to_spare(
    n: int, features: int, outputs: int | None, activation: str, layers: int
) -> None:
    """Layers of one width: as many as leave a share of the labels, and hardly fewer."""
    problem = problem_of(n, features, outputs, activation, layers)
    widest, labels = problem.widest, n * problem.outputs
    assert widest % layers == 0 and widest >= layers
    width = widest // layers
    room = MOST_SHARE_OF_SAMPLES * labels
    if width > 1:
        assert problem.parameters(*[width] * layers) <= room
    more = pn.random_network([width + 1] * layers, features, outputs=outputs, rng=0)
    weights = sum(W.size + b.size for W, b in more.affine_maps)
    assert weights > room - problem.outputs


def test_more_parameters_are_given_more_samples() -> None:
    problem = problem_of(20_000, 10, None, "tanh")
    sizes = [problem.for_width(w, w).samples.size for w in (2, 10, 20, 200)]
    assert sizes == sorted(sizes) and sizes[1] < sizes[2] < sizes[3] == 20_000
    assert problem.for_width(20, 20).samples.size > problem.for_width(20, 2).samples.size


def test_several_layers_are_searched_as_they_are() -> None:
    """One layer of ReLU is fitted as absolute values and a linear part; several are ReLU."""
    assert fitted_form(RELU, 1) is ABS and fitted_form(RELU, 2) is RELU
    one, two = policy_of(RELU, 1), policy_of(RELU, 2)
    assert one.linear and not two.linear and two.homogeneous and two.little > two.near_zero > 0
    assert not policy_of(get_activation("tanh"), 3).homogeneous


@pytest.mark.parametrize("layers", [1, 2])
def test_columns_beside_the_units(layers: int) -> None:
    """Only one layer has a linear part."""
    problem = problem_of(100, 7, None, "relu", layers)
    assert problem.linear_columns == (8 if layers == 1 else 1)
