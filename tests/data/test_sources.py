"""Sources: rows, draws and sums are the same samples, whatever they are made of."""

from __future__ import annotations

import re
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

import provenet as pn
from helpers import exact_tensors, is_a_sentence, random_standardisation, special_network
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.passes import rows_per_block
from provenet.data.sources import (
    BiasedSource,
    LinkedSource,
    MappedSource,
    Source,
    StandardisedSource,
)
from provenet.data.standardisation import LinearSums
from provenet.estimators.reservoir import ReservoirSource
from provenet.moments.hermite import (
    MomentRequest,
    estimate_moments,
    population_moments,
    sampled_moments,
)

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((10_000, 3)), RNG.standard_normal(10_000)
NETWORK = pn.random_network(2, 3, rng=0)


def halved(x: Array, y: Array) -> tuple[Array, Array]:
    return x / 2, y + 1


def gram(x: Array, y: Array) -> Array:
    return y.T @ x


def biased_samples(network: pn.Network, n: int, seed: int) -> BiasedSource:
    """Standard normal inputs, kept with probability proportional to the network's values."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((n, network.features))
    labels = network(inputs)
    kept = rng.random(n) * labels.max() < labels
    return BiasedSource(inputs[kept], labels[kept])


KINDS: dict[str, tuple[Source, set[str]]] = {
    "arrays": (pn.ArraySource(X, Y), {"in_memory", "fixed"}),
    "reservoir": (ReservoirSource.of(X, Y, 500, RNG), {"in_memory", "fixed"}),
    "queries": (pn.QuerySource(NETWORK, 3, 9000, rng=1), {"queryable"}),
    "population": (pn.PopulationSource(NETWORK, 9000, rng=1), {"queryable", "population"}),
    "biased": (BiasedSource(X, np.exp(Y)), {"biased"}),
    "biased inputs": (BiasedSource(X), {"biased", "inputs_alone"}),
    "mapped": (MappedSource(pn.ArraySource(X, Y), halved), {"fixed"}),
    "linked": (LinkedSource(pn.ArraySource(X, expit(Y)), "logit"), {"in_memory", "fixed"}),
}
CAPABILITIES = {"in_memory", "fixed", "queryable", "population", "biased", "inputs_alone"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_protocol(kind: str) -> None:
    """Sums, rows and draws are of the same samples, and capabilities are as declared."""
    source, can = KINDS[kind]
    assert {name for name in CAPABILITIES if getattr(source, name)} == can
    inputs, labels = source.rows(0, source.size)
    assert inputs.shape == (source.size, 3) and labels.shape == (source.size,)
    some = source.rows(100, 300)
    np.testing.assert_array_equal(some[0], inputs[100:300])
    np.testing.assert_array_equal(some[1], labels[100:300])
    for rows in (None, 1000, 50_000):
        # Rounding of sums near 100.
        np.testing.assert_allclose(source.total(gram, rows), labels @ inputs, rtol=0, atol=1e-10)
    part = source.partial_total(gram, 100, 300, 64)
    np.testing.assert_allclose(part, labels[100:300] @ inputs[100:300], rtol=0, atol=1e-11)
    drawn = source.draw(200, np.random.default_rng(3))
    again = source.draw(200, np.random.default_rng(3))
    np.testing.assert_array_equal(drawn.X, again.X)
    if "queryable" in can:
        assert drawn.rows is None  # they are fresh
        np.testing.assert_array_equal(source.query(X[:50]), NETWORK(X[:50]))
        np.testing.assert_allclose(drawn.y, NETWORK(drawn.X), rtol=0, atol=1e-13)
    else:
        assert drawn.rows is not None and len(set(drawn.rows)) == 200
        np.testing.assert_array_equal(drawn.X, inputs[drawn.rows])
        np.testing.assert_array_equal(drawn.y, labels[drawn.rows])
        with pytest.raises(pn.InvalidInput, match="give a QuerySource"):
            source.query(X)


# ---------------------------------------------------------------- arrays


def test_rows_are_float64_and_not_copied_if_they_are_that_already() -> None:
    x, y = pn.ArraySource(X, Y).rows(10, 20)
    assert np.shares_memory(x, X) and np.shares_memory(y, Y)
    x, y = pn.ArraySource((10 * X).astype(np.int8), Y > 0).rows(10, 20)
    assert x.dtype == y.dtype == np.float64
    np.testing.assert_array_equal(x, (10 * X[10:20]).astype(np.int8))
    several = pn.ArraySource([[1, 2], [3, 4]], [[5], [6]])  # type: ignore[arg-type]
    assert several.outputs == 1 and several.columns(np.array([1])).X.tolist() == [[2], [4]]


@given(st.integers(1, 12), st.integers(1, 15), st.integers(0, 100))
def test_a_draw_is_rows_of_the_data_none_twice(size: int, n: int, seed: int) -> None:
    index = np.arange(size)
    drawn = pn.ArraySource(np.column_stack([index, 2 * index]), -index).draw(
        n, np.random.default_rng(seed)
    )
    assert len(drawn.X) == len(set(drawn.y)) == min(n, size)
    np.testing.assert_array_equal(drawn.X, np.column_stack([-drawn.y, -2 * drawn.y]))
    np.testing.assert_array_equal(drawn.rows, -drawn.y)


def test_draws_are_in_random_order_and_all_rows_have_the_same_chance() -> None:
    source = pn.ArraySource(np.arange(10.0)[:, None], np.arange(10.0))
    rng = np.random.default_rng(0)
    first = np.array([source.draw(3, rng).y for _ in range(4000)])
    # Each row in each place 400 times: five standard deviations sqrt(400 * 0.9).
    for place in range(3):
        counts = np.bincount(first[:, place].astype(int), minlength=10)
        assert np.abs(counts - 400).max() < 5 * np.sqrt(360)


def test_a_far_origin_costs_no_digits() -> None:
    s, t = (pn.ArraySource(X + far, Y + far).standardisation() for far in (0.0, 2.0**20))
    # The shift rounds inputs at 2^20 eps = 2e-10; sums about the origin would lose 2^40 eps = 2e-4.
    np.testing.assert_allclose(t.whiten, s.whiten, rtol=0, atol=1e-9)
    np.testing.assert_allclose(t.linear, s.linear, rtol=0, atol=1e-9)
    np.testing.assert_allclose(t.mean - 2.0**20, s.mean, rtol=0, atol=1e-9)


def resident(path: Path) -> int:
    """Bytes of a mapped file that are in this process's memory (Linux)."""
    text = Path("/proc/self/smaps").read_text()
    entries = re.findall(rf"{re.escape(str(path))}\n(?:.*\n)*?Rss:\s+(\d+) kB", text)
    return 1024 * sum(map(int, entries))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads Linux's memory map")
