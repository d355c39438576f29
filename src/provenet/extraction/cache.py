"""Answers in an SQLite file: a run that was killed goes on, and asks nothing twice.

One row says, in JSON, whose answers these are; each other one holds the answers to a batch, a
digest of the input and the numbers of the answer each, with a checksum. A batch is on the disk
before its answers are used: SQLite's journal sees to that, and to what was torn. The first inputs
are kept themselves, so that they can be asked again.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import check_writable
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.extraction.answers import row_keys
from provenet.extraction.tolerances import KEPT_INPUTS, KEY_BYTES

_SQLITE, _EARLIER = b"SQLite format 3\x00", b"provenet answers\n"
_APPLICATION = int.from_bytes(b"prnt")
"""In the header of every SQLite file: whose it is."""
_FORMAT = 2
"""Convention: number of the file's layout: whoever changes that counts on."""
_TABLES = (
    f"PRAGMA application_id = {_APPLICATION}",
    "CREATE TABLE about (content TEXT, checksum INTEGER)",
    "CREATE TABLE inputs (content BLOB)",
    "CREATE TABLE batches (id INTEGER PRIMARY KEY, keys BLOB, answers BLOB, checksum INTEGER)",
)


@dataclass(frozen=True)
class Asked:
    """Who is asked, and in what words."""

    kind: str
    identity: str
    features: int
    input_dtype: str


@dataclass(frozen=True)
class _Batch:
    keys: bytes
    answers: bytes

    def checksum(self, number: int) -> int:
        """Of the content and of its place."""
        return zlib.crc32(self.keys + self.answers, number)


