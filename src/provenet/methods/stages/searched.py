"""Candidates of the search for units (`fitting.search`)."""

from __future__ import annotations

from collections.abc import Iterator

from provenet.certify.candidate import Candidate
from provenet.common.typing import Array
from provenet.fitting.search.driver import restarts
from provenet.fitting.workspace import Workspace


def searched(workspace: Workspace, known: Array | None = None) -> Iterator[Candidate]:
    """A candidate a restart, the first one from units that are known.

    `known` are weights and bias on standardised inputs, one unit a row.
    """
    fitted = workspace.problem.activation
    for end in restarts(workspace, known):
        yield Candidate(end.fit.parameters.network(fitted), end.evidence)
