"""The floor that noise leaves: where wider layers explain no more, the units are there.

Without noise a chain of several layers falls by whole factors once it has its units, and goes on to
zero. With noise of variance s^2 it comes to rest at s, whatever the width, and more units only fit
noise: a chain that grows on ends far too wide, and is slow to prune. What tells is

    s^2 = rss / (labels - parameters)

of a fit and of a wider one grown from it. Both were fitted to the few samples that their widths
need, and so to noise. If s^2 fell by little, both are refined on all samples and Schwarz's
criterion compares: where the wider one is no better the chain has come to the floor, and is to be
pruned from the narrower one.
"""

from __future__ import annotations

from provenet.fitting.least_squares import Fit
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.tolerances import AT_FLOOR, FLOOR_FALLS, FLOOR_STEPS, SWAP_TOLERANCE


def at_floor(problem: Problem, narrower: Fit | None, wider: Fit) -> Fit | None:
    """The narrower fit, refined on all samples, if the wider one explains no more; else None."""
    if narrower is None or problem.layers == 1 or problem.is_near_zero(wider):
        return None
    before, after = variance(problem, narrower), variance(problem, wider)
    if after > (AT_FLOOR * problem.spread) ** 2 or after < FLOOR_FALLS * before:
        return None
    fits = [
        problem.refine(fit.parameters, FLOOR_STEPS, SWAP_TOLERANCE) for fit in (narrower, wider)
    ]
    return fits[0] if problem.criterion(fits[0]) <= problem.criterion(fits[1]) else None


def variance(problem: Problem, fit: Fit) -> float:
    """Of the noise, if a fit leaves nothing else."""
    return fit.rss / max(fit.labels - problem.parameters(*fit.parameters.widths), 1)
