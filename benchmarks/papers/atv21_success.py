"""ATV21: how often do the theorems' algorithms succeed, and how often what is built on them?

The paper proves that polynomially many samples suffice, without saying how many. Random networks
are hidden, and the share that is recovered is drawn against the number of samples, of units, and
the size of the biases, for

- the paper's algorithm alone (Algorithm 6; Algorithm 4 of order 2 for more units than features),
  recovered meaning a parameter error of at most 0.3: its error is that of moments;
- the default, recovered meaning an error of at most 1e-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import provenet as pn
from figures import Figure, Row, by, finish, share_with_error

ROUGH, EXACT = 0.3, 1e-8
LABELS = {
    True: f"the paper's algorithm, error <= {ROUGH:g}",
    False: f"the default, error <= {EXACT:g}",
}
AXES = {"samples": "samples", "units": "units", "bias_scale": "largest |b|"}


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
    more = s.units > s.features
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


def sweeps(quick: bool) -> dict[str, list[Setting]]:
    """What is varied, and the settings that this gives."""
    base = Setting(features=4, samples=20_000) if quick else Setting()
    values: dict[str, Sequence[Any]] = {
        "samples": [300, 20_000] if quick else [100, 300, 1000, 10_000, 100_000, 1_000_000],
        "units": [2, 3] if quick else [1, 2, 3, 5, 8],
        "bias_scale": [0.5, 2.0] if quick else [0.5, 1.0, 2.0, 3.0],
    }
    return {name: [replace(base, **{name: v}) for v in along] for name, along in values.items()}


def measure(quick: bool) -> Iterator[Row]:
    """How many of the networks each of the two recovers, at every setting."""
    seeds = 2 if quick else 10
    for faithful in (True, False):
        known: dict[Setting, int] = {}
        for name, settings in sweeps(quick).items():
            for setting in settings:
                if setting not in known:
                    known[setting] = sum(succeeds(setting, i, faithful) for i in range(seeds))
                yield {
                    "along": name,
                    "value": getattr(setting, name),
                    "faithful": faithful,
                    "recovered": known[setting],
                    "of": seeds,
                }


def draw(picture: Any, rows: Sequence[Row]) -> None:
    """A panel for each thing that is varied, with Wilson's 95% intervals."""
    panels = picture.subplots(1, len(AXES), sharey=True)
    for axes, (name, mine) in zip(panels, by(rows, "along").items(), strict=True):
        for faithful, line in by(mine, "faithful").items():
            shares = np.array([share_with_error(row["recovered"], row["of"]) for row in line]).T
            style = {
                "color": "tab:blue" if faithful else "tab:orange",
                "capsize": 2,
                "ms": 5,
                "elinewidth": 0.8,
            }
            axes.errorbar(
                [row["value"] for row in line], shares[0], shares[1:], marker="o",
                label=LABELS[faithful] if axes is panels[0] else None, **style,
            )  # fmt: skip
        first = axes is panels[0]
        axes.set_ylim(-0.04, 1.04)
        share = f"share recovered, of {mine[0]['of']}" if first else ""
        finish(axes, AXES[name], share, log="x" if name == "samples" else "")


SUCCESS = Figure(
    "success",
    "Theorem 3.1: polynomially many samples suffice (6 features; 3 units, 1e6 samples, |b| <= 1)",
    measure,
    draw,
    width=11.0,
)
