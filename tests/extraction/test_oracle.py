"""A black box that may be asked: every answer counted once, nothing asked twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import is_a_sentence
from provenet.common.exceptions import BudgetSpent
from provenet.common.typing import Array
from provenet.extraction.clients.callables import CallableClient
from provenet.extraction.oracle import Oracle, open_oracle

NETS = {
    "one output": pn.random_network(2, 3, rng=0),
    "two outputs": pn.random_network(2, 3, outputs=2, rng=0),
}
X = np.random.default_rng(0).standard_normal((7, 3))


class Asked:
    """A function that keeps every input it was asked about, and may answer with noise."""

    def __init__(self, net: pn.Network = NETS["one output"], noise: float = 0.0) -> None:
        self.net, self.noise = net, noise
        self.rng = np.random.default_rng(1)
        self.batches: list[Array] = []

    def __call__(self, X: Array) -> Array:
        self.batches.append(X.copy())
        y = self.net(X)
        X[:] = 0.0  # what a function does with its inputs is its own affair
        return y + self.noise * self.rng.standard_normal(y.shape)

    @property
    def rows(self) -> int:
        return sum(map(len, self.batches))


def known(asked: Asked) -> CallableClient:
    """One that is known for more than its name, so that nothing is asked again."""
    client = CallableClient(asked, 3)
    client.known_by_name = False
    return client


@pytest.mark.parametrize("name", NETS)
def test_answers_belong_to_their_inputs_and_are_counted(name: str) -> None:
    asked = Asked(NETS[name])
    oracle = open_oracle(asked, 3)
    np.testing.assert_array_equal(oracle.ask(X), NETS[name](X))
    assert oracle.outputs == NETS[name].outputs
    assert (oracle.queries, oracle.cached, oracle.remaining) == (7, 0, None)
    np.testing.assert_array_equal(oracle.ask(X[::-1]), NETS[name](X[::-1]))
    assert oracle.ask(X[:0]).shape == NETS[name](X[:0]).shape
    assert oracle.queries == asked.rows == 7


@pytest.mark.parametrize("name", NETS)
def test_a_function_may_squeeze_its_answers(name: str) -> None:
    """Once the outputs are known, an answer to one input needs no row of its own."""
    oracle = open_oracle(lambda points: np.squeeze(NETS[name](points)), 3)
    np.testing.assert_array_equal(oracle.ask(X[:5]), NETS[name](X[:5]))
    np.testing.assert_array_equal(oracle.ask(X[5:6]), NETS[name](X[5:6]))


def test_a_batch_is_no_longer_than_the_client_says() -> None:
    asked = Asked()
    client = CallableClient(asked, 3)
    client.batch = 3
    np.testing.assert_array_equal(Oracle(client).ask(X), NETS["one output"](X))
    assert [len(batch) for batch in asked.batches] == [3, 3, 1]


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_the_same_row_is_asked_once(first: list[int], second: list[int]) -> None:
    asked = Asked(noise=1.0)  # so that another answer would be seen
    oracle = open_oracle(asked, 3)
    answers = [oracle.ask(X[rows]) for rows in (first, second)]
    assert oracle.queries == asked.rows == len({*first, *second})
    by_row: dict[int, set[float]] = {}
    for row, y in zip([*first, *second], np.concatenate(answers).tolist(), strict=True):
        by_row.setdefault(row, set()).add(y)
    assert all(len(values) == 1 for values in by_row.values())


def test_zero_has_no_sign() -> None:
    oracle = open_oracle(Asked(), 3)
    oracle.ask([[0.0, 1.0, -0.0], [-0.0, 1.0, 0.0]])
    assert oracle.queries == 1


def test_a_fresh_question_is_asked_again() -> None:
    oracle = open_oracle(Asked(noise=1.0), 3)
    plain = oracle.ask(X[:1])
    fresh = oracle.ask(X[[0, 0, 1]], fresh=True)
    assert len({*plain, *fresh}) == 4 and oracle.queries == 4
    np.testing.assert_array_equal(oracle.ask(X[:2]), [plain[0], fresh[2]])
    assert oracle.queries == 4


questions = st.lists(
    st.tuples(st.booleans(), st.lists(st.integers(0, 3), max_size=5)), min_size=1, max_size=6
)


@given(questions, st.integers(0, 6))
def test_a_run_that_goes_on_sees_what_one_run_would(
    tmp_path_factory: pytest.TempPathFactory, asks: list[Any], killed: int
) -> None:
    """Noise, fresh and plain questions in any order, stopped anywhere."""
    path = tmp_path_factory.mktemp("cache") / "answers"
    asked = Asked(noise=1.0)
    whole = []
    for asks_of_a_run in (asks[:killed], asks, asks):
        oracle = Oracle(known(asked), cache=path, budget=100)
        whole.append([oracle.ask(X[rows], fresh=fresh) for fresh, rows in asks_of_a_run])
    most = sum(len(rows) for _, rows in asks)
    for again, now in zip(whole[1], whole[2], strict=True):
        np.testing.assert_array_equal(again, now)
    for before, now in zip(whole[0], whole[2], strict=False):
        np.testing.assert_array_equal(before, now)
    assert oracle.queries == 0 and oracle.cached == asked.rows <= most
    assert oracle.remaining == 100 - asked.rows


def test_a_budget_stops_before_anything_is_asked(tmp_path: Path) -> None:
    asked = Asked()
    oracle = Oracle(known(asked), budget=5, cache=tmp_path / "answers")
    oracle.ask(X[:4])
    with pytest.raises(BudgetSpent) as spent:
        oracle.ask(X[:6])
    assert (spent.value.used, spent.value.needed) == (4, 2) and asked.rows == 4
    oracle.ask(X[[0, 1, 2, 3, 4, 4]])  # one that is new
    assert oracle.remaining == 0
    again = Oracle(known(asked), budget=5, cache=tmp_path / "answers")
    again.ask(X[:4])
    with pytest.raises(BudgetSpent):  # answers of the cache count: this run is that run
        again.ask(X[:6])
    assert asked.rows == 5 and again.remaining == 1


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_kept_questions_are_asked_again_and_count(name: str, noise: float, tmp_path: Path) -> None:
    first, second = (Asked(NETS[name], noise) for _ in range(2))
    second.rng = np.random.default_rng(2)
    expected = open_oracle(first, 3, cache=tmp_path / "answers").ask(X)
    oracle = open_oracle(second, 3, cache=tmp_path / "answers", budget=100)
    np.testing.assert_array_equal(oracle.ask(X[::-1]), expected[::-1])
    times = 9 if noise else 1  # once, and where it differs eight times more to know the noise
    np.testing.assert_array_equal(np.vstack(second.batches), np.tile(X, (times, 1)))
    assert (oracle.queries, oracle.cached, oracle.used) == (7 * times, 7, 7 * times + 7)
    assert oracle.remaining == 100 - oracle.used
    oracle.ask(X + 1)
    assert second.rows == 7 * times + 7  # only once


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_a_model_that_changed_behind_its_name_is_refused(
    name: str, noise: float, tmp_path: Path
) -> None:
    net = NETS[name]
    open_oracle(Asked(net, noise), 3, cache=tmp_path / "answers").ask(X)
    other = Asked(net.replace(output_bias=net.output_bias + 0.1), noise)
    oracle = open_oracle(other, 3, cache=tmp_path / "answers")
    with pytest.raises(pn.InvalidInput) as error:
        oracle.ask(X + 1)
    is_a_sentence(error, "answers", "holds answers that f does not give now", "7 questions of it")
    assert oracle.queries == other.rows == 63


def test_a_budget_that_does_not_allow_to_ask_again(tmp_path: Path) -> None:
    open_oracle(Asked(), 3, cache=tmp_path / "answers").ask(X)
    with pytest.raises(BudgetSpent) as spent:
        open_oracle(Asked(), 3, cache=tmp_path / "answers", budget=6).ask(X)
    assert (spent.value.used, spent.value.needed) == (0, 7)


def test_the_box_is_one_that_single_precision_can_reach() -> None:
    client = CallableClient(Asked(), 3)
    client.input_dtype = np.dtype(np.float32)
    oracle = Oracle(client, low=[0.1, -np.inf, 1e-9], high=0.3)
    assert oracle.low is not None and oracle.high is not None
    given = np.array([0.1, -np.inf, 1e-9])
    assert (oracle.low >= given).all() and (oracle.high <= 0.3).all()
    np.testing.assert_array_equal(oracle.low, oracle.low.astype(np.float32))
    np.testing.assert_allclose(oracle.low[[0, 2]], given[[0, 2]], rtol=1e-7)  # 2**-23
    oracle.ask([oracle.high, [0.2, -1e9, 0.2]])
    with pytest.raises(AssertionError):
        oracle.ask([[0.2, 0.31, 0.2]])


def test_points_are_rounded_to_what_the_model_takes() -> None:
    asked = Asked()
    client = CallableClient(asked, 3)
    client.input_dtype = np.dtype(np.float32)
    oracle = Oracle(client)
    oracle.ask(X)
    oracle.ask(X.astype(np.float32))
    assert oracle.queries == 7
    np.testing.assert_array_equal(asked.batches[0], X.astype(np.float32))


@pytest.mark.parametrize(
    "answer, dtype", [(np.float32, np.float32), (np.float16, np.float16), (int, np.float64)]
)
def test_the_precision_of_answers_is_told(answer: Any, dtype: Any, tmp_path: Path) -> None:
    def f(X: Array) -> Any:
        return np.ones(len(X), answer)

    for _ in range(2):  # from the function, then from the cache
        oracle = open_oracle(f, 3, cache=tmp_path / "answers")
        assert oracle.answer_dtype == np.float64
        assert oracle.ask(X).dtype == np.float64
        assert oracle.answer_dtype == dtype


BAD_ANSWERS = {
    "shape (1, 7)": lambda X: np.ones((1, len(X))),
    "shape ()": lambda X: 1.0,
    "shape (7, 0)": lambda X: np.ones((len(X), 0)),
    "shape (7, 2, 1)": lambda X: np.ones((len(X), 2, 1)),
    "an array of complex128": lambda X: np.ones(len(X), complex),
    "an array of |S1": lambda X: [b"a"] * len(X),
    "an array of object": lambda X: None,
    "list: setting an array element with a sequence": lambda X: [[1.0], [1.0, 2.0]],
    "ZeroDivisionError: division by zero": lambda X: 1 / 0,
    "RuntimeError: no message": lambda X: (_ for _ in ()).throw(RuntimeError),
    "answered [nan] to the query": lambda X: np.where(np.arange(len(X)) == 3, np.nan, 1),
}


@pytest.mark.parametrize("what", BAD_ANSWERS)
def test_bad_answers_are_told_with_the_query(what: str, tmp_path: Path) -> None:
    oracle = open_oracle(BAD_ANSWERS[what], 3, cache=tmp_path / "answers")
    with pytest.raises(pn.InvalidInput) as error:
        oracle.ask(X)
    row = 3 if "nan" in what else 0
    is_a_sentence(error, what, f"[{X[row, 0]:.6g}, ", "f ")
    assert oracle.queries == 0 and not (tmp_path / "answers").exists()


def test_the_query_is_told_as_it_was_whatever_the_function_did_to_it() -> None:
    def f(X: Array) -> Array:
        X[:] = 0.0
        return np.full(len(X), np.nan)

    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(f, 3).ask(X)
    is_a_sentence(error, f"to the query [{X[0, 0]:.6g}, ")


def test_the_number_of_outputs_may_not_change() -> None:
    oracle = open_oracle(lambda X: np.ones((len(X), len(X))), 3)
    oracle.ask(X[:2])
    with pytest.raises(pn.InvalidInput) as error:
        oracle.ask(X)
    is_a_sentence(error, "shape (5, 5)", "shape (5, 2)")
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(NETS["two outputs"], 3, outputs=1).ask(X)
    is_a_sentence(error, "shape (7, 2)", "shape (7,)", "outputs=")


def test_a_bug_in_the_function_can_be_traced() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(lambda X: 1 / 0, 3).ask(X)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


BAD_OPTIONS: dict[str, dict[str, Any]] = {
    "features must be a whole number from 1 on, not 0": {"features": 0},
    "features must be a whole number from 1 on, not 2.5": {"features": 2.5},
    "outputs must be a whole number from 1 on, not True": {"outputs": True},
    "budget must be a whole number from 1 on, not 0": {"budget": 0},
    "retries must be a whole number from 0 on, not -1": {"retries": -1},
    "timeout must be a positive number of seconds, not inf": {"timeout": np.inf},
    "timeout must be a positive number of seconds, not 0": {"timeout": 0},
    "give features": {"features": None},
    "low must be below high": {"low": [0, 0, 1], "high": 1},
    "high must be a number, or one for each of the 3 features": {"high": [1, 2]},
    "low must be a number, or one": {"low": np.nan},
    "an object with predict, a file or an address, not int": {"f": 3},
    ".onnx, or in .pt or .pts": {"f": "model.bin"},
    "http:// or https://": {"f": "ftp://host/model"},
    "model.onnx does not exist": {"f": "model.onnx"},
    "model.pt does not exist": {"f": Path("model.pt")},
    "plain ASCII": {"f": "http://höst/"},
    "give http://host:port/path": {"f": "http:///path"},
    "is not an address (": {"f": "http://host:99999/"},
    "without a user's name": {"f": "https://me@host/"},
    "The folder missing does not exist": {"cache": "missing/answers"},
}


@pytest.mark.parametrize("what", BAD_OPTIONS)
def test_bad_options_are_refused_before_anything_is_asked(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"f": Asked(), "features": 3, **BAD_OPTIONS[what]}
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(options.pop("f"), options.pop("features"), **options)
    is_a_sentence(error, what)


def test_an_oracle_passes_through() -> None:
    oracle = open_oracle(Asked(), 3)
    assert open_oracle(oracle) is oracle
