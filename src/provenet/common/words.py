"""Words that messages share."""

from __future__ import annotations

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
