"""ATV21, Theorems 3.1, 3.2 and D.1: the error falls as one over the root of the samples.

The theorems promise an error epsilon from `poly(d, m, B, 1/s_min(W^(.)l), 1/epsilon)` samples. Two
things can be measured of that: the power of n, which errors of moments let expect to be -1/2; and
the power of 1/s_min in front, which the theorems leave open.

Every road runs on random rotations of one network, so that seeds differ in the samples and not in
how hard the network is. For the constant, one unit is turned towards another, which lowers s_min.
Far from s_min = 1 more samples would be needed than there is time for, so the constant is also
measured in the limit: the sampling errors of the moments are those of real samples, scaled down by
`SCALED`, and the same stages run on what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

import provenet as pn
from figures import Figure, Row, by, column, finish, guide, slope
from provenet.common.typing import Array
from provenet.data.sources import Source
from provenet.moments.decomposition import recover_scalars, unit_directions
from provenet.moments.hermite import MomentRequest, Moments, estimate_moments, high_moments
from provenet.moments.symmetric import SymmetricTensor
from provenet.networks.activations import RELU
from provenet.networks.signs import signs_from_linear_part

SCALED = 1e-5
"""What the sampling errors are multiplied by in the limit."""
FITTED_FROM = 100_000
"""So many samples resolve all units on nearly every seed: 11 of 12 for Algorithm 4 of order 2."""


@dataclass(frozen=True)
class Road:
    """An algorithm of the paper and the networks that it is asked for."""

    label: str
    method: str
    order: int
    rows: tuple[tuple[float, ...], ...]
    """Directions of the units, before normalisation; the last is turned towards the first."""
    biases: tuple[float, ...]
    predicts: bool = False
    """Whether the error is that of predictions (L_2) and not of parameters."""

    def network(self, seed: int, angle: float | None = None) -> pn.Network:
        """The network, turned at random; with its last unit at an angle to the first one."""
        W = np.array(self.rows)
        W /= np.linalg.norm(W, axis=1, keepdims=True)
        if angle is not None:
            across = W[-1] - (W[-1] @ W[0]) * W[0]
            W[-1] = np.cos(angle) * W[0] + np.sin(angle) * across / np.linalg.norm(across)
        rng = np.random.default_rng([seed, 0xA7])
        turn = np.linalg.qr(rng.standard_normal((W.shape[1], W.shape[1])))[0]
        return pn.Network(W @ turn, self.biases, [(-1.0) ** i for i in range(len(W))])

    def error(self, found: pn.Network | None, network: pn.Network) -> float | None:
        """None where the number of units is wrong, or nothing was found."""
        if found is None:
            return None
        if self.predicts:
            return float(np.sqrt(pn.population_risk(found, network)))
        error = pn.parameter_error(found, network)
        return error if np.isfinite(error) else None

    def recovered(self, network: pn.Network, n: int, seed: int) -> float | None:
        """The error of the paper's algorithm, alone, on n samples."""
        X, y = pn.sample(network, n, rng=np.random.default_rng([seed, n]))
        order: dict[str, Any] = {"order": self.order} if self.order > 1 else {}
        found = pn.recover(
            X,
            y,
            units=network.units,
            method=self.method,
            faithful=True,
            refine=False,
            rng=seed,
            **order,
        )
        return self.error(found.network, network)


THREE = ((1.0, 0, 0, 0), (0, 1.0, 0, 0), (0, 0, 1.0, 0))
FOUR = ((1.0, 0, 0), (0, 1.0, 0), (0, 0, 1.0), (1.0, -1.0, 1.0))
ROADS = (
    Road("Algorithm 6", "biased-relu", 1, THREE, (-0.7, 0.5, 1.1)),
    Road("Algorithm 4, l = 2", "overcomplete", 2, FOUR, (-0.9, -0.3, 0.3, 0.9)),
    Road("Algorithm 5, l = 1 (L2)", "regression", 1, THREE, (-0.7, 0.5, 1.1), predicts=True),
    Road("Algorithm 5, l = 2 (L2)", "regression", 2, FOUR, (-0.9, -0.3, 0.3, 0.9), predicts=True),
)
COLOURS = {
    road.label: colour
    for road, colour in zip(ROADS, ("tab:blue", "tab:red", "tab:green", "tab:orange"), strict=True)
}


