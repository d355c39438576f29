"""The pictures of docs/extraction.md: a network of two hidden layers in the plane.

    python benchmarks/extraction_pictures.py --out docs

`extraction_line.png`: a line through the cells, and the function along it with its kinks.
`extraction_surface.png`: where one unit of the second layer switches, which turns at every unit
of the first, and what the row that one kink tells predicts.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

import provenet as pn
from provenet.common.typing import Array

SEED, FIRST, SECOND = 17, 5, 3
HALF, GRID, DPI = 3.0, 600, 130
STEPS = 4000
START, END = np.array([-0.6, -2.8]), np.array([2.75, 2.37])
FOLLOWED = 0
"""The unit of the second layer whose surface is drawn."""
BELOW, ABOVE, LINE = "C0", "C1", "0.15"


@dataclass(frozen=True)
class Plane:
    """A network of two inputs, and a grid of these."""

    network: pn.DeepNetwork
    X: Array
    """(GRID * GRID, 2)"""

    def first(self, X: Array) -> Array:
        """What the units of the first layer are given."""
        W, b = self.network.affine_maps[0]
        return np.asarray(X @ W.T + b)

    def second(self, X: Array) -> Array:
        """What the units of the second layer are given."""
        W, b = self.network.affine_maps[1]
        return np.asarray(np.maximum(self.first(X), 0) @ W.T + b)

    def frozen(self, X: Array, at: Array) -> Array:
        """The same, with the units of the first layer on that are on at a point."""
        W, b = self.network.affine_maps[1]
        on = self.first(at[None])[0] > 0
        return np.asarray((self.first(X) * on) @ W.T + b)


def plane() -> Plane:
    """The network of the pictures."""
    rng = np.random.default_rng(SEED)
    angles = np.pi * (np.arange(FIRST) + rng.uniform(0.0, 0.7, FIRST)) / FIRST
    signs = rng.choice([-1.0, 1.0], FIRST)
    W = np.stack([np.cos(angles), np.sin(angles)], axis=1) * signs[:, None]
    V = rng.standard_normal((SECOND, FIRST))
    a = rng.choice([-1.0, 1.0], (1, SECOND)) * rng.uniform(0.6, 1.4, (1, SECOND))
    biases = [rng.uniform(-1.2, 1.2, FIRST), rng.uniform(-0.9, 0.9, SECOND), np.zeros(1)]
    side = np.linspace(-HALF, HALF, GRID)
    X = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return Plane(pn.DeepNetwork([W, V, a], biases, "relu"), X)


def boundaries(axes: Any, values: Array, colour: str, **look: Any) -> None:
    """Where columns of values at the grid vanish."""
    side = np.linspace(-HALF, HALF, GRID)
    for column in values.T:
        axes.contour(side, side, column.reshape(GRID, GRID), [0.0], colors=colour, **look)


def zeros(values: Any, places: Array) -> list[float]:
    """Between which of the places a function changes its sign, and where."""
    signs = np.sign([values(t) for t in places])
    return [
        float(brentq(values, low, high))
        for low, high, before, after in zip(places, places[1:], signs, signs[1:], strict=False)
        if before * after < 0
    ]


def square(axes: Any, title: str) -> None:
    """The plane, without figures that say nothing."""
    axes.set(xlim=(-HALF, HALF), ylim=(-HALF, HALF), aspect="equal", xlabel="x1", ylabel="x2")
    axes.set_title(title, size=10)


def draw_line(shown: Plane, path: Path) -> None:
    """The cells with a line through them, and the function along it."""
    plt = _pyplot()
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 4.6), layout="constrained", width_ratios=(1, 1.25)
    )
    answers = shown.network(shown.X).reshape(GRID, GRID)
    extent = (-HALF, HALF, -HALF, HALF)
    left.imshow(answers, origin="lower", extent=extent, cmap="Greys", alpha=0.35)
    boundaries(left, shown.first(shown.X), BELOW, linewidths=1.2)
    boundaries(left, shown.second(shown.X), ABOVE, linewidths=1.6)
    left.plot(*np.stack([START, END]).T, color=LINE, lw=1.2)

    def at(t: float) -> Array:
        return np.asarray(START + t * (END - START))

    places = np.linspace(0.0, 1.0, STEPS)
    along = shown.network(START + places[:, None] * (END - START))
    right.plot(places, along, color=LINE, lw=1.4)
    _mark(left, right, shown, at, places)
    square(left, "blue: where units of the first layer switch;\norange: of the second layer")
    right.set(xlabel="along the line", ylabel="f")
    right.set_title("every unit that switches is a kink, if what is above it is on", size=10)
    right.grid(True, alpha=0.25)
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=DPI)
    plt.close(figure)


def _mark(left: Any, right: Any, shown: Plane, at: Any, places: Array) -> None:
    """Dots at the kinks, on the line and on the function."""
    layers = (
        (shown.first, FIRST, BELOW, "first layer"),
        (shown.second, SECOND, ABOVE, "second layer"),
    )
    for values, units, colour, name in layers:
        found = [
            t
            for unit in range(units)
            for t in zeros(lambda t, v=values, i=unit: v(at(t)[None])[0, i], places)
        ]
        points = np.array([at(t) for t in found])
        look = {"color": colour, "s": 34, "zorder": 3, "edgecolor": "white", "linewidth": 0.7}
        left.scatter(points[:, 0], points[:, 1], **look)
        right.scatter(found, shown.network(points), label=f"kinks of the {name}", **look)


def draw_surface(shown: Plane, path: Path) -> None:
    """A unit's surface, and what the row of one cell says of it."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(5.6, 5.2), layout="constrained")
    boundaries(axes, shown.first(shown.X), BELOW, linewidths=1.0)
    one = shown.second(shown.X)[:, [FOLLOWED]]
    kink = _a_kink(shown)
    straight = shown.frozen(shown.X, kink)[:, [FOLLOWED]]
    boundaries(axes, straight, "0.45", linewidths=1.1, linestyles="dashed")
    boundaries(axes, one, ABOVE, linewidths=2.0)
    turns = _turns(shown)
    look = {"s": 36, "zorder": 3, "edgecolor": "white", "linewidth": 0.7}
    axes.scatter(turns[:, 0], turns[:, 1], color=BELOW, label="it turns: a weight each", **look)
    axes.scatter(*kink, color=ABOVE, label="a kink that was measured", **look)
    axes.plot([], [], color="0.45", ls="dashed", label="the hyperplane that it tells")
    axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, loc="lower left")
    square(axes, "where one unit of the second layer switches")
    figure.savefig(path, dpi=DPI)
    plt.close(figure)