def test_a_pass_over_a_mapped_file_leaves_nothing_of_it_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "X.npy"
    np.save(path, RNG.standard_normal((200_000, 5)))
    mapped = np.load(path, mmap_mode="r")
    source, expected = pn.ArraySource(mapped, np.zeros(200_000)), mapped.sum(axis=0)
    assert resident(path) > 0.9 * mapped.nbytes  # as numpy leaves it
    total = source.total(lambda x, y: x.sum(axis=0))
    assert resident(path) < 0.01 * mapped.nbytes
    source.draw(5000, np.random.default_rng(0))
    assert resident(path) < 0.2 * mapped.nbytes
    np.testing.assert_allclose(total, expected, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(source.X[:7], np.load(path)[:7])  # it is read again if needed


@pytest.mark.parametrize("outputs", [1, 100])
def test_stretches_end_where_blocks_of_any_pass_do(outputs: int) -> None:
    labels = np.broadcast_to(1.0, (10**6, outputs))
    source = pn.ArraySource(np.broadcast_to(1.0, (10**6, 30)), labels)
    for rows in (1000, 4096, rows_per_block(0)):
        stretches = source.stretches(rows)
        assert (stretches[0].start, stretches[-1].stop) == (0, 10**6)
        assert all(s.stop % 16384 == 0 for s in stretches[:-1])
    assert rows_per_block(0) == 16384 and rows_per_block(1e9) == 1024
    assert source.block_rows == 4096


# ---------------------------------------------------------------- changed samples


def test_standardised_samples_are_white_and_added_up_by_their_source() -> None:
    inputs = X * [1.0, 2.0, 0.3] + [0.0, 5.0, -2.0]
    inner = pn.ArraySource(inputs, np.column_stack([Y, -Y]))
    s = random_standardisation(3, np.random.default_rng(2))
    source = StandardisedSource(inner, s, np.array([1.0, 2.0]))
    assert (source.size, source.features, source.outputs) == (10_000, 3, 2)
    Z, y = source.rows(4000, 6000)
    np.testing.assert_array_equal(Z, s.apply(inputs[4000:6000]))
    np.testing.assert_array_equal(y, inner.y[4000:6000] / [1.0, 2.0])
    own = StandardisedSource(inner, inner.standardisation())
    sums = own.total(partial(LinearSums.of, origin=np.zeros(3), label_origin=np.zeros(2)))
    # Rounding of sums over 10,000 samples, block by block.
    np.testing.assert_allclose(sums.x / own.size, 0.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sums.xx / own.size, np.eye(3), rtol=0, atol=1e-11)


def test_labels_before_a_link_know_their_precision() -> None:
    U = np.sort(RNG.normal(0.0, 6.0, 4000))
    source = LinkedSource(pn.ArraySource(U[:, None], np.round(expit(U), 3)), "logit")
    drawn = source.draw(50, np.random.default_rng(1))
    assert drawn.precision is not None and drawn.rows is not None
    np.testing.assert_array_equal(drawn.precision.widths, source.precision.widths[drawn.rows])
    assert 0 < source.size < len(U)
    y = np.where(U > 0, 1.0, 0.0)
    y[0] = 0.5
    with pytest.raises(NoAnswer, match="near 0 or 1"):
        LinkedSource(pn.ArraySource(U[:, None], y), "logit")


# ---------------------------------------------------------------- samples kept by their labels


def positive_network() -> pn.Network:
    return pn.Network(np.eye(3)[:2], [-1.0, -1.5], [1.0, 2.0], activation="sigmoid")


def test_moments_of_kept_samples_are_those_of_the_labels_over_their_mean() -> None:
    """With the labels the noise is less: T_4 errs by 0.19 to 0.32 of plain means over 50 seeds."""
    network = positive_network()
    exact = population_moments(network, 4)
    source = biased_samples(network, 200_000, 7)
    request = MomentRequest(source.standardisation(), 4)
    found, plain = (estimate_moments(s, request) for s in (source, BiasedSource(source.X)))
    for k, share in ((2, 0.9), (3, 0.6), (4, 0.5)):
        truth = exact.tensors[k] / exact.tensors[0]
        # An entry of He_4 has variance up to 24.
        assert np.abs(plain.tensors[k] - truth).max() < 6 * np.sqrt(24 / source.size)
        errors = [np.sqrt(np.mean((m.tensors[k] - truth) ** 2)) for m in (found, plain)]
        assert errors[0] < share * errors[1] and errors[0] < 3 * found.errors[k]


def test_labels_that_vanish_somewhere_leave_plain_means() -> None:
    """ReLUs are silent on half of the space, where one over the label does not reach."""
    network = pn.Network(np.eye(3)[:2], [-1.0, -1.5], [1.0, 2.0])
    source = biased_samples(network, 100_000, 8)
    request = MomentRequest(source.standardisation(), 4)
    found, plain = (estimate_moments(s, request) for s in (source, BiasedSource(source.X)))
    for k in range(5):
        np.testing.assert_array_equal(found.tensors[k], plain.tensors[k])


@pytest.mark.parametrize("y", [np.zeros(50), np.arange(50.0), np.full(50, np.inf)])
def test_kept_samples_that_cannot_be(y: Array) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        BiasedSource(X[:50], y)
    is_a_sentence(error, "above 0")
    with pytest.raises(pn.InvalidInput) as error:
        BiasedSource(np.array([[1.0, np.nan]]))
    is_a_sentence(error, "must be finite")


# ---------------------------------------------------------------- queries


class Oracle:
    """A network that keeps every input it is queried at."""

    def __init__(self) -> None:
        self.inputs: list[Array] = []

    def __call__(self, X: Array) -> Array:
        self.inputs.append(X.copy())
        return NETWORK(X)


def test_nothing_is_queried_before_it_is_needed_and_nothing_twice() -> None:
    oracle = Oracle()
    source = pn.QuerySource(oracle, 3, 10_000, rng=1)
    source.rows(0, 100)
    assert source.queries == 100
    request = MomentRequest(source.standardisation(), 3)
    first, second = estimate_moments(source, request), estimate_moments(source, request)
    for a, b in zip(first.tensors, second.tensors, strict=True):
        np.testing.assert_array_equal(a, b)
    inputs = np.concatenate(oracle.inputs)
    assert source.queries == len(inputs) == len(np.unique(inputs, axis=0)) == 10_000
    # Standard normal: five standard errors of a mean and of a covariance.
    assert np.abs(inputs.mean(axis=0)).max() < 5 / 100
    assert np.abs(inputs.T @ inputs / 10_000 - np.eye(3)).max() < 5 * np.sqrt(2 / 10_000)
    fresh = source.draw(100, np.random.default_rng(3)).X
    assert not np.isin(fresh[:, 0], inputs[:, 0]).any() and source.queries == 10_100
    same, other = (pn.QuerySource(Oracle(), 3, 50, rng=seed).rows(0, 50)[0] for seed in (1, 5))
    np.testing.assert_array_equal(same, source.rows(0, 50)[0])
    assert not np.isin(other, same).any()


def test_the_function_is_never_called_by_two_threads_at_once() -> None:
    busy = threading.Lock()

    def function(X: Array) -> Array:
        assert busy.acquire(blocking=False)
        time.sleep(0.002)
        busy.release()
        return X[:, 0]

    source = pn.QuerySource(function, 2, 40_000, rng=0)
    assert source.total(lambda X, y: len(y), rows=1000) == source.queries == 40_000


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda X: ["1.0"] * len(X), ["real number", "str"]),
        (lambda X: [object()] * len(X), ["real number", "'object'"]),
        (lambda X: X[:, 0] * 1j, ["real number", "complex128"]),
        (lambda X: [[1.0]] * (len(X) - 1) + [[1.0, 2.0]], ["real number", "inhomogeneous"]),
        (lambda X: X, ["with shape (500, 3)", "(500,)"]),
        (lambda X: 1.0, ["with shape ()"]),
        (lambda X: np.where(np.arange(len(X)) == 3, np.nan, 1.0), ["answered nan", "finite"]),
    ],
)
def test_answers_that_cannot_be_used_are_named(answer, words):
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(pn.QuerySource(answer, 3, 500, rng=0))
    is_a_sentence(error, *words)


