"""Where long passes over samples stand, in a file: a recovery that was killed goes on from there.

The file holds, for every pass of more than one stretch, the sum so far and the position; it is
written whole or not at all, every few seconds and at the end of a pass. A recovery that is started
again with the same data and options makes the same passes: finished ones are read from the file,
the interrupted one goes on, with the same digits in the end.

A pass is recognised by a fingerprint of what it adds up, the data by a checksum of every stretch,
taken once in a run by the first pass that reads it. Opening the file again reads all samples that
it covers once more, to compare their checksums: one changed number is enough to be refused. Other
data are mostly refused before that, by their shape and a few rows. Nothing is ever unpickled.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common import __version__
from provenet.common.exceptions import InvalidInput
from provenet.common.files import check_writable, load_npz, write_npz
from provenet.common.typing import AnyArray, Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.networks.activations import Activation


class Checkpoint:
    """The passes over one source's samples, in memory and in a file."""

    def __init__(
        self,
        path: str | PathLike[str],
        source: Source,
        *,
        seconds: float = 10.0,
        largest: int = 256_000_000,
        report: Callable[[float, str], None] = lambda fraction, message: None,
    ) -> None:
        """Read the file if there is one; raises if it belongs to other data or another version.

        `seconds` pass between two writings within a pass; sums of more than `largest` bytes are not
        kept, because they take longer to write than to add up. `report` follows the comparison of
        the samples with those of the file.
        """
        self.path, self.seconds, self.largest = Path(path), seconds, largest
        places = np.linspace(0, max(source.size - 2, 0), 64).astype(int).tolist()
        rows = [source.rows(i, min(i + 2, source.size)) for i in places]
        data = fingerprint((source.size, source.features, source.outputs, rows))
        self._head = {"format": 3, "version": __version__, "data": data}
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

    def key(self, term: Any, rows: int, stretches: list[slice]) -> str | None:
        """What recognises a pass in another run, or None where nothing does."""
        try:
            return fingerprint((term, rows, [stretch.stop for stretch in stretches]))
        except Nameless:
            return None

    def resume(self, key: str | None) -> tuple[int, Any]:
        """How many samples were added up, and their sum; (0, None) for a pass not begun."""
        return (0, None) if key is None else self._passes.get(key, (0, None))

    def partial_total(self, source: Source, term: Any, start: int, stop: int, rows: int) -> Any:
        """The sum over a stretch; the first pass that reads it also takes its checksum."""
        if start != self.checked:
            return source.partial_total(term, start, stop, rows)
        part = source.partial_total(_WithChecksum(term), start, stop, rows)
        self._checksums.append((stop, int(part.checksum[0])))
        return part.total

    def keep(self, key: str | None, position: int, total: Any, *, finished: bool) -> None:
        """Remember where a pass stands, and write it down if it is time to."""
        if key is None or position > self.checked:
            return
        self._passes[key] = position, total
        if finished or time.monotonic() - self._saved >= self.seconds:
            self._write()

    def _write(self) -> None:
        arrays: list[AnyArray] = []
        passes = {}
        for key, (position, total) in self._passes.items():
            before = len(arrays)
            sketch = to_json(total, arrays)
            if sum(array.nbytes for array in arrays[before:]) > self.largest:
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
            if (head["format"], head["version"]) != (self._head["format"], __version__):
                raise InvalidInput(
                    f"{self.path} was written by provenet {head['version']}, and this is "
                    f"{__version__}: finish with that version, or delete the file."
                )
            if head["data"] != self._head["data"]:
                raise InvalidInput(
                    f"{self.path} is the checkpoint of other samples: give another name, or delete "
                    "it."
                )
            self._passes = {
                key: (position, from_json(sketch, arrays))
                for key, (position, sketch) in head["passes"].items()
            }
            self._checksums = [(int(stop), int(found)) for stop, found in head["checksums"]]
        except InvalidInput:
            raise
        except (KeyError, IndexError, TypeError, ValueError):
            raise InvalidInput(
                f"{self.path} is not a checkpoint of provenet: give another name, or delete it."
            ) from None

    def _compare(self, source: Source, report: Callable[[float, str], None]) -> None:
        """Read the samples that the file covers once more; raises if any of them has changed."""
        start = 0
        for stop, kept in self._checksums:
            if int(source.partial_total(checksum, start, stop, source.block_rows)[0]) != kept:
                raise InvalidInput(
                    f"Samples {start} to {stop - 1} are not those that {self.path} was written "
                    "for: give the samples of that time, or delete the file to begin anew."
                )
            report(stop / self.checked, "comparing the samples with the checkpoint's")
            start = stop


# ---------------------------------------------------------------- sums as JSON and arrays


