"""What GLM17 proves, measured: minima of G and F, samples, output weights, and its conjecture.

- Theorems 2.3, 5.1 and A.4: where the Hessian has no eigenvalue below -tau_0, the distance from the
  truth is at most a multiple of the gradient. Points on descents from random starts, and points
  scattered about the minimum, on exact populations.
- Theorem 2.7: the error of G and F from samples falls as the root of their number.
- Lemma 2.5 (as printed, and with the norm of a*) and Lemma B.2: output weights from rows that are
  delta away.
- The conjecture of section 2.1: from how many random starts descents end at the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

import landscape
import provenet as pn
from figures import GUIDE_STYLE, Figure, Row, by, column, finish, guide, slope
from provenet.common.typing import Array
from provenet.landscape import minimise, objective, output_weights
from provenet.landscape.designed import Design
from provenet.landscape.second_order import smallest_eigenvalue
from provenet.networks.activations import RELU

C_1, C_4 = (float(RELU.hermite(k, 0.0)) for k in (1, 4))

# ---------------------------------------------------------------- minima

UNITS = 6
RESOLVED = 1e-11
"""Gradients below this are rounding, and so is the distance then."""


def measure_minima(quick: bool) -> Iterator[Row]:
    """Points on descents on G, and about its minimum."""
    truth = pn.Network(np.eye(UNITS), output_weights=np.geomspace(1.0, 2.0, UNITS))
    G = objective("G", truth)
    assert isinstance(G, Design)
    for start in range(3 if quick else 20):
        first = np.random.default_rng([start, 1]).standard_normal((UNITS, UNITS)) / np.sqrt(UNITS)
        points, found = _path(G, first)
        yield from (_row(G, B, "descent") for B in points)
        if start < 3:
            yield from (_row(G, B, "scattered") for B in _about(found, start))


def _path(G: Design, start: Array) -> tuple[list[Array], Array]:
    """All points of a descent, and its end."""
    assert G.theorem is not None
    points: list[Array] = []
    found = minimise(
        G,
        start,
        slope=G.theorem.slope,
        curvature=G.theorem.curvature,
        watch=lambda B: points.append(B.copy()),
    )
    return points, found.B


def _about(B: Array, seed: int) -> Iterator[Array]:
    """Matrices at distances that fall by tens."""
    rng = np.random.default_rng([seed, 2])
    for size in np.geomspace(1e-8, 0.3, 16):
        yield B + size * rng.standard_normal(B.shape) / np.sqrt(B.size)


def _row(G: Design, B: Array, kind: str) -> Row:
    assert G.theorem is not None
    lowest = smallest_eigenvalue(G, B)[0]
    return {
        "kind": kind,
        "slope": float(np.linalg.norm(G.gradient(B))),
        "distance": _off_a_permutation(B),
        "lowest": lowest,
        "convex": bool(lowest >= -G.theorem.curvature),
    }


def _off_a_permutation(B: Array) -> float:
    """The largest entry of E in `B = D P + E`, with the best P."""
    rest = np.abs(B).copy()
    for _ in B:
        i, j = np.unravel_index(np.argmax(np.where(np.isnan(rest), -1, rest)), rest.shape)
        rest[i, :], rest[:, j] = np.nan, np.nan
        rest[i, j] = np.nan
        B = B.copy()
        B[i, j] = 0.0
    return float(np.abs(B).max())


def draw_minima(picture: Any, rows: Sequence[Row]) -> None:
    """Distance against gradient; saddles are far from the truth, minima are not."""
    axes = picture.subplots()
    seen = [row for row in rows if row["slope"] > RESOLVED and row["distance"] > 0]
    for convex, colour, words in (
        (False, "tab:red", "an eigenvalue below -tau_0"),
        (True, "tab:blue", "none below -tau_0"),
    ):
        for kind, marker in (("descent", "o"), ("scattered", "+")):
            own = [row for row in seen if (row["convex"], row["kind"]) == (convex, kind)]
            where = "on descents from random starts" if kind == "descent" else "about the minimum"
            x, y = column(own, "slope"), column(own, "distance")
            axes.plot(
                x, y, marker, ms=4, color=colour, alpha=0.6, label=f"{where}: {words}", ls="none"
            )
    x = np.geomspace(RESOLVED, max(row["slope"] for row in seen), 2)
    start = x[0] * np.sqrt(24) / abs(C_4)  # sigma_4 = c_4 / sqrt(24), and the least a is 1
    guide(axes, x, start, 1.0, "gradient / (|sigma_4| a_min)")
    finish(axes, "norm of the gradient", "largest entry of E in B = D P + E", log="xy")
    axes.set_ylim(bottom=1e-12)


# ---------------------------------------------------------------- samples

SIZE = 6


def measure_samples(quick: bool) -> Iterator[Row]:
    """Errors of G and F from one pass, and of the paper's own descent on G and f2f4."""
    roads = [("G", False), ("F", False), ("f2f4", True), ("G", True)]
    sizes = [10_000, 100_000] if quick else [10_000, 100_000, 1_000_000]
    for (name, faithful), n, seed in product(roads, sizes, range(1 if quick else 3)):
        W = np.linalg.qr(np.random.default_rng([seed, 1]).standard_normal((SIZE, SIZE)))[0]
        truth = pn.Network(W)
        X, y = pn.sample(truth, n, rng=np.random.default_rng([seed, 2]))
        found = pn.recover(
            X,
            y,
            units=SIZE,
            method="landscape",
            objective=name,
            faithful=faithful,
            refine=False,
            rng=seed,
        ).network
        yield {
            "objective": name,
            "faithful": faithful,
            "samples": n,
            "seed": seed,
            "error": None if found is None else _row_distance(found.weights, W),
        }


