"""Answers in a file: whole batches survive, whatever happens to the run or to the file."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.common.typing import Array
from provenet.extraction.answers import row_keys
from provenet.extraction.cache import AnswerFile, Asked
from provenet.extraction.oracle import open_oracle
from provenet.extraction.tolerances import KEPT_INPUTS

ME = Asked("a Python function", "me", 3, "float64")
POINTS = np.random.default_rng(0).standard_normal((12, 3))
KEYS = row_keys(POINTS)
ANSWERS = np.random.default_rng(1).standard_normal((12, 2))
BATCHES = (slice(0, 3), slice(3, 4), slice(4, 12))


def entries(path: Path, asked: Asked = ME) -> tuple[list[bytes], Array]:
    pairs = list(AnswerFile(path, asked).entries())
    return [key for key, _ in pairs], np.array([answer for _, answer in pairs]).reshape(-1, 2)


def fill(file: AnswerFile, *batches: slice) -> None:
    for batch in batches:
        file.append(POINTS[batch], ANSWERS[batch], "float32")


@pytest.fixture(scope="module")
def lengths(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    """How many answers the file held after each batch, and its content then."""
    path = tmp_path_factory.mktemp("cache") / "answers"
    file = AnswerFile(path, ME)
    contents = {0: b""}
    for batch in BATCHES:
        fill(file, batch)
        contents[batch.stop] = path.read_bytes()
    return contents


def test_what_was_put_in_comes_out(lengths: dict[int, bytes], tmp_path: Path) -> None:
    path = tmp_path / "answers"
    for count, content in lengths.items():
        path.write_bytes(content)
        file = AnswerFile(path, ME)
        assert (file.outputs, file.answer_dtype) == ((2, "float32") if count else (None, None))
        keys, answers = entries(path)
        assert keys == KEYS[:count]
        np.testing.assert_array_equal(answers, ANSWERS[:count])
        assert path.read_bytes() == content  # reading changes nothing
        fill(file, *(batch for batch in BATCHES if batch.start >= count))  # and it goes on
        assert entries(path)[0] == KEYS


def test_the_first_inputs_that_differ_are_kept(tmp_path: Path) -> None:
    file = AnswerFile(tmp_path / "answers", ME)
    for rows in ([0, 1, 1], [1, 0, 2], [3, 4, 5, 6, 7, 8, 9]):
        file.append(POINTS[rows], ANSWERS[rows], "float64")
    for opened in (file, AnswerFile(tmp_path / "answers", ME)):
        inputs, answers = opened.kept()
        np.testing.assert_array_equal(inputs, POINTS[:KEPT_INPUTS])
        np.testing.assert_array_equal(answers, ANSWERS[:KEPT_INPUTS])


def torn(write: Callable[..., None], batch: Any, about: str, inputs: Array) -> None:
    """The answers are in the file when the inputs turn out to be nothing that it takes."""
    write(batch, about, [SimpleNamespace(tobytes=object)])


def test_a_batch_that_was_torn_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails in the middle of a batch leaves the file as it was before."""
    file = AnswerFile(tmp_path / "answers", ME)
    fill(file, BATCHES[0])
    before = (tmp_path / "answers").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(file, "_write", partial(torn, file._write))
        with pytest.raises(pn.InvalidInput) as error:
            fill(file, BATCHES[1])
    is_a_sentence(error, "cannot be written")
    assert (tmp_path / "answers").read_bytes() == before
    fill(file, BATCHES[1])
    assert entries(tmp_path / "answers")[0] == KEYS[:4]


def test_damage_is_seen_wherever_it_is(lengths: dict[int, bytes], tmp_path: Path) -> None:
    """Any byte that is not empty: refused, or nothing that is read is changed by it."""
    path = tmp_path / "answers"
    whole = lengths[12]
    filled = [place for place in range(len(whole)) if whole[place]]
    refused = 0
    for place in filled[::3]:
        content = bytearray(whole)
        content[place] ^= 0x10
        path.write_bytes(content)
        try:
            keys, answers = entries(path)
        except pn.InvalidInput:
            refused += 1
        else:
            assert keys == KEYS[: len(keys)]
            np.testing.assert_array_equal(answers, ANSWERS[: len(keys)])
    assert refused > 0.5 * len(filled) / 3  # the inputs themselves are asked again: they are free


def test_an_earlier_format_is_told_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_bytes(b"provenet answers\n\x10\x00\x00\x00")
    with pytest.raises(pn.InvalidInput) as error:
        AnswerFile(path, ME)
    is_a_sentence(error, "format of an earlier version", "give another name, or delete it")


