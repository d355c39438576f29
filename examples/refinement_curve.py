"""How fast does a direction near a unit's weights become an exact one?

GP19, section 2.2: under a monotone top, what fires in thin bands across a direction tells its angle
from the nearest unit's weights. This script hides a union of halfspaces, starts 5 degrees from one
of its normals, asks for labels, and draws the true angle of

- the paper's random search (Algorithm 1), for two numbers of features d: it takes
  O(d log(1/angle)) accepted steps (Theorem 5), so the curves over steps / d are the same line;
- the descent on the same bands that also asks them for the direction of the error.

Run it (ten seconds with --quick, a minute or two without):

    python examples/refinement_curve.py --quick --output refinement_curve.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources import QuerySource
from provenet.lowest_layer.bands.descent import Refinement, descend, random_search
from provenet.lowest_layer.bands.queries import BandOracle, QueriedBands
from provenet.networks.layered import LayeredNetwork, lowest_layer, union

THRESHOLD = 2.5
START = np.radians(5.0)
Search = Callable[..., Refinement]


def hidden_union(d: int, rng: np.random.Generator) -> LayeredNetwork:
    """As many halfspaces as features, with random normals."""
    W = rng.standard_normal((d, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return LayeredNetwork(lowest_layer(W, THRESHOLD, "step"), union)


def near(w: Array, angle: float, rng: np.random.Generator) -> Array:
    """A unit vector at an angle from another."""
    v = rng.standard_normal(len(w))
    v -= (v @ w) * w
    return np.asarray(np.cos(angle) * w + np.sin(angle) * v / np.linalg.norm(v))


def run(search: Search, d: int, angle: float, seed: int) -> tuple[Refinement, Array]:
    """A search for one normal, and the true angle at its start and after each accepted step."""
    rng = np.random.default_rng([seed, d])
    hidden = hidden_union(d, rng)
    w = hidden.layer.weights[0]
    start = near(w, START, rng)
    oracle: BandOracle = QueriedBands(QuerySource(hidden, d, 1).ask, d, rng=rng)
    found = search(oracle, start, angle, rng=rng)
    # Of small angles the cosine tells nothing; half the distance is the sine of half the angle.
    distances = [np.linalg.norm(step.direction - w) for step in found.path]
    return found, 2 * np.arcsin(np.array(distances) / 2)


def draw(plt: Any, runs: dict[tuple[str, int], tuple[Refinement, Array]], output: Path) -> None:
    """The true angle against accepted steps over d, and against queries."""
    figure, (steps, queries) = plt.subplots(
        1, 2, figsize=(10.0, 4.4), sharey=True, layout="constrained"
    )
    for (name, d), (found, angles) in runs.items():
        style = {"label": f"{name}, d = {d}", "ls": "-" if name == "random search" else "--"}
        marker = {"marker": "o", "ms": 4} if len(angles) < 30 else {}
        steps.semilogy(np.arange(len(angles)) / d, angles, **style, **marker)
        queries.loglog([step.queries for step in found.path], angles, **style, **marker)
    steps.set_xlabel("accepted steps / d")
    steps.set_ylabel("angle from the true normal (rad)")
    queries.set_xlabel("queries")
    steps.legend(frameon=False)
    for axes in (steps, queries):
        axes.grid(True, which="major", alpha=0.3)
    figure.suptitle("From 5 degrees to any angle: refinement under a monotone top (GP19)", size=11)
    figure.savefig(output, dpi=150)


def main() -> int:
    """Search, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Angle against accepted steps and queries (GP19).")
    parser.add_argument("--quick", action="store_true", help="fewer features, ten seconds")
    parser.add_argument("--output", type=Path, default=Path("refinement_curve.png"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        sys.stderr.write("This example draws with matplotlib: pip install matplotlib\n")
        return 1
    sizes, angle = ((3, 5), 1e-2) if options.quick else ((5, 10), 1e-4)
    runs = {}
    for name, search, d, asked in (
        ("random search", random_search, sizes[0], angle),
        ("random search", random_search, sizes[1], angle),
        ("descent", descend, sizes[1], 1e-6),
    ):
        found, angles = runs[name, d] = run(search, d, asked, options.seed)
        sys.stdout.write(
            f"{name}, d = {d}: {found.reason} {angles[-1]:.1e} rad (estimated {found.angle:.1e}) "
            f"after {len(angles) - 1} accepted steps and {found.queries:.2g} queries\n"
        )
        sys.stdout.flush()
    draw(plt, runs, options.output)
    sys.stdout.write(f"Picture: {options.output}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
