"""The last fit of labels that were rounded: the fewest units that pass through every interval.

Least squares takes rounding errors for noise, and finds units in them that are not there: they
follow the inputs. So units are dropped as long as the others still explain every label.
"""

from __future__ import annotations

import numpy as np

from provenet.fitting.final_fit import polish
from provenet.fitting.interval_fit import IntervalFit, Intervals, fit_inside
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.fitting.output_layer import linear_part, without_each_unit
from provenet.fitting.search.swaps import grown
from provenet.fitting.tolerances import (
    DENSE_LIMIT,
    FINE_INTERVAL_COST,
    INTERVAL_COST,
    MAYBE_NEEDLESS,
    MISSING_TRIES,
    POLISH_STEPS,
    POLISH_TOLERANCE,
    ROUNDED,
    ROWS_OF_INTERVALS,
)
from provenet.fitting.workspace import Workspace
from provenet.networks.activations import ABS, Activation
from provenet.networks.network import Network
from provenet.networks.piecewise import as_absolute


def explained_by_rounding(workspace: Workspace, residual: float) -> bool:
    """Whether a root mean square residual is no more than the labels' own rounding leaves."""
    return 0 < residual <= ROUNDED * workspace.precision.rms


def refit_inside(workspace: Workspace, network: Network) -> IntervalFit | None:
    """Of all samples drawn; None where this does not settle, or a round would take seconds.

    Labels that are finely rounded are hardly told better so than by least squares: they are given
    less time.
    """
    size = network.weights.size
    most = FINE_INTERVAL_COST if workspace.problem.label_rounding else INTERVAL_COST
    if not network.units or size > DENSE_LIMIT or ROWS_OF_INTERVALS * size**3 > most:
        return None
    drawn = workspace.drawn
    intervals = Intervals.around(drawn.X, drawn.y, workspace.precision.widths)
    deadline, activation = workspace.problem.deadline, network.activation
    best = fit_inside(intervals, Parameters.of(network), activation, deadline=deadline)
    if best is not None and not best.inside:
        best = _with_a_missing_unit(workspace, intervals, network) or best
    if best is None:
        return None
    if not best.inside:  # there is noise beside the rounding
        return fit_inside(intervals, best.parameters, activation, best.noise, deadline)
    while best.parameters.units > 1 and not workspace.out_of_time:
        fewer = _without_a_needless_unit(workspace, intervals, best, activation)
        if fewer is None:
            break
        best = fewer
    return best


def _with_a_missing_unit(
    workspace: Workspace, intervals: Intervals, network: Network
) -> IntervalFit | None:
    """The fit with a further unit, if that is inside: least squares may have thought it noise."""
    problem = workspace.problem
    if problem.activation is not ABS or problem.label_rounding:
        return None
    start = problem.refine(Parameters.of(as_absolute(network)), 1, POLISH_TOLERANCE)
    for _ in range(MISSING_TRIES):
        if workspace.out_of_time:
            break
        wider = grown(problem, start, 1, workspace.rng)
        polished = polish(workspace, wider.parameters.network(ABS)).network
        if polished.linear is None:
            found = fit_inside(
                intervals, Parameters.of(polished), polished.activation, deadline=problem.deadline
            )
            if found is not None and found.inside:
                return found
    return None


def _without_a_needless_unit(
    workspace: Workspace, intervals: Intervals, best: IntervalFit, activation: Activation
) -> IntervalFit | None:
    """The fit of one unit fewer, the least useful first, that is still inside; None if none is."""
    drawn = workspace.drawn
    cost = without_each_unit(linear_part(drawn, best.parameters, activation), best.parameters)
    most = MAYBE_NEEDLESS**2 * workspace.precision.rms**2 * drawn.labels
    for i in np.argsort(cost):
        if cost[i] > most:
            return None
        start = best.parameters.keep(np.arange(best.parameters.units) != i)
        fewer = refine(
            drawn,
            start,
            activation,
            spread=workspace.spread,
            iterations=POLISH_STEPS,
            tolerance=POLISH_TOLERANCE,
            deadline=workspace.problem.deadline,
        )
        if explained_by_rounding(workspace, fewer.rms):
            deadline = workspace.problem.deadline
            found = fit_inside(intervals, fewer.parameters, activation, deadline=deadline)
            if found is not None and found.inside:
                return found
    return None
