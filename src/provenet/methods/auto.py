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
from provenet.fitting.context import Context
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


def auto(context: Context) -> Iterator[Candidate]:
    """Candidates of the cheaper road first; the other follows where it can."""
    if context.options.open_activation or context.activation.slope is None:
        yield from found_by("expand-prune", expand_prune(context))
        return
    several = context.source.outputs is not None
    yield from _several_outputs(context) if several else _one_output(context)


def _several_outputs(context: Context) -> Iterator[Candidate]:
    if _lifting_is_affordable(context):
        with suppress(NoAnswer):
            yield from found_by("lifting", lifting(context))
    if _moments_may_help(context):
        with suppress(NoAnswer):
            yield from found_by("rectified", rectified(context))
    yield from found_by("expand-prune", expand_prune(context))


def _lifting_is_affordable(context: Context) -> bool:
    """Whether its time fits, should there be as many units as outputs."""
    problem = context.problem
    units = context.units or min(problem.outputs, problem.samples.features)
    p = count_unknowns(units, problem.samples.features, context.activation is RELU)
    seconds = 2.0 * p**3 / FLOPS_A_SECOND
    return seconds < LIFTING_SHARE * (problem.deadline - context.started)


def _one_output(context: Context) -> Iterator[Candidate]:
    # More units than features are dependent: moments of order 2 to 4 do not show them one by one.
    dependent = (context.units or 0) > context.source.features
    if dependent or not _moments_may_help(context):
        yield from found_by("expand-prune", expand_prune(context))
        return
    span = find_span(context)
    few = context.source.size < FEW_SAMPLES_A_PARAMETER * context.problem.parameters(span.rank)
    if span.rank == 0 or few or _search_seconds(context, span.rank) < SHORT_SEARCH:
        yield from found_by("expand-prune", expand_prune(context))
    else:
        yield from found_by("biased-relu", from_span(context, span))


def _moments_may_help(context: Context) -> bool:
    enough = context.source.size >= FEW_SAMPLES_A_FEATURE * context.source.features
    return enough and context.gaussian.ok and context.activation is RELU


def _search_seconds(context: Context, units: int) -> float:
    """A rough forecast for expand and prune."""
    p = context.problem.parameters(units + units // 3)
    return float(SEARCH_SECONDS * (p / SEARCH_PARAMETERS) ** SEARCH_POWER)
