"""A union of halfspaces from 0/1 labels: normals, offsets, accuracy and time, seed by seed.

    python benchmarks/halfspaces.py                       # 10 seeds of a million samples
    python benchmarks/halfspaces.py --seeds 3 --samples 200000 --unequal --intersection

Normals are random with pairwise |cos| of at most 0.5; thresholds are all 2.5, or spread evenly from
2 to 3. A seed passes with every normal within 1 degree and an accuracy of at least 0.999 on a
million fresh samples. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

import provenet as pn
from common import machine, markdown_head, markdown_row
from provenet.layered import LayeredNetwork, intersection, lowest_layer, union
from provenet.typing import Array

FEATURES, UNITS, THRESHOLD = 20, 10, 2.5
LARGEST_COSINE = 0.5
FRESH = 1_000_000
WITHIN, ACCURACY = 1.0, 0.999
TITLES = (
    "seed",
    "status",
    "found",
    "worst angle (degrees)",
    "largest standard error (degrees)",
    "worst offset error",
    "accuracy",
    "seconds",
    "passed",
)


def separated_normals(rng: np.random.Generator) -> Array:
    """Random unit rows, drawn again where they are too close to one before."""
    W = np.empty((0, FEATURES))
    while len(W) < UNITS:
        w = rng.standard_normal(FEATURES)
        w /= np.linalg.norm(w)
        if np.max(np.abs(W @ w), initial=0.0) <= LARGEST_COSINE:
            W = np.vstack([W, w])
    return W


def problem(seed: int, unequal: bool, convex: bool) -> LayeredNetwork:
    """The hidden halfspaces; those of an intersection hold the origin."""
    W = separated_normals(np.random.default_rng(seed))
    t = np.linspace(2.0, 3.0, UNITS) if unequal else np.full(UNITS, THRESHOLD)
    if convex:
        return LayeredNetwork(lowest_layer(W, -t, "step"), intersection)
    return LayeredNetwork(lowest_layer(W, t, "step"), union)


@dataclass(frozen=True)
class Errors:
    """Of the normals that could be matched, the worst; in degrees, and in the offset."""

    angle: float
    offset: float


def errors(found: pn.Network, truth: pn.Network) -> Errors:
    """After matching each true halfspace with one that was found."""
    rows, columns = linear_sum_assignment(-(found.weights @ truth.weights.T))
    if len(rows) < truth.units:
        return Errors(np.inf, np.inf)
    apart = np.linalg.norm(found.weights[rows] - truth.weights[columns], axis=1)
    angle = np.degrees(2 * np.arcsin(np.minimum(apart / 2, 1.0))).max()
    return Errors(float(angle), float(np.abs(found.biases[rows] - truth.biases[columns]).max()))


def accuracy(network: LayeredNetwork, truth: LayeredNetwork, rng: np.random.Generator) -> float:
    """Share of fresh samples with the true label."""
    X = rng.standard_normal((FRESH, FEATURES))
    return float(np.mean(network(X) == truth(X)))


def trial(seed: int, samples: int, unequal: bool, convex: bool) -> tuple[tuple[object, ...], bool]:
    """One line of the table, and whether the seed passed."""
    truth = problem(seed, unequal, convex)
    rng = np.random.default_rng([seed, 1])
    X = rng.standard_normal((samples, FEATURES))
    y = truth(X)
    begin = time.perf_counter()
    answer = pn.recover(X, y, method="halfspaces", rng=seed)
    seconds = time.perf_counter() - begin
    del X, y
    if answer.network is None or answer.layered is None or answer.layer is None:
        return (seed, answer.status.value, 0, *["-"] * 5, "no"), False
    off = errors(answer.network, truth.layer)
    share = accuracy(answer.layered, truth, rng)
    passed = answer.network.units == UNITS and off.angle <= WITHIN and share >= ACCURACY
    cells = (
        seed,
        answer.status.value,
        answer.network.units,
        f"{off.angle:.3f}",
        f"{np.degrees(answer.layer.angle_errors.max()):.3f}",
        f"{off.offset:.1e}",
        f"{share:.6f}",
        f"{seconds:.1f}",
        "yes" if passed else "no",
    )
    return cells, passed


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--unequal", action="store_true", help="thresholds from 2 to 3")
    parser.add_argument("--intersection", action="store_true")
    args = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    print(f"{FEATURES} features, {UNITS} halfspaces, {args.samples} samples\n")
    print(markdown_head(TITLES), flush=True)
    passes = 0
    for seed in range(args.seeds):
        cells, passed = trial(seed, args.samples, args.unequal, args.intersection)
        passes += passed
        print(markdown_row(cells), flush=True)
    print(f"\nPassed: {passes} of {args.seeds}. To pass: 9 of 10.")


if __name__ == "__main__":
    main()
