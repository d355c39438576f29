"""GP19, sections 3 and 4, measured: Theorem 7 against samples and E[Q], Theorem 10's condition.

*Theorem 7.* A jump of height `E[Q_i | w_i.x = t]` shows in bands of width eps if the noise of their
means, `sqrt(2 Var / (phi(t) eps n))`, is `SIGNIFICANT` times smaller; the thinnest such bands tell
the direction. So the angle should fall as 1 / n, and the lowest jump that is found at all as
`1 / sqrt(n)`: both are drawn, the second without a free constant (`predicted_share`).

*Theorem 10.* In the plane of two units `E[f h_4(z.x)]` is `alpha_1 c^4 + alpha_2 s^4 + gamma c^2
s^2` with c and s the cosine and sine of z's angle. With equal alphas its maxima are the units as
long as `gamma < alpha_1 + alpha_2`, and half-way between them, 45 degrees off, from there on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import factorial, sqrt
from typing import Any

import numpy as np
from scipy.stats import norm

import provenet as pn
from figures import GUIDE_STYLE, Figure, Row, by, column, finish, guide, share_with_error, slope
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.lowest_layer.faces.model import WIDTH
from provenet.lowest_layer.faces.papers_search import papers_faces
from provenet.lowest_layer.faces.search import find_faces
from provenet.lowest_layer.faces.thin_bands import SIGNIFICANT
from provenet.methods.even import maxima, strengths
from provenet.networks.activations import Activation, Symmetry, get_activation
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer

STEP = get_activation("step")
COS = Activation("cos", np.cos, lambda a: -np.sin(a), symmetry=Symmetry.EVEN, kinked=False)
SEARCHES = {"paper": papers_faces, "ours": find_faces}
NAMES = {"paper": "C_2 as printed", "ours": "ours"}
COLOURS = {"paper": "tab:blue", "ours": "tab:orange"}
BY_SAMPLES = {5_000: "tab:green", 20_000: "tab:blue", 80_000: "tab:purple"}
ROADS: dict[tuple[str, int | None], tuple[str, float]] = {
    ("maxima", None): ("0.2", 1.0),
    ("maxima", 20_000): ("tab:orange", 0.99),
    ("maxima", 200_000): ("tab:blue", 1.01),
    ("default", 20_000): ("tab:green", 1.02),
}
"""Colours, and a shift by which points stand side by side."""


# ---------------------------------------------------------------- Theorem 7


def theorem_7_samples(quick: bool) -> Iterator[Row]:
    """Error of the directions against n: the product of two orthogonal steps of threshold 0.5.

    A row a search and seed; `degrees` is the worse of two units, None if one was not found.
    """
    top = Polynomial(2, {(0, 1): 1.0})
    sizes = (5_000, 20_000) if quick else (5_000, 20_000, 80_000, 320_000)
    for n in sizes:
        for seed in range(2 if quick else 10):
            yield from _searched(_two_steps(top, seed), n, seed, height=_mean_of_a_step())


def theorem_7_height(quick: bool) -> Iterator[Row]:
    """Units found against `E[Q_1 | w_1.x = t] = a + b mu` of `P = X_2 + a X_1 + b X_1 X_2`.

    `a = eps_3 / 2` and `b mu = eps_3 / 2`, so the first unit's jump is eps_3 and X_2 hides it. The
    heights are multiples of one that is about to be visible.
    """
    mu = _mean_of_a_step()
    for n in (5_000,) if quick else (5_000, 20_000, 80_000):
        for multiple in (0.5, 2.0) if quick else (0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0):
            height = multiple * visible_height(n)
            top = Polynomial(2, {(1,): 1.0, (0,): height / 2, (0, 1): height / (2 * mu)})
            for seed in range(2 if quick else 15):
                # Ours finds all of them: a few show it.
                names = ("paper", "ours") if n <= 20_000 and seed < 5 else ("paper",)
                yield from _searched(_two_steps(top, seed), n, seed, height, names)


def noise(height: float | Array, n: int) -> Array:
    """Standard error of C_2 at the first unit, in the thinner bands in which it must still show.

    Labels vary with X_2 there, below the face by X_2 and above it by `(1 + b) X_2`.
    """
    mu, width = _mean_of_a_step(), WIDTH[1] / 2
    steeper = 1 + np.asarray(height) / (2 * mu)
    in_a_band = n * width * float(norm.pdf(0.5))
    return np.asarray(np.sqrt(mu * (1 - mu) * (1 + steeper**2) / in_a_band))


def visible_height(n: int) -> float:
    """Where the jump would be as far above the noise as the search asks if b were 0."""
    return SIGNIFICANT * float(noise(0.0, n))


def predicted_share(heights: Array, n: int) -> Array:
    """Of jumps of these heights, those that noise leaves as far above itself as is asked."""
    return np.asarray(norm.cdf(heights / noise(heights, n) - SIGNIFICANT))


def _mean_of_a_step() -> float:
    """`E[X_j]`, here also `E[Q_i]` of the product."""
    return float(STEP.hermite(0, -0.5))


def _two_steps(top: Polynomial, seed: int) -> LayeredNetwork:
    W = np.linalg.qr(np.random.default_rng([seed, 7]).standard_normal((2, 2)))[0]
    return LayeredNetwork(lowest_layer(W, 0.5, STEP), top)


def _searched(
    network: LayeredNetwork,
    n: int,
    seed: int,
    height: float,
    names: Sequence[str] = tuple(SEARCHES),
) -> Iterator[Row]:
    X = np.random.default_rng([seed, 8]).standard_normal((n, network.features))
    source = ArraySource(X, network(X))
    for name in names:
        found = SEARCHES[name](source, STEP, units=2, rng=seed)
        degrees = _degrees_off(found.weights, network.layer.weights[:1])
        both = _degrees_off(found.weights, network.layer.weights)
        yield {
            "search": name,
            "n": n,
            "height": height,
            "seed": seed,
            "units": found.units,
            "degrees": both if found.units == 2 else None,
            "first": degrees if found.units else None,
            "found": bool(found.units == 2 and both < 5),
        }


def _degrees_off(found: Array, truth: Array) -> float:
    """The largest angle from a true unit to the nearest found, up to sign."""
    cosines = np.abs(found @ truth.T).max(axis=0, initial=0.0)
    return float(np.degrees(np.arccos(np.clip(cosines, 0, 1)).max()))


# ---------------------------------------------------------------- Theorem 10


def theorem_10_condition(quick: bool) -> Iterator[Row]:
    """Maxima of `E[f h_4(z.x)]` as `gamma_12 / (alpha_1 + alpha_2)` crosses 1, cos units.

    `P = sum X_i + c X_1 X_2` with 4 units; `n` None is the population (exact moments). `corrected`
    is the ratio with gamma's constant of the errata, sqrt(6); with the printed 6 the same top has
    `printed`, so that its condition would already fail from a ratio of 0.41 on.
    """
    ratios = (
        (0.5, 0.9, 1.1, 2.0) if quick else (0.3, 0.41, 0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.3, 2.0)
    )
    for ratio in ratios:
        P = _top_of_ratio(ratio, units=4)
        for seed in range(2 if quick else 20):
            if seed < 5:
                yield _by_default(P, ratio, seed)
            W = _orthonormal(4, seed)
            for n in (None, 20_000) if quick else (None, 20_000, 200_000):
                T4 = _fourth_moment(P, W, n, seed)
                found = maxima(T4, np.random.default_rng(seed))
                degrees = _degrees_off(found, W)
                yield _even_row("maxima", ratio, n, seed, degrees)


def _by_default(P: Polynomial, ratio: float, seed: int) -> Row:
    """The same top with least squares after the maxima, from 20,000 samples."""
    W = _orthonormal(4, seed)
    X, y = _of_cos(P, W, 20_000, seed)
    found = pn.recover(X, y, units=4, method="even", activation=COS, rng=seed).network
    degrees = 90.0 if found is None else _degrees_off(found.weights, W)
    return _even_row("default", ratio, 20_000, seed, degrees)


def _even_row(road: str, ratio: float, n: int | None, seed: int, degrees: float) -> Row:
    return {
        "road": road,
        "corrected": ratio,
        "printed": ratio * 6 / sqrt(6),
        "n": n,
        "seed": seed,
        "degrees": degrees,
        "found": degrees < 5,
    }


def _orthonormal(k: int, seed: int) -> Array:
    return np.asarray(np.linalg.qr(np.random.default_rng([seed, 9]).standard_normal((k, k)))[0])


def _of_cos(P: Polynomial, W: Array, n: int, seed: int) -> tuple[Array, Array]:
    X = np.random.default_rng([seed, 10]).standard_normal((n, len(W)))
    return X, LayeredNetwork(lowest_layer(W, 0.0, COS), P)(X)


def _hat(k: int) -> float:
    return float(COS.hermite(k, 0.0)) / sqrt(factorial(k))


def _top_of_ratio(ratio: float, units: int) -> Polynomial:
    """The c with `sqrt(6) u_2^2 c = ratio u_4 (2 + 2 c u_0)`."""
    zero, two, four = _hat(0), _hat(2), _hat(4)
    c = 2 * ratio * four / (sqrt(6) * two**2 - 2 * ratio * four * zero)
    terms: dict[tuple[int, ...], float] = {(i,): 1.0 for i in range(units)}
    return Polynomial(units, terms | {(0, 1): c})


def _fourth_moment(P: Polynomial, W: Array, n: int | None, seed: int) -> Array:
    """`T_4` over sqrt(24), of the population or from n samples."""
    if n is not None:
        return _sampled_fourth_moment(P, W, n, seed)
    C, CC = strengths(P, _hat(0))
    k = P.units
    t4 = np.zeros((k,) * 4)
    for i in range(k):
        t4[i, i, i, i] = _hat(4) * C[i]
        for j in set(range(k)) - {i}:
            pair = sqrt(6) * _hat(2) ** 2 * CC[i, j] / 6
            t4[i, i, j, j] = t4[i, j, i, j] = t4[i, j, j, i] = pair
    return np.asarray(np.einsum("ijkl,ia,jb,kc,ld->abcd", t4, W, W, W, W, optimize=True))


def _sampled_fourth_moment(P: Polynomial, W: Array, n: int, seed: int) -> Array:
    from provenet.moments.hermite import MomentRequest, estimate_moments

    source = ArraySource(*_of_cos(P, W, n, seed))
    s = source.standardisation()
    second = estimate_moments(source, MomentRequest(s, 2)).tensors[2]
    T4 = estimate_moments(source, MomentRequest(s, 4, quadratic=second)).tensors[4]
    return np.asarray(T4 / sqrt(24))


# ---------------------------------------------------------------- the figures


def measure_low(quick: bool) -> Iterator[Row]:
    """Against n, then against E[Q]."""
    yield from ({"part": "samples", **row} for row in theorem_7_samples(quick))
    yield from ({"part": "height", **row} for row in theorem_7_height(quick))


def draw_low(picture: Any, rows: Sequence[Row]) -> None:
    """The angle against n; units found against the height of the jump."""
    angles, shares = picture.subplots(1, 2)
    for name, mine in by([row for row in rows if row["part"] == "samples"], "search").items():
        _draw_angles(angles, mine, name)
    _draw_shares(shares, [row for row in rows if row["part"] == "height"])
    finish(angles, "samples n", "worse of two units (degrees)", "product of two steps", "xy")
    finish(shares, "E[Q] sqrt(n)", "both units found", "X_2 + a X_1 + b X_1 X_2", "x")


def _draw_angles(axes: Any, rows: Sequence[Row], name: str) -> None:
    groups = by(rows, "n")
    sizes = list(groups)
    middle = [_median_of_all(group) for group in groups.values()]
    label = f"{NAMES[name]}: slope {slope(sizes, middle):.2f}"
    axes.plot(sizes, middle, "o-", color=COLOURS[name], ms=4, label=label)
    axes.plot(column(rows, "n"), column(rows, "degrees"), ".", color=COLOURS[name], alpha=0.3)
    guide(axes, sizes, middle[0], -1.0, "predicted: slope -1" if name == "ours" else "")


def _median_of_all(rows: Sequence[Row]) -> float:
    """Units that were not found are 90 degrees off."""
    return float(np.median(np.nan_to_num(column(rows, "degrees"), nan=90.0)))


def _draw_shares(axes: Any, rows: Sequence[Row]) -> None:
    ours = by([row for row in rows if row["search"] == "ours"], "n", "height")
    for i, ((n, height), group) in enumerate(ours.items()):
        share = np.mean([row["found"] for row in group])
        label = NAMES["ours"] if i == 0 else None
        axes.plot(height * sqrt(n), share, "o", color=COLOURS["ours"], ms=5, label=label)
    for n, mine in by([row for row in rows if row["search"] == "paper"], "n").items():
        groups, colour = by(mine, "height"), BY_SAMPLES[n]
        shares = [
            share_with_error(sum(row["found"] for row in group), len(group))
            for group in groups.values()
        ]
        axes.errorbar(
            np.array(list(groups)) * sqrt(n), [share[0] for share in shares],
            np.array([share[1:] for share in shares]).T, fmt="o", color=colour, ms=4, capsize=2,
            label=f"{NAMES['paper']}, n = {n:,}",
        )  # fmt: skip
        heights = np.geomspace(min(groups), max(groups), 100)
        style = GUIDE_STYLE | {"color": colour}
        axes.plot(heights * sqrt(n), predicted_share(heights, n), **style)
    axes.plot([], [], label="predicted, each n", **GUIDE_STYLE)


def draw_even(picture: Any, rows: Sequence[Row]) -> None:
    """Networks found, and the angle, as the condition fails."""
    shares, angles = picture.subplots(1, 2, sharex=True)
    for (road, n), mine in by(rows, "road", "n").items():
        colour, shift = ROADS[road, n]
        label = "exact moments" if n is None else f"{n:,} samples"
        label += ", then least squares" if road == "default" else ""
        groups = by(mine, "corrected")
        x = np.array(list(groups)) * shift
        found = [
            share_with_error(sum(row["found"] for row in group), len(group))
            for group in groups.values()
        ]
        bars = None if road == "default" else np.array([each[1:] for each in found]).T
        shares.errorbar(
            x, [each[0] for each in found], bars, fmt="o-", ms=4, lw=1, capsize=2, color=colour,
            label=label,
        )  # fmt: skip
        middle = [float(np.median(column(group, "degrees"))) for group in groups.values()]
        angles.plot(x, middle, "o-", ms=4, lw=1, color=colour, label=label)
    for axes, low, high in ((shares, 1.0, 0.0), (angles, 0.0, 45.0)):
        least, most = min(column(rows, "corrected")), max(column(rows, "corrected"))
        axes.plot([least, 1, 1, most], [low, low, high, high], label="predicted", **GUIDE_STYLE)
        axes.axvline(sqrt(6) / 6, color="tab:red", ls=":", lw=1, label="condition as printed")
    ratio = "gamma / (alpha_1 + alpha_2)"
    finish(shares, ratio, "all units within 5 degrees", "4 units of cos")
    finish(
        angles, ratio, "worst unit (degrees), median", "half-way between two units is 45 degrees"
    )


LOW_THRESHOLDS = Figure(
    "low_thresholds",
    "Theorem 7: units of any threshold show as jumps of height E[Q], from poly(1/E[Q]) samples",
    measure_low,
    draw_low,
)
EVEN = Figure(
    "even",
    "Theorem 10: maxima of E[f h_4(z.x)] are the even units if gamma < alpha_1 + alpha_2",
    theorem_10_condition,
    draw_even,
)
