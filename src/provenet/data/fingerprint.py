"""What two things have in common to the last bit: a digest of numbers, arrays and functions."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from provenet.data.tolerances import ACTIVATION_PROBES
from provenet.networks.activations import Activation


class Nameless(TypeError):
    """A function without a name that holds from one run to the next, or an object without parts."""


def fingerprint(thing: Any) -> str:
    """The same for equal things in any run; raises `Nameless` where that cannot be told."""
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
    elif thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, np.generic)):
        yield f"{type(thing).__name__} {thing!r}".encode()
    elif isinstance(thing, Activation):  # its functions may be nameless: what they do counts
        yield thing.name.encode()
        yield np.asarray(
            [thing(ACTIVATION_PROBES), thing.derivative(ACTIVATION_PROBES)], dtype=float
        ).tobytes()
    else:
        yield from _parts_of_composite(thing)


def _parts_of_composite(thing: Any) -> Iterator[bytes]:
    if isinstance(thing, functools.partial):
        members: Any = (thing.func, thing.args, *sorted(thing.keywords.items()))
    elif isinstance(thing, (tuple, list)):
        members = thing
    elif is_dataclass(thing) and not isinstance(thing, type):
        members = [getattr(thing, f.name) for f in fields(thing)]
    else:
        yield _name(thing)
        return
    yield f"{type(thing).__qualname__} {len(members)}".encode()
    for member in members:
        yield from _parts(member)


def _name(thing: Any) -> bytes:
    name = getattr(thing, "__qualname__", None)
    if name is None or "<" in name:
        raise Nameless(f"{thing!r} cannot be recognised in another run")
    return f"{thing.__module__}.{name}".encode()
