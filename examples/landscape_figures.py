"""Figures 1, 2 and 3 of GLM17 (section 6): stochastic gradient descent on three objectives.

The truth has 50 ReLU units on 50 features, `B* = I`, output weights 1, no noise. From a random
start, with fresh samples for every step and output weights held at 1,

- figure 1: the squared loss of the same network ends in bad minima (batches of 256);
- figure 2: the squared loss of `sigma_2 h_2 + sigma_4 h_4` finds the units (8192, rows of norm 1);
- figure 3: so does G (262,144).

On the left the loss on the step's fresh batch, and in black what it estimates, in closed form; on
the right e(Q) of equation (6.1). Beside the descents of figures 2 and 3, the same error for
`provenet.recover` on G from one pass over far fewer samples.

Three things are not as in the paper, or not said there:

- f' and G see orders 2 and 4 of the labels alone. The others are noise to them, above all order 0:
  of `E[y^2] = 415`, 398 are the square of the mean and 12.5 the linear part. The mean is taken off
  the labels of figure 2, both off those of figure 3. With labels as they stand steps would have to
  be tens of times smaller, and as many times more.
- G has the mu that provenet chooses (0.12) and the least lambda that Theorem 5.1 allows, both
  within its ranges: a larger lambda only makes for smaller steps.
- e(Q) takes the lesser of two terms and no account of signs, so it is also small where units are
  missed, or reversed. Dotted on the right: the greater term, with signs where the objective sees
  them (figure 1).

Times are seconds of processor time.

Run it:

    python examples/landscape_figures.py --quick --out .
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.common.typing import Array
from provenet.data.parallel import one_blas_thread
from provenet.landscape.designed import Design
from provenet.landscape.kernels import RELU_SHAPE
from provenet.landscape.losses import SampleLoss
from provenet.landscape.objectives import choose_constants
from provenet.landscape.statistics import population_statistics
from provenet.landscape.stochastic import Schedule
from provenet.networks.activations import RELU
from provenet.networks.matching import permutation_error

C_0, C_1 = (float(RELU.hermite(k, 0.0)) for k in (0, 1))
TITLES = {"l2": "squared loss of ReLU", "f2f4": "squared loss of σ₂h₂ + σ₄h₄", "G": "G"}
FLOOR = 1e-5
"""Of the axes: what is below it is as good as exact."""
LEAST_PENALTY = 0.1
"""Of the lambda that provenet takes: the least in Theorem 5.1."""


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

    @property
    def samples(self) -> int:
        """Fresh samples that a run uses."""
        return self.batch * self.schedule.steps


@dataclass(frozen=True)
class Curve:
    """One descent; an entry for every recorded step."""

    iterations: Array
    estimate: Array
    """The loss on the step's fresh batch, above the least that its population has."""
    loss: Array
    """The population's, in closed form."""
    error: Array
    """e(Q)."""
    strict: Array
    """The greater term of e(Q), with signs where the objective sees them."""
    seconds: float


@dataclass(frozen=True)
class Pass:
    """What `provenet.recover` made of one pass over samples."""

    samples: int
    error: float
    seconds: float


def settings(quick: bool) -> list[Setting]:
    """The paper's sizes, or small ones. Constant steps are about the largest that were stable."""
    names = ("l2", "f2f4", "G")
    if quick:
        sizes = [(20, 256, 3), (10, 2048, 2), (10, 16_384, 1)]  # 10 units are often found
        schedules = [
            Schedule(5000, 0.1, plateau=3000, every=400, report=30),
            Schedule(800, 0.5, plateau=600, every=50, report=5),
            Schedule(400, 0.1, plateau=280, every=30, report=4),
        ]
    else:
        sizes = [(50, 256, 5), (50, 8192, 5), (50, 262_144, 1)]
        schedules = [
            # As in the paper: after 13 divisions by 4 the last 5000 steps are less than 1e-9.
            Schedule(75_000, 0.04, plateau=10_000, every=5000, report=250),
            Schedule(5000, 0.2, plateau=3500, every=300, report=20),
            Schedule(1050, 0.05, plateau=750, every=75, report=10),
        ]
    return [
        Setting(k + 1, names[k], *sizes[k], taken_off=k, schedule=schedules[k]) for k in range(3)
    ]


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

    def on(self, X: Array, y: Array) -> pn.landscape.Objective:
        """The objective on these samples."""
        name, d = self.setting.objective, self.setting.features
        y = y - sum(part for part in [C_0 * d, C_1 * X.sum(axis=1)][: self.setting.taken_off])
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

    def strict(self, B: Array) -> float:
        """The greater term of (6.1), with signs where the objective sees them."""
        Q = B / np.linalg.norm(B, axis=1, keepdims=True)
        Q = Q if self.setting.objective == "l2" else np.abs(Q)
        return float(1 - min(Q.max(axis=1).min(), Q.max(axis=0).min()))


def run(setting: Setting, seed: int, number: int) -> Curve:
    """One descent from a random start."""
    problem, d = Problem(setting), setting.features
    draws = np.random.default_rng([seed, setting.figure, number, 1])
    start = np.random.default_rng([seed, setting.figure, number, 2]).standard_normal((d, d))
    seen: list[tuple[float, float, float]] = []

    def watch(B: Array) -> None:
        error = permutation_error(B, problem.truth.weights)
        seen.append((problem.loss(B), error, problem.strict(B)))

    begun = time.process_time()
    with one_blas_thread():
        descent = pn.landscape.descend(
            problem.on,
            lambda: pn.sample(problem.truth, setting.batch, rng=draws),
            start / np.sqrt(d),
            setting.schedule,
            watch=watch,
        )
    seconds = time.process_time() - begun
    iterations = np.array([step.samples / setting.batch for step in descent.path])
    estimate = np.array([step.value for step in descent.path]) - problem.least()
    loss, error, strict = np.array(seen).T
    return Curve(iterations, estimate, loss, error, strict, seconds)


