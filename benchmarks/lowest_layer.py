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

import numpy as np
from scipy.optimize import linear_sum_assignment

import provenet as pn
from common import machine, markdown_head, markdown_row
from provenet.datasets import random_layered
from provenet.typing import Array

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


def trial(
    condition: float, seed: int, samples: int, activation: str
) -> tuple[tuple[object, ...], bool]:
    """One line of the table, and whether the seed passed."""
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
    passed = angles[0] <= WITHIN[0] and angles[1] <= WITHIN[1]
    cells = (
        f"{condition:g}",
        seed,
        f"{angles[0]:.2f}",
        f"{seconds[0]:.1f}",
        f"{angles[1]:.1e}",
        status,
        f"{seconds[1]:.1f}",
        "yes" if passed else "no",
    )
    return cells, passed


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
            cells, passed = trial(condition, seed, args.samples, args.activation)
            passes += passed
            print(markdown_row(cells), flush=True)
        print(f"\nCondition {condition:g}: {passes} of {args.seeds} passed.\n")


if __name__ == "__main__":
    main()