def _row_distance(found: Array, truth: Array) -> float:
    """Largest distance of a unit's direction from the nearest of the truth's."""
    cosines = found @ truth.T / np.linalg.norm(found, axis=1, keepdims=True)
    return float(np.sqrt(2 - 2 * np.minimum(np.abs(cosines).max(axis=0), 1)).max())


def draw_samples(picture: Any, rows: Sequence[Row]) -> None:
    """Median error against samples, the slope -1/2 beside it."""
    axes = picture.subplots()
    for i, ((name, faithful), own) in enumerate(by(rows, "objective", "faithful").items()):
        groups = by(own, "samples")
        n, errors = np.array(list(groups)), [column(g, "error") for g in groups.values()]
        middle = np.array([np.nanmedian(e) for e in errors])
        words = "the paper's stochastic descent" if faithful else "one pass, deterministic"
        label = f"{name}, {words}: slope {slope(n, middle):.2f}"
        style = "--" if faithful else "-"
        width = 4 if i == 0 else 1.5  # G and F coincide
        axes.plot(n, middle, style, marker="o", ms=4, lw=width, color=f"C{i}", label=label)
        axes.fill_between(
            n,
            [np.nanmin(e) for e in errors],
            [np.nanmax(e) for e in errors],
            color=f"C{i}",
            alpha=0.12,
        )
        if i == 0:
            guide(axes, n, middle[0], -0.5, "slope -1/2")
    finish(axes, "samples", "largest distance of a unit", log="xy")


# ---------------------------------------------------------------- output weights

WIDE, SEVERAL = 100, 10


def measure_output_weights(quick: bool) -> Iterator[Row]:
    """Algorithm 1 at 100 orthogonal units, Algorithm 2 at 10 independent ones; exact moments."""
    deltas = np.geomspace(1e-3, 0.4, 6 if quick else 14)
    for delta, kind in product(deltas, ("leaning", "random")):
        errors = [_first_error(delta, kind, seed) for seed in range(2 if quick else 10)]
        yield {
            "algorithm": 1,
            "kind": kind,
            "delta": float(delta),
            "error": float(max(errors)),
            "printed": float(delta),
            "bound": float(delta * np.sqrt(WIDE)),
        }
    for delta in np.geomspace(1e-4, 0.03, 6 if quick else 14):
        found = [_second_error(delta, seed) for seed in range(2 if quick else 10)]
        error, bound = max(found, key=lambda pair: pair[0] / pair[1])
        yield {
            "algorithm": 2,
            "kind": "random",
            "delta": float(delta),
            "error": error,
            "bound": bound,
        }


def _first_error(delta: float, kind: str, seed: int) -> float:
    """Of Algorithm 1 at B* = I, a* = 1, one row turned by delta: to all others, or at random."""
    rng = np.random.default_rng([seed, 1])
    aside = np.ones(WIDE - 1) if kind == "leaning" else rng.standard_normal(WIDE - 1)
    angle = 2 * np.arcsin(delta / 2)
    B = np.eye(WIDE)
    B[0] = np.append(np.cos(angle), np.sin(angle) * aside / np.linalg.norm(aside))
    a, _ = output_weights(C_1 * np.ones(WIDE), np.eye(WIDE), B, RELU, orthogonal=True)
    return float(np.abs(a - 1).max())


