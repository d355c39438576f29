"""Stochastic gradient descent with fresh samples at every step (GLM17, section 6).

The paper's batches, 256 samples for the squared loss, 8192 for f2f4 and 262,144 for G, are for 50
features. A row's gradient of f2f4 is as noisy as the square of the features over the batch, that of
G and F as their cube, so that fewer features need fewer samples a step; and the number of steps
grows with the ratio of the largest to the smallest eigenvalue of `sum a b b^T`, by which rows
differ in how fast they move. `plan` has both, and the paper's own numbers at 50 features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.data.passes import working_time
from provenet.data.sources import Source
from provenet.landscape.kernels import even_kernel, kernel
from provenet.landscape.newton import Descent, Step
from provenet.landscape.objective import Objective
from provenet.landscape.tolerances import (
    BATCH_A_CUBE,
    BATCH_A_SQUARE,
    DESIGNED_BATCHES,
    DESIGNED_STEPS,
    DIVIDED_EVERY,
    EVEN_BATCHES,
    EVEN_RATE,
    EVEN_STEPS_A_FEATURE,
    MOST_EVEN_RATE,
    MOST_NUMBERS_AT_ONCE,
    PLAIN_BATCH,
    PLAIN_RATE,
    PLAIN_RATE_FEATURES,
    PLAIN_STEPS_A_SQUARE,
    RECORDED,
    RUN_AWAY,
    UNTIL_PLATEAU,
)
from provenet.networks.activations import RELU, Activation

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


@dataclass(frozen=True)
class Plan:
    """How a descent on an objective goes on problems of a size."""

    batch: int
    """Samples a step."""
    schedule: Schedule

    def seconds(self, a_step: float) -> float:
        """What it takes if a step takes so many."""
        return self.schedule.steps * a_step

    @property
    def words(self) -> str:
        """Its size, for the user."""
        return f"{self.schedule.steps:,} steps of {self.batch:,} samples"


def plan(
    name: str, features: int, rate: float, *, condition: float = 1.0, samples: float = np.inf
) -> Plan:
    """Batch and steps of an objective, for so many features and samples.

    `condition` is the ratio of the largest to the smallest eigenvalue of `sum a b b^T`.
    """
    if name == "l2":
        batch, steps = float(PLAIN_BATCH), PLAIN_STEPS_A_SQUARE * features**2
    elif name in ("f2f4", "abs"):
        batch = float(np.clip(BATCH_A_SQUARE * features**2, *EVEN_BATCHES))
        steps = EVEN_STEPS_A_FEATURE * features
    else:
        batch = float(np.clip(BATCH_A_CUBE * features**3, *DESIGNED_BATCHES))
        steps = DESIGNED_STEPS[0] + DESIGNED_STEPS[1] * features
    steps = int(np.ceil(steps * condition))
    schedule = Schedule(
        steps,
        rate,
        plateau=int(UNTIL_PLATEAU * steps),
        every=max(int(DIVIDED_EVERY * steps), 1),
        report=max(steps // RECORDED, 1),
    )
    return Plan(int(min(batch, samples, max(MOST_NUMBERS_AT_ONCE // features, 1))), schedule)


def rate_of_loss(name: str, features: int, activation: Activation) -> float:
    """A stable step for a loss whose output weights are 1 or so.

    Its curvature is the slope of its kernel at 1, in units of ReLU's.
    """
    kind = kernel if name == "l2" else even_kernel
    own, relu = (float(kind(sigma).first(np.ones(1))[0]) for sigma in (activation, RELU))
    if name == "l2":
        rate = PLAIN_RATE * min(1.0, PLAIN_RATE_FEATURES / features)
    else:
        rate = min(EVEN_RATE / features**0.5, MOST_EVEN_RATE)
    return rate * min(1.0, relu / own)


class Batches:
    """Fresh samples of a source each time it is called: new ones, or the next of a random order.

    Where samples are given they are put in random order and used up one batch after the other, as
    many at a time as memory allows; then they are drawn again.
    """

    def __init__(self, source: Source, size: int, rng: np.random.Generator) -> None:
        """`size` samples a batch."""
        self.source, self.size, self.rng = source, size, rng
        pool = min(source.size, max(size, MOST_NUMBERS_AT_ONCE // source.features))
        self.pool = pool - pool % size if source.fixed else size
        self.left: list[tuple[Array, Array]] = []

    def __call__(self) -> tuple[Array, Array]:
        """The next batch."""
        if not self.left:
            drawn = self.source.draw(self.pool, self.rng)
            starts = range(0, self.pool, self.size)
            self.left = [(drawn.X[i : i + self.size], drawn.y[i : i + self.size]) for i in starts]
        return self.left.pop()


def seconds_a_step(
    objective_on: Callable[[Array, Array], Objective], batch: Batch, start: Array
) -> float:
    """What a step takes, its batch drawn and used; the first draws and is not counted."""
    objective_on(*batch()).slope(start)
    begun = working_time()
    objective_on(*batch()).slope(start)
    return working_time() - begun


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
