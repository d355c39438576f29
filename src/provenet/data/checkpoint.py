"""Progress of long passes over samples, in a file: a recovery that was killed continues from there.

For every pass of more than one stretch the file holds the sum so far and the position. A recovery
that is started again with the same data and options makes the same passes: it reads finished ones
from the file and continues the interrupted one, with the same digits in the end.

A fingerprint of the term identifies a pass; a checksum of every stretch, taken by the first pass of
a run that reads it, identifies the data. Opening the file again compares the checksums of all
samples that it covers: one changed number is refused. Nothing is ever unpickled.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from dataclasses import dataclass, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common import __version__
from provenet.common.exceptions import InvalidInput
from provenet.common.files import check_writable, load_npz, write_npz
from provenet.common.typing import AnyArray, Array
from provenet.data.passes import Report, Sums
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
        report: Report = lambda fraction, message: None,
    ) -> None:
        """Read the file if there is one; raises if it belongs to other data or another version.

        A pass is written every `seconds`; `report` follows the comparison of samples and file.
        """
        if not source.fixed:
            problem = "checkpoint= needs given samples, and this source makes its own"
            raise InvalidInput(f"{problem}: leave it out, or write the samples to a file first.")
        self.path, self.seconds = Path(path), seconds
        shape = [source.size, source.features, source.outputs]
        self._head = {"format": 4, "version": __version__, "shape": shape}
        self._passes, self._checksums = dict[str, tuple[int, Any]](), list[tuple[int, int]]()
        self._saved = time.monotonic()
        check_writable(self.path)
        if self.path.exists():
            self._read()
            self._compare(source, report)

    @property
    def checked(self) -> int:
        """Number of leading samples that have a checksum; sums over others are not kept."""
        return self._checksums[-1][0] if self._checksums else 0

    def resume(self, term: Any, rows: int, stretches: list[slice]) -> tuple[str, int, Any]:
        """What identifies a pass ("" if nothing does), the samples added up so far, their sum."""
        try:
            key = fingerprint((term, rows, [stretch.stop for stretch in stretches]))
        except Nameless:
            key = ""
        return key, *self._passes.get(key, (0, None))

    def partial_total(self, source: Source, term: Any, start: int, stop: int, rows: int) -> Any:
        """The sum over a stretch; the first pass that reads it also takes its checksum."""
        if start != self.checked:
            return source.partial_total(term, start, stop, rows)
        part = source.partial_total(functools.partial(_with_checksum, term), start, stop, rows)
        self._checksums.append((stop, int(part.checksum[0])))
        return part.total

    def keep(self, key: str, position: int, total: Any, *, finished: bool) -> None:
        """Store the state of a pass; write the file if the pass is finished or it is time."""
        if key and position <= self.checked:
            self._passes[key] = position, total
            if finished or time.monotonic() - self._saved >= self.seconds:
                self._write()

    def _write(self) -> None:
        arrays: list[AnyArray] = []
        passes = {k: (stop, to_json(total, arrays)) for k, (stop, total) in self._passes.items()}
        head = json.dumps({**self._head, "checksums": self._checksums, "passes": passes})
        content = {str(i): array for i, array in enumerate(arrays)}
        write_npz(self.path, {"head": np.frombuffer(head.encode(), np.uint8), **content})
        self._saved = time.monotonic()

    def _read(self) -> None:
        content = load_npz(self.path)
        try:
            head = json.loads(content.pop("head").tobytes())
            found = {name: head[name] for name in self._head}
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(
                f"{self.path} is not a checkpoint of provenet: give another name, or delete it."
            ) from None
        if (found["format"], found["version"]) != (self._head["format"], __version__):
            raise InvalidInput(
                f"{self.path} was written by provenet {found['version']}, and this is "
                f"{__version__}: finish with that version, or delete the file."
            )
        if found != self._head:
            raise InvalidInput(
                f"{self.path} is the checkpoint of other samples: give another name, or delete it."
            )
        arrays = [content[str(i)] for i in range(len(content))]
        passes = head["passes"].items()
        self._passes = {key: (stop, from_json(sketch, arrays)) for key, (stop, sketch) in passes}
        self._checksums = [(stop, found) for stop, found in head["checksums"]]

    def _compare(self, source: Source, report: Report) -> None:
        """Read the samples that the file covers; raises if any of them has changed."""
        start = 0
        for stop, kept in self._checksums:
            if int(source.partial_total(checksum, start, stop, source.block_rows)[0]) != kept:
                raise InvalidInput(
                    f"Samples {start} to {stop - 1} are not those that {self.path} was written "
                    "for: give the original samples, or delete the file to start again."
                )
            report(stop / self.checked, "comparing the samples with the checkpoint's")
            start = stop


# ---------------------------------------------------------------- the checksum of samples


def checksum(X: Array, y: Array) -> AnyArray:
    """A whole number modulo 2^64, as an array, that adds up over samples.

    The bits of a row's numbers are multiplied by odd numbers, one for each column, added up, mixed
    (by a nonlinear bijection), and added up over rows: blocks, threads and machines do not matter.
    Neither step loses information, so one changed number of one sample always changes the checksum;
    many changes cancel with probability 2^-64. It is no defence against deliberate deception.
    """
    columns = (X, y.reshape(len(y), -1))
    rng = np.random.Generator(np.random.PCG64(20261117))
    count = sum(part.shape[1] for part in columns)
    odd = rng.integers(2**64, size=count, dtype=np.uint64) | np.uint64(1)
    parts = zip(columns, (odd[: X.shape[1]], odd[X.shape[1] :]), strict=True)
    mixed = sum(np.einsum("ij,j->i", part.view(np.uint64), by) for part, by in parts)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0x9E3779B97F4A7C15)  # odd: 2^64 over the golden ratio
    mixed ^= mixed >> np.uint64(29)
    return np.atleast_1d(mixed.sum(dtype=np.uint64))


@dataclass(frozen=True)
class _Checked(Sums):
    """A sum over samples, and their checksum."""

    total: Any
    checksum: AnyArray


def _with_checksum(term: Any, X: Array, y: Array) -> _Checked:
    return _Checked(term(X, y), checksum(X, y))


# ---------------------------------------------------------------- things as JSON and arrays


class Nameless(TypeError):
    """A function without a lasting name, or an object without parts."""


def fingerprint(thing: Any) -> str:
    """A digest, equal for equal things in any run; raises `Nameless` where that is unknown."""
    arrays: list[AnyArray] = []
    digest = hashlib.sha256(json.dumps(to_json(thing, arrays)).encode())
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def to_json(thing: Any, arrays: list[AnyArray]) -> Any:
    """A thing as JSON; its arrays are appended to `arrays`, and their places stand for them."""
    if isinstance(thing, (np.ndarray, np.generic)):
        arrays.append(np.asarray(thing))
        return {"array": len(arrays) - 1}
    if thing is None or isinstance(thing, (bool, int, float, str)):
        return thing
    if isinstance(thing, (bytes, complex)):
        return {"value": repr(thing)}
    parts: Any
    if isinstance(thing, Activation):  # its functions may be nameless: their values count
        probes = np.linspace(-3.0, 3.0, 25)
        parts = thing.name, np.asarray([thing(probes), thing.derivative(probes)], float)
    elif isinstance(thing, functools.partial):
        parts = (thing.func, thing.args, *sorted(thing.keywords.items()))
    elif isinstance(thing, (tuple, list)):
        parts = thing
    elif is_dataclass(thing) and not isinstance(thing, type):
        parts = [getattr(thing, f.name) for f in fields(thing)]
    else:
        name = getattr(thing, "__qualname__", "<none>")
        if "<" in name:
            raise Nameless(f"{thing!r} cannot be recognised in another run")
        return {"name": f"{thing.__module__}.{name}"}
    return {"kind": _name(type(thing)), "parts": [to_json(part, arrays) for part in parts]}


def from_json(sketch: Any, arrays: list[AnyArray]) -> Any:
    """The inverse of `to_json` for sums, tuples, arrays and numbers."""
    if not isinstance(sketch, dict):
        return sketch
    if "array" in sketch:
        return arrays[sketch["array"]]
    parts = [from_json(part, arrays) for part in sketch["parts"]]
    kinds = {_name(kind): kind for kind in Sums.__subclasses__()}
    return tuple(parts) if sketch["kind"] == _name(tuple) else kinds[sketch["kind"]](*parts)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
