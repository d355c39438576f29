"""`"auto"`: the method that serves, and another when it did not.

Several outputs: lifting needs no assumption on the inputs and the fewest samples, but exact labels
(or nearly) and as many outputs as units; where it does not apply, the moments of Gaussian inputs
give a start, and expand and prune serves the rest.

One output: expand and prune needs no assumption and few samples, but its time grows with nearly the
square of the number of parameters. Where that is too long, the inputs look Gaussian and samples are
many, the moments come first: their cost is in the number of samples, and least squares then starts
next to the answer.

Smooth units, or an activation that is to be found: expand and prune.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from provenet.certify.candidate import Candidate, found_by
from provenet.common.exceptions import NoAnswer
from provenet.fitting.workspace import Workspace
from provenet.methods.expand_prune import expand_prune
from provenet.methods.lifting import count_unknowns, lifting
from provenet.methods.rectified import rectified
from provenet.methods.stages.moment_units import find_span
from provenet.methods.stages.one_output import from_span
from provenet.methods.tolerances import (
    FEW_SAMPLES_A_FEATURE,
    FEW_SAMPLES_A_PARAMETER,
    FLOPS_A_SECOND,
    LIFTING_SHARE,
    SEARCH_PARAMETERS,
    SEARCH_POWER,
    SEARCH_SECONDS,
    SHORT_SEARCH,
)
from provenet.networks.activations import RELU


def auto(workspace: Workspace) -> Iterator[Candidate]:
    """Candidates of the cheaper road first; the other follows where it can."""
    if workspace.wishes.open_activation or workspace.activation.slope is None:
        yield from found_by("expand-prune", expand_prune(workspace))
        return
    several = workspace.source.outputs is not None
    yield from _several_outputs(workspace) if several else _one_output(workspace)


def _several_outputs(workspace: Workspace) -> Iterator[Candidate]:
    if _lifting_is_affordable(workspace):
        with suppress(NoAnswer):
            yield from found_by("lifting", lifting(workspace))
    if _moments_may_help(workspace):
        with suppress(NoAnswer):
            yield from found_by("rectified", rectified(workspace))
    yield from found_by("expand-prune", expand_prune(workspace))


def _lifting_is_affordable(workspace: Workspace) -> bool:
    """Whether its time fits, should there be as many units as outputs."""
    problem = workspace.problem
    units = workspace.units or min(problem.outputs, problem.samples.features)
    p = count_unknowns(units, problem.samples.features, workspace.activation is RELU)
    seconds = 2.0 * p**3 / FLOPS_A_SECOND
    return seconds < LIFTING_SHARE * (problem.deadline - workspace.started)


def _one_output(workspace: Workspace) -> Iterator[Candidate]:
    # More units than features are dependent: moments of order 2 to 4 do not show them one by one.
    dependent = (workspace.units or 0) > workspace.source.features
    if dependent or not _moments_may_help(workspace):
        yield from found_by("expand-prune", expand_prune(workspace))
        return
    span = find_span(workspace)
    few = workspace.source.size < FEW_SAMPLES_A_PARAMETER * workspace.problem.parameters(span.rank)
    if span.rank == 0 or few or _search_seconds(workspace, span.rank) < SHORT_SEARCH:
        yield from found_by("expand-prune", expand_prune(workspace))
    else:
        yield from found_by("biased-relu", from_span(workspace, span))


def _moments_may_help(workspace: Workspace) -> bool:
    enough = workspace.source.size >= FEW_SAMPLES_A_FEATURE * workspace.source.features
    return enough and workspace.gaussian.ok and workspace.activation is RELU


def _search_seconds(workspace: Workspace, units: int) -> float:
    """A rough forecast for expand and prune."""
    p = workspace.problem.parameters(units + units // 3)
    return float(SEARCH_SECONDS * (p / SEARCH_PARAMETERS) ** SEARCH_POWER)
