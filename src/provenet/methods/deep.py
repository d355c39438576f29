"""`"deep"`: several hidden layers from passive samples, the widths found.

No paper and no theorem: the search is that of `"expand-prune"` on layers (`fitting.search.layers`),
and the answer certifies itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.deep import DeepCandidate
from provenet.fitting.search.chains import chains
from provenet.fitting.workspace import Workspace


def deep(workspace: Workspace) -> Iterator[DeepCandidate]:
    """Chains of expanding and pruning from random layers."""
    for chain in chains(workspace):
        if not np.isfinite(chain.fit.rss):  # it overflowed, and so is worth nothing
            continue
        yield DeepCandidate(chain.fit.parameters, chain.evidence, chain.narrower)
