"""What became slower between two results of the suite, and by how many standard errors.

A time is compared as its ratio to the reference of its own run, and so is a rate; the busier or the
slower machine cancels. Where both runs kept the figures of single seeds (`by_seed`), the logarithms
of their ratios, seed by seed, have a mean and a standard error: the same problems are compared with
each other. Elsewhere one figure stands against one, and how sure that is nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from common import markdown_head, markdown_row

SURE = 3.0
"""Standard errors from which a change is told to be one."""
SLOWER_BY_MORE = 1.1
"""And the factor from which it matters; of single figures this alone is asked."""
TITLES = ("figure", "before", "now", "times as slow", "standard errors", "")
Content = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A figure that both runs have."""

    name: str
    before: float
    now: float
    slower: float
    """Now over before, of times; before over now, of rates."""
    errors: float | None
    """By how many standard errors it is off from 1; None where a run gives a single figure."""

    @property
    def verdict(self) -> str:
        """Slower, faster, or nothing where it may be chance."""
        if self.errors is not None and abs(self.errors) < SURE:
            return ""
        if self.slower > SLOWER_BY_MORE:
            return "slower"
        return "faster" if self.slower < 1 / SLOWER_BY_MORE else ""


def changes(old: Content, new: Content) -> list[Change]:
    """Every time and every rate that both have, what became slower most first."""
    before = dict(_timed(old))
    found = [_change(name, before[name], now) for name, now in _timed(new) if name in before]
    return sorted(found, key=lambda change: -change.slower)


def _timed(content: Content) -> Iterator[tuple[str, Content]]:
    """Records that tell a time or a rate, by the part and by what is measured."""
    for part, found in content["parts"].items():
        for record in found["records"]:
            is_timed = record["unit"] == "s" or record["unit"].endswith("/s")
            if is_timed and record["ratio"]:
                yield f"{part}: {record['name']}", record


def _change(name: str, before: Content, now: Content) -> Change:
    one, other = _by_seed(before), _by_seed(now)
    if len(one) == len(other) > 1:
        logarithms = np.log(other / one)
        mean = float(np.mean(logarithms))
        error = float(np.std(logarithms, ddof=1) / np.sqrt(len(one)))
        errors = mean / error if error > 0 else None
        return Change(name, before["ratio"], now["ratio"], float(np.exp(mean)), errors)
    ratio = now["ratio"] / before["ratio"]
    slower = ratio if now["unit"] == "s" else 1 / ratio
    return Change(name, before["ratio"], now["ratio"], slower, None)


def _by_seed(record: Content) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(record["details"].get("by_seed", []), float)


def told(found: list[Change]) -> Iterator[str]:
    """As a Markdown table."""
    yield markdown_head(TITLES)
    for change in found:
        errors = "-" if change.errors is None else f"{change.errors:+.1f}"
        figures = (f"{value:.3g}" for value in (change.before, change.now, change.slower))
        yield markdown_row((change.name, *figures, errors, change.verdict))
    slower = sum(change.verdict == "slower" for change in found)
    yield ""
    yield f"{slower} of {len(found)} figures became slower."
