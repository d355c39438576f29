"""Success rate and time with several hidden layers, beside what a user would pick instead.

    python benchmarks/layers.py                        # every row, all its seeds: hours
    python benchmarks/layers.py --rows tanh:10;5,3 --seeds 5 --peers
    python benchmarks/layers.py --list

A row is named by its activation, features and widths. The hidden network has in every layer random
directions as weights, of norms uniform from 0.8 to 2.5, and biases within 0.5 of zero; widths are
not told. Rivals are told them and have as long: scikit-learn's MLPRegressor (ReLU and tanh), and
Levenberg-Marquardt from random starts. Without noise a success has every parameter to 1e-8; with
noise it predicts fresh samples within 1.05 times the error of least squares from the truth. Prints
a Markdown table; `--out FILE` also writes every trial as JSON. See README.md beside this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import provenet as pn
from common import INPUTS, Line, Problem
from trials import Answer, Exact, Row, Target, Verdict, fitted_from, main, suite_lines

FRESH = 5000
LEVENBERG_MARQUARDT = "Levenberg-Marquardt"
PEERS = ("MLPRegressor lbfgs", LEVENBERG_MARQUARDT)
IN_SCIKIT_LEARN = ("relu", "tanh", "sigmoid")
BUDGET = 60.0


@dataclass(frozen=True)
class Layers(Row):
    """One line of the table."""

    widths: tuple[int, ...] = ()
    outputs: int | None = None
    noise: float = 0.0

    @property
    def layers(self) -> int:
        """Hidden layers, which `recover` is told."""
        return len(self.widths)

    def problem(self, seed: int) -> Problem:
        """The hidden network of a seed and its samples."""
        rng = np.random.default_rng([seed, self.features, *self.widths, self.samples])
        truth = pn.random_network(
            self.widths, self.features, outputs=self.outputs, activation=self.activation, rng=rng
        )
        X = INPUTS[self.inputs](rng, (self.samples, self.features))
        y = truth(X)
        if self.noise:
            y = y + self.noise * rng.standard_normal(y.shape)
        return Problem(truth, X, y, INPUTS[self.inputs](rng, (FRESH, self.features)))

    def for_peer(self, name: str) -> bool:
        """Whether a rival has such units and serves so many outputs."""
        return self.outputs is None and (
            name == LEVENBERG_MARQUARDT or self.activation in IN_SCIKIT_LEARN
        )


@dataclass(frozen=True)
class PredictsAsWell:
    """An error on fresh samples, without their noise, as small as that of least squares."""

    limit: float = 1.05

    def __call__(self, problem: Problem, answer: Answer, error: float) -> Verdict:
        """Compare with least squares on the same samples, started at the truth."""
        if answer.network is None:
            return Verdict(False, float("inf"))
        best = problem.relative_residual(fitted_from(problem.truth, problem.X, problem.y))
        ratio = problem.relative_residual(answer.network) / best
        return Verdict(ratio <= self.limit, ratio)


def line(
    activation: str,
    features: int,
    widths: tuple[int, ...],
    samples: int,
    seeds: int,
    must: str,
    note: str = "",
    *,
    inputs: str = "gauss",
    outputs: int | None = None,
    noise: float = 0.0,
    aim: bool = False,
) -> Layers:
    """A row named by its activation, features and widths, and a note."""
    target: Target = PredictsAsWell() if noise else Exact()
    name = f"{activation}:{features};{','.join(map(str, widths))}" + (f";{note}" if note else "")
    return Layers(
        name,
        features,
        sum(widths),
        samples,
        seeds,
        must,
        inputs,
        "deep",
        activation,
        target,
        aim,
        widths,
        outputs,
        noise,
    )


ROWS = {
    row.name: row
    for row in (
        line("tanh", 10, (5, 3), 1000, 20, "19 of 20 under 5 s"),
        line("tanh", 20, (16, 8), 6000, 20, "17 of 20 under 60 s"),
        line("relu", 10, (8, 4), 6000, 20, "17 of 20 under 60 s"),
        line("relu", 20, (16, 8), 20_000, 20, "12 of 20 under 300 s (--budget 300)"),
        line("tanh", 10, (6, 5, 3), 4000, 20, "15 of 20"),
        line("gelu", 10, (8, 4), 6000, 20, "a row"),
        line("silu", 10, (8, 4), 6000, 20, "a row"),
        line("tanh", 10, (8, 4), 2000, 20, "a row", "2 outputs", outputs=2),
        line("tanh", 10, (8, 4), 2000, 20, "a row", "uniform", inputs="uniform"),
        line("relu", 10, (8, 4), 6000, 20, "a row", "uniform", inputs="uniform"),
        line("tanh", 10, (8, 4), 3000, 10, "9 of 10, ratio <= 1.05", "noise", noise=0.01),
        line("relu", 10, (8, 4), 6000, 10, "9 of 10, ratio <= 1.05", "noise", noise=0.01),
        line("tanh", 20, (16, 8), 2400, 20, "5 samples a parameter", "few samples", aim=True),
    )
}

COLUMNS = "activation: features; widths"
RIVALLED = ("tanh:10;5,3", "relu:10;8,4", "tanh:20;16,8")


def run(quick: bool) -> list[Line]:
    """For the suite: all that must hold, on as many seeds as it must hold for."""
    if quick:
        rows = [ROWS[name] for name in RIVALLED[:1]]
        return list(suite_lines(COLUMNS, rows, PEERS, RIVALLED, seeds=3, budget=BUDGET))
    rows = [row for row in ROWS.values() if not row.aim]
    return list(suite_lines(COLUMNS, rows, PEERS, RIVALLED, budget=BUDGET))


if __name__ == "__main__":
    main(__doc__.partition("\n")[0], COLUMNS, ROWS, PEERS, budget=BUDGET)
