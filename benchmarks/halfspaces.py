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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.neural_network import MLPClassifier

import provenet as pn
from common import Record, machine, markdown_head, markdown_row
from provenet.common.typing import Array
from provenet.networks.layered import LayeredNetwork, intersection, lowest_layer, union

FEATURES, UNITS, THRESHOLD = 20, 10, 2.5
LARGEST_COSINE = 0.5
FRESH = 1_000_000
WIDER = 5
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


def accuracy(network: Callable[[Array], Array], truth: LayeredNetwork, seed: int) -> float:
    """Share of fresh samples with the true label."""
    X = np.random.default_rng([seed, 2]).standard_normal((FRESH, FEATURES))
    return float(np.mean(network(X) == truth(X)))


@dataclass(frozen=True)
class Trial:
    """What one seed gave."""

    cells: tuple[object, ...]
    """A line of the table."""
    passed: bool
    seconds: float
    accuracy: float


def samples_of(truth: LayeredNetwork, seed: int, samples: int) -> tuple[Array, Array]:
    """Gaussian inputs and their labels."""
    X = np.random.default_rng([seed, 1]).standard_normal((samples, FEATURES))
    return X, truth(X)


def trial(seed: int, samples: int, unequal: bool, convex: bool) -> Trial:
    """Recover once."""
    truth = problem(seed, unequal, convex)
    X, y = samples_of(truth, seed, samples)
    begin = time.perf_counter()
    answer = pn.recover(X, y, method="halfspaces", rng=seed)
    seconds = time.perf_counter() - begin
    del X, y
    if answer.network is None or answer.layered is None or answer.layer is None:
        return Trial((seed, answer.status.value, 0, *["-"] * 5, "no"), False, seconds, 0.0)
    off = errors(answer.network, truth.layer)
    share = accuracy(answer.layered, truth, seed)
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
    return Trial(cells, passed, seconds, share)


def perceptron(seed: int, samples: int, seconds: float) -> float:
    """Accuracy of scikit-learn's MLPClassifier, of five times the width, after as long."""
    truth = problem(seed, False, False)
    X, y = samples_of(truth, seed, samples)
    model = MLPClassifier((WIDER * UNITS,), random_state=seed)
    deadline = time.monotonic() + seconds
    while True:
        model.partial_fit(X, y.astype(int), classes=[0, 1])
        if time.monotonic() > deadline:
            return accuracy(model.predict, truth, seed)


def run(quick: bool) -> list[Record]:
    """For the suite: wrong labels a million beside those of a wider perceptron."""
    records = []
    for seed in range(1 if quick else 10):
        samples = 200_000 if quick else 1_000_000
        ours = trial(seed, samples, unequal=False, convex=False)
        theirs = perceptron(seed, samples, ours.seconds)
        name = f"{FEATURES} features, {UNITS} halfspaces, {samples:.0e} samples, seed {seed}"
        wrong, reference = (FRESH * (1 - share) for share in (ours.accuracy, theirs))
        unit = "of a million fresh labels"
        records.append(Record(f"{name}: wrong", wrong, unit, "MLPClassifier, as long", reference))
    return records


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
        found = trial(seed, args.samples, args.unequal, args.intersection)
        passes += found.passed
        print(markdown_row(found.cells), flush=True)
    print(f"\nPassed: {passes} of {args.seeds}. To pass: 9 of 10.")


if __name__ == "__main__":
    main()
