"""What the pictures of the papers share: a claim, its measurement kept as numbers, and a drawing.

A paper's script lists its figures and calls `main`:

    python benchmarks/papers/atv21.py --list
    python benchmarks/papers/atv21.py --quick --out pictures            # seconds a figure
    python benchmarks/papers/atv21.py --figure errors                   # writes into docs/papers
    python benchmarks/papers/atv21.py --redraw                          # measures nothing

A figure is measured as rows (flat dictionaries that JSON can hold), which are written beside the
picture as `<paper>_<figure>.json` with the day and the machine, and drawn from there. What the
paper predicts is drawn in the same axes (`guide`), and what was measured is fitted (`slope`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import machine
from provenet.common.typing import Array

DOCS = Path(__file__).parent.parent.parent / "docs" / "papers"
INCHES_HIGH = 4.2
GUIDE_STYLE: dict[str, Any] = {"color": "0.35", "linestyle": ":", "linewidth": 1.4, "zorder": 1}
"""How every prediction is drawn."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A claim of a paper and what was measured of it."""

    name: str
    claim: str
    """What the paper says, as a sentence; the picture's title."""
    measure: Callable[[bool], Iterable[Row]]
    """The rows, one at a time; told whether few seeds and small sizes must do."""
    draw: Callable[[Any, Sequence[Row]], None]
    """Draws rows into the axes of a matplotlib figure that is empty."""
    width: float = 10.0
    """Inches."""


# ---------------------------------------------------------------- fits and predictions


def slope(x: Sequence[float] | Array, y: Sequence[float] | Array) -> float:
    """The exponent p of `y = c x^p` by least squares on logarithms, of points with y > 0."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    seen = np.isfinite(y) & (y > 0)
    return float(np.polyfit(np.log(x[seen]), np.log(y[seen]), 1)[0])


def guide(axes: Any, x: Sequence[float] | Array, start: float, power: float, label: str) -> None:
    """What the theory predicts: `start (x / x_0)^power`, dotted."""
    x = np.asarray(x, float)
    axes.plot(x, start * (x / x[0]) ** power, label=label, **GUIDE_STYLE)


def share_with_error(hits: int, trials: int) -> tuple[float, float, float]:
    """A share of trials, and how far below and above it Wilson's 95% interval reaches."""
    low, high = binomtest(hits, trials).proportion_ci(method="wilson")
    share = hits / trials
    return share, share - float(low), float(high) - share


def by(rows: Iterable[Row], *keys: str) -> dict[Any, list[Row]]:
    """Rows in groups of equal values of one key, or of several (a tuple)."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        value = tuple(row[key] for key in keys)
        groups.setdefault(value if len(keys) > 1 else value[0], []).append(row)
    return groups


def column(rows: Iterable[Row], key: str) -> Array:
    """The values of a key; NaN where there is none."""
    return np.array([np.nan if row[key] is None else row[key] for row in rows], float)


def finish(axes: Any, x: str, y: str, title: str = "", log: str = "") -> None:
    """Labels, logarithmic scales ("x", "y" or "xy"), a light grid, a legend of what has a label."""
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.title.set_size(10)
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    axes.grid(True, which="major", alpha=0.25)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)


# ---------------------------------------------------------------- measuring, keeping, drawing


def measured(figure: Figure, quick: bool) -> dict[str, Any]:
    """What a figure is drawn from, and where and when it was measured."""
    begin, rows = time.perf_counter(), []
    for row in figure.measure(quick):
        rows.append(row)
        _say("  " + ", ".join(f"{key} {_short(value)}" for key, value in row.items()))
    return {
        "figure": figure.name,
        "claim": figure.claim,
        "date": date.today().isoformat(),
        "quick": quick,
        "seconds": round(time.perf_counter() - begin, 1),
        "machine": machine(),
        "rows": rows,
    }


def draw(figure: Figure, content: dict[str, Any], path: Path) -> None:
    """One picture, the claim on top of it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    picture = plt.figure(figsize=(figure.width, INCHES_HIGH), layout="constrained")
    figure.draw(picture, content["rows"])
    picture.suptitle(figure.claim, size=11)
    picture.savefig(path, dpi=130)
    plt.close(picture)


def write(paper: str, figure: Figure, content: dict[str, Any], folder: Path) -> Path:
    """The numbers and the picture of them."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = folder / f"{paper}_{figure.name}.json"
    numbers.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    draw(figure, content, numbers.with_suffix(".png"))
    return numbers.with_suffix(".png")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


# ---------------------------------------------------------------- the command line


def main(paper: str, figures: Sequence[Figure], words: Sequence[str] | None = None) -> int:
    """Measure and draw the figures of a paper, or draw again what was measured."""
    names = [figure.name for figure in figures]
    parser = argparse.ArgumentParser(description=f"Every theorem of {paper.upper()}, measured.")
    parser.add_argument("--quick", action="store_true", help="few seeds, small sizes")
    parser.add_argument("--figure", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument(
        "--out", type=Path, default=None, metavar="DIR", help="default: docs/papers"
    )
    parser.add_argument("--redraw", action="store_true", help="from the numbers that are there")
    parser.add_argument("--list", action="store_true", help="the figures and their claims")
    options = parser.parse_args(words)
    if options.quick and options.out is None:
        parser.error("--quick needs --out DIR: the documentation shows full runs only.")
    if not options.list and find_spec("matplotlib") is None:
        parser.error('pictures need matplotlib: pip install -e ".[plot]".')
    folder = options.out or DOCS
    for figure in _chosen(figures, options.figure):
        _say(f"{figure.name}: {figure.claim}")
        if options.list:
            continue
        if options.redraw:
            content = json.loads((folder / f"{paper}_{figure.name}.json").read_text())
        else:
            content = measured(figure, options.quick)
        _say(f"Picture: {write(paper, figure, content, folder)}")
    return 0


def _chosen(figures: Sequence[Figure], names: Sequence[str]) -> Iterator[Figure]:
    return (figure for figure in figures if figure.name in names)
