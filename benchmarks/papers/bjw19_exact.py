"""Recovery by BJW19's own algorithms: Theorem 1 (any inputs), Theorems 7 and 10 (Gaussian inputs).

Letters of the paper: its A is our Y transposed, U* our A, V* our W, kappa the condition number of
W; k units, m outputs, d features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import provenet as pn
from bjw19_common import COLOURS, draw_medians, draw_shares, quartiles
from figures import GUIDE_STYLE, Figure, Row, by, column, finish, guide, slope
from provenet.common.typing import Array
from provenet.methods.stages.sign_patterns import (
    distinct_directions,
    most_patterns,
    sign_patterns,
    supports,
    vertex_count,
)
from provenet.methods.stages.sign_programs import (
    FoundUnits,
    Programs,
    independent_units,
    spans_of,
)

# ---------------------------------------------------------------- Theorem 1: sign patterns


def arbitrary_inputs_rows(quick: bool) -> Iterator[Row]:
    """What Lemma 1 and Algorithm 2 take, a row for each network."""
    sizes = {2: (10, 20, 40, 80), 3: (10, 14, 20, 28, 40, 56)}
    if quick:
        sizes = {2: (10, 20), 3: (10, 14)}
    for units, numbers in sizes.items():
        for n in numbers:
            trials = [patterns_and_programs(units, n, seed) for seed in range(2 if quick else 11)]
            for seed, trial in enumerate(trials):
                yield {"units": units, "n": n, "seed": seed, **trial}


def patterns_and_programs(units: int, n: int, seed: int) -> Row:
    """Lemma 1 and Algorithm 2 on n samples of a random network; inputs are heavy-tailed."""
    rng = np.random.default_rng([seed, units, n])
    W, A = rng.standard_normal((units, units + 1)), rng.standard_normal((units, units))
    X = rng.standard_t(2, (n, units + 1))
    spans = spans_of(X, pn.Network(W, output_weights=A)(X))
    patterns = sign_patterns(spans.V)
    kept = supports(spans.V, patterns)
    programs, found = Programs(), FoundUnits.nothing(spans)
    for on in kept:
        found = independent_units(spans, on, found, programs)
        if len(found) == units:
            break
    distinct, _ = distinct_directions(spans.V)
    return {
        "bound": most_patterns(n, units),
        "vertices": vertex_count(*distinct.shape),
        "patterns": len(patterns),
        "kept": len(kept),
        "programs": programs.run,
        "found": len(found),
    }


STAGES = {
    "bound": ("Lemma 1's bound", ":"),
    "vertices": ("systems solved", "^-"),
    "patterns": ("patterns there are", "o-"),
    "kept": ("pass the rank test", "s-"),
    "programs": ("programs run", "D-"),
}


def draw_arbitrary_inputs(picture: Any, rows: Sequence[Row]) -> None:
    """A panel for each number of units: what is left from stage to stage."""
    groups = by(rows, "units")
    panels = picture.subplots(1, len(groups), sharey=True)
    for axes, (units, group) in zip(panels, groups.items(), strict=True):
        at = by(group, "n")
        n = np.array(list(at), float)
        for colour, (key, (name, style)) in zip(("0.35", *COLOURS), STAGES.items(), strict=False):
            median = np.array([np.median(column(points, key)) for points in at.values()])
            label = f"{name}: slope {abs(slope(n, median)):.1f}"
            axes.plot(
                n, median, style, color=colour, ms=5, lw=1.4 if style == ":" else 1, label=label
            )
        finish(axes, "samples", "", f"{units} units: slope {units} expected", "xy")
        axes.get_legend().set_loc("upper left")
        axes.set_xticks(n, [f"{number:g}" for number in n])
        axes.set_xticks([], minor=True)
    panels[0].set_ylim(top=3e6)
    panels[0].set_ylabel("number")


ARBITRARY_INPUTS = Figure(
    "arbitrary_inputs",
    "Theorem 1: any inputs at all, in time n^O(units), by the sign patterns of the labels' span",
    arbitrary_inputs_rows,
    draw_arbitrary_inputs,
)


# ---------------------------------------------------------------- Theorems 7, 10: Gaussian inputs

SHAPE = 8, 4, 5
"""Features, units, outputs."""
EXACT = 1e-8
"""Parameter error below which a recovery is exact; those that are end near 1e-14."""


def conditioned(units: int, features: int, kappa: float, rng: np.random.Generator) -> Array:
    """Units of norm 1 with equal pairwise cosines, rotated at random; cond = kappa."""
    cosine = (kappa**2 - 1) / (kappa**2 - 1 + units)
    root = np.linalg.cholesky((1 - cosine) * np.eye(units) + cosine)
    frame = np.linalg.qr(rng.standard_normal((features, units)))[0]
    return np.asarray(root @ frame.T)


def gaussian_trial(n: int, kappa: float, noise: float, seed: int) -> float | None:
    """The parameter error of Algorithms 4 to 6 as they stand; None where there was no answer."""
    features, units, outputs = SHAPE
    rng = np.random.default_rng([seed, n])
    A = rng.standard_normal((outputs, units))
    truth = pn.Network(conditioned(units, features, kappa, rng), output_weights=A)
    X, y = pn.sample(truth, n, noise=noise, rng=rng)
    found = pn.recover(
        X, y, units=units, method="rectified", faithful=True, refine=False, noise=noise, rng=seed
    )
    return None if found.network is None else float(pn.parameter_error(found.network, truth))


def gaussian_rows(quick: bool) -> Iterator[Row]:
    """Errors without noise for several condition numbers, and with noise for one."""
    sizes = (300, 3000) if quick else (30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    settings = [(1.0, 0.0), (3.0, 0.0), (10.0, 0.0), (1.0, 0.1), (1.0, 1.0)]
    for kappa, noise in settings[::2] if quick else settings:
        for n in sizes:
            errors = [gaussian_trial(n, kappa, noise, s) for s in range(2 if quick else 20)]
            hits = sum(error is not None and error < EXACT for error in errors)
            yield {"kappa": kappa, "noise": noise, "n": n, "hits": hits, **quartiles(errors)}


def draw_gaussian(picture: Any, rows: Sequence[Row]) -> None:
    """Exact recovery against samples, and the error under noise."""
    left, right = picture.subplots(1, 2)
    exact = by([row for row in rows if row["noise"] == 0], "kappa")
    for colour, (kappa, group) in zip(COLOURS, exact.items(), strict=False):
        label = rf"$\kappa$ = {kappa:g}"
        draw_shares(left, column(group, "n"), group, "o-", color=colour, label=label)
    finish(left, "samples", "share of trials that are exact", "No noise: Algorithms 4 and 5", "x")
    noisy = by([row for row in rows if row["noise"]], "noise")
    for colour, (noise, group) in zip(COLOURS, noisy.items(), strict=False):
        n, median = column(group, "n"), column(group, "median")
        many = n >= n[-1] / 100  # before that the error is of the size of the weights
        label = f"noise {noise:g}: slope {slope(n[many], median[many]):.2f}"
        draw_medians(right, n, group, "o-", color=colour, label=label)
        guide(right, n[many], median[-1] * (n[-1] / n[many][0]) ** 0.5, -0.5, "")
    right.plot([], [], label="predicted: slope -1/2", **GUIDE_STYLE)
    finish(right, "samples", "parameter error", "With noise: Algorithms 4 and 6, regression", "xy")


GAUSSIAN = Figure(
    "gaussian",
    "Theorems 7 and 10: Gaussian inputs; exact without noise, to any precision with it",
    gaussian_rows,
    draw_gaussian,
)
