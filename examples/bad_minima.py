"""Which objective has bad minima? Descents from random starts on each, side by side (GLM17).

    python examples/bad_minima.py --out pictures

One network of 8 orthogonal units with output weights 1, 4, ..., 4, exact populations, and for every
objective the same random starts and the same second-order method. A descent that ends at a value
above the least has come to rest in a bad minimum. The squared loss (l2) and P', which is
interference alone, have such minima; the objectives that GLM17 and its conjecture are about have
none here. (Why P' has one, and the paper's figures: `benchmarks/papers/glm17.py`.)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.common.typing import Array
from provenet.landscape import minimise, objective
from provenet.landscape.newton import Descent

NAMES = ("l2", "P'", "abs", "f2f4", "G", "F")
UNITS, RATIO = 8, 4.0
STEPS = 500
ABOVE = 1e-4
"""Of the start's mean height: bad ends are above 1e-3, good ones below 1e-9."""


def network() -> pn.Network:
    """Orthogonal units, one of them weaker than the others."""
    weights = np.full(UNITS, RATIO)
    weights[0] = 1.0
    return pn.Network(np.eye(UNITS), output_weights=weights)


def random_rows(starts: int, rng: np.random.Generator) -> Array:
    """Starts, with rows of norm 1."""
    B = rng.standard_normal((starts, UNITS, UNITS))
    return np.asarray(B / np.linalg.norm(B, axis=2, keepdims=True))


def descents(name: str, starts: Array) -> list[Descent]:
    """Where the second-order method comes to rest from each start."""
    f = objective(name, network())
    return [minimise(f, B, slope=1e-7, curvature=1e-6, iterations=STEPS) for B in starts]


def excesses(runs: list[Descent]) -> list[Array]:
    """Values along each path above the least of all, as shares of the first ones' mean."""
    values = [np.array([step.value for step in run.path]) for run in runs]
    least = min(v.min() for v in values)
    scale = np.mean([v[0] for v in values]) - least
    return [(v - least) / scale for v in values]


def bad_ends(paths: list[Array]) -> int:
    """How many ended above the least."""
    return sum(bool(path[-1] > ABOVE) for path in paths)


def draw(paths: dict[str, list[Array]]) -> Any:
    """A panel an objective: values against steps, those of bad ends in red."""
    figure = pn.plotting.new_figure(10.0, 5.2)
    for ax, (name, own) in zip(
        figure.subplots(2, 3, sharey=True).ravel(), paths.items(), strict=True
    ):
        for path in sorted(own, key=lambda path: path[-1]):
            bad = path[-1] > ABOVE
            colour = pn.plotting.VERMILION if bad else pn.plotting.BLUE
            ax.semilogy(np.maximum(path, 1e-12), color=colour, lw=1, alpha=0.8 if bad else 0.4)
        ax.set_title(f"{name}: {bad_ends(own)} of {len(own)} end in a bad minimum", size=10)
        ax.grid(True, alpha=0.3)
    figure.supxlabel("steps", size=10)
    figure.supylabel("value above the least (share of the start's)", size=10)
    return figure


def main(arguments: list[str] | None = None) -> int:
    """Descend, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Which objective has bad minima?")
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the picture")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    starts = random_rows(options.starts, np.random.default_rng(options.seed))
    paths = {}
    for name in NAMES:
        paths[name] = excesses(descents(name, starts))
        sys.stdout.write(f"{name}: {bad_ends(paths[name])} of {options.starts} end badly\n")
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "bad_minima.png"
    draw(paths).savefig(picture, dpi=150)
    sys.stdout.write(f"Picture: {picture}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
