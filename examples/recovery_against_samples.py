"""Recovery against samples: how few suffice, with and without noise.

    python examples/recovery_against_samples.py --out pictures

Networks of 8 features and 4 units, 37 parameters. Without noise the error falls to machine
precision at once when there are enough samples; with noise it falls as one over their root.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.common.typing import Array

UNITS, FEATURES, NOISE = 4, 8, 0.1
PARAMETERS = UNITS * (FEATURES + 1) + 1
SECONDS = 1.0
"""Time after which a recovery begins no further attempt."""
LARGEST = 10.0
"""Where networks are drawn that were not found, or have another number of units."""


def error(samples: int, noise: float, seed: int) -> float:
    """The parameter error of one recovery that was told nothing."""
    rng = np.random.default_rng(seed)
    hidden = pn.random_network(UNITS, FEATURES, rng=rng)
    X, y = pn.sample(hidden, samples, noise=noise, rng=rng)
    found = pn.recover(X, y, budget=SECONDS, rng=rng).network
    size = np.inf if found is None else pn.parameter_error(found, hidden)
    return min(size, LARGEST)


def measure(samples: list[int], noise: float, seeds: int) -> Array:
    """Errors, a row for each number of samples."""
    rows = np.array([[error(n, noise, seed) for seed in range(seeds)] for n in samples])
    for n, row in zip(samples, rows, strict=True):
        sys.stdout.write(f"noise {noise}, {n} samples: median error {np.median(row):.1e}\n")
    return rows


def draw(samples: dict[float, list[int]], errors: dict[float, Array]) -> Any:
    """Every error, and their medians joined, against the number of samples."""
    figure = pn.plotting.new_figure(6.4, 4.4)
    ax = figure.subplots()
    for noise, colour in zip(errors, (pn.plotting.BLUE, pn.plotting.VERMILION), strict=False):
        n, rows = np.array(samples[noise], dtype=float), errors[noise]
        ax.loglog(np.repeat(n, rows.shape[1]), rows.ravel(), "o", ms=4, alpha=0.4, color=colour)
        name = f"noise {noise:g}" if noise else "no noise"
        ax.loglog(n, np.median(rows, axis=1), "-", lw=2, color=colour, label=f"{name}, median")
    ax.axvline(PARAMETERS, ls=":", color=pn.plotting.GREY, label=f"{PARAMETERS} parameters")
    ax.axhline(LARGEST, lw=0.8, color=pn.plotting.GREY)
    ax.annotate("not found", (1.0, LARGEST), (-4, -4), ("axes fraction", "data"),
                "offset points", ha="right", va="top", size=9)  # fmt: skip
    ax.set(xlabel="samples", ylabel="largest error of a unit")
    ax.grid(True, alpha=0.3)
    ax.legend(loc="center right")
    return figure


def main(arguments: list[str] | None = None) -> int:
    """Measure, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Recovery against samples.")
    parser.add_argument("--seeds", type=int, default=4, help="networks a point")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the picture")
    parser.add_argument("--quick", action="store_true", help="fewer points, a few seconds")
    options = parser.parse_args(arguments)
    samples = {0.0: [50, 70, 100, 150, 300, 1000], NOISE: [300, 1000, 3000, 10_000]}
    if options.quick:
        samples = {0.0: [40, 300], NOISE: [300, 1000]}
    errors = {noise: measure(n, noise, options.seeds) for noise, n in samples.items()}
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "recovery_against_samples.png"
    draw(samples, errors).savefig(picture, dpi=150)
    sys.stdout.write(f"Picture: {picture}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
