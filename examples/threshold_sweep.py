"""How high must thresholds be for the lowest layer to show in moments?

GP19, Lemma 2: the moments of a layer of units under a polynomial are those of the linear part
`f_lin` of that polynomial, but for `E|f - f_lin|`, which high thresholds make small. On the other
hand high thresholds make units fire rarely, and sampling error grows. This script hides ReLU units
(orthonormal weights) under `sum X_i + sum c_ij X_i X_j`, |c_ij| <= 1, sweeps the threshold and the
number of features, and draws

- the worst angle after step 1 (moments) and after step 2 (labels where units fire),
- beside `E|f - f_lin| / E|f_lin|`, measured.

Run it (ten seconds with --quick, a few minutes without):

    python examples/threshold_sweep.py --quick --output threshold_sweep.png
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.common.typing import Array
from provenet.datasets import random_layered
from provenet.networks.layered import LayeredNetwork, Polynomial, unit_values

EXACT = 1e-6
"""Degrees that an angle is drawn at if it is smaller."""


@dataclass(frozen=True)
class Point:
    """What was seen at one threshold."""

    threshold: float
    step_1: float
    """Worst angle in degrees; not a number if nothing was found."""
    step_2: float
    nonlinear: float
    """`E|f - f_lin| / E|f_lin|`."""


def worst_angle(result: pn.Recovery, truth: Array) -> float:
    """In degrees; not a number where units are missing."""
    if result.network is None or result.network.units != len(truth):
        return float("nan")
    W = result.network.weights
    apart = np.linalg.norm(W[:, None] - truth, axis=2).min(axis=0)
    return max(float(np.degrees(2 * np.arcsin(np.minimum(apart / 2, 1.0))).max()), EXACT)


def nonlinear_share(network: LayeredNetwork, X: Array) -> float:
    """`E|f - f_lin| / E|f_lin|` on some samples."""
    assert isinstance(network.top, Polynomial)
    H = unit_values(network.layer, X)
    linear = H @ network.top.linear
    return float(np.mean(np.abs(network.top(H) - linear)) / np.mean(np.abs(linear)))


def measure(size: int, threshold: float, samples: int, seed: int) -> Point:
    """One hidden layer, recovered without and with step 2."""
    network = random_layered(size, size, threshold=threshold, rng=seed)
    X = np.random.default_rng([seed, 1]).standard_normal((samples, size))
    y = network(X)

    def angle(refine: bool) -> float:
        found = pn.recover(X, y, units=size, method="lowest-layer", refine=refine, rng=seed)
        return worst_angle(found, network.layer.weights)

    return Point(threshold, angle(refine=False), angle(refine=True), nonlinear_share(network, X))


def draw(plt: Any, sweeps: dict[int, list[Point]], samples: int, output: Path) -> None:
    """Angles above, the size of what is not linear below."""
    figure, (angles, share) = plt.subplots(
        2, 1, figsize=(7.5, 7.0), sharex=True, layout="constrained", height_ratios=(2, 1)
    )
    for colour, (size, points) in zip(
        plt.cm.viridis((0.1, 0.5, 0.8)), sweeps.items(), strict=False
    ):
        t = [p.threshold for p in points]
        style = {"color": colour, "marker": "o", "ms": 4}
        angles.semilogy(t, [p.step_1 for p in points], **style, label=f"step 1, d = {size}")
        angles.semilogy(
            t, [p.step_2 for p in points], **style, ls="--", label=f"step 2, d = {size}"
        )
        share.semilogy(t, [p.nonlinear for p in points], **style, label=f"d = {size}")
    angles.set_ylabel("worst angle (degrees)")
    angles.text(0.01, 0.02, f"{EXACT:g}: exact", transform=angles.transAxes, size=8)
    share.set_ylabel("E|f - f_lin| / E|f_lin|")
    share.set_xlabel("threshold t")
    for axes in (angles, share):
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"ReLU units under sums and products, {samples:,} samples (GP19)", size=11)
    figure.savefig(output, dpi=150)


def main() -> int:
    """Sweep, print, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Errors against the threshold (GP19, Lemma 2).")
    parser.add_argument("--quick", action="store_true", help="fewer samples, ten seconds")
    parser.add_argument("--output", type=Path, default=Path("threshold_sweep.png"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        sys.stderr.write("This example draws with matplotlib: pip install matplotlib\n")
        return 1
    samples = 50_000 if options.quick else 1_000_000
    sizes = (4,) if options.quick else (5, 10, 20)
    thresholds = (1.0, 2.0, 3.0) if options.quick else tuple(np.arange(0.5, 3.6, 0.5))
    sweeps: dict[int, list[Point]] = {}
    for size in sizes:
        sweeps[size] = [measure(size, float(t), samples, options.seed) for t in thresholds]
        for p in sweeps[size]:
            sys.stdout.write(
                f"d = {size}, t = {p.threshold:.2f}: step 1 {p.step_1:.2g} degrees, step 2 "
                f"{p.step_2:.2g}, E|f - f_lin| / E|f_lin| {p.nonlinear:.2g}\n"
            )
            sys.stdout.flush()
    draw(plt, sweeps, samples, options.output)
    sys.stdout.write(f"Picture: {options.output}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
