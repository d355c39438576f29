"""`"expand-prune"`: any inputs, few samples, the number of units found.

No paper and no theorem: the search is described in `fitting.search`, and the answer certifies
itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from provenet.certify.candidate import Candidate
from provenet.fitting.context import Context
from provenet.methods.stages.activation_found import activation_found
from provenet.methods.stages.searched import searched


def expand_prune(context: Context) -> Iterator[Candidate]:
    """Chains of expanding and pruning from random units; of every activation where it is open."""
    is_open = context.options.open_activation
    yield from activation_found(context) if is_open else searched(context)
