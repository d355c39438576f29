"""GP19, section 2.1 and Lemma 2: how high must thresholds be for the layer to show in moments?

Moments of a layer under a polynomial are those of its linear part `f_lin`, but for `E|f - f_lin|`,
which high thresholds make small. On the other hand high thresholds make units fire rarely, and
sampling error grows. ReLU units, as many as features, orthonormal, under `sum X_i + sum c_ij X_i
X_j` with c_ij uniform in [-1, 1]. As units fire independently, each with the mean
`mu = phi(t) - t (1 - Phi(t))`,

    E|f - f_lin| / E|f_lin|  <=  (d - 1) / 2 E|c_ij| mu  =  (d - 1) mu / 4,

nearly with equality where two products are rarely there at once: the lines that are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

import provenet as pn
from figures import GUIDE_STYLE, Figure, Row, by, column, finish
from provenet.common.typing import Array
from provenet.datasets import random_layered
from provenet.networks.layered import LayeredNetwork, Polynomial, unit_values

EXACT = 1e-6
"""Degrees that an angle is drawn at if it is smaller."""
FOUND_NOTHING = 150.0
"""Degrees that an answer is drawn at in which units are missing."""
COLOURS = ("tab:blue", "tab:green", "tab:red")
SHIFTS = (-0.08, 0.0, 0.08)
"""By which points that are all exact stand side by side."""


def worst_angle(result: pn.Recovery, truth: Array) -> float | None:
    """In degrees; None where units are missing."""
    if result.network is None or result.network.units != len(truth):
        return None
    W = result.network.weights
    apart = np.linalg.norm(W[:, None] - truth, axis=2).min(axis=0)
    return max(float(np.degrees(2 * np.arcsin(np.minimum(apart / 2, 1.0))).max()), EXACT)


def nonlinear_share(network: LayeredNetwork, X: Array) -> float:
    """`E|f - f_lin| / E|f_lin|` on some samples."""
    assert isinstance(network.top, Polynomial)
    H = unit_values(network.layer, X)
    linear = H @ network.top.linear
    return float(np.mean(np.abs(network.top(H) - linear)) / np.mean(np.abs(linear)))


def predicted_share(t: Array, d: int) -> Array:
    """`(d - 1) mu / 4`."""
    return np.asarray((d - 1) / 4 * (norm.pdf(t) - t * norm.sf(t)))


def point(d: int, threshold: float, samples: int, seed: int) -> Row:
    """One hidden layer, recovered without and with step 2."""
    network = random_layered(d, d, threshold=threshold, rng=seed)
    X = np.random.default_rng([seed, 1]).standard_normal((samples, d))
    y = network(X)

    def angle(refine: bool) -> float | None:
        found = pn.recover(X, y, units=d, method="lowest-layer", refine=refine, rng=seed)
        return worst_angle(found, network.layer.weights)

    return {
        "d": d,
        "threshold": threshold,
        "samples": samples,
        "seed": seed,
        "step_1": angle(refine=False),
        "step_2": angle(refine=True),
        "nonlinear": nonlinear_share(network, X),
    }


def measure(quick: bool) -> Iterator[Row]:
    """Every threshold for every number of features."""
    samples = 50_000 if quick else 300_000
    thresholds = (1.0, 2.0, 3.0) if quick else (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
    for d in (4,) if quick else (5, 10, 20):
        for threshold in thresholds:
            for seed in range(1 if quick else 2):
                yield point(d, threshold, samples, seed)


def draw(picture: Any, rows: Sequence[Row]) -> None:
    """Angles before and after refinement, and the size of what is not linear."""
    before, after, share = picture.subplots(1, 3, sharex=True)
    for colour, shift, (d, mine) in zip(COLOURS, SHIFTS, by(rows, "d").items(), strict=False):
        _curve(before, mine, "step_1", colour, f"d = {d}")
        _curve(after, mine, "step_2", colour, f"d = {d}", line="", shift=shift)
        _curve(share, mine, "nonlinear", colour, f"d = {d}")
        t = np.linspace(min(column(mine, "threshold")), max(column(mine, "threshold")), 50)
        share.plot(t, predicted_share(t, d), **GUIDE_STYLE)
    share.plot([], [], label="predicted, at most: (d - 1) mu / 4", **GUIDE_STYLE)
    title = f"{rows[0]['samples']:,} samples"
    finish(before, "threshold t", "worst angle (degrees)", f"step 1 (moments), {title}", "y")
    finish(after, "threshold t", "", f"step 2 (labels that fire), {title}", "y")
    finish(share, "threshold t", "E|f - f_lin| / E|f_lin|", "what is not linear (Lemma 2)", "y")
    before.set_ylim(0.3, 3 * FOUND_NOTHING)
    after.set_ylim(EXACT / 3, 10 * FOUND_NOTHING)
    for axes in (before, after):
        axes.axhline(FOUND_NOTHING, color="0.8", lw=0.8)
        axes.text(0.02, FOUND_NOTHING, "units missing", size=8, va="bottom",
                  transform=axes.get_yaxis_transform())  # fmt: skip
    after.text(0.02, 1.3 * EXACT, f"{EXACT:g} or less: exact", size=8, va="bottom",
               transform=after.get_yaxis_transform())  # fmt: skip


def _curve(
    axes: Any, rows: Sequence[Row], key: str, colour: str, label: str, line: str = "-",
    shift: float = 0.0,
) -> None:  # fmt: skip
    """A line a seed."""
    for i, mine in enumerate(by(rows, "seed").values()):
        values = np.nan_to_num(column(mine, key), nan=FOUND_NOTHING)
        values[values == 0] = np.nan
        axes.plot(
            column(mine, "threshold") + shift, values, "o" + line, label=label if i == 0 else None,
            color=colour, ms=4, lw=1.2, alpha=0.8,
        )  # fmt: skip


THRESHOLDS = Figure(
    "thresholds",
    "Theorem 1, Lemma 2: high thresholds leave the linear part of the top in the moments",
    measure,
    draw,
    width=13.0,
)
