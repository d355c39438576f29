"""Success rate and time with smooth units, beside what a user would pick instead.

    python benchmarks/activations.py                      # every row, all its seeds: hours
    python benchmarks/activations.py --rows tanh:10,5,400 --seeds 5 --peers
    python benchmarks/activations.py --rows elu:20,10,1e3 gelu:20,10,500
    python benchmarks/activations.py --list

A row is named by its activation and by features, units and samples. The hidden network has random
directions as weights, of norms uniform from 0.5 to 3 (or as the row says), biases within 1 of zero,
|a| in [0.5, 1.5] with random signs, standard normal ones for several outputs, and an output bias.
Rivals are told the width and have as long: scikit-learn's MLPRegressor (tanh and logistic), and
Levenberg-Marquardt from random starts. Prints a Markdown table; `--out FILE` also writes every
trial as JSON. See README.md beside this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import provenet as pn
from common import INPUTS, Line, Problem
from trials import LARGEST_FOR_PEERS, AsGoodAsLeastSquares, Exact, Row, Target, main, suite_lines

NORMS = (0.5, 3.0)
FRESH = 5000
LEVENBERG_MARQUARDT = "Levenberg-Marquardt"
PEERS = ("MLPRegressor lbfgs", "MLPRegressor adam", LEVENBERG_MARQUARDT)
IN_SCIKIT_LEARN = ("tanh", "sigmoid")
ALL = ("tanh", "sigmoid", "erf", "gelu", "gelu_tanh", "silu", "softplus", "elu", "sin")
BUDGET = 60.0


@dataclass(frozen=True)
class SmoothUnits(Row):
    """One line of the table."""

    norms: tuple[float, float] = NORMS
    outputs: int | None = None
    noise: float = 0.0
    is_told: bool = True
    """Whether `recover` is told the activation."""

    def problem(self, seed: int) -> Problem:
        """The hidden network of a seed and its samples."""
        rng = np.random.default_rng([seed, self.features, self.units, self.samples])
        truth = self._network(seed, rng)
        X = INPUTS[self.inputs](rng, (self.samples, self.features))
        y = truth(X)
        if self.noise:
            y = y + self.noise * rng.standard_normal(y.shape)
        return Problem(truth, X, y, INPUTS[self.inputs](rng, (FRESH, self.features)))

    def _network(self, seed: int, rng: np.random.Generator) -> pn.Network:
        network = pn.random_network(
            self.units, self.features, outputs=self.outputs, activation=self.activation, rng=seed
        )
        directions = network.weights / np.linalg.norm(network.weights, axis=1, keepdims=True)
        norms = rng.uniform(*self.norms, (self.units, 1))
        bias = rng.uniform(-1.0, 1.0, self.outputs)
        return network.replace(weights=norms * directions, output_bias=bias)

    @property
    def told(self) -> str:
        """The activation, or that it is to be found."""
        return self.activation if self.is_told else "auto"

    def for_peer(self, name: str) -> bool:
        """Whether a rival has such units and serves so many outputs and samples."""
        if self.features * self.samples > LARGEST_FOR_PEERS:
            return False
        if name == LEVENBERG_MARQUARDT:
            return self.outputs is None
        return self.activation in IN_SCIKIT_LEARN

    def error(self, network: pn.Network | Any, truth: pn.Network | Any) -> float:
        """How far parameters are off; logistic units and tanh units are the same networks."""
        return super().error(network and as_tanh(network), as_tanh(truth))


def as_tanh(network: pn.Network) -> pn.Network:
    """`sigmoid(z) = (1 + tanh(z/2)) / 2`; other networks stay as they are."""
    if network.activation.name != "sigmoid":
        return network
    half = network.output_weights / 2
    return pn.Network(
        network.weights / 2,
        network.biases / 2,
        half,
        network.output_bias + half.sum(axis=-1),
        activation="tanh",
    )


def line(
    activation: str,
    sizes: tuple[int, int, int],
    seeds: int,
    must: str,
    note: str = "",
    *,
    inputs: str = "gauss",
    norms: tuple[float, float] = NORMS,
    outputs: int | None = None,
    noise: float = 0.0,
    is_told: bool = True,
    aim: bool = False,
) -> SmoothUnits:
    """A row of (features, units, samples), named by its activation, these, and a note."""
    target: Target = AsGoodAsLeastSquares() if noise else Exact()
    samples = f"{sizes[2]:.1e}".replace(".0", "").replace("e+0", "e")
    return SmoothUnits(
        f"{activation}:{sizes[0]},{sizes[1]},{samples if sizes[2] >= 1000 else sizes[2]}"
        + (f",{note}" if note else ""),
        *sizes,
        seeds,
        must,
        inputs,
        "expand-prune",
        activation,
        target,
        aim,
        norms,
        outputs,
        noise,
        is_told,
    )


SMALL, MIDDLE, FEW = (10, 5, 400), (20, 10, 1000), (20, 10, 500)
A_ROW = "a row"
ROWS = {
    row.name: row
    for row in (
        *(line(name, SMALL, 20, "20 of 20") for name in ALL),
        *(line(name, MIDDLE, 20, "19 of 20, median under 2 s") for name in ALL if name != "elu"),
        line("elu", MIDDLE, 20, "18 of 20, median under 5 s"),
        *(line(name, FEW, 20, "16 of 20") for name in ("tanh", "gelu")),
        *(
            line("tanh", MIDDLE, 20, A_ROW, inputs, inputs=inputs)
            for inputs in ("uniform", "student-t", "integers")
        ),
        line("tanh", MIDDLE, 20, A_ROW, "5 outputs", outputs=5),
        line("tanh", MIDDLE, 20, A_ROW, "norms to 8", norms=(0.5, 8.0)),
        line("tanh", MIDDLE, 20, "partial is honest", "norms 0.1 to 0.5", norms=(0.1, 0.5)),
        *(line(name, (50, 25, 5000), 5, "5 of 5, under 60 s") for name in ("tanh", "gelu")),
        line("tanh", (100, 50, 25_500), 3, "2 of 3, under 600 s (--budget 600)", aim=True),
        *(
            line(name, (20, 10, 3000), 10, "9 of 10, ratio <= 1.1", "noise", noise=0.01)
            for name in ("tanh", "gelu")
        ),
        *(
            line(name, (20, 10, 1500), 10, "9 of 10, under 30 s", "not told", is_told=False)
            for name in ALL
        ),
    )
}


COLUMNS = "activation: features, units, samples"
RIVALLED = (
    "tanh:10,5,400",
    "gelu:10,5,400",
    "elu:10,5,400",
    *(f"{name}:20,10,1e3" for name in ("tanh", "sigmoid", "gelu", "softplus")),
)


def run(quick: bool) -> list[Line]:
    """For the suite: all that must hold, on as many seeds as it must hold for."""
    if quick:
        rows = [ROWS[name] for name in RIVALLED[:3]]
        return list(suite_lines(COLUMNS, rows, PEERS[::2], RIVALLED, seeds=3, budget=BUDGET))
    rows = [row for row in ROWS.values() if not row.aim]
    return list(suite_lines(COLUMNS, rows, PEERS, RIVALLED, budget=BUDGET))


if __name__ == "__main__":
    main(__doc__.partition("\n")[0], COLUMNS, ROWS, PEERS, budget=BUDGET)
