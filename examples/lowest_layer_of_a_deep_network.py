"""The lowest layer of a deep network, without knowing what lies above it (GP19).

    python examples/lowest_layer_of_a_deep_network.py --out pictures

The labels come from five ReLU units whose values go through two further layers. Step 1 reads the
units' directions off moments, to a few degrees; step 2 finds weights and thresholds exactly, where
one unit fires alone. With the layer known, the top is ordinary regression (`pn.learn_top`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.common.typing import Array
from provenet.datasets import conditioned_rows
from provenet.networks.layered import LayeredNetwork, lowest_layer

UNITS, FEATURES, THRESHOLD = 5, 8, 1.8
_ROUNDING = 1e-14
"""Where an angle of zero is drawn, in degrees."""


def deep_network(rng: np.random.Generator) -> LayeredNetwork:
    """ReLU units of high threshold, then a hidden layer of ReLUs, then their sum."""
    W = conditioned_rows(UNITS, FEATURES, 2.0, rng)
    second = rng.normal(0.3, 0.6, (12, UNITS))  # of both signs, so that units interact

    def top(values: Array) -> Array:
        return np.asarray(np.maximum(values @ second.T, 0.0).sum(axis=1))

    return LayeredNetwork(lowest_layer(W, THRESHOLD), top)


def angles(found: pn.Network, truth: pn.Network) -> Array:
    """For each true unit the angle, in degrees, to the nearest that was found."""
    W = found.weights / np.linalg.norm(found.weights, axis=1, keepdims=True)
    gaps = np.linalg.norm(truth.weights[:, None] - W, axis=2).min(axis=1)
    return np.asarray(np.degrees(2 * np.arcsin(np.minimum(gaps / 2, 1))))


def draw(samples: list[int], steps: dict[str, list[Array]]) -> Any:
    """The angle of every unit against the number of samples, after either step."""
    figure = pn.plotting.new_figure(6.4, 4.2)
    ax = figure.subplots()
    colours = (pn.plotting.VERMILION, pn.plotting.BLUE)
    for (name, found), colour in zip(steps.items(), colours, strict=True):
        n = np.repeat(samples, [len(a) for a in found])
        drawn = np.maximum(np.concatenate(found), _ROUNDING)
        ax.loglog(n, drawn, "o", ms=6, alpha=0.7, color=colour, label=name)
    ax.set(xlabel="samples", ylabel="angle to the true unit, degrees", ylim=(_ROUNDING / 3, 100))
    ax.set_xticks(samples, labels=[f"{n:,}" for n in samples])
    ax.minorticks_off()
    ax.set_title(f"{UNITS} units under two further layers, {FEATURES} features", size=11)
    ax.grid(True, alpha=0.3)
    ax.legend(loc="center right")
    return figure


def measure(
    hidden: LayeredNetwork, samples: list[int], rng: np.random.Generator
) -> dict[str, list[Array]]:
    """Angles after step 1 and after step 2, for each number of samples."""
    steps: dict[str, list[Array]] = {"step 1: moments": [], "step 2: where one fires alone": []}
    X = rng.standard_normal((max(samples), FEATURES))
    y = hidden(X)
    for n in samples:
        for name, refine in zip(steps, (False, True), strict=True):
            result = pn.recover(X[:n], y[:n], method="lowest-layer", refine=refine, rng=0)
            sys.stdout.write(f"{n} samples, {name}: {result.message}\n")
            found = result.network
            steps[name].append(np.empty(0) if found is None else angles(found, hidden.layer))
    return steps


def main(arguments: list[str] | None = None) -> int:
    """Recover, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="The lowest layer of a deep network.")
    parser.add_argument("--samples", type=int, nargs="+", default=[30_000, 100_000, 300_000])
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the picture")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    steps = measure(deep_network(rng), options.samples, rng)
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "lowest_layer_of_a_deep_network.png"
    draw(options.samples, steps).savefig(picture, dpi=150)
    sys.stdout.write(f"Picture: {picture}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
