"""Text of messages, and checks of single arguments with the same sentence wherever they are made.

A check takes the argument's name and its value, and raises `InvalidInput` or returns nothing.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput

WORDS_ARE_CLASSES = (
    "labels that are words are classes, which provenet.NetworkClassifier fits; to recover a "
    "network, write 0 and 1, or a column of 0 and 1 for each class"
)


def counted(number: int, noun: str) -> str:
    """A number of things: `1 unit`, `2 units`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def short_number(number: float) -> str:
    """Three digits and a word: `850`, `12.3 thousand`, `4.56 million`, `7.89 billion`."""
    units = ((1e9, " billion"), (1e6, " million"), (1e3, " thousand"))
    size, word = next((unit for unit in units if number >= unit[0]), (1.0, ""))
    return f"{number / size:.3g}{word}"


def sized(number_of_bytes: float) -> str:
    """Three digits and a unit: `850 bytes`, `12.3 MB`, `4.56 GB`, `7.89 TB`."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number_of_bytes >= size:
            return f"{number_of_bytes / size:.3g} {unit}"
    return f"{number_of_bytes:.0f} bytes"


def duration(seconds: float) -> str:
    """Two units at most: `9 s`, `3 min 20 s`, `5 h 10 min`, `12 d 4 h`."""
    whole = round(seconds)
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size:,} {unit} {whole % size // part} {smaller}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def is_whole(value: Any) -> bool:
    """Whether this is a whole number by its type: neither 2.0 nor True is one."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check(holds: bool, name: str, what: str, value: Any) -> None:
    if not holds:
        raise InvalidInput(f"{name} must be {what}, not {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """True or False, of Python or numpy."""
    _check(isinstance(value, (bool, np.bool_)), name, "True or False", value)


def check_whole(name: str, value: Any, least: int) -> None:
    """A whole number, not below `least`."""
    _check(is_whole(value) and value >= least, name, f"a whole number from {least} on", value)


def check_finite(name: str, value: Any) -> None:
    """A number that is neither infinite nor not a number."""
    _check(_is_real(value) and math.isfinite(value), name, "a finite number", value)


def check_seconds(name: str, value: Any) -> None:
    """A length of time, which may be infinite."""
    _check(_is_real(value) and value > 0, name, "a positive number of seconds", value)


def check_deviation(name: str, value: Any) -> None:
    """A standard deviation."""
    if not (_is_real(value) and 0 <= value < math.inf):
        raise InvalidInput(f"{name} is a standard deviation, so at least 0, not {value!r}.")


def check_units(name: str, value: Any) -> None:
    """A number of units that is known; one that is not is left out."""
    _check(is_whole(value), name, "a whole number", value)
    if value < 1:
        raise InvalidInput(f"{name} must be at least 1, not {value}; leave it out to find it.")


def check_path(name: str, value: Any) -> None:
    """The name of a file: a string or a path."""
    _check(isinstance(value, (str, PathLike)), name, "the name of a file", value)