# ---------------------------------------------------------------- how far powers are independent


def powers(W: Array, order: int) -> Array:
    """Rows `w_i^(x)l`, each w_i of norm 1."""
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    flat = [W] * order
    return reduce(lambda U, V: (U[:, :, None] * V[:, None, :]).reshape(len(W), -1), flat)


def s_min(W: Array, order: int) -> float:
    """The least singular value of the powers of the units."""
    return float(np.linalg.svd(powers(W, order), compute_uv=False)[-1])


# ---------------------------------------------------------------- the limit of many samples


def limit_constant(road: Road, network: pn.Network, n: int, seed: int) -> float | None:
    """Error times root n as n grows: the sampling errors of n samples, scaled down."""
    X, y = whitened_sample(network, n, seed)
    moments = nearer(network, X, y, road)
    last = slice(2 * road.order + 1, None)
    rng = np.random.default_rng(seed)
    W, _ = unit_directions(
        moments.symmetric[last], moments.errors[last], road.order, network.units, rng
    )
    if len(W) != network.units:
        return None
    found = settled(moments, W, road.order)
    scale = float(np.sqrt(n)) / SCALED
    if road.predicts:
        return scale * prediction_error(found, X, y)
    error = pn.parameter_error(found, network)
    return scale * error if np.isfinite(error) else None


def whitened_sample(network: pn.Network, n: int, seed: int) -> tuple[Array, Array]:
    """Samples whose inputs have mean 0 and covariance 1 exactly, as every road makes them."""
    X = np.random.default_rng([seed, n, 1]).standard_normal((n, network.features))
    X -= X.mean(axis=0)
    X = X @ np.linalg.inv(np.linalg.cholesky(X.T @ X / n)).T
    return X, network(X)


def nearer(network: pn.Network, X: Array, y: Array, road: Road) -> Moments:
    """The network's moments with the errors of these samples, scaled down."""
    of_samples = moments_of(pn.ArraySource(X, y), road)
    exact = moments_of(pn.PopulationSource(network), road)
    tensors = tuple(
        SymmetricTensor(T.d, T.order, T.entries + SCALED * (t.entries - T.entries))
        for T, t in zip(exact.symmetric, of_samples.symmetric, strict=True)
    )
    return Moments(tensors, tuple(SCALED * error for error in of_samples.errors))


def moments_of(source: Source, road: Road) -> Moments:
    """Up to order 2l + 2, added up as the road does."""
    standardisation = source.standardisation()
    if road.method != "biased-relu":
        return high_moments(source, standardisation, 2 * road.order + 2)
    return estimate_moments(source, MomentRequest(standardisation, order=4))


def settled(moments: Moments, W: Array, order: int) -> pn.Network:
    """Algorithm 2 and signs (equation 2) for directions known up to sign."""
    T = moments.symmetric
    a, b = recover_scalars(T, W, order)
    linear = T[1].entries - (a * (RELU.hermite(1, b) - 0.5)) @ W
    signs = signs_from_linear_part(a, W, linear).signs
    W, b = W * signs[:, None], b * signs
    return pn.Network(W, b, a, float(T[0].entries[0] - a @ RELU.hermite(0, b)))


def prediction_error(units: pn.Network, X: Array, y: Array) -> float:
    """What Algorithm 5's regression leaves of labels without noise, given the units up to sign."""
    z = X @ units.weights.T + units.biases
    columns = np.column_stack([np.maximum(z, 0), np.maximum(-z, 0), X, np.ones(len(X))])
    beta = np.linalg.lstsq(columns, y, rcond=1e-12)[0]
    return float(np.sqrt(np.mean((columns @ beta - y) ** 2)))


# ---------------------------------------------------------------- the figure


def measure(quick: bool) -> Iterator[Row]:
    """Errors against n; then the constant against s_min, in the limit and from real samples."""
    ns = (10_000, 100_000) if quick else (10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278)
    for road in ROADS:
        for n in ns:
            for seed in range(2 if quick else 12 if n <= 1_000_000 else 6):
                error = road.recovered(road.network(seed), n, seed)
                yield {"part": "n", "road": road.label, "n": n, "seed": seed, "error": error}
    yield from constants(quick)


