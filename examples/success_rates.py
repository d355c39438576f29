"""How often do the theorems' algorithms succeed, and how often what is built on them?

ATV21 proves that polynomially many samples suffice, without saying how many. This script hides
random networks and draws the share that is recovered, against the number of samples, of units, and
the size of the biases, for

- the paper's algorithm as it stands (Algorithm 6; Algorithm 4 of order 2 for more units than
  features), recovered meaning a parameter error of at most 0.3: its error is that of moments;
- the default, recovered meaning an error of at most 1e-8.

Run it (half a minute with --quick, some ten minutes without):

    python examples/success_rates.py --quick --output success_rates.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn

ROUGH, EXACT = 0.3, 1e-8


@dataclass(frozen=True)
class Setting:
    """A kind of network and how many samples of it there are."""

    features: int = 6
    units: int = 3
    samples: int = 1_000_000
    bias_scale: float = 1.0


def succeeds(setting: Setting, seed: int, faithful: bool) -> bool:
    """Whether one random network is recovered."""
    s = setting
    hidden = pn.random_network(s.units, s.features, bias_scale=s.bias_scale, rng=seed)
    X = np.random.default_rng([seed, 1]).standard_normal((s.samples, s.features))
    more = s.units > 0.99 * s.features
    result = pn.recover(
        X,
        hidden(X),
        units=s.units,
        method="overcomplete" if more else "biased-relu" if faithful else "expand-prune",
        faithful=faithful,
        refine=not faithful,
        budget=30,
        rng=seed,
    )
    if result.network is None or result.network.units != s.units:
        return False
    return pn.parameter_error(result.network, hidden) <= (ROUGH if faithful else EXACT)


def rates(settings: Sequence[Setting], seeds: int, faithful: bool) -> list[float]:
    """The share of networks recovered at every setting."""
    return [float(np.mean([succeeds(s, i, faithful) for i in range(seeds)])) for s in settings]


def sweeps(quick: bool) -> dict[str, tuple[list[float], list[Setting]]]:
    """What is varied, its values, and the settings they stand for."""
    base = Setting(features=5, units=3, samples=20_000) if quick else Setting()
    samples = [300, 3000, 30_000] if quick else [100, 300, 1000, 10_000, 100_000, 1_000_000]
    units = [2, 4] if quick else [1, 2, 3, 5, 8]
    biases = [0.5, 2.0] if quick else [0.5, 1.0, 2.0, 3.0]
    return {
        "samples": (list(map(float, samples)), [replace(base, samples=n) for n in samples]),
        "units": (list(map(float, units)), [replace(base, units=m) for m in units]),
        "largest |b|": (biases, [replace(base, bias_scale=b) for b in biases]),
    }


def draw(
    plt: Any,
    curves: dict[str, tuple[list[float], dict[str, list[float]]]],
    base: Setting,
    seeds: int,
    output: Path,
) -> None:
    """A panel for each thing that is varied."""
    figure, panels = plt.subplots(1, len(curves), figsize=(11.0, 3.8), sharey=True)
    for axes, (name, (values, rows)) in zip(panels, curves.items(), strict=True):
        for label, shares in rows.items():
            axes.plot(values, shares, marker="o", ms=4, label=label)
        axes.set_xlabel(name)
        axes.set_xscale("log" if name == "samples" else "linear")
        axes.grid(True, alpha=0.3)
    panels[0].set_ylabel(f"share recovered, of {seeds}")
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"{base.features} features; where not varied {base.units} units, {base.samples:,} samples, "
        f"|b| <= {base.bias_scale:g}",
        size=10,
    )
    figure.tight_layout()
    figure.savefig(output, dpi=150)


def main() -> int:
    """Sweep, print, draw, and say where the picture is."""
    parser = argparse.ArgumentParser(description="Success rates of ATV21 and of the default.")
    parser.add_argument("--quick", action="store_true", help="small networks, half a minute")
    parser.add_argument("--output", type=Path, default=Path("success_rates.png"))
    options = parser.parse_args()
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        sys.stderr.write("This example draws with matplotlib: pip install matplotlib\n")
        return 1
    seeds = 3 if options.quick else 10
    curves: dict[str, tuple[list[float], dict[str, list[float]]]] = {}
    for name, (values, settings) in sweeps(options.quick).items():
        rows = {
            f"the paper's, error <= {ROUGH:g}": rates(settings, seeds, faithful=True),
            f"default, error <= {EXACT:g}": rates(settings, seeds, faithful=False),
        }
        curves[name] = values, rows
        for label, shares in rows.items():
            told = ", ".join(f"{v:g}: {share:.0%}" for v, share in zip(values, shares, strict=True))
            sys.stdout.write(f"{name}, {label}: {told}\n")
            sys.stdout.flush()
    base = Setting(features=5, units=3, samples=20_000) if options.quick else Setting()
    draw(plt, curves, base, seeds, options.output)
    sys.stdout.write(f"Picture: {options.output}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