def _turns(shown: Plane) -> Array:
    """Where the surface meets units of the first layer."""
    W, b = shown.network.affine_maps[0]
    reach = np.linspace(-2 * HALF, 2 * HALF, STEPS)
    found = []
    for w, bias in zip(W, b, strict=True):
        foot, along = -bias * w / (w @ w), np.array([-w[1], w[0]])
        found += [
            foot + t * along
            for t in zeros(
                lambda t, p=foot, d=along: shown.second((p + t * d)[None])[0, FOLLOWED], reach
            )
        ]
    points = np.array(found)
    return points[np.all(np.abs(points) < HALF, axis=1)]


def _a_kink(shown: Plane) -> Array:
    """A point of the surface as far from all turns as may be."""
    values = np.abs(shown.second(shown.X)[:, FOLLOWED])
    near = shown.X[values < 2 * np.median(np.sort(values)[:GRID])]
    room = np.min(np.abs(shown.first(near)), axis=1)
    inside = np.max(np.abs(near), axis=1) < HALF / 2
    return np.asarray(near[np.argmax(np.where(inside, room, -1.0))])


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def main() -> None:
    """Draw both."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    folder = parser.parse_args().out
    shown = plane()
    draw_line(shown, folder / "extraction_line.png")
    draw_surface(shown, folder / "extraction_surface.png")


if __name__ == "__main__":
    main()