def constants(quick: bool) -> Iterator[Row]:
    """Error times root n against s_min."""
    angles = np.radians([50, 10] if quick else [54, 40, 28, 20, 14, 10, 7, 5, 3.5])
    n, seeds = (20_000, 2) if quick else (50_000, 10)
    for road in ROADS:
        for angle in angles:
            for seed in range(seeds):
                network = road.network(seed, angle)
                least = s_min(network.weights, road.order)
                found = limit_constant(road, network, n, seed)
                yield {"part": "limit", "road": road.label, "s_min": least, "constant": found}
    if quick:
        return
    road, n = ROADS[0], 1_000_000
    for angle in angles[1:4]:
        for seed in range(6):
            network = road.network(seed, angle)
            error = road.recovered(network, n, seed)
            found = None if error is None else error * np.sqrt(n)
            least = s_min(network.weights, 1)
            yield {"part": "samples", "road": road.label, "s_min": least, "constant": found}


def draw(picture: Any, rows: Sequence[Row]) -> None:
    """Errors on the left, the constant in front on the right."""
    left, right = picture.subplots(1, 2)
    parts = by(rows, "part")
    draw_errors(left, parts["n"])
    draw_constants(right, parts["limit"], parts.get("samples", []))


def median_of_all(values: Array) -> float:
    """The median, NaN where half or more were not found."""
    middle = float(np.median(np.where(np.isnan(values), np.inf, values)))
    return middle if np.isfinite(middle) else np.nan


def draw_errors(axes: Any, rows: Sequence[Row]) -> None:
    """Medians over seeds; seeds as dots; slope fitted from where all units are found."""
    for label, mine in by(rows, "road").items():
        groups = by(mine, "n")
        n = np.array(list(groups), float)
        errors = [column(group, "error") for group in groups.values()]
        middle = np.array([median_of_all(e) for e in errors])
        sure = n >= FITTED_FROM
        power = slope(n[sure], middle[sure]) if sure.sum() > 1 else np.nan
        colour = COLOURS[label]
        for x, e in zip(n, errors, strict=True):
            axes.plot(np.full(len(e), x), e, ".", color=colour, alpha=0.3, ms=4)
        axes.plot(n, middle, "o-", color=colour, ms=5, label=f"{label}: slope {power:.2f}")
        last = n[sure]
        if len(last):
            guide(axes, last, middle[-1] * (last[-1] / last[0]) ** 0.5, -0.5, "")
    axes.plot([], [], ":", color="0.35", label="predicted: slope -1/2")
    finish(axes, "samples n", "error (median and every seed)", log="xy")


def draw_constants(axes: Any, rows: Sequence[Row], real: Sequence[Row]) -> None:
    """Medians in the limit with the power of 1/s_min at its small end; real samples as crosses."""
    for label, mine in by(rows, "road").items():
        middle = {
            least: median_of_all(column(group, "constant"))
            for least, group in _by_s_min(mine).items()
        }
        x, y = 1 / np.array(list(middle)), np.array(list(middle.values()))
        power = slope(x[-6:], y[-6:])
        axes.plot(x, y, "o-", color=COLOURS[label], ms=5, label=f"{label}: power {power:.1f}")
        guide(axes, x[-6:], y[-6:][0], round(power), "")
    for label, mine in by(real, "road").items():
        for least, group in _by_s_min(mine).items():
            found = column(group, "constant")
            axes.plot(
                np.full(len(found), 1 / least), found, "x", color=COLOURS[label], ms=4, alpha=0.6
            )
        axes.plot([], [], "x", color=COLOURS[label], label="the same from a million samples")
    axes.plot([], [], ":", color="0.35", label="the nearest whole power")
    finish(axes, "1 / s_min of the l-th powers of the units", "error times root n", log="xy")
    axes.xaxis.set_minor_formatter("")


def _by_s_min(rows: Sequence[Row]) -> dict[float, list[Row]]:
    """Groups of one angle: rotations change s_min by rounding only."""
    return by(({**row, "s_min": float(f"{row['s_min']:.6g}")} for row in rows), "s_min")


ERRORS = Figure(
    "errors",
    "Theorems 3.1 and 3.2: an error epsilon from poly(1/epsilon, 1/s_min) samples",
    measure,
    draw,
    width=11.0,
)
