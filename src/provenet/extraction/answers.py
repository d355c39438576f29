"""Every answer to every point, in the order given, and how many of them were handed out.

A point that is asked again on purpose has several answers. A plain question gets the first; the
k-th fresh one gets the next that was not handed out in this run, whether it is remembered or not.
So a run that finds all answers in a file sees what the run that wrote them saw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.tolerances import FEWEST_ROWS, KEY_BYTES


def row_keys(points: AnyArray) -> list[bytes]:
    """What a point is looked up by: a digest of its bytes."""
    return [hashlib.blake2b(row, digest_size=KEY_BYTES).digest() for row in points]


class Answers:
    """The answers of one run, those of earlier runs among them.

    All are rows of one table, and most points have a single one: of a million points a point's
    digest and two numbers are kept.
    """

    def __init__(self, from_file: Iterable[tuple[bytes, Array]] = ()) -> None:
        """Remember what a file holds."""
        self._table, self._rows = np.empty((0, 0)), 0
        self._first: dict[bytes, int] = {}
        """The row of a point's first answer."""
        self._further: dict[bytes, list[int]] = {}
        """Those of all its answers, where it has several."""
        self._used: set[bytes] = set()
        """Points of which one answer was handed out; of several see below."""
        self._handed_out: dict[bytes, int] = {}
        self._from_file: dict[bytes, int] = {}
        for key, answer in from_file:
            self.add(key, answer)
            self._from_file[key] = self._from_file.get(key, 0) + 1

    def add(self, key: bytes, answer: Array) -> None:
        """Remember one more answer to a point."""
        row = self._appended(answer)
        first = self._first.setdefault(key, row)
        if first != row:
            self._further.setdefault(key, [first]).append(row)

    def _appended(self, answer: Array) -> int:
        if self._rows == len(self._table):
            grown = np.empty((max(FEWEST_ROWS, 2 * self._rows), np.size(answer)))
            if self._rows:
                grown[: self._rows] = self._table
            self._table = grown
        self._table[self._rows] = answer
        self._rows += 1
        return self._rows - 1

    def __getitem__(self, place: tuple[bytes, int]) -> Array:
        """The so-manieth answer to a point."""
        key, index = place
        row = self._first[key] if index == 0 else self._further[key][index]
        return np.asarray(self._table[row])

    def places(self, keys: list[bytes], fresh: bool) -> list[tuple[bytes, int]]:
        """Which answer to its point each row is to be given."""
        if not fresh:
            return [(key, 0) for key in keys]
        following: dict[bytes, int] = {}
        places = []
        for key in keys:
            index = following.get(key, self._number_handed_out(key))
            following[key] = index + 1
            places.append((key, index))
        return places

    def missing(self, place: tuple[bytes, int]) -> bool:
        """Whether the model has to be asked for this answer."""
        key, index = place
        known = len(self._further.get(key, ())) or (key in self._first)
        return index >= known

    def new_from_file(self, place: tuple[bytes, int]) -> bool:
        """Whether this answer comes from the file and was not handed out before."""
        key, index = place
        return self._number_handed_out(key) <= index < self._from_file.get(key, 0)

    def hand_out(self, place: tuple[bytes, int]) -> None:
        """From now on this answer is used."""
        key, index = place
        if index == 0:
            self._used.add(key)
        else:
            self._handed_out[key] = max(self._number_handed_out(key), index + 1)

    def _number_handed_out(self, key: bytes) -> int:
        return self._handed_out.get(key, int(key in self._used))