def test_an_error_of_the_function_comes_through() -> None:
    def function(X: Array) -> Array:
        raise ConnectionError("the model is away")

    with pytest.raises(ConnectionError, match="away"):
        pn.QuerySource(function, 2, 10_000).standardisation()
    for features, samples in ((0, 10), (3, 0)):
        with pytest.raises(pn.InvalidInput, match="at least one"):
            pn.QuerySource(function, features, samples)


# ---------------------------------------------------------------- populations


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_moments_of_a_population_are_exact_whatever_the_scale_of_the_units(scale: float) -> None:
    net = special_network(0).replace(linear=np.ones(6))
    source = pn.PopulationSource(
        net.replace(
            weights=scale * net.weights,
            biases=scale * net.biases,
            output_weights=net.output_weights / scale,
        ),
        20_000,
        rng=0,
    )
    s = source.standardisation()
    moments, exact = estimate_moments(source, MomentRequest(s, 4)), exact_tensors(net)
    for T, expected in zip(moments.tensors, exact, strict=True):
        np.testing.assert_allclose(T, expected, rtol=0, atol=1e-13)  # rounding of numbers near 1
    assert s.samples is None and set(moments.errors) == {0.0}
    np.testing.assert_array_equal(s.whiten, np.eye(6))
    np.testing.assert_allclose(s.linear, exact[1], rtol=0, atol=1e-13)
    # The spread of 10,000 labels, which are near Gaussian, has a relative error of 0.7%.
    labels = pn.sample(net, 200_000, rng=1)[1]
    assert s.label_spread == pytest.approx(labels.std(), rel=0.05)


def test_samples_of_the_population_have_its_moments() -> None:
    """Two routes: the closed form, and the same source's own rows summed as samples."""
    net = pn.random_network(3, 4, rng=2).replace(output_bias=0.5)
    source = pn.PopulationSource(net, 100_000, rng=3)
    request = MomentRequest(source.standardisation(), 4)
    exact, sampled = estimate_moments(source, request), sampled_moments(source, request)
    for k in (2, 3, 4):
        off = np.sqrt(np.mean((sampled.tensors[k] - exact.tensors[k]) ** 2))
        # The root mean square error against its prediction: over 50 seeds 0.44 to 1.44.
        assert 0.3 < off / sampled.errors[k] < 2.2
