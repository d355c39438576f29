"""A union of halfspaces in the plane, from labels of which some are flipped (GP19, section 2.3).

    python examples/halfspaces_in_the_plane.py --out pictures

A label is 1 where a point lies in at least one of three halfspaces. From labelled points alone the
method finds how many halfspaces there are, their normals and their offsets.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.common.typing import Array

DEGREES, OFFSETS = np.array([20.0, 140.0, 250.0]), np.array([1.0, 1.2, 0.8])
NORMALS = np.stack([np.cos(np.radians(DEGREES)), np.sin(np.radians(DEGREES))], axis=1)
REACH = 3.2
"""Half the width of the picture."""
DRAWN = 1500


def labelled_points(samples: int, flipped: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Gaussian points and whether they lie in the union, a share of the answers flipped."""
    X = rng.standard_normal((samples, 2))
    inside = (X @ NORMALS.T > OFFSETS).any(axis=1)
    return X, (inside ^ (rng.random(samples) < flipped)).astype(float)


def worst_angle(found: pn.Network) -> float:
    """The largest angle, in degrees, between a true normal and the nearest that was found."""
    W = found.weights / np.linalg.norm(found.weights, axis=1, keepdims=True)
    return float(np.degrees(np.arccos(np.clip((NORMALS @ W.T).max(axis=1), -1, 1))).max())


def draw(X: Array, y: Array, found: pn.Network) -> Any:
    """Points by label, true boundaries dashed, boundaries that were found drawn through."""
    figure = pn.plotting.new_figure(5.6, 5.6)
    ax = figure.subplots()
    for value, colour in ((0, pn.plotting.BLUE), (1, pn.plotting.VERMILION)):
        chosen = X[:DRAWN][y[:DRAWN] == value]
        ax.scatter(*chosen.T, s=7, lw=0, alpha=0.55, color=colour, label=f"label {value}")
    _lines(ax, found.weights, -found.biases, "-", pn.plotting.GREEN, "found")
    _lines(ax, NORMALS, OFFSETS, "--", "black", "true")
    ax.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal")
    ax.set_title(
        f"{found.units} halfspaces found; worst normal {worst_angle(found):.2f}° off", size=11
    )
    ax.legend(loc="upper right", framealpha=0.9)
    return figure


def _lines(ax: Any, normals: Array, offsets: Array, style: str, colour: str, name: str) -> None:
    for i, (w, t) in enumerate(zip(normals, offsets, strict=True)):
        foot, along = t * w / (w @ w), np.array([-w[1], w[0]])
        ends = np.array([foot - 9 * along, foot + 9 * along])
        width = 3.5 if style == "-" else 1.3
        ax.plot(*ends.T, style, color=colour, lw=width, label=name if i == 0 else None)


def main(arguments: list[str] | None = None) -> int:
    """Learn, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="A union of halfspaces in the plane.")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--flipped", type=float, default=0.02, help="share of wrong labels")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the picture")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    X, y = labelled_points(options.samples, options.flipped, np.random.default_rng(options.seed))
    result = pn.recover(X, y, method="halfspaces", rng=options.seed)
    sys.stdout.write(f"{result.message}\n")
    if result.network is None:
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "halfspaces_in_the_plane.png"
    draw(X, y, result.network).savefig(picture, dpi=150)
    sys.stdout.write(f"Picture: {picture}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
