"""`"deep"`: several hidden layers from passive samples, the widths found.

No paper and no theorem: the search is that of `"expand-prune"` on layers (`fitting.search.layers`),
and the answer certifies itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.deep import DeepCandidate
from provenet.fitting.search.chains import Chain, chains
from provenet.fitting.workspace import Workspace


def deep(workspace: Workspace) -> Iterator[DeepCandidate]:
    """Chains of expanding and pruning from random layers."""
    for chain in _overflowing_quietly(chains(workspace)):
        if not np.isfinite(chain.fit.rss):  # it overflowed, and so is worth nothing
            continue
        yield DeepCandidate(chain.fit.parameters, chain.evidence, chain.narrower)


def _overflowing_quietly(found: Iterator[Chain]) -> Iterator[Chain]:
    """The same chains: steps that overflow, as exponentials of exponentials do, are not taken."""
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            chain = next(found, None)
        if chain is None:
            return
        yield chain
