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
    for size, word in ((1e9, " billion"), (1e6, " million"), (1e3, " thousand")):
        if number >= size:
            return f"{number / size:.3g}{word}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """Two units at most: `9 s`, `3 min 20 s`, `5 h 10 min`, `12 d 4 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400:,} d {whole % 86400 // 3600} h"


def sized(number_of_bytes: float) -> str:
    """Three digits and a unit: `850 bytes`, `12.3 MB`, `4.56 GB`, `7.89 TB`."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number_of_bytes >= size:
            return f"{number_of_bytes / size:.3g} {unit}"
    return f"{number_of_bytes:.0f} bytes"


def is_number(value: Any) -> bool:
    """Whether this is one real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether this is a whole number by its type: 2.0 is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_flag(name: str, value: Any) -> None:
    """True or False, of Python or numpy."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{name} must be True or False, not {value!r}.")


def check_whole(name: str, value: Any, least: int) -> None:
    """A whole number, not below `least`."""
    if not is_whole(value) or value < least:
        raise InvalidInput(f"{name} must be a whole number from {least} on, not {value!r}.")


def check_finite(name: str, value: Any) -> None:
    """A number that is neither infinite nor not a number."""
    if not (is_number(value) and math.isfinite(value)):
        raise InvalidInput(f"{name} must be a finite number, not {value!r}.")


def check_seconds(name: str, value: Any) -> None:
    """A length of time; infinite is one."""
    if not (is_number(value) and value > 0):
        raise InvalidInput(f"{name} must be a positive number of seconds, not {value!r}.")


def check_deviation(name: str, value: Any) -> None:
    """A standard deviation."""
    if not (is_number(value) and math.isfinite(value) and value >= 0):
        raise InvalidInput(f"{name} is a standard deviation, so at least 0, not {value!r}.")


def check_units(name: str, value: Any) -> None:
    """A number of units that is known; one that is not is left out."""
    if not is_whole(value):
        raise InvalidInput(f"{name} must be a whole number, not {value!r}.")
    if value < 1:
        raise InvalidInput(f"{name} must be at least 1, not {value}; leave it out to find it.")


def check_path(name: str, value: Any) -> None:
    """The name of a file: a string or a path."""
    if not isinstance(value, (str, PathLike)) or isinstance(value, bytes):
        raise InvalidInput(f"{name} must be the name of a file, not {value!r}.")
