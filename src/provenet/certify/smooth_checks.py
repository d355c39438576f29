"""What is asked of smooth units, and of periodic ones.

Kinked units are seen one by one: a kink is there or not. Smooth ones are seen together, and a few
too many fit almost anything smooth. So without noise it is asked whether fewer would do, and with
noise whether each differs, by its errors, from nothing and from the others. A periodic unit on
inputs in equal steps is any of many: weights that differ by whole periods a step give the same
labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from provenet.certify.certificate import clearness
from provenet.certify.checks import Check, Status
from provenet.certify.evidence import Evidence
from provenet.certify.tolerances import FEWER_LEAVE, MOST_WAVES, SMOOTH_SIGMAS, STEP_ROUNDING
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.fitting.context import Context
from provenet.fitting.model import Parameters
from provenet.fitting.search.driver import prune
from provenet.networks.network import Network
from provenet.networks.piecewise import with_free_linear_part


def smooth_checks(context: Context, evidence: Evidence, found: str) -> Iterator[Check]:
    """Of an answer in smooth or periodic units; `found` begins the advice."""
    if evidence.network.activation.period is not None:
        yield no_other_waves(context, evidence.network, found)
    if evidence.network.activation.kinked:
        return
    if evidence.exact:
        yield _no_fewer_do(context, evidence, found)
    else:  # without noise rounding is asked what it leaves
        yield _each_is_clear(evidence, found)


def _each_is_clear(evidence: Evidence, found: str) -> Check:
    """Smooth units show on either side of zero, if their errors are small."""
    known = clearness(evidence.network, evidence.standard_errors)
    worst = int(np.argmin(known))
    return Check(
        "every unit is pinned down",
        len(evidence.unresolved) == 0,
        f"unit {worst}: {min(known[worst], 1e99):.3g} standard errors from none, or another",
        f"at least {SMOOTH_SIGMAS:g}, and a known direction",
        f"{found}, but units {evidence.unresolved.tolist()} are not pinned down by them (nearly "
        "linear or alike on these inputs, or too much noise): take more samples, or samples "
        "further out.",
        Status.PARTIAL,
    )


def _no_fewer_do(context: Context, evidence: Evidence, found: str) -> Check:
    """Is this the first width at which the residual falls to rounding?"""
    problem, own = context.problem, evidence.own
    form = with_free_linear_part(own, problem.activation) if problem.has_linear_term else own
    fit = problem.refine(Parameters.of(form), 30, 1e-3)
    narrower, rejected = prune(replace(problem, deadline=np.inf), fit)
    left = np.inf if rejected is None else rejected.rms
    fewer = counted(own.units - 1, "unit")
    return Check(
        "no fewer units explain them",
        narrower.parameters.units == own.units and left > FEWER_LEAVE * problem.zero,
        f"{fewer} leave {left / problem.spread:.2g} of the labels' spread",
        f"more than {FEWER_LEAVE * problem.zero / problem.spread:.2g}",
        f"{found}, but {fewer} explain them nearly as well: these are not determined by the "
        "samples. Ask for fewer units, or take more samples.",
        Status.PARTIAL,
    )


def no_other_waves(context: Context, network: Network, found: str) -> Check:
    """Would weights that differ by whole periods a step of the inputs give the same labels?

    Of a deep network those of its first layer: what others are given is in no equal steps.
    """
    features = other_waves(network, context.inputs)
    return Check(
        "no other waves pass through them",
        len(features) == 0,
        f"{counted(len(features), 'feature')} in equal steps",
        f"none, or steps of less than 1/{MOST_WAVES:g} of a spread and period",
        f"{found}, but features {features.tolist()} come in equal steps: weights that differ by "
        "whole periods a step give the same labels. Take inputs between them.",
        Status.PARTIAL,
    )


def other_waves(network: Network, X: Array) -> AnyArray:
    """Features whose values lie in equal steps h: a weight may change by `period / h`.

    Those where that is at most MOST_WAVES on inputs of spread one.
    """
    period = network.activation.period
    if period is None:
        return np.zeros(0, dtype=int)
    finest = period * np.std(X, axis=0) / MOST_WAVES
    return np.flatnonzero([_in_equal_steps(x, h) for x, h in zip(X.T, finest, strict=True)])


def _in_equal_steps(x: Array, finest: float) -> bool:
    """Whether all values are whole multiples of a step apart that is not finer than this."""
    levels = np.unique(x)
    if len(levels) < 2:
        return True
    rounding = STEP_ROUNDING * float(np.max(np.abs(levels)))
    gaps = np.diff(levels)
    gaps = gaps[gaps > rounding]
    step = 0.0
    for gap in gaps:
        step = _common_step(float(gap), step, rounding)
        if step < finest:
            return False
    return True


def _common_step(a: float, b: float, rounding: float) -> float:
    """Euclid's algorithm, up to rounding."""
    while b > rounding:
        a, b = b, abs(a - b * round(a / b))
    return a
