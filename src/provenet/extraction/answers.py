"""Every answer to every point, in the order given, and how many of them were handed out.

A point that is asked again on purpose has several answers. A plain question gets the first; the
k-th fresh one gets the next that was not handed out in this run, whether it is remembered or not.
So a run that finds all answers in a file sees what the run that wrote them saw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from provenet.common.typing import AnyArray, Array
from provenet.extraction.tolerances import KEY_BYTES


def row_keys(points: AnyArray) -> list[bytes]:
    """What a point is looked up by: a digest of its bytes."""
    return [hashlib.blake2b(row, digest_size=KEY_BYTES).digest() for row in points]


@dataclass(slots=True)
class _AskedPoint:
    answers: list[Array] = field(default_factory=list)
    from_file: int = 0
    handed_out: int = 0


class Answers:
    """The answers of one run, those of earlier runs among them."""

    def __init__(self, from_file: Iterable[tuple[bytes, Array]] = ()) -> None:
        """Remember what a file holds."""
        self._points: dict[bytes, _AskedPoint] = {}
        for key, answer in from_file:
            self.add(key, answer)
            self._points[key].from_file += 1

    def add(self, key: bytes, answer: Array) -> None:
        """Remember one more answer to a point."""
        self._points.setdefault(key, _AskedPoint()).answers.append(answer)

    def __getitem__(self, place: tuple[bytes, int]) -> Array:
        """The so-manieth answer to a point."""
        key, index = place
        return self._points[key].answers[index]

    def places(self, keys: list[bytes], fresh: bool) -> list[tuple[bytes, int]]:
        """Which answer to its point each row is to be given."""
        if not fresh:
            return [(key, 0) for key in keys]
        following: dict[bytes, int] = {}
        places = []
        for key in keys:
            index = following.get(key, self._point(key).handed_out)
            following[key] = index + 1
            places.append((key, index))
        return places

    def missing(self, place: tuple[bytes, int]) -> bool:
        """Whether the model has to be asked for this answer."""
        key, index = place
        return index >= len(self._point(key).answers)

    def new_from_file(self, place: tuple[bytes, int]) -> bool:
        """Whether this answer comes from the file and was not handed out before."""
        key, index = place
        point = self._point(key)
        return point.handed_out <= index < point.from_file

    def hand_out(self, place: tuple[bytes, int]) -> None:
        """From now on this answer is used."""
        key, index = place
        point = self._points[key]
        point.handed_out = max(point.handed_out, index + 1)

    def _point(self, key: bytes) -> _AskedPoint:
        return self._points.get(key, _AskedPoint())
