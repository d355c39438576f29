"""`"auto"`: the method that serves, and another when it did not."""

from __future__ import annotations

from collections.abc import Iterator

from provenet.methods.expand_prune import expand_prune
from provenet.workspace import Candidate, Workspace


def auto(workspace: Workspace) -> Iterator[Candidate]:
    """Placeholder: expand and prune."""
    yield from expand_prune(workspace)
