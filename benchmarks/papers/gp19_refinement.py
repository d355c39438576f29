"""GP19, Theorem 5: from a direction near a unit's weights to any angle, under a monotone top.

By questions, Algorithm 1 starts 5 degrees from a normal of a hidden union of halfspaces, as many of
them as features. Without errors in the angles that it compares, a step `z + 0.1 sin(alpha) / d g`
changes the angle by `0.1 / d (-g_1 + 0.05 (d - 2) / d)` of itself, to second order; it is accepted
from a decrease of `0.01 / d` on, so that

    alpha = alpha_0 exp(-c steps / d),  c = 0.1 (E[g | g > a] - 0.05 (d - 2) / d),
    a = 0.1 + 0.05 (d - 2) / d,

with c from 0.084 to 0.088: the line that is drawn. Beside it, the descent on the same bands.

From samples (`faithful=True`) bands of width alpha hold `phi(t) alpha n` of them, and no search
goes on where these are too few to tell a smaller angle: it falls as `1 / n` at best. It also ends
once it sees half of the 0.01 rad that it is asked for. Step 1, before it, falls as `1 / sqrt(n)`,
down to what products of units turn it by (Lemma 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

import provenet as pn
from figures import GUIDE_STYLE, Figure, Row, by, column, finish, guide, slope
from provenet.common.typing import Array
from provenet.data.sources import QuerySource
from provenet.datasets import random_layered
from provenet.lowest_layer.bands.descent import Refinement, descend
from provenet.lowest_layer.bands.queries import QueriedBands
from provenet.lowest_layer.bands.random_search import random_search
from provenet.networks.layered import LayeredNetwork, lowest_layer, union

START = float(np.radians(5.0))
SEARCHES: dict[str, Callable[..., Refinement]] = {"Algorithm 1": random_search, "descent": descend}
COLOURS = {3: "tab:purple", 5: "tab:blue", 10: "tab:red"}
POINTS = 60
"""Of a path, at most so many are kept."""


def hidden_union(d: int, rng: np.random.Generator) -> LayeredNetwork:
    """As many halfspaces as features, with random normals, at 2.5 from the origin."""
    W = rng.standard_normal((d, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return LayeredNetwork(lowest_layer(W, 2.5, "step"), union)


def near(w: Array, angle: float, rng: np.random.Generator) -> Array:
    """A unit vector at an angle from another."""
    v = rng.standard_normal(len(w))
    v -= (v @ w) * w
    return np.asarray(np.cos(angle) * w + np.sin(angle) * v / np.linalg.norm(v))


def searched(name: str, d: int, angle: float, seed: int) -> tuple[Refinement, Array]:
    """A search for one normal, and the true angle at its start and after each accepted step."""
    rng = np.random.default_rng([seed, d])
    hidden = hidden_union(d, rng)
    w = hidden.layer.weights[0]
    start = near(w, START, rng)
    oracle = QueriedBands(QuerySource(hidden, d, 1).query, d, rng=rng)
    found = SEARCHES[name](oracle, start, angle, rng=rng)
    return found, np.array([angle_between(step.direction, w) for step in found.path])


def angle_between(z: Array, w: Array) -> float:
    """Of unit vectors; of small angles the cosine tells nothing, so it is by the distance."""
    return float(2 * np.arcsin(min(float(np.linalg.norm(z - w)) / 2, 1.0)))


def predicted_rate(d: int) -> float:
    """c: `log(1 / angle)` gained by an accepted step, times d, if all angles were exact."""
    across = 0.05 * (d - 2) / d
    least = 0.1 + across
    return float(0.1 * (norm.pdf(least) / norm.sf(least) - across))


def questions(quick: bool) -> Iterator[Row]:
    """The angle along each search."""
    runs = (
        [("Algorithm 1", 3, 2e-2, 1), ("descent", 3, 1e-4, 1)]
        if quick
        else [("Algorithm 1", 5, 1e-4, 3), ("Algorithm 1", 10, 1e-3, 1), ("descent", 10, 1e-6, 3)]
    )
    for name, d, asked, seeds in runs:
        for seed in range(seeds):
            found, angles = searched(name, d, asked, seed)
            last = len(angles) - 1
            for i in np.unique(np.linspace(0, last, min(POINTS, last + 1)).astype(int)).tolist():
                yield {
                    "part": "questions",
                    "search": name,
                    "d": d,
                    "seed": seed,
                    "steps": i,
                    "queries": found.path[i].queries if i < last else found.queries,
                    "angle": float(angles[i]),
                }


def samples(quick: bool) -> Iterator[Row]:
    """Both steps of the paper on n samples; the worst of 3 steps in 5 features, in radians."""
    sizes, seeds = ((50_000,), 1) if quick else ((50_000, 200_000, 800_000, 3_200_000), 5)
    for n in sizes:
        for seed in range(seeds):
            hidden = random_layered(
                3,
                5,
                threshold=2.0,
                products=0.5,
                activation="step",
                rng=np.random.default_rng([seed, 4]),
            )
            X = np.random.default_rng([seed, 5]).standard_normal((n, 5))
            found = pn.recover(
                X, hidden(X), units=3, activation="step", method="lowest-layer",
                faithful=True, rng=seed,
            )  # fmt: skip
            yield {"part": "samples", "n": n, "seed": seed, **both_steps(found, hidden)}


def both_steps(found: pn.Recovery, hidden: LayeredNetwork) -> Row:
    """The worst angle after step 1 and after step 2, and what step 2 states."""
    layer = found.layer
    if layer is None or layer.first is None or found.network is None:
        return {"step_1": None, "step_2": None, "stated": None}
    W, truth = found.network.weights, hidden.layer.weights
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    return {
        "step_1": worst_angle(layer.first.weights, truth),
        "step_2": worst_angle(W, truth),
        "stated": float(layer.angle_errors.max()),
    }


def worst_angle(W: Array, truth: Array) -> float:
    """From a true unit to the nearest found."""
    return max(min(angle_between(z, w) for z in W) for w in truth)


def measure(quick: bool) -> Iterator[Row]:
    """Samples first."""
    yield from samples(quick)
    yield from questions(quick)


def draw(picture: Any, rows: Sequence[Row]) -> None:
    """The angle against accepted steps over d, against questions, and against samples."""
    steps, queries, of_samples = picture.subplots(1, 3)
    asked = [row for row in rows if row["part"] == "questions"]
    _draw_questions(steps, queries, asked)
    _draw_samples(of_samples, [row for row in rows if row["part"] == "samples"])
    finish(steps, "accepted steps / d", "true angle (rad)", "by questions: steps", "y")
    finish(queries, "questions", "", "by questions: their number", "xy")
    finish(of_samples, "samples n", "worst of 3 units (rad)", "from samples, d = 5", "xy")


def _draw_questions(steps: Any, queries: Any, rows: Sequence[Row]) -> None:
    for (name, d), mine in by(rows, "search", "d").items():
        style = {"color": COLOURS[d], "ls": "-" if name == "Algorithm 1" else "--"}
        for i, path in enumerate(by(mine, "seed").values()):
            label = f"{name}, d = {d}" if i == 0 else None
            angles = column(path, "angle")
            steps.plot(column(path, "steps") / d, angles, **style, lw=1.2, label=label)
            queries.plot(np.maximum(column(path, "queries"), 1), angles, **style, lw=1.2)
    of_paper = [row for row in rows if row["search"] == "Algorithm 1"]
    least = min(row["angle"] for row in of_paper)
    c = predicted_rate(max(row["d"] for row in of_paper))
    end = np.log(START / least) / c
    label = f"exact angles: exp(-{c:.3f} steps / d)"
    steps.plot([0, end], [START, least], label=label, **GUIDE_STYLE)


def _draw_samples(axes: Any, rows: Sequence[Row]) -> None:
    groups = by(rows, "n")
    sizes = list(groups)
    axes.axhline(0.01, color="0.8", lw=0.8, label="asked of step 2")
    for key, colour, power, words, theory in (
        ("step_1", "tab:green", -0.5, "step 1", "predicted"),
        ("step_2", "tab:orange", -1.0, "step 2", "at best"),
    ):
        middle = [float(np.nanmedian(column(group, key))) for group in groups.values()]
        fitted = f": slope {slope(sizes, middle):.2f}" if len(sizes) > 1 else ""
        axes.plot(sizes, middle, "o-", color=colour, ms=4, label=words + fitted)
        axes.plot(column(rows, "n"), column(rows, key), ".", color=colour, alpha=0.3, ms=4)
        guide(axes, sizes, middle[0], power, f"{theory}: slope {power:g}")


REFINEMENT = Figure(
    "refinement",
    "Theorem 5: Algorithm 1 refines a direction in O(d log(1/angle)) accepted steps",
    measure,
    draw,
    width=13.0,
)