OTHERS = {
    "holds the answers of another Python function": Asked(ME.kind, "you", 3, "float64"),
    "of a Python function, not an ONNX model": Asked("an ONNX model", "me", 3, "float64"),
    "inputs of 3 features in float64": Asked(ME.kind, "me", 4, "float64"),
    "of 3 features in float64:": Asked(ME.kind, "me", 3, "float32"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_the_answers_of_others_are_refused(
    what: str, lengths: dict[int, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "answers"
    path.write_bytes(lengths[12])
    with pytest.raises(pn.InvalidInput) as error:
        AnswerFile(path, OTHERS[what])
    is_a_sentence(error, str(path), what, "give another name, or delete it")


def test_answers_of_other_sizes_are_refused(lengths: dict[int, bytes], tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_bytes(lengths[12])
    with pytest.raises(pn.InvalidInput) as error:
        AnswerFile(path, ME).check_outputs(3)
    is_a_sentence(error, "holds answers of 2 numbers")
    AnswerFile(path, ME).check_outputs(2)
    AnswerFile(path, ME).check_outputs(None)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("provenet is a library")
    with pytest.raises(pn.InvalidInput) as error:
        AnswerFile(path, ME)
    is_a_sentence(error, "is not a file of answers")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE batches (id INTEGER)")
    with pytest.raises(pn.InvalidInput) as error:
        AnswerFile(tmp_path / "other.db", ME)
    is_a_sentence(error, "is not a file of answers")
    with pytest.raises(pn.InvalidInput):
        AnswerFile(tmp_path, ME)
    assert path.read_text() == "provenet is a library"


def test_a_later_format_is_refused(lengths: dict[int, bytes], tmp_path: Path) -> None:
    path = tmp_path / "answers"
    file = AnswerFile(path, ME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("provenet.extraction.cache._FORMAT", 3)
        fill(file, slice(None))
    with pytest.raises(pn.InvalidInput) as error:
        AnswerFile(path, ME)
    is_a_sentence(error, "has format 3")


def test_two_runs_do_not_mix_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    first, second = AnswerFile(path, ME), AnswerFile(path, ME)
    fill(first, slice(0, 3))
    with pytest.raises(pn.InvalidInput) as error:
        fill(second, slice(3, 12))
    is_a_sentence(error, "changed by another run")
    fill(first, slice(3, 12))
    assert entries(path)[0] == KEYS


def test_networks_are_told_apart_and_named_functions_known(tmp_path: Path) -> None:
    nets = [pn.random_network(2, 3, rng=seed) for seed in (0, 0, 1)]
    X = np.eye(3)
    open_oracle(nets[0], 3, cache=tmp_path / "a").ask(X)
    same = open_oracle(nets[1], 3, cache=tmp_path / "a")
    same.ask(X)
    assert (same.queries, same.cached) == (0, 3)
    with pytest.raises(pn.InvalidInput) as error:
        open_oracle(nets[2], 3, cache=tmp_path / "a")
    is_a_sentence(error, "another Python function")
    open_oracle(np.sum, 3, cache=tmp_path / "b")
    open_oracle(lambda X: X[:, 0], 3, cache=tmp_path / "c").ask(X)
    with pytest.raises(pn.InvalidInput):
        open_oracle(nets[0], 3, cache=tmp_path / "c")


KILLED = """
import sys, time
import numpy as np
import provenet as pn
from provenet.extraction.clients.callables import CallableClient
from provenet.extraction.oracle import Oracle

class Slow(CallableClient):
    def answers(self, X, deadline):
        time.sleep(0.01)
        with open(sys.argv[2], "a") as file:
            file.write("asked\\n" * len(X))
        return super().answers(X, deadline)

client = Slow(pn.random_network(2, 1, rng=0), 1)
client.batch = 10
Oracle(client, cache=sys.argv[1]).ask(np.linspace(0, 1, 10_000)[:, None])
"""


def test_a_process_killed_in_earnest_goes_on(tmp_path: Path) -> None:
    cache, log = tmp_path / "answers", tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(cache), str(log)])
    while process.poll() is None and (not cache.exists() or cache.stat().st_size < 20_000):
        time.sleep(0.001)
    process.kill()
    assert process.wait(10) == -signal.SIGKILL  # it was in the middle of its work
    net, X = pn.random_network(2, 1, rng=0), np.linspace(0, 1, 10_000)[:, None]
    oracle = open_oracle(net, 1, cache=cache)
    # Batches of other sizes may differ in the last place.
    np.testing.assert_allclose(oracle.ask(X), net(X), rtol=0, atol=1e-15)
    assert oracle.used == 10_000 and oracle.cached >= 20
    # Only the batch that was under way may have been asked without its answers being kept.
    assert 0 <= len(log.read_text().split()) - oracle.cached <= 10
