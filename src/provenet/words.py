"""Words that messages share."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number of things: `1 unit`, `2 units`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
