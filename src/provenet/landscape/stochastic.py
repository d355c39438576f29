"""Stochastic gradient descent with fresh samples at every step (GLM17, section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.data.passes import working_time
from provenet.landscape.newton import Descent, Step
from provenet.landscape.objective import Objective
from provenet.landscape.tolerances import RUN_AWAY

Batch = Callable[[], tuple[Array, Array]]
"""Fresh samples (X, y) each time it is called."""


@dataclass(frozen=True)
class Schedule:
    """`steps` steps of size `rate`, divided by `factor` every `every` steps after `plateau`."""

    steps: int
    rate: float
    factor: float = 4.0
    plateau: int | None = None
    every: int = 5000
    report: int = 1
    """Every how many steps the path is recorded."""

    def __post_init__(self) -> None:
        """At least one step, of positive size."""
        if self.steps < 1 or not self.rate > 0:
            raise InvalidInput("A schedule needs at least one step, and a positive rate.")

    def rates(self) -> Iterator[float]:
        """The size of every step."""
        plateau = self.steps if self.plateau is None else self.plateau
        for t in range(self.steps):
            divisions = 0 if t < plateau else 1 + (t - plateau) // self.every
            yield self.rate / self.factor**divisions


def descend(
    objective_on: Callable[[Array, Array], Objective],
    batch: Batch,
    start: Array,
    schedule: Schedule,
    *,
    deadline: float = np.inf,
    watch: Callable[[Array], None] | None = None,
) -> Descent:
    """Follow the gradient of `objective_on(X, y)`, a new batch for every step.

    What the path records is measured on the step's fresh batch before it is used, so it is an
    unbiased estimate of the population's. `watch` is called with every recorded point.

    On a batch the moments of fourth order, and those of second order outside of the units' span,
    are not positive: the objective may fall without end, and the descent is stopped where it does.
    """
    B = np.asarray(start, dtype=float)
    path: list[Step] = []
    samples = 0
    ran_away, reach = False, np.inf
    for t, rate in enumerate(schedule.rates()):
        X, y = batch()
        objective = objective_on(X, y)
        B = objective.retract(B) if t == 0 else B
        slope = objective.slope(B)
        samples += len(X)
        moved = objective.retract(B - rate * slope)
        if t == 0:
            reach = RUN_AWAY * float(max(np.linalg.norm(B), np.linalg.norm(moved)))
        ran_away = not np.linalg.norm(moved) <= reach
        last = t == schedule.steps - 1 or ran_away or working_time() > deadline
        if t % schedule.report == 0 or last:
            size = float(np.linalg.norm(slope))
            path.append(Step("stochastic", objective.value(B), size, samples))
            if watch is not None:
                watch(B)
        if last:
            break
        B = moved
    return Descent(B, tuple(path), t, converged=False, ran_away=ran_away)
