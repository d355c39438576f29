"""Figures 1, 2 and 3 of GLM17 (section 6): stochastic gradient descent on three objectives.

The truth has 50 ReLU units on 50 features, `B* = I`, output weights 1, no noise. From a random
start, with fresh samples for every step and output weights held at 1,

- figure 1: the squared loss of the same network ends in bad minima (batches of 256);
- figure 2: the squared loss of `sigma_2 h_2 + sigma_4 h_4` finds the units (8192, rows of norm 1);
- figure 3: so does G (262,144).

On the left the loss on the step's fresh batch, and in black what it estimates, in closed form; on
the right e(Q) of equation (6.1). Beside the descents of figures 2 and 3, the same error for
`provenet.recover` on G from one pass over far fewer samples.

Four things are not as in the paper, or not said there:

- f' and G see orders 2 and 4 of the labels alone. The others are noise to them, above all order 0:
  of `E[y^2] = 415`, 398 are the square of the mean and 12.5 the linear part. The mean is taken off
  the labels of figure 2, both off those of figure 3. With labels as they stand steps would have to
  be tens of times smaller, and as many times more.
- G has the mu that provenet chooses (0.12) and the least lambda that Theorem 5.1 allows, both
  within its ranges: a larger lambda only makes for smaller steps.
- e(Q) takes the lesser of two terms and no account of signs, so it is also small where units are
  missed, or reversed. Dotted on the right: the greater term, with signs where the objective sees
  them (figure 1).
- Batches are drawn and multiplied in single precision, and summed in double: rounding of 1e-7
  beside a batch's sampling error of 1e-3 and more.

Times are seconds of processor time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import provenet as pn
from figures import Figure, Row, by, column, finish
from provenet.common.typing import Array
from provenet.data.passes import one_blas_thread
from provenet.landscape.designed import Design
from provenet.landscape.kernels import RELU_SHAPE
from provenet.landscape.losses import SampleLoss
from provenet.landscape.objectives import choose_constants
from provenet.landscape.statistics import population_statistics
from provenet.landscape.stochastic import Schedule
from provenet.networks.activations import RELU
from provenet.networks.canonical import permutation_error

C_0, C_1 = (float(RELU.hermite(k, 0.0)) for k in (0, 1))
FLOOR = 1e-5
"""Of the axes: what is below it is as good as exact."""
LEAST_PENALTY = 0.1
"""Of the lambda that provenet takes: the least in Theorem 5.1."""
PASSES, QUICK_PASSES = (100_000, 1_000_000), (10_000, 100_000)
"""Samples of the recoveries from one pass."""


@dataclass(frozen=True)
class Setting:
    """The experiment of one figure."""

    figure: int
    objective: str
    features: int
    batch: int
    runs: int
    taken_off: int
    """Orders of the labels below this one are taken off."""
    schedule: Schedule


SETTINGS = (
    # As in the paper: after 13 divisions by 4 the last 5000 steps are less than 1e-9.
    Setting(1, "l2", 50, 256, 5, 0, Schedule(75_000, 0.04, plateau=10_000, every=5000, report=750)),
    # Constant steps are about the largest that were stable.
    Setting(2, "f2f4", 50, 8192, 5, 1, Schedule(5000, 0.2, plateau=3500, every=300, report=50)),
    Setting(3, "G", 50, 262_144, 5, 2, Schedule(1050, 0.05, plateau=750, every=75, report=15)),
)
QUICK = (
    Setting(1, "l2", 20, 256, 2, 0, Schedule(5000, 0.1, plateau=3000, every=400, report=60)),
    Setting(2, "f2f4", 10, 2048, 2, 1, Schedule(800, 0.5, plateau=600, every=50, report=10)),
    Setting(3, "G", 10, 16_384, 1, 2, Schedule(400, 0.1, plateau=280, every=30, report=8)),
)


class Problem:
    """The network to be found, and an objective on samples and on its population."""

    def __init__(self, setting: Setting) -> None:
        """`B* = I` and output weights 1."""
        d = setting.features
        self.setting, self.truth, self.ones = setting, pn.Network(np.eye(d)), np.ones(d)
        statistics = population_statistics(self.truth)
        constants = choose_constants("G", statistics, d, RELU)
        self.constants = replace(constants, penalty=LEAST_PENALTY * constants.penalty)
        self.G = Design(statistics, self.constants, d, euclidean=True)
        self.f2f4 = pn.landscape.objective("f2f4", self.truth, output_weights=self.ones)

    def batch(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Fresh inputs, and what the network says to them: `B* = I` takes no product."""
        size = self.setting.batch, self.setting.features
        X: Any = rng.standard_normal(size, dtype=np.float32)
        return X, np.maximum(X, 0).sum(axis=1)

    def on(self, X: Array, y: Array) -> pn.landscape.Objective:
        """The objective on these samples."""
        name, d = self.setting.objective, self.setting.features
        if self.setting.taken_off > 0:
            y = y - C_0 * d
        if self.setting.taken_off > 1:
            y = y - C_1 * X.sum(axis=1)
        if name == "l2":
            return SampleLoss(X, y, RELU_SHAPE, d, self.ones, unit_rows=False)
        return pn.landscape.sample_objective(
            name, X, y, d, RELU, output_weights=self.ones, constants=self.constants
        )

    def loss(self, B: Array) -> float:
        """The population's loss at B above its least."""
        name = self.setting.objective
        if name == "l2":
            return pn.landscape.squared_loss(pn.Network(B), self.truth)
        if name == "f2f4":
            return self.f2f4.value(B) - self.f2f4.value(self.truth.weights)
        return self.G.value(B) - self.least()

    def least(self) -> float:
        """The least value of the objective on samples as `on` has them."""
        name, d = self.setting.objective, self.setting.features
        if name == "l2":
            return 0.0
        if name == "f2f4":
            energies = [(C_0 * d) ** 2, C_1**2 * d]
            return self.f2f4.value(self.truth.weights) - sum(energies[: self.setting.taken_off])
        norm = (1 - self.constants.attraction / self.constants.penalty) ** -0.5  # Theorem 5.1
        return self.G.value(norm * self.truth.weights)

    def greater(self, B: Array) -> float:
        """The greater term of (6.1), with signs where the objective sees them."""
        Q = B / np.linalg.norm(B, axis=1, keepdims=True)
        Q = Q if self.setting.objective == "l2" else np.abs(Q)
        return float(1 - min(Q.max(axis=1).min(), Q.max(axis=0).min()))


