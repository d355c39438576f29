"""`"deep"`: several hidden layers from passive samples, the widths found.

No paper and no theorem: the search is that of `"expand-prune"` on layers (`fitting.search.moves`),
and the answer certifies itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.deep import DeepCandidate
from provenet.fitting.context import Context
from provenet.fitting.search.driver import restarts


def deep(context: Context) -> Iterator[DeepCandidate]:
    """Restarts from random layers."""
    for end in restarts(context):
        if np.isfinite(end.fit.rss):  # else it overflowed
            yield DeepCandidate(end.fit.parameters, end.evidence, end.narrower)
