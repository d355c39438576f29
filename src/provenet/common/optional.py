"""Packages that only some formats need, imported when such a file is used."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import Any

from provenet.common.exceptions import InvalidInput


def package(name: str, path: str | PathLike[str], install: str = '"provenet[files]"') -> Any:
    """The module `name`, for the file (or whatever needs it) `path`."""
    try:
        return import_module(name)
    except ImportError:
        raise InvalidInput(
            f"{path} needs the package {name.partition('.')[0]}: pip install {install}."
        ) from None
