"""Candidates of the search for units (`fitting.search`)."""

from __future__ import annotations

from collections.abc import Iterator

from provenet.certify.candidate import Candidate
from provenet.common.typing import Array
from provenet.fitting.context import Context
from provenet.fitting.search.driver import restarts


def searched(context: Context, known: Array | None = None) -> Iterator[Candidate]:
    """A candidate a restart, the first one from units that are known.

    `known` are weights and bias on standardised inputs, one unit a row.
    """
    fitted = context.problem.activation
    for end in restarts(context, known):
        yield Candidate(end.fit.parameters.network(fitted), end.evidence)
