"""Sums over samples: how they merge, and how they are written down.

Everything that the data contribute to a recovery is a sum over samples, so chunks, threads,
machines and restarts are all one operation: `+`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Self

import numpy as np

from provenet.common.typing import AnyArray

Written = dict[str, Any] | int | float | None
"""A sum as JSON, its arrays replaced by their places in a list."""


class Sums:
    """A dataclass of arrays, numbers and tuples of arrays that adds field by field."""

    def __add__(self, other: Self) -> Self:
        """Field-wise sum."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]
        return type(self)(*(_added(a, b) for a, b in pairs))


def _added(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(x + y for x, y in zip(a, b, strict=True))
    return a + b


def written(total: Any, arrays: list[AnyArray]) -> Written:
    """A sum as JSON; its arrays are appended to `arrays`."""
    if isinstance(total, Sums):
        parts = [written(getattr(total, f.name), arrays) for f in fields(total)]  # type: ignore[arg-type]
        return {"sums": type(total).__name__, "fields": parts}
    if isinstance(total, tuple):
        return {"tuple": [written(part, arrays) for part in total]}
    if isinstance(total, (bool, int, float)) and not isinstance(total, np.generic):
        return total
    if not isinstance(total, (np.ndarray, np.generic)) or total.dtype.kind == "O":
        raise TypeError(f"a {type(total).__name__} cannot be written down")
    arrays.append(np.asarray(total))
    return {"array": len(arrays) - 1}


def read_back(sketch: Written, arrays: list[AnyArray]) -> Any:
    """The inverse of `written`; raises KeyError or IndexError for what it did not write."""
    if not isinstance(sketch, dict):
        return sketch
    if "array" in sketch:
        return arrays[sketch["array"]]
    if "tuple" in sketch:
        return tuple(read_back(part, arrays) for part in sketch["tuple"])
    kinds = {kind.__name__: kind for kind in _kinds(Sums)}
    return kinds[sketch["sums"]](*(read_back(part, arrays) for part in sketch["fields"]))


def _kinds(kind: type) -> Iterator[type]:
    children: list[type] = kind.__subclasses__()
    for child in children:
        yield child
        yield from _kinds(child)
