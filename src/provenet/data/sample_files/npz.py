"""An `.npz` archive with arrays X and y.

What `numpy.savez` stores is mapped into memory where it lies in the archive; what
`numpy.savez_compressed` packs is unpacked once, into memory or into a spool. Nothing is unpickled.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray
from provenet.common.words import sized
from provenet.data.parallel import memory_at_hand
from provenet.data.sample_files.checks import check_present, check_samples, is_small, plain_labels
from provenet.data.sample_files.spool import Blocks, gather
from provenet.data.sources import ArraySource
from provenet.data.sources.files import FileArrays, Reopen
from provenet.data.tolerances import NPZ_BLOCK_BYTES

_WAY_OUT = "write it with numpy.savez(path, X=X, y=y)"
_UNREADABLE = (
    *(OSError, EOFError, ValueError, SyntaxError, zlib.error),
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError),
)
_MOST_VERIFIED = 2**28
"""Stored members up to this size are compared with their checksums; larger ones are not read."""


@dataclass(frozen=True)
class _Member:
    """An array in an archive, known by its header."""

    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    header: int
    """Bytes before the numbers."""

    @property
    def size(self) -> int:
        """Bytes of the numbers."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def order(self) -> Literal["C", "F"]:
        """Row by row or column by column."""
        return "F" if self.fortran else "C"

    @property
    def stored(self) -> bool:
        """Whether the numbers lie in the archive as they are."""
        return self.info.compress_type == zipfile.ZIP_STORED and not self.info.flag_bits & 1


def open_npz(path: Path, reopen: Reopen) -> ArraySource:
    """The arrays X and y of an archive."""
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{path} is truncated or not an .npz archive: {_WAY_OUT}.")
    with _damage_is_told(path), zipfile.ZipFile(path) as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
        check_present(path, names, _WAY_OUT)
        X, y = (_member(archive, f"{name}.npy") for name in ("X", "y"))
        check_samples(X, y, f"X in {path}", f"y in {path}")
        if X.stored and y.stored:
            _verify(archive, X, y)
            return FileArrays(_mapped(path, X), plain_labels(_mapped(path, y)), reopen)
        _check_order(path, X, y)
        return gather(path, _blocks(archive, X, y), X.size + y.size)


@contextmanager
def _damage_is_told(path: Path) -> Iterator[None]:
    try:
        yield
    except InvalidInput:
        raise
    except _UNREADABLE as error:
        raise InvalidInput(f"{path} is damaged ({error}): {_WAY_OUT}.") from None


def _member(archive: zipfile.ZipFile, name: str) -> _Member:
    info = archive.getinfo(name)
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(stream)
        member = _Member(info, shape, dtype, fortran, stream.tell())
    if not dtype.hasobject and member.header + member.size != info.file_size:
        raise ValueError(f"{name} is {info.file_size} bytes long")
    return member


def _verify(archive: zipfile.ZipFile, *members: _Member) -> None:
    """Read what is not too large, which compares it with its checksum."""
    for member in members:
        if member.size <= _MOST_VERIFIED:
            with archive.open(member.info) as stream:
                while stream.read(NPZ_BLOCK_BYTES):
                    pass


def _mapped(path: Path, member: _Member) -> AnyArray:
    with open(path, "rb") as file:
        file.seek(member.info.header_offset + 26)  # where the lengths of name and extra field are
        name, extra = np.frombuffer(file.read(4), "<u2").tolist()
    offset = member.info.header_offset + 30 + name + extra + member.header
    return np.memmap(path, member.dtype, "r", offset, member.shape, member.order)


def _check_order(path: Path, *members: _Member) -> None:
    """An array packed column by column gives no rows before it is unpacked as a whole."""
    needed = sum(member.size for member in members)
    if any(member.fortran for member in members) and not is_small(needed):
        raise InvalidInput(
            f"{path} is packed column by column and needs {sized(needed)} of memory, of which "
            f"{sized(memory_at_hand())} are at hand: write it row by row, with "
            "numpy.ascontiguousarray(X), or unpacked, with numpy.savez."
        )


def _blocks(archive: zipfile.ZipFile, X: _Member, y: _Member) -> Blocks:
    samples = X.shape[0]
    row = -(-(X.size + y.size) // samples)
    at_once = samples if X.fortran or y.fortran else -(-NPZ_BLOCK_BYTES // row)
    with archive.open(X.info) as X_stream, archive.open(y.info) as y_stream:
        X_stream.read(X.header), y_stream.read(y.header)
        for start in range(0, samples, at_once):
            count = min(at_once, samples - start)
            labels = plain_labels(_read(y_stream, y, count))
            yield _read(X_stream, X, count), labels


def _read(stream: IO[bytes], member: _Member, count: int) -> AnyArray:
    shape = (count, *member.shape[1:])
    content = stream.read(prod(shape) * member.dtype.itemsize)
    return np.frombuffer(content, member.dtype).reshape(shape, order=member.order)
