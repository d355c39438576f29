"""BJW19 under noise: sparse (Theorem 14), and anything independent of x (Theorems 12 and 13).

Letters of the paper: its A is our Y transposed, U* our A, V* our W, E the noise; k units, m
outputs, sigma_min the smallest singular value of A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import provenet as pn
from bjw19_common import COLOURS, draw_medians, quartiles
from figures import GUIDE_STYLE, Figure, Row, by, column, finish, guide, slope
from provenet.common.typing import AnyArray, Array
from provenet.fitting.low_rank import (
    Separation,
    principal_component_pursuit,
    robust_pca,
)
from provenet.fitting.noisy_signs import learn_directions

# ---------------------------------------------------------------- Theorem 14: sparse noise

OUTPUTS, SAMPLES = 60, 150
RIGHT_LABEL = 1e-3
"""Error of a sample's labels, over the usual size of a sample's, below which they are right."""
RIGHT_SAMPLES = 0.95
"""Share of the samples that must come out right: a few may have too many bad labels by chance."""


def sparse_labels(units: int, share: float, seed: int) -> tuple[Array, Array]:
    """Labels of a network as in Theorem 14, and the same with a share replaced.

    Orthonormal weights and output weights; what replaces labels is Gaussian and of their own size,
    so that no corrupted label can be told by its size.
    """
    rng = np.random.default_rng([seed, units, round(1000 * share)])
    A = np.linalg.qr(rng.standard_normal((OUTPUTS, units)))[0]
    clean = np.maximum(rng.standard_normal((SAMPLES, units)), 0.0) @ A.T
    bad = rng.random(clean.shape) < share
    return clean, np.where(bad, clean.std() * rng.standard_normal(clean.shape), clean)


def right_samples(found: Array, clean: Array) -> AnyArray:
    """Which samples have all their labels right."""
    size = np.sqrt(np.mean(np.sum(clean**2, axis=1)))
    return np.asarray(np.linalg.norm(found - clean, axis=1) < RIGHT_LABEL * size)


def by_pursuit(Y: Array, clean: Array, seed: int) -> tuple[bool, bool]:
    """Whether the pursuit alone separates the labels; it claims nothing about itself."""
    right = right_samples(principal_component_pursuit(Y).low_rank, clean)
    return bool(right.mean() >= RIGHT_SAMPLES), False


def by_robust_pca(Y: Array, clean: Array, seed: int) -> tuple[bool, bool]:
    """Whether `"sparse-noise"` repairs the labels; and whether it takes wrong ones for right."""
    parts = robust_pca(Y, np.random.default_rng(seed))
    right = right_samples(parts.low_rank, clean) & parts.determined
    done, claimed = bool(right.mean() >= RIGHT_SAMPLES), parts.status is Separation.SEPARATED
    return claimed and done, claimed and not done


SEPARATIONS: dict[str, Callable[[Array, Array, int], tuple[bool, bool]]] = {
    "Convex pursuit (section 8)": by_pursuit,
    'What "sparse-noise" does': by_robust_pca,
}


def sparse_noise_rows(quick: bool) -> Iterator[Row]:
    """Successes for each number of units and share; half of the trials do where none succeeds."""
    widths = (2, 6) if quick else (1, 2, 3, 6, 9, 12, 18, 24)
    shares = (0.02, 0.2) if quick else (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
    trials = 2 if quick else 12
    for road in SEPARATIONS:
        for units in widths:
            for share in shares:
                ends = _ends(road, units, share, trials)
                hits, wrong = (sum(end[i] for end in ends) for i in (0, 1))
                row = {"road": road, "units": units, "outputs": OUTPUTS, "share": share}
                yield {**row, "hits": hits, "wrong": wrong, "of": len(ends)}


def _ends(road: str, units: int, share: float, trials: int) -> list[tuple[bool, bool]]:
    ends: list[tuple[bool, bool]] = []
    for seed in range(trials):
        if 2 * seed >= trials and not any(done for done, _ in ends):
            break
        clean, Y = sparse_labels(units, share, seed)
        ends.append(SEPARATIONS[road](Y, clean, seed))
    return ends


def draw_sparse_noise(picture: Any, rows: Sequence[Row]) -> None:
    """Two maps of the same colours; each cell has its count."""
    panels = picture.subplots(1, 2, sharey=True)
    for axes, (name, group) in zip(panels, by(rows, "road").items(), strict=True):
        widths, shares = list(by(group, "units")), list(by(group, "share"))
        share_of_hits = np.array([row["hits"] / row["of"] for row in group])
        values = share_of_hits.reshape(len(widths), len(shares))
        image = axes.imshow(values, origin="lower", aspect="auto", vmin=0, vmax=1, cmap="viridis")
        for row, value in zip(group, share_of_hits, strict=True):
            at = shares.index(row["share"]), widths.index(row["units"])
            text = f"{row['hits']}/{row['of']}"
            colour = "white" if value < 0.6 else "black"
            axes.text(*at, text, ha="center", va="center", size=8, color=colour)
        # Where errors that someone chose could not be told from labels: (outputs - units) / 2.
        limit = [
            np.interp((1 - k / OUTPUTS) / 2, [*shares, 0.5], range(len(shares) + 1)) for k in widths
        ]
        axes.plot(limit, range(len(widths)), color="white", ls=":", lw=2)
        axes.set_xlim(-0.5, len(shares) - 0.5)
        axes.set_xticks(range(len(shares)), [f"{100 * share:g}%" for share in shares])
        axes.set_yticks(range(len(widths)), [f"{k} ({k / OUTPUTS:.2f})" for k in widths])
        finish(axes, "labels corrupted", "", name)
        axes.grid(False)
    panels[0].set_ylabel("units (units / outputs)")
    picture.colorbar(image, ax=panels, label="share of trials with labels repaired")


SPARSE_NOISE = Figure(
    "sparse_noise",
    "Theorem 14: corrupted labels are repaired where they and the units are few beside outputs",
    sparse_noise_rows,
    draw_sparse_noise,
)


# ---------------------------------------------------------------- Theorems 12 and 13: any noise


def gaussian_noise(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """The noise of Theorem 10."""
    return rng.standard_normal(shape)


def heavy_noise(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Student's t with one and a half degrees of freedom: no variance."""
    return rng.standard_t(1.5, shape)