def descent(setting: Setting, number: int, seed: int = 0) -> Iterator[Row]:
    """One descent from a random start: a row a recorded step."""
    problem, d = Problem(setting), setting.features
    draws = np.random.default_rng([seed, setting.figure, number, 1])
    start = np.random.default_rng([seed, setting.figure, number, 2]).standard_normal((d, d))
    seen: list[tuple[float, float, float]] = []

    def watch(B: Array) -> None:
        error = permutation_error(B, problem.truth.weights)
        seen.append((problem.loss(B), error, problem.greater(B)))

    begun = time.process_time()
    with one_blas_thread():
        found = pn.landscape.descend(
            problem.on,
            lambda: problem.batch(draws),
            start / np.sqrt(d),
            setting.schedule,
            watch=watch,
        )
    seconds = round(time.process_time() - begun, 1)
    for step, (loss, error, greater) in zip(found.path, seen, strict=True):
        yield {
            "kind": "descent",
            "units": d,
            "batch": setting.batch,
            "run": number,
            "samples": step.samples,
            "estimate": step.value - problem.least(),
            "loss": loss,
            "error": error,
            "greater": greater,
            "seconds": seconds,
        }


def one_pass(features: int, samples: int, seed: int = 0) -> Row:
    """The same network from one pass: `provenet.recover` on G, with no refinement after it."""
    truth = pn.Network(np.eye(features))
    X, y = pn.sample(truth, samples, rng=np.random.default_rng([seed, samples, 3]))
    begun = time.process_time()
    found = pn.recover(
        X,
        y,
        units=features,
        method="landscape",
        objective="G",
        refine=False,
        rng=np.random.default_rng([seed, samples, 4]),
    ).network
    error = None if found is None else permutation_error(found.weights, truth.weights)
    seconds = round(time.process_time() - begun, 1)
    return {"kind": "one pass", "samples": samples, "error": error, "seconds": seconds}


