"""`"expand-prune"`: any inputs, few samples, the number of units found.

No paper and no theorem: the search is described in `search`, and the answer certifies itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.typing import Array
from provenet.fitting.search import Problem, expand, prune, random_units, start
from provenet.fitting.workspace import Workspace
from provenet.networks.activations import ABS

_FIRST_WIDTH = 3


def expand_prune(workspace: Workspace, known: Array | None = None) -> Iterator[Candidate]:
    """Chains of expanding and pruning, each from a fresh start and more patient than the last.

    `known` are units (weights and bias on standardised inputs) to start the first chain from.
    """
    problem, rng, units = workspace.problem, workspace.rng, workspace.units
    widest = _widest(problem, units)
    swaps, width = 1, min(_FIRST_WIDTH if units is None else units + units // 4 + 1, widest)
    while not workspace.out_of_time:
        theta = random_units(problem.samples.X, width, rng) if known is None else known
        known = None
        with workspace.stage("search"):
            fit = start(problem.for_width(len(theta)), theta)
            for better in expand(problem, fit, swaps, widest, rng):
                fit = better
                _tell(workspace, fit.parameters.units, fit.rms)
        wide = fit.parameters.units
        with workspace.stage("prune"):
            fit, rejected = prune(problem, fit, units)
        yield Candidate(
            fit.parameters.network(ABS),
            _evidence(
                wide, fit.parameters.units, rejected.rms / workspace.spread if rejected else None
            ),
        )
        # The next chain starts afresh, near the width that served best so far.
        near = max(fit.parameters.units, 2)
        width = int(np.clip(rng.integers(near // 2, near + 2), 1, widest))
        swaps = min(2 * swaps, 32)


def _widest(problem: Problem, units: int | None) -> int:
    return problem.widest if units is None else min(problem.widest, units + units // 2 + 2)


def _tell(workspace: Workspace, units: int, rms: float) -> None:
    message = f"{units} units, residual {rms / workspace.spread:.1e}"
    workspace.progress("search", workspace.budget_used, message)


def _evidence(wide: int, units: int, narrower: float | None) -> str:
    if narrower is None:
        return f"{wide} units were pruned to {units}."
    return (
        f"{wide} units were pruned to {units}; with {units - 1}, refined, the residual is "
        f"{narrower:.1e} of the labels' spread."
    )