def common_noise(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Nearly one number a sample on all its outputs, of either sign, and hardly ever near zero."""
    one = rng.choice([-1.0, 1.0], (shape[0], 1)) * (1 + 0.2 * rng.standard_normal((shape[0], 1)))
    return np.asarray(one + 0.1 * rng.standard_normal(shape))


NOISES: dict[str, Callable[[tuple[int, int], np.random.Generator], Array]] = {
    "Gaussian": gaussian_noise,
    "Student t, 1.5 degrees": heavy_noise,
    "common to all outputs": common_noise,
}
SHAPE = 4, 2, 3
"""Features, units, outputs."""
EPSILON = 0.1
"""The theorem's, which buys precision for time; the constant of its O() is taken as 1."""
TRIED: dict[str, dict[str, Any]] = {
    "Algorithm 8": {"faithful": True, "refine": False},
    "default": {},
}


def noise_trial(name: str, size: float, n: int, seed: int) -> Iterator[Row]:
    """Losses over that of the truth: the bound's, no network's, Algorithm 8's, the default's.

    With each the error of the function on the samples over the function; where the noise is centred
    is not part of it, for nothing tells it from the output bias.
    """
    features, units, outputs = SHAPE
    rng = np.random.default_rng([seed, n])
    W = rng.standard_normal((units, features))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    truth = pn.Network(W, output_weights=rng.standard_normal((outputs, units)))
    X = rng.standard_normal((n, features))
    signal = truth(X)
    E = NOISES[name](signal.shape, rng)
    E *= size * np.median(np.abs(signal)) / np.median(np.abs(E))
    Y, own, whole = signal + E, np.linalg.norm(E), np.linalg.norm(signal)
    least = np.linalg.svd(truth.output_weights, compute_uv=False)[-1]
    added = np.sqrt(least * EPSILON * np.sqrt(n * outputs) * np.linalg.norm(E, 2))
    yield {"what": "bound", "loss": float(1 + added / own), "function": float(added / whole)}
    yield {"what": "no network", "loss": float(np.linalg.norm(Y) / own), "function": 1.0}
    for road, options in TRIED.items():
        found = pn.recover(X, Y, units=units, method="arbitrary-noise", rng=seed, **options).network
        if found is None:
            yield {"what": road, "loss": None, "function": None}
            continue
        off = found(X) - signal
        off -= np.median(off, axis=0)
        loss = float(np.linalg.norm(Y - found(X)) / own)
        yield {"what": road, "loss": loss, "function": float(np.linalg.norm(off) / whole)}


def arbitrary_noise_rows(quick: bool) -> Iterator[Row]:
    """Quartiles of losses and errors for kinds of noise of several sizes."""
    seeds, n = (1, 500) if quick else (12, 2000)
    for name in list(NOISES)[-1:] if quick else NOISES:
        for size in (0.3, 3.0) if quick else (0.1, 0.3, 1.0, 3.0, 10.0):
            trials = [row for seed in range(seeds) for row in noise_trial(name, size, n, seed)]
            for what, group in by(trials, "what").items():
                for of in ("loss", "function"):
                    row = {"noise": name, "size": size, "n": n, "what": what, "measure": of}
                    yield {**row, **quartiles([trial[of] for trial in group])}


LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "bound": (":", GUIDE_STYLE),
    "no network": ("--", {"color": "0.6", "linestyle": "--", "linewidth": 1}),
    "Algorithm 8": ("s-", {"color": "tab:orange"}),
    "default": ("o-", {"color": "tab:blue"}),
}