def _second_error(delta: float, seed: int) -> tuple[float, float]:
    """Of Algorithm 2 where B is delta away in spectral norm, and what Lemma B.2 allows."""
    rng = np.random.default_rng([seed, 2])
    W = landscape.conditioned_rows(rng, SEVERAL, SEVERAL, 3.0)
    a = np.geomspace(1.0, 2.0, SEVERAL)
    noise = rng.standard_normal(W.shape)
    B = W + delta * noise / np.linalg.norm(noise, 2)
    B /= np.linalg.norm(B, axis=1, keepdims=True)
    found, _ = output_weights(C_1 * a @ W, np.eye(SEVERAL), B, RELU)
    delta = float(np.linalg.norm(B - W, 2))
    least = float(np.linalg.svd(B, compute_uv=False)[-1])
    bound = 2 * np.sqrt(2) * a.max() * np.sqrt(SEVERAL) * delta / least**2
    return float(np.linalg.norm(found - a)), float(bound)


def draw_output_weights(picture: Any, rows: Sequence[Row]) -> None:
    """Both lemmas, their bounds beside them."""
    left, right = picture.subplots(1, 2)
    first, second = by(rows, "algorithm")[1], by(rows, "algorithm")[2]
    for kind, own in by(first, "kind").items():
        words = "the row leans to all others" if kind == "leaning" else "at random, the worst"
        left.plot(column(own, "delta"), column(own, "error"), "o", ms=5, label=words)
    delta = column(by(first, "kind")["leaning"], "delta")
    left.plot(delta, delta, label="delta a_max, as printed", **GUIDE_STYLE)
    left.plot(delta, delta * np.sqrt(WIDE), label="delta |a*|", **GUIDE_STYLE | {"linestyle": "--"})
    title = f"Lemma 2.5, Algorithm 1: {WIDE} orthogonal units, a* = 1"
    finish(left, "delta", "error of an output weight", title, log="xy")
    x = column(second, "delta")
    right.plot(x, column(second, "error"), "o", ms=5, label="at random, the worst")
    right.plot(
        x, column(second, "bound"), label="2 sqrt(2) a_max sqrt(m) delta / s_min²", **GUIDE_STYLE
    )
    title = f"Lemma B.2, Algorithm 2: {SEVERAL} units, condition 3, a within 2"
    finish(right, "delta", "|a - P a*|", title, log="xy")


# ---------------------------------------------------------------- the conjecture


DRAWN = {(5, 5): (5, 2), (5, 8): (5, 2)}
"""(features, units), and how many networks and starts for each: some of what
`benchmarks/landscape.py conjecture` runs in half an hour."""


def measure_conjecture(quick: bool) -> Iterator[Row]:
    """How many descents end at the truth, a row an ensemble and objective."""
    for ensemble in landscape.ensembles(DRAWN):
        networks, starts = (1, 2) if quick else DRAWN[ensemble.features, ensemble.units]
        tasks = list(product(range(networks), range(starts)))
        for name in landscape.COLUMNS:
            if not landscape.is_for(name, ensemble):
                continue
            ends = [run.end for run in landscape.descents(ensemble, name, tasks)]
            yield {
                "ensemble": "; ".join(ensemble.titles),
                "objective": name,
                "truth": ends.count("truth"),
                "restless": ends.count("not at rest"),
                "descents": len(ends),
            }


def draw_conjecture(picture: Any, rows: Sequence[Row]) -> None:
    """A table in colours: the share of descents that ended at the truth."""
    axes = picture.subplots()
    ensembles = list(by(rows, "ensemble"))
    names = [name for name in landscape.COLUMNS if name in by(rows, "objective")]
    shares = np.full((len(names), len(ensembles)), np.nan)
    for row in rows:
        place = names.index(row["objective"]), ensembles.index(row["ensemble"])
        shares[place] = row["truth"] / row["descents"]
        text = f"{row['truth']}\n/{row['descents']}"
        dark = shares[place] < 0.4
        axes.text(*place[::-1], text, ha="center", va="center", size=6, color="w" if dark else "k")
    image = axes.imshow(shares, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks(range(len(ensembles)), ensembles, rotation=60, ha="right", size=7)
    picture.colorbar(image, ax=axes, label="share at the truth", pad=0.01)
    axes.set_xlabel("features, units; units B*; largest over smallest output weight", size=8)


FIGURES = (
    Figure(
        "minima",
        "GLM17, Theorem 5.1: a small gradient of G with no eigenvalue below -tau_0 is the truth",
        measure_minima,
        draw_minima,
    ),
    Figure(
        "samples",
        f"GLM17, Theorem 2.7: G and F from samples ({SIZE} orthogonal units)",
        measure_samples,
        draw_samples,
    ),
    Figure(
        "output_weights",
        "GLM17, appendix B: output weights from rows that are delta away",
        measure_output_weights,
        draw_output_weights,
        width=11.0,
    ),
    Figure(
        "conjecture",
        "GLM17, section 2.1: from how many random starts descents end at the truth",
        measure_conjecture,
        draw_conjecture,
        width=12.0,
    ),
)