class AnswerFile:
    """The batches of a file, read once, and the place for the next.

    `outputs` numbers of `answer_dtype` make an answer; both are None as long as there is none.
    `inputs` are the first few that were asked.
    """

    outputs: int | None = None
    answer_dtype: str | None = None

    def __init__(self, path: str | PathLike[str], asked: Asked) -> None:
        """Read the file if there is one; raises if it is damaged, or somebody else's."""
        self.path, self.asked = Path(path), asked
        self._batches: list[_Batch] = []
        self.inputs = np.empty((0, asked.features), asked.input_dtype)
        check_writable(self.path)
        if self.path.exists() and self._is_begun():
            try:
                self._read()
            except InvalidInput:
                raise
            except (sqlite3.Error, ValueError, KeyError, TypeError):
                raise self._refused("is damaged") from None

    def entries(self) -> Iterator[tuple[bytes, Array]]:
        """The digest of an input and the answer to it, in the order in which they were given."""
        for batch in self._batches:
            for i, answer in enumerate(self._answers(batch)):
                yield batch.keys[i * KEY_BYTES : (i + 1) * KEY_BYTES], answer

    def kept(self) -> tuple[AnyArray, Array]:
        """The first few inputs, and the first answer to each."""
        first = dict(reversed([*self.entries()]))
        keys = row_keys(self.inputs)
        if not first.keys() >= {*keys}:
            raise self._refused("is damaged")
        return self.inputs, np.array([first[key] for key in keys])

    def append(self, points: AnyArray, answers: Array, answer_dtype: str) -> None:
        """Put the answers (n, outputs) to a batch on the disk."""
        keys = row_keys(points)
        batch = _Batch(b"".join(keys), answers.astype("<f8").tobytes())
        about = {"outputs": answers.shape[1], "answer_dtype": answer_dtype, **asdict(self.asked)}
        new = points[self._to_keep(keys)]
        try:
            self._write(batch, json.dumps({"format": _FORMAT, **about}), new)
        except sqlite3.Error as error:
            raise InvalidInput(
                f"{self.path} cannot be written ({error}): make room, or give another name."
            ) from None
        self.outputs, self.answer_dtype = answers.shape[1], answer_dtype
        self.inputs = np.vstack([self.inputs, new])
        self._batches.append(batch)

    def check_outputs(self, outputs: int | None) -> None:
        """Raise if the answers are not of so many numbers."""
        if self.outputs is not None and outputs not in (None, self.outputs):
            raise self._refused(f"holds answers of {counted(self.outputs, 'number')}")

    def _to_keep(self, keys: list[bytes]) -> list[int]:
        """Rows of a batch whose inputs are to be kept: the first few that differ."""
        known = {*row_keys(self.inputs)}
        first = {key: -i for i, key in enumerate(reversed(keys), 1 - len(keys)) if key not in known}
        return sorted(first.values())[: KEPT_INPUTS - len(known)]

    def _answers(self, batch: _Batch) -> Array:
        return np.frombuffer(batch.answers, "<f8").reshape(-1, self.outputs or 1).astype(float)

    def _is_begun(self) -> bool:
        """Whether there is anything to read; raises where it is of another kind."""
        with open(self.path, "rb") as file:
            head = file.read(len(_EARLIER))
        if head.startswith(_EARLIER):
            raise self._refused("holds answers in the format of an earlier version")
        if not _SQLITE.startswith(head[: len(_SQLITE)]):
            raise self._refused("is not a file of answers")
        return len(head) > 0

    def _read(self) -> None:
        with closing(sqlite3.connect(self.path)) as file:
            if file.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
                raise self._refused("is not a file of answers")
            ((content, checksum),) = file.execute("SELECT content, checksum FROM about")
            if zlib.crc32(content.encode()) != checksum:
                raise self._refused("is damaged")
            self._read_about(json.loads(content))
            rows = "SELECT id, keys, answers, checksum FROM batches ORDER BY id"
            for number, (place, keys, answers, checksum) in enumerate(file.execute(rows)):
                batch = _Batch(keys, answers)
                if place != number or batch.checksum(number) != checksum:
                    raise self._refused(f"is damaged at batch {number}")
                self._batches.append(batch)
            inputs = b"".join(row for (row,) in file.execute("SELECT content FROM inputs"))
            self.inputs = np.frombuffer(inputs, self.inputs.dtype).reshape(-1, self.asked.features)

    def _write(self, batch: _Batch, about: str, inputs: AnyArray) -> None:
        number = len(self._batches)
        with closing(sqlite3.connect(self.path, isolation_level=None)) as file, file:
            file.execute("BEGIN IMMEDIATE")
            if _number_in(file) != number:
                raise InvalidInput(
                    f"{self.path} was changed by another run meanwhile: give each a cache of its "
                    "own, and run the same again."
                )
            if number == 0:
                for table in _TABLES:
                    file.execute(table)
                file.execute("INSERT INTO about VALUES (?, ?)", (about, zlib.crc32(about.encode())))
            row = (number, batch.keys, batch.answers, batch.checksum(number))
            file.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)
            file.executemany("INSERT INTO inputs VALUES (?)", [(x.tobytes(),) for x in inputs])

    def _read_about(self, about: dict[str, Any]) -> None:
        if about["format"] != _FORMAT:
            raise self._refused(f"has format {about['format']}, and this version reads {_FORMAT}")
        self._check(Asked(**{field.name: about[field.name] for field in fields(Asked)}))
        self.outputs, self.answer_dtype = about["outputs"], about["answer_dtype"]

    def _check(self, other: Asked) -> None:
        """Raise if these are the answers of somebody else, or to other questions."""
        own = self.asked
        if (other.kind, other.identity) != (own.kind, own.identity):
            kind = own.kind.partition(" ")[2]
            whose = f"another {kind}" if other.kind == own.kind else f"{other.kind}, not {own.kind}"
            raise self._refused(f"holds the answers of {whose}")
        if other != own:
            size = counted(other.features, "feature")
            raise self._refused(f"holds answers to inputs of {size} in {other.input_dtype}")

    def _refused(self, problem: str) -> InvalidInput:
        return InvalidInput(f"{self.path} {problem}: give another name, or delete it.")


def _number_in(file: sqlite3.Connection) -> int:
    """Batches in the file, which may be empty."""
    begun = file.execute("SELECT 1 FROM sqlite_master WHERE name = 'batches'").fetchone()
    return int(file.execute("SELECT count(*) FROM batches").fetchone()[0]) if begun else 0