def draw_arbitrary_noise(picture: Any, rows: Sequence[Row]) -> None:
    """A column for each kind of noise: the loss above, what is lost of the function below."""
    kinds = by(rows, "noise")
    panels = picture.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
    words = {"loss": "loss / loss of the truth", "function": "error of the function"}
    for line, (of, word) in zip(panels, words.items(), strict=True):
        for axes, (name, group) in zip(line, kinds.items(), strict=True):
            for what, points in by([row for row in group if row["measure"] == of], "what").items():
                style, look = LOOKS[what]
                x, median = column(points, "size"), column(points, "median")
                if what in TRIED:
                    draw_medians(axes, x, points, style, label=what, **look)
                else:
                    axes.plot(x, median, label=what, **look)
            bottom = of == "function"
            finish(axes, "noise / signal" if bottom else "", "", "" if bottom else name, "xy")
            axes.get_legend().remove()
        line[0].set_ylabel(word)
    panels[0, 0].legend(frameon=False, fontsize=8)


ARBITRARY_NOISE = Figure(
    "arbitrary_noise",
    "Theorem 13: under any noise that is independent of the inputs, a loss near that of the truth",
    arbitrary_noise_rows,
    draw_arbitrary_noise,
    width=11.0,
)


def direction_error(name: str, n: int, seed: int) -> float:
    """The distance of the direction that signs give from a unit under noise of thrice its size."""
    rng = np.random.default_rng([seed, n])
    w = rng.standard_normal(SHAPE[0])
    w /= np.linalg.norm(w)
    X = rng.standard_normal((n, SHAPE[0]))
    e = NOISES[name]((n, 1), rng)
    values = np.maximum(X @ w, 0.0)[:, None] + 3.0 * e / np.median(np.abs(e))
    learned = learn_directions(X, values, float(np.median(np.abs(values))), rng)
    return float(np.linalg.norm(learned.directions[0] - w))


def sign_step_rows(quick: bool) -> Iterator[Row]:
    """Quartiles of the direction's error against samples."""
    for name in NOISES:
        for n in (1000, 10_000) if quick else (300, 1000, 3000, 10_000, 30_000, 100_000, 300_000):
            errors = [direction_error(name, n, seed) for seed in range(3 if quick else 21)]
            yield {"noise": name, "n": n, **quartiles(errors)}


def draw_sign_step(picture: Any, rows: Sequence[Row]) -> None:
    """Measured and promised slopes."""
    axes = picture.subplots(1, 1)
    for colour, (name, group) in zip(COLOURS, by(rows, "noise").items(), strict=False):
        n = column(group, "n")
        label = f"{name}: slope {slope(n, column(group, 'median')):.2f}"
        median = draw_medians(axes, n, group, "o-", color=colour, label=label)
    guide(axes, n, 2 * median[0], -0.125, "promised: slope -1/8")
    axes.plot(n, median[0] * (n / n[0]) ** -0.5, "--", color="0.7", lw=1, label="slope -1/2")
    finish(axes, "samples", "distance of the direction found", "", "xy")


SIGN_STEP = Figure(
    "sign_step",
    "Theorem 12: a unit's direction from signs under large noise",
    sign_step_rows,
    draw_sign_step,
    width=6.5,
)
