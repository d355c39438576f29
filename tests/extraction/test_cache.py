"""Answers in a file: whole records survive whatever byte the run was killed at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.common.typing import Array
from provenet.extraction.answers import row_keys
from provenet.extraction.cache import AnswerFile, Asked
from provenet.extraction.oracle import open_oracle

ME = Asked("a Python function", "me", 3, "float64")
KEYS = row_keys(np.random.default_rng(0).standard_normal((6, 3)))
ANSWERS = np.random.default_rng(1).standard_normal((6, 2))
BATCHES = (slice(0, 3), slice(3, 4), slice(4, 6))


def entries(path: Path, asked: Asked = ME) -> tuple[list[bytes], Array]:
    pairs = list(AnswerFile(path, asked).entries())
    return [key for key, _ in pairs], np.array([answer for _, answer in pairs]).reshape(-1, 2)


@pytest.fixture(scope="module")
def lengths(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    """How many answers the file held after each batch, and its content then."""
    path = tmp_path_factory.mktemp("cache") / "answers"
    file = AnswerFile(path, ME)
    contents = {0: b""}
    for batch in BATCHES:
        file.append(KEYS[batch], ANSWERS[batch], "float32")
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


def test_a_run_killed_at_any_byte_goes_on(
    lengths: dict[int, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # slow, and the machine itself goes on here
    path = tmp_path / "answers"
    whole = lengths[6]
    ends = {len(content): count for count, content in lengths.items()}
    for length in range(len(whole) + 1):
        kept = ends[max(end for end in ends if end <= length)]
        path.write_bytes(whole[:length])
        assert entries(path)[0] == KEYS[:kept]
        assert path.read_bytes() == whole[:length]  # reading changes nothing
        file = AnswerFile(path, ME)
        for batch in BATCHES:
            if batch.start >= kept:
                file.append(KEYS[batch], ANSWERS[batch], "float32")
        assert path.read_bytes() == whole


def test_nothing_of_a_torn_record_stays(lengths: dict[int, bytes], tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_bytes(lengths[6][:-1])
    file = AnswerFile(path, ME)
    file.append(KEYS[:1], ANSWERS[:1], "float32")  # shorter than what was torn
    assert entries(path)[0] == [*KEYS[:4], KEYS[0]]
    file.append(KEYS[1:2], ANSWERS[1:2], "float32")
    assert entries(path)[0] == [*KEYS[:4], *KEYS[:2]]


def test_a_last_record_of_garbage_is_dropped(lengths: dict[int, bytes], tmp_path: Path) -> None:
    """A machine that lost its power may leave zeros where the record should be."""
    path = tmp_path / "answers"
    whole, before = lengths[6], lengths[4]
    path.write_bytes(before + bytes(len(whole) - len(before)))
    assert entries(path)[0] == KEYS[:4]
    path.write_bytes(before + whole[len(before) : -5] + bytes(5))
    assert entries(path)[0] == KEYS[:4]


def test_a_batch_is_on_the_disk_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "answers", []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.stat().st_size))
    file = AnswerFile(path, ME)
    for batch in BATCHES:
        file.append(KEYS[batch], ANSWERS[batch], "float32")
        assert synced[-1] == path.stat().st_size  # all of it was handed to the disk
    assert len(synced) == len(BATCHES)


def test_damage_is_seen_wherever_it_is(lengths: dict[int, bytes], tmp_path: Path) -> None:
    """Any byte of any record but the last: refused, or everything from there on is not used."""
    path = tmp_path / "answers"
    refused = 0
    for place in range(len(lengths[4])):
        content = bytearray(lengths[6])
        content[place] ^= 0x10
        path.write_bytes(content)
        try:
            keys, answers = entries(path)
        except pn.InvalidInput:
            refused += 1
        else:
            assert keys == KEYS[: len(keys)]
            np.testing.assert_array_equal(answers, ANSWERS[: len(keys)])
    assert refused > 0.9 * len(lengths[4])  # all but damage to the high bytes of a length


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
    path.write_bytes(lengths[6])
    with pytest.raises(pn.InvalidInput) as error:
        AnswerFile(path, OTHERS[what])
    is_a_sentence(error, str(path), what, "give another name, or delete it")


def test_answers_of_other_sizes_are_refused(lengths: dict[int, bytes], tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_bytes(lengths[6])
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
    with pytest.raises(pn.InvalidInput):
        AnswerFile(tmp_path, ME)
    assert path.read_text() == "provenet is a library"


def test_a_later_format_is_refused(lengths: dict[int, bytes], tmp_path: Path) -> None:
    path = tmp_path / "answers"
    file = AnswerFile(path, ME)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("provenet.extraction.cache._FORMAT", 2)
        file.append(KEYS, ANSWERS, "float64")
    with pytest.raises(pn.InvalidInput) as error:
        AnswerFile(path, ME)
    is_a_sentence(error, "has format 2")


def test_two_runs_do_not_mix_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    first, second = AnswerFile(path, ME), AnswerFile(path, ME)
    first.append(KEYS[:3], ANSWERS[:3], "float64")
    with pytest.raises(pn.InvalidInput) as error:
        second.append(KEYS[3:], ANSWERS[3:], "float64")
    is_a_sentence(error, "changed by another run")
    first.append(KEYS[3:], ANSWERS[3:], "float64")
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
    def answers(self, X):
        time.sleep(0.01)
        with open(sys.argv[2], "a") as file:
            file.write("asked\\n" * len(X))
        return super().answers(X)

client = Slow(pn.random_network(2, 1, rng=0), 1)
client.batch = 10
Oracle(client, cache=sys.argv[1]).ask(np.linspace(0, 1, 10_000)[:, None])
"""


def test_a_process_killed_in_earnest_goes_on(tmp_path: Path) -> None:
    cache, log = tmp_path / "answers", tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(cache), str(log)])
    while process.poll() is None and (not cache.exists() or cache.stat().st_size < 1000):
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
