"""Checks of single arguments: what cannot be used gets one clear sentence, the same at every door.

Each takes the argument's name and its value, and raises `InvalidInput` or returns nothing.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput


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
