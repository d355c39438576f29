"""`"deep"`: several hidden layers from passive samples, the widths found.

No paper and no theorem: the search is that of `"expand-prune"` on layers (`fitting.search.moves`),
and the answer certifies itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.deep import DeepCandidate
from provenet.fitting.context import Context
from provenet.fitting.search.driver import End, restarts


def deep(context: Context) -> Iterator[DeepCandidate]:
    """Restarts from random layers."""
    for end in _overflowing_quietly(restarts(context)):
        if np.isfinite(end.fit.rss):  # else it overflowed, and is worth nothing
            yield DeepCandidate(end.fit.parameters, end.evidence, end.narrower)


def _overflowing_quietly(found: Iterator[End]) -> Iterator[End]:
    """The same: steps that overflow, as exponentials of exponentials do, are not taken."""
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            end = next(found, None)
        if end is None:
            return
        yield end
