"""`"auto"`: the method that serves, and another when it did not.

Expand and prune needs no assumption and few samples, but its time grows with the cube of the number
of parameters. Where that is too long, and the inputs look Gaussian, the moments come first: their
cost is in the number of samples, and least squares then starts next to the answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from provenet.activations import RELU
from provenet.methods.biased_relu import find_span, from_span
from provenet.methods.expand_prune import expand_prune
from provenet.workspace import Candidate, Workspace

_SEARCH_STEPS = 300
_FLOPS_A_SECOND = 5e10
_SHORT = 3.0
_FEW_SAMPLES_A_FEATURE = 50


def auto(workspace: Workspace) -> Iterator[Candidate]:
    """Candidates of the cheaper road first; the other follows where it can."""
    if workspace.source.outputs is not None or not _moments_may_help(workspace):
        yield from expand_prune(workspace)
        return
    span = find_span(workspace)
    if span.rank == 0 or _search_seconds(workspace, span.rank) < _SHORT:
        yield from expand_prune(workspace)
    else:
        yield from from_span(workspace, span)


def _moments_may_help(workspace: Workspace) -> bool:
    enough = workspace.source.size >= _FEW_SAMPLES_A_FEATURE * workspace.source.features
    return enough and workspace.gaussian.ok and workspace.activation is RELU


def _search_seconds(workspace: Workspace, units: int) -> float:
    """A rough forecast for expand and prune: a few hundred steps of 5 p^3 operations."""
    p = workspace.problem.parameters(units + units // 3)
    return 5.0 * _SEARCH_STEPS * p**3 / _FLOPS_A_SECOND
