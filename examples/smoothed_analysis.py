"""A little chance in the weights makes hard networks easy (ATV21, appendix E).

An adversary chooses a network with two nearly parallel units: s_min of its weights is tiny, and
moments can hardly tell the two apart. Then every weight is perturbed by a normal number of variance
tau^2 / features, so that a unit moves by about tau (Corollary 3.3). This script draws, against tau,

- s_min of the perturbed weights, rows of norm 1, which at first grows in proportion to tau;
- the parameter error of the moments alone ("biased-relu" without refinement), which is of no use
  until s_min is large enough for the samples;
- that of "expand-prune", least squares, which is no theorem's.

A point is the median over networks; where half of them or more were not recovered at all (the wrong
number of units, or none) it has no point, and the share that was is printed.

Run it (about ten seconds with --quick, a minute or less without):

    python examples/smoothed_analysis.py --quick --output smoothed_analysis.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.common.typing import Array
from provenet.methods.applicability import normalised_rows, smallest_singular_value

FEATURES, UNITS = 8, 4
NEARLY_PARALLEL = 1e-3
SAMPLES = {"biased-relu": 200_000, "expand-prune": 1_000}


@dataclass(frozen=True)
class Point:
    """What one tau gave, a row a network."""

    tau: float
    least: Array
    """s_min of the weights."""
    errors: dict[str, Array]
    """Parameter error of each method; infinite where nothing like the network was found."""


def adversarial(rng: np.random.Generator) -> pn.Network:
    """A random network whose second unit nearly repeats the direction of the first."""
    network = pn.random_network(UNITS, FEATURES, rng=rng)
    W = network.weights.copy()
    W[1] = W[0] + NEARLY_PARALLEL * W[1]
    return network.replace(weights=W, biases=np.linspace(-0.8, 0.8, UNITS))


def perturbed(network: pn.Network, tau: float, rng: np.random.Generator) -> pn.Network:
    """Independent normal numbers of variance `tau^2 / features` on all weights."""
    noise = rng.standard_normal(network.weights.shape) * tau / np.sqrt(network.features)
    return network.replace(weights=network.weights + noise)


def recovery_error(network: pn.Network, method: str, seed: int) -> float:
    """Parameter error of a method on samples without noise; of the moments before refinement."""
    X, y = pn.sample(network, SAMPLES[method], rng=seed)
    moments = method == "biased-relu"
    found = pn.recover(
        X, y, units=UNITS, method=method, refine=not moments, rng=seed, budget=5.0
    ).network
    return np.inf if found is None else pn.parameter_error(found, network)


def measure(taus: Array, networks: int, seed: int) -> Iterator[Point]:
    """One point a tau, each with the same adversary's networks."""
    for tau in taus:
        least: list[float] = []
        errors: dict[str, list[float]] = {method: [] for method in SAMPLES}
        for k in range(networks):
            rng = np.random.default_rng([seed, k])
            network = perturbed(adversarial(rng), tau, rng)
            least.append(smallest_singular_value(normalised_rows(network.weights)))
            for method, found in errors.items():
                found.append(recovery_error(network, method, seed + k))
        yield Point(tau, np.array(least), {m: np.array(found) for m, found in errors.items()})


def draw(plt: Any, points: Sequence[Point], output: Path) -> None:
    """Medians of s_min and of the errors against tau, and every network as a dot."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained")
    taus = np.array([point.tau for point in points])
    _curve(left, taus, [point.least for point in points], "s_min")
    left.loglog(
        taus, taus * np.median(points[0].least) / taus[0], "k:", label="proportional to tau"
    )
    left.set_ylabel("s_min of the weights")
    labels = {"biased-relu": "moments alone", "expand-prune": "least squares (expand-prune)"}
    for method, n in SAMPLES.items():
        label = f"{labels[method]}, {n:,} samples"
        _curve(right, taus, [point.errors[method] for point in points], label)
    right.set_ylabel("parameter error")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("perturbation tau")
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(frameon=False)
    figure.suptitle("Smoothed analysis: two nearly parallel units, perturbed (ATV21)", size=11)
    figure.savefig(output, dpi=150)


def _curve(axes: Any, taus: Array, values: Sequence[Array], label: str) -> None:
    medians = np.array([np.median(v) for v in values])
    (line,) = axes.plot(taus, np.where(np.isfinite(medians), medians, np.nan), "o-", label=label)
    for tau, each in zip(taus, values, strict=True):
        finite = each[np.isfinite(each)]
        axes.plot(np.full(len(finite), tau), finite, ".", color=line.get_color(), alpha=0.35)


def main() -> int:
    """Measure, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="s_min and recovery error against tau (ATV21, E).")
    parser.add_argument("--quick", action="store_true", help="fewer networks, some seconds")
    parser.add_argument("--output", type=Path, default=Path("smoothed_analysis.png"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        sys.stderr.write("This example draws with matplotlib: pip install matplotlib\n")
        return 1
    taus, networks = (
        (np.geomspace(0.01, 1, 3), 3) if options.quick else (np.geomspace(0.01, 1, 7), 7)
    )
    points = []
    for point in measure(taus, networks, options.seed):
        points.append(point)
        found = ", ".join(
            f"{method} {np.median(error):.1e} ({np.isfinite(error).sum()} of {len(error)} found)"
            for method, error in point.errors.items()
        )
        sys.stdout.write(f"tau {point.tau:.3g}: s_min {np.median(point.least):.2g}; {found}\n")
        sys.stdout.flush()
    draw(plt, points, options.output)
    sys.stdout.write(f"Picture: {options.output}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