def one_pass(features: int, samples: int, seed: int) -> Pass:
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
    )
    seconds = time.process_time() - begun
    if found.network is None:
        return Pass(samples, np.nan, seconds)
    return Pass(samples, permutation_error(found.network.weights, truth.weights), seconds)


def draw_losses(axes: Any, setting: Setting, curves: list[Curve]) -> None:
    """The estimates in colour, what they estimate in black."""
    for i, curve in enumerate(curves):
        label = "on the step's fresh batch" if i == 0 else None
        axes.plot(
            curve.iterations, curve.estimate, ".", ms=3, color=f"C{i}", alpha=0.4, label=label
        )
    for i, curve in enumerate(curves):
        label = "population, closed form" if i == 0 else None
        axes.plot(curve.iterations, curve.loss, color="k", lw=0.9, label=label)
    if setting.objective == "l2":
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(FLOOR, axes.get_ylim()[0]))
    else:  # an estimate may lie below the least of the population
        axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylabel("loss above its least")


def draw_errors(axes: Any, setting: Setting, curves: list[Curve], passes: list[Pass]) -> None:
    """e(Q) of every run, and of `provenet.recover`."""
    signs = setting.objective == "l2"
    for i, curve in enumerate(curves):
        final = f"run {i + 1}: {curve.error[-1]:.4f}"
        if signs:
            final += f" ({curve.strict[-1]:.2f} with signs)"
        axes.plot(curve.iterations, curve.error, color=f"C{i}", lw=1.4, label=final)
        axes.plot(curve.iterations, curve.strict, ":", color=f"C{i}", lw=1.2)
    label = "its greater term, with signs" if signs else "its greater term"
    axes.plot([], [], ":", color="gray", label=label)
    for ours, style in zip(passes, ("--", "-."), strict=False):
        label = f"recover, {ours.samples:,} samples: {ours.error:.4f} ({ours.seconds:.0f} s)"
        axes.axhline(ours.error, color="k", ls=style, lw=1.2, label=label)
    axes.set_yscale("log")
    axes.set_ylim(bottom=max(FLOOR, axes.get_ylim()[0]))
    axes.set_ylabel("e(Q)")


def draw(plt: Any, setting: Setting, curves: list[Curve], passes: list[Pass], output: Path) -> None:
    """Loss on the left, error on the right, against iterations and samples."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    draw_losses(left, setting, curves)
    draw_errors(right, setting, curves, passes)
    for axes in (left, right):
        if setting.objective == "l2":  # most of it happens early
            axes.set_xscale("log")
            axes.set_xlim(left=setting.schedule.report)
        axes.set_xlabel("iterations")
        scale = (lambda t: t * setting.batch, lambda n: n / setting.batch)
        axes.secondary_xaxis("top", functions=scale).set_xlabel("samples used")
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(framealpha=0.85, fontsize=8)
    seconds = np.mean([curve.seconds for curve in curves])
    figure.suptitle(
        f"GLM17, figure {setting.figure}: {TITLES[setting.objective]}, {setting.features} units, "
        f"batches of {setting.batch:,}: {setting.samples:.2g} samples and {seconds:.0f} s a run",
        size=11,
    )
    figure.savefig(output, dpi=130)
    plt.close(figure)


def reproduce(plt: Any, setting: Setting, passes: list[Pass], seed: int, output: Path) -> None:
    """Run, say what came out, and draw."""
    curves = []
    for number in range(setting.runs):
        curve = run(setting, seed, number)
        curves.append(curve)
        sys.stdout.write(
            f"Figure {setting.figure}, run {number + 1}: loss {curve.loss[-1]:.2e}, "
            f"e(Q) {curve.error[-1]:.4f}, greater term {curve.strict[-1]:.4f}, "
            f"{setting.samples:.2e} samples, {curve.seconds:.0f} s\n"
        )
        sys.stdout.flush()
    draw(plt, setting, curves, passes, output)
    sys.stdout.write(f"Picture: {output}\n")


def compare(features: int, sizes: tuple[int, int], seed: int) -> list[Pass]:
    """`provenet.recover` from so many samples."""
    passes = [one_pass(features, samples, seed) for samples in sizes]
    for ours in passes:
        sys.stdout.write(
            f"One pass over {ours.samples:,} samples: e(Q) {ours.error:.4f}, {ours.seconds:.0f} s\n"
        )
    return passes


def main(arguments: list[str] | None = None) -> int:
    """Draw the figures that were asked for."""
    parser = argparse.ArgumentParser(description="Figures 1 to 3 of GLM17.")
    parser.add_argument(
        "--quick", action="store_true", help="10 or 20 units, half a minute at most"
    )
    parser.add_argument("--figure", choices=["1", "2", "3", "all"], default="all")
    parser.add_argument("--runs", type=int, help="of each figure; 5, 5 and 1 if left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the pictures")
    options = parser.parse_args(arguments)
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        sys.stderr.write("This example draws with matplotlib: pip install matplotlib\n")
        return 1
    chosen = [s for s in settings(options.quick) if options.figure in ("all", str(s.figure))]
    sizes = (10_000, 100_000) if options.quick else (100_000, 1_000_000)
    beside = any(s.figure > 1 for s in chosen)
    passes = compare(chosen[-1].features, sizes, options.seed) if beside else []
    options.out.mkdir(parents=True, exist_ok=True)
    for setting in chosen:
        own = replace(setting, runs=options.runs or setting.runs)
        output = options.out / f"landscape_figure_{setting.figure}.png"
        reproduce(plt, own, passes if setting.figure > 1 else [], options.seed, output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
