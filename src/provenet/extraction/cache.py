"""Answers in a file that only grows: a run that was killed goes on, and asks nothing twice.

The file is a line that names it and then records: length, checksum, content. The first record says,
in JSON, whose answers these are; each other one holds the answers to a batch, a digest of the input
and the numbers of the answer each. A record is on the disk before its answers are used. One that
was torn at the end of the file is dropped, and replaced by the next. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import check_writable
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.extraction.answers import KEY_BYTES

_NAME = b"provenet answers\n"
_FORMAT = 1
_PREFIX = struct.Struct("<II")


@dataclass(frozen=True)
class Asked:
    """Who is asked, and in what words."""

    kind: str
    identity: str
    features: int
    input_dtype: str


class AnswerFile:
    """The whole records of a file, read once, and the place for the next.

    `outputs` numbers of `answer_dtype` make an answer; both are None as long as there is none.
    """

    outputs: int | None = None
    answer_dtype: str | None = None

    def __init__(self, path: str | PathLike[str], asked: Asked) -> None:
        """Read the file if there is one; raises if it is damaged, or somebody else's."""
        self.path, self.asked = Path(path), asked
        check_writable(self.path)
        content = self.path.read_bytes() if self.path.exists() else b""
        if not content.startswith(_NAME[: len(content)]):
            raise self._refused("is not a file of answers")
        self._size = len(content)
        self._records, self._end = self._whole_records(content)
        if self._records:
            self._read_head(self._records.pop(0))

    def entries(self) -> Iterator[tuple[bytes, Array]]:
        """The digest of an input and the answer to it, in the order in which they were given."""
        kind = _entry(self.outputs or 0)
        for record in self._records:
            if len(record) % kind.itemsize:
                raise self._refused("is damaged")
            rows = np.frombuffer(record, kind)
            keys = rows["key"].tobytes()
            for i, answer in enumerate(rows["answer"].astype(float)):
                yield keys[i * KEY_BYTES : (i + 1) * KEY_BYTES], answer

    def append(self, keys: list[bytes], answers: Array, answer_dtype: str) -> None:
        """Put the answers (n, outputs) to a batch on the disk."""
        outputs = answers.shape[1]
        rows = np.empty(len(keys), _entry(outputs))
        rows["key"] = np.frombuffer(b"".join(keys), rows["key"].dtype)
        rows["answer"] = answers
        content = _record(rows.tobytes())
        if self.outputs is None:
            head = {"outputs": outputs, "answer_dtype": answer_dtype, **asdict(self.asked)}
            content = _NAME + _record(json.dumps({"format": _FORMAT, **head}).encode()) + content
        self._write(content)
        self.outputs, self.answer_dtype = outputs, answer_dtype

    def check_outputs(self, outputs: int | None) -> None:
        """Raise if the answers are not of so many numbers."""
        if self.outputs is not None and outputs not in (None, self.outputs):
            raise self._refused(f"holds answers of {counted(self.outputs, 'number')}")

    def _write(self, content: bytes) -> None:
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
            if os.fstat(file.fileno()).st_size != self._size:
                raise InvalidInput(
                    f"{self.path} was changed by another run meanwhile: give each a cache of its "
                    "own, and run the same again."
                )
            file.seek(self._end)
            file.truncate()
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self._size = self._end = self._end + len(content)

    def _whole_records(self, content: bytes) -> tuple[list[bytes], int]:
        """The contents of the records, and where the last whole one ends."""
        records: list[bytes] = []
        end = len(_NAME)
        while end + _PREFIX.size <= len(content):
            length, checksum = _PREFIX.unpack_from(content, end)
            stop = end + _PREFIX.size + length
            record = content[end + _PREFIX.size : stop]
            if not record or stop > len(content) or _checksum(record) != checksum:
                # The last one may be torn, or zeros where a machine lost its power.
                if stop < len(content) and any(content[end:]):
                    raise self._refused(f"is damaged at byte {end:,}")
                break
            records.append(record)
            end = stop
        return records, end if records else 0

    def _read_head(self, record: bytes) -> None:
        head = json.loads(record)
        if head["format"] != _FORMAT:
            raise self._refused(f"has format {head['format']}, and this version reads {_FORMAT}")
        self._check(Asked(**{field.name: head[field.name] for field in fields(Asked)}))
        self.outputs, self.answer_dtype = head["outputs"], head["answer_dtype"]

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


def _entry(outputs: int) -> np.dtype[Any]:
    return np.dtype([("key", f"V{KEY_BYTES}"), ("answer", "<f8", (outputs,))])


def _record(content: bytes) -> bytes:
    return _PREFIX.pack(len(content), _checksum(content)) + content


def _checksum(content: bytes) -> int:
    return zlib.crc32(content, len(content) & 0xFFFFFFFF)