def measure(number: int, quick: bool) -> Iterator[Row]:
    """Our own recoveries, then the descents of a figure."""
    setting = (QUICK if quick else SETTINGS)[number - 1]
    if number > 1:
        for samples in QUICK_PASSES if quick else PASSES:
            yield one_pass(setting.features, samples)
    for run in range(setting.runs):
        yield from descent(setting, run)


# ---------------------------------------------------------------- pictures


def draw(number: int, picture: Any, rows: Sequence[Row]) -> None:
    """Loss on the left, error on the right, against iterations and samples."""
    left, right = picture.subplots(1, 2)
    of_kind = by(rows, "kind")
    runs = by(of_kind["descent"], "run")
    batch = of_kind["descent"][0]["batch"]
    _draw_losses(left, number, runs, batch)
    _draw_errors(right, number, runs, of_kind.get("one pass", []), batch)
    for axes in (left, right):
        scale = (lambda t: t * batch, lambda n: n / batch)
        axes.secondary_xaxis("top", functions=scale).set_xlabel("samples used", size=9)
        axes.set_xlabel(f"iterations of {batch:,} samples ({of_kind['descent'][0]['units']} units)")
        if number == 1:  # the first of the axis tells nothing but the start
            axes.set_xlim(left=runs[0][1]["samples"] / batch)


def _draw_losses(axes: Any, number: int, runs: dict[int, list[Row]], batch: int) -> None:
    """The estimates in colour, what they estimate in black."""
    for i, rows in runs.items():
        label = "on the step's fresh batch" if i == 0 else None
        t, estimate = column(rows, "samples") / batch, column(rows, "estimate")
        axes.plot(t, estimate, ".", ms=3, color=f"C{i}", alpha=0.5, label=label)
    for i, rows in runs.items():
        label = "population, closed form" if i == 0 else None
        axes.plot(
            column(rows, "samples") / batch, column(rows, "loss"), color="k", lw=0.9, label=label
        )
    finish(axes, "iterations", "loss above its least", log="x" if number == 1 else "")
    if number == 1:
        axes.set_yscale("log")
    else:  # an estimate may lie below the least of the population
        axes.set_yscale("symlog", linthresh=0.1)


def _draw_errors(
    axes: Any, number: int, runs: dict[int, list[Row]], passes: list[Row], batch: int
) -> None:
    """e(Q) of every run, and of `provenet.recover`."""
    words = "its greater term, with signs" if number == 1 else "its greater term"
    for i, rows in runs.items():
        t = column(rows, "samples") / batch
        label = f"run {i + 1}: ends at {rows[-1]['error']:.4f}"
        axes.plot(t, column(rows, "error"), color=f"C{i}", lw=1.4, label=label)
        axes.plot(t, column(rows, "greater"), ":", color=f"C{i}", lw=1.2)
    axes.plot([], [], ":", color="gray", label=words)
    for ours, style in zip(passes, ("--", "-."), strict=False):
        label = f"recover, {ours['samples']:,} samples: {ours['error']:.4f}"
        axes.axhline(ours["error"], color="k", ls=style, lw=1.2, label=label)
    finish(axes, "iterations", "e(Q)", log="xy" if number == 1 else "y")
    axes.set_ylim(bottom=max(FLOOR, axes.get_ylim()[0]))
    place: dict[str, Any] = {"loc": "upper right"}
    if number != 2:
        place = {"loc": "lower left", "bbox_to_anchor": (0, 0.43)}
    axes.legend(fontsize=8, framealpha=0.9, edgecolor="none", **place)


def _figure(number: int, name: str, claim: str) -> Figure:
    return Figure(
        name,
        f"GLM17, figure {number}: {claim}",
        lambda quick: measure(number, quick),
        lambda picture, rows: draw(number, picture, rows),
        width=11.0,
    )


FIGURES = (
    _figure(1, "figure_1", "descents on the squared loss of ReLU end in bad minima"),
    _figure(2, "figure_2", "descents on the squared loss of σ₂h₂ + σ₄h₄ find every unit"),
    _figure(3, "figure_3", "descents on G find every unit"),
)
