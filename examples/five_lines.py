"""Five lines to exact recovery: hide a network, sample it, recover it, compare.

    python examples/five_lines.py --out pictures

The picture shows all parameters of the hidden network beside those that were found, and each found
one against its true one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import provenet as pn


def five_lines(seed: int) -> tuple[pn.Network, pn.Recovery]:
    """The five lines."""
    hidden = pn.random_network(units=5, features=10, rng=seed)
    X, y = pn.sample(hidden, 300, rng=seed + 1)
    result = pn.recover(X, y, rng=seed + 2)
    sys.stdout.write(f"{result.message}\n")
    return hidden, result


def draw(hidden: pn.Network, found: pn.Network) -> Any:
    """Both networks as heat maps, units in the same order, and found against true."""
    figure = pn.plotting.new_figure(11.0, 3.6)
    left, middle, right = figure.subplots(1, 3)
    truth, estimate = pn.plotting.in_matched_order(hidden, found)
    pn.plotting.weights(left, truth).set_title("hidden", size=11)
    pn.plotting.weights(middle, estimate, like=truth).set_title(
        "recovered from 300 samples", size=11
    )
    pn.plotting.truth_against_estimate(right, hidden, found)
    right.locator_params(nbins=5)
    right.set_title(f"largest error {pn.parameter_error(found, hidden):.0e}", size=11)
    return figure


def main(arguments: list[str] | None = None) -> int:
    """Recover, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Five lines to exact recovery.")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the picture")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    hidden, result = five_lines(options.seed)
    if result.network is None:
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "five_lines.png"
    draw(hidden, result.network).savefig(picture, dpi=150)
    sys.stdout.write(f"Picture: {picture}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
