"""The lowest layer under sums and products of its units: directions after step 1 and after step 2.

    python benchmarks/lowest_layer.py                       # ReLU, 10 seeds, condition 1 and 3
    python benchmarks/lowest_layer.py --activation step --seeds 3 --samples 300000

The top is `sum X_i + sum c_ij X_i X_j`, |c_ij| <= 1; 10 features, 10 units, threshold 2. A seed
passes with every direction within 5 degrees after step 1 and within 0.5 after step 2. Prints a
Markdown table.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

import provenet as pn
from common import Record, finite, machine, markdown_head, markdown_row
from provenet.common.typing import Array
from provenet.datasets import random_layered

SIZE, THRESHOLD = 10, 2.0
WITHIN = (5.0, 0.5)
TITLES = (
    "condition",
    "seed",
    "step 1 (degrees)",
    "step 1 (s)",
    "step 2 (degrees)",
    "status",
    "both steps (s)",
    "passed",
)


def worst_angle(found: pn.Network | None, truth: Array) -> float:
    """The largest angle, in degrees, after matching; infinite if units are missing."""
    if found is None or found.units != len(truth):
        return np.inf
    W = found.weights / np.linalg.norm(found.weights, axis=1, keepdims=True)
    rows, columns = linear_sum_assignment(-(W @ truth.T))
    apart = np.linalg.norm(W[rows] - truth[columns], axis=1)
    return float(np.degrees(2 * np.arcsin(np.minimum(apart / 2, 1.0))).max())


@dataclass(frozen=True)
class Trial:
    """What one seed gave: after step 1 alone, and after both steps."""

    condition: float
    seed: int
    angles: tuple[float, ...]
    seconds: tuple[float, ...]
    status: str

    @property
    def passed(self) -> bool:
        """Whether every direction is near enough, after either."""
        return all(angle <= most for angle, most in zip(self.angles, WITHIN, strict=True))

    @property
    def cells(self) -> tuple[object, ...]:
        """A line of the table."""
        return (
            f"{self.condition:g}",
            self.seed,
            f"{self.angles[0]:.2f}",
            f"{self.seconds[0]:.1f}",
            f"{self.angles[1]:.1e}",
            self.status,
            f"{self.seconds[1]:.1f}",
            "yes" if self.passed else "no",
        )


def trial(condition: float, seed: int, samples: int, activation: str) -> Trial:
    """Recover twice: with step 1 alone and with both."""
    truth = random_layered(
        SIZE, SIZE, threshold=THRESHOLD, condition=condition, activation=activation, rng=seed
    )
    X = np.random.default_rng([seed, 1]).standard_normal((samples, SIZE))
    y = truth(X)
    angles, seconds, status = [], [], ""
    for refine in (False, True):
        begin = time.perf_counter()
        answer = pn.recover(
            X, y, method="lowest-layer", activation=activation, refine=refine, rng=seed
        )
        seconds.append(time.perf_counter() - begin)
        angles.append(worst_angle(answer.network, truth.layer.weights))
        status = answer.status.value
    return Trial(condition, seed, tuple(angles), tuple(seconds), status)


def run(quick: bool) -> list[Record]:
    """For the suite: both steps beside the first alone."""
    samples, seeds = (500_000, 1) if quick else (2_000_000, 10)
    records = []
    for condition in (1.0,) if quick else (1.0, 3.0):
        for seed in range(seeds):
            found = trial(condition, seed, samples, "relu")
            name = f"{SIZE} ReLU units, condition {condition:g}, {samples:.0e}, seed {seed}"
            for what, unit, (first, both) in (
                ("worst angle", "degrees", found.angles),
                ("time", "s", found.seconds),
            ):
                values = finite(both), unit, "step 1 alone", finite(first)
                records.append(Record(f"{name}: {what}", *values))
    return records


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--activation", default="relu")
    args = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    print(f"{SIZE} features, {SIZE} {args.activation} units, {args.samples} samples\n")
    print(markdown_head(TITLES), flush=True)
    for condition in (1.0, 3.0):
        passes = 0
        for seed in range(args.seeds):
            found = trial(condition, seed, args.samples, args.activation)
            passes += found.passed
            print(markdown_row(found.cells), flush=True)
        print(f"\nCondition {condition:g}: {passes} of {args.seeds} passed.\n")


if __name__ == "__main__":
    main()