def to_json(total: Any, arrays: list[AnyArray]) -> Any:
    """A sum as JSON; its arrays are appended to `arrays`, and their places stand for them."""
    if isinstance(total, Sums):
        parts = [to_json(getattr(total, f.name), arrays) for f in fields(total)]  # type: ignore[arg-type]
        return {"sums": type(total).__name__, "fields": parts}
    if isinstance(total, tuple):
        return {"tuple": [to_json(part, arrays) for part in total]}
    if isinstance(total, (bool, int, float)) and not isinstance(total, np.generic):
        return total
    if not isinstance(total, (np.ndarray, np.generic)) or total.dtype.kind == "O":
        raise TypeError(f"a {type(total).__name__} cannot be written down")
    arrays.append(np.asarray(total))
    return {"array": len(arrays) - 1}


def from_json(sketch: Any, arrays: list[AnyArray]) -> Any:
    """The inverse of `to_json`; raises KeyError or IndexError for what it did not write."""
    if not isinstance(sketch, dict):
        return sketch
    if "array" in sketch:
        return arrays[sketch["array"]]
    if "tuple" in sketch:
        return tuple(from_json(part, arrays) for part in sketch["tuple"])
    kinds = {kind.__name__: kind for kind in _subclasses(Sums)}
    return kinds[sketch["sums"]](*(from_json(part, arrays) for part in sketch["fields"]))


def _subclasses(kind: type) -> Iterator[type]:
    children: list[type] = kind.__subclasses__()
    for child in children:
        yield child
        yield from _subclasses(child)


# ---------------------------------------------------------------- the checksum of samples


def checksum(X: Array, y: Array) -> AnyArray:
    """One whole number modulo 2^64, as an array, so that it adds up over samples.

    The bits of a row's numbers are multiplied by odd numbers, one a column, added up, mixed (a
    bijection that is not linear), and added up over rows: neither blocks nor threads nor machines
    matter. Multiplying by an odd number and mixing lose nothing, so one changed number of one
    sample, by however little, changes the checksum for certain; if many have changed, chance leaves
    it as it was once in 2^64. It is no defence against someone who wants to deceive.
    """
    columns = (X, y.reshape(len(y), -1))
    odd = _odd_numbers(sum(part.shape[1] for part in columns))
    parts = zip(columns, (odd[: X.shape[1]], odd[X.shape[1] :]), strict=True)
    mixed = sum(np.einsum("ij,j->i", part.view(np.uint64), by) for part, by in parts)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0x9E3779B97F4A7C15)  # odd: 2^64 over the golden ratio
    mixed ^= mixed >> np.uint64(29)
    return np.atleast_1d(mixed.sum(dtype=np.uint64))


@functools.cache
def _odd_numbers(count: int) -> AnyArray:
    rng = np.random.Generator(np.random.PCG64(20261117))
    return rng.integers(2**64, size=count, dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True)
class _Checked(Sums):
    """A sum over samples, and their checksum."""

    total: Any
    checksum: AnyArray


@dataclass(frozen=True)
class _WithChecksum:
    """A term that also takes the checksum of its samples."""

    term: Any

    def __call__(self, X: Array, y: Array) -> _Checked:
        return _Checked(self.term(X, y), checksum(X, y))


# ---------------------------------------------------------------- fingerprints


class Nameless(TypeError):
    """A function without a name that holds from one run to the next, or an object without parts."""


def fingerprint(thing: Any) -> str:
    """A digest, equal for equal things in any run; raises `Nameless` where that is unknown."""
    digest = hashlib.sha256()
    for part in _parts(thing):
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()


def _parts(thing: Any) -> Iterator[bytes]:
    """The bytes that make up a thing, each part with its kind."""
    if isinstance(thing, np.ndarray):
        yield f"{thing.dtype.str}{thing.shape}".encode()
        yield np.ascontiguousarray(thing).tobytes()
        return
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, np.generic)):
        yield f"{type(thing).__name__} {thing!r}".encode()
        return
    if isinstance(thing, Activation):  # its functions may be nameless: their values count
        probes = np.linspace(-3.0, 3.0, 25)
        members: Any = thing.name, np.asarray([thing(probes), thing.derivative(probes)], float)
    elif isinstance(thing, functools.partial):
        members = (thing.func, thing.args, *sorted(thing.keywords.items()))
    elif isinstance(thing, (tuple, list)):
        members = thing
    elif is_dataclass(thing) and not isinstance(thing, type):
        members = [getattr(thing, f.name) for f in fields(thing)]
    else:
        name = getattr(thing, "__qualname__", None)
        if name is None or "<" in name:
            raise Nameless(f"{thing!r} cannot be recognised in another run")
        yield f"{thing.__module__}.{name}".encode()
        return
    yield f"{type(thing).__qualname__} {len(members)}".encode()
    for member in members:
        yield from _parts(member)
