"""Where long passes over samples stand, in a file: a recovery that was killed goes on from there.

The file holds, for every pass of more than one stretch, what was added up so far and the position;
it is written whole or not at all, every few seconds and at the end of a pass. A recovery that is
started again with the same data and options makes the same passes: those that were finished are
read from the file, the one that was interrupted goes on, with the same digits in the end.

A pass is recognised by a fingerprint of what it adds up. The data are known by a checksum of every
stretch (`data.checksum`), taken once in a run, by the first pass that reads it. Opening the file
again reads all samples that it covers once more, with nothing but the checksum to compute, and
compares: one changed number is enough to be refused. Other data are mostly told before that, by
their shape and a few rows. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import check_writable, load_npz, write_npz
from provenet.common.typing import AnyArray, Array
from provenet.common.version import __version__
from provenet.data.checksum import checksum
from provenet.data.fingerprint import Nameless, fingerprint
from provenet.data.sums import read_back, written
from provenet.data.tolerances import CHECKED_PLACES, ROWS_A_PLACE, ROWS_AT_ONCE

_FORMAT = 3
"""Convention: number of the file's layout: whoever changes that counts on."""
_LARGEST = 256_000_000
"""Bytes of sums beyond which a pass is not kept: it would take longer to write than to add up."""


class Given(Protocol):
    """Samples that a checkpoint may belong to."""

    size: int
    features: int
    outputs: int | None

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Samples `start` to `stop`."""

    def partial_total(self, term: Any, start: int, stop: int, rows: int) -> Any:
        """The sum of `term(X, y)` over samples `start` to `stop`."""


def pass_key(term: Any, rows: int, stretches: list[slice]) -> str | None:
    """What recognises a pass in another run, or None where nothing does."""
    try:
        return fingerprint((term, rows, [stretch.stop for stretch in stretches]))
    except Nameless:
        return None


def data_fingerprint(source: Given) -> str:
    """Shape, and a few rows in many places."""
    places = np.linspace(0, max(source.size - ROWS_A_PLACE, 0), CHECKED_PLACES).astype(int)
    rows = [source.rows(i, min(i + ROWS_A_PLACE, source.size)) for i in map(int, places)]
    return fingerprint((source.size, source.features, source.outputs, rows))


class Checkpoint:
    """The passes over one source's samples, in memory and in a file."""

    def __init__(
        self,
        path: str | PathLike[str],
        source: Given,
        seconds: float = 10.0,
        *,
        report: Callable[[float, str], None] = lambda fraction, message: None,
    ) -> None:
        """Read the file if there is one; raises if it belongs to other data or another version.

        `seconds` pass between two writings within a pass; `report` is told how far the samples are
        compared with those of the file.
        """
        self.path, self.seconds = Path(path), seconds
        self._head = {"format": _FORMAT, "version": __version__, "data": data_fingerprint(source)}
        self._passes: dict[str, tuple[int, Any]] = {}
        self._checksums: list[tuple[int, int]] = []
        self._saved = time.monotonic()
        check_writable(self.path)
        if self.path.exists():
            self._read()
            self._compare(source, report)

    @property
    def checked(self) -> int:
        """How many samples, from the first on, have a checksum; sums over others are not kept."""
        return self._checksums[-1][0] if self._checksums else 0

    def add_checksum(self, stop: int, found: int) -> None:
        """The checksum of the samples from `checked` to `stop`."""
        self._checksums.append((stop, found))

    def resume(self, key: str) -> tuple[int, Any]:
        """How many samples were added up, and their sum; (0, None) for a pass not begun."""
        return self._passes.get(key, (0, None))

    def keep(self, key: str, position: int, total: Any, *, finished: bool) -> None:
        """Remember where a pass stands, and write it down if it is time to."""
        if position > self.checked:
            return
        self._passes[key] = position, total
        if finished or time.monotonic() - self._saved >= self.seconds:
            self._write()

    def _write(self) -> None:
        arrays: list[AnyArray] = []
        passes = {}
        for key, (position, total) in self._passes.items():
            before = len(arrays)
            sketch = written(total, arrays)
            if sum(array.nbytes for array in arrays[before:]) > _LARGEST:
                del arrays[before:]
            else:
                passes[key] = [position, sketch]
        head = json.dumps({**self._head, "checksums": self._checksums, "passes": passes})
        content = {str(i): array for i, array in enumerate(arrays)}
        write_npz(self.path, {"head": np.frombuffer(head.encode(), np.uint8), **content})
        self._saved = time.monotonic()

    def _read(self) -> None:
        content = load_npz(self.path)
        try:
            head = json.loads(content.pop("head").tobytes())
            arrays = [content[str(i)] for i in range(len(content))]
            self._check(head)
            self._passes = {
                key: (position, read_back(sketch, arrays))
                for key, (position, sketch) in head["passes"].items()
            }
            self._checksums = [(int(stop), int(found)) for stop, found in head["checksums"]]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"{self.path} is not a checkpoint of provenet: give another name, or delete it."
            ) from None

    def _check(self, head: dict[str, Any]) -> None:
        if (head["format"], head["version"]) != (_FORMAT, self._head["version"]):
            raise InvalidInput(
                f"{self.path} was written by provenet {head['version']}, and this is "
                f"{self._head['version']}: finish with that version, or delete the file."
            )
        if head["data"] != self._head["data"]:
            raise InvalidInput(
                f"{self.path} is the checkpoint of other samples: give another name, or delete it."
            )

    def _compare(self, source: Given, report: Callable[[float, str], None]) -> None:
        """Read the samples that the file covers once more; raises if any of them has changed."""
        start = 0
        for stop, kept in self._checksums:
            found = int(source.partial_total(checksum, start, stop, ROWS_AT_ONCE)[0])
            if found != kept:
                raise InvalidInput(
                    f"Samples {start} to {stop - 1} are not those that {self.path} was written "
                    "for: give the samples of that time, or delete the file to begin anew."
                )
            report(stop / self.checked, "comparing the samples with the checkpoint's")
            start = stop
