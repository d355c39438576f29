"""How many samples it takes: Lemma 16 (any method) and Theorem 11 (Algorithm 7) of BJW19.

Letters of the paper: its kappa is the condition number of our W (units, features), its k our units,
d our features, m our outputs, U* our A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom, multivariate_normal

import provenet as pn
from bjw19_common import COLOURS, draw_medians, draw_shares, quartiles
from figures import GUIDE_STYLE, Figure, Row, by, column, finish, guide, slope
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.datasets import condition_pair, differing_share
from provenet.methods.rank_deficient import algorithm_7

RIGHT = 1e-6
"""Parameter error below which a network counts as recovered."""


def is_right(found: pn.Network | None, truth: pn.Network) -> bool:
    """Whether the network found is the hidden one."""
    if found is None or found.units != truth.units:
        return False
    return bool(pn.parameter_error(found, truth) < RIGHT)


# ---------------------------------------------------------------- Lemma 16: no method does better

RECOVERY_SECONDS = 2.0
"""Time that a single recovery may take."""
ALONE = 3
"""Samples with a single unit on that any method needs: where both are on, labels show only the sums
of the two units' weights and biases, and what is the first's of these are three numbers."""
ROUNDING = 1e-12


def they_differ(a: float, n: int, seed: int) -> bool:
    """Whether the two networks of Lemma 16 give different labels on one of n samples."""
    first, second = condition_pair(a)
    X = np.random.default_rng([seed, n]).standard_normal((n, 2))
    return bool(np.any(np.abs(first(X) - second(X)) > ROUNDING * np.abs(X).sum(axis=1)))


def recovered_from(a: float, n: int, seed: int) -> bool:
    """Whether the first network of Lemma 16 is recovered from n samples."""
    truth, _ = condition_pair(a)
    X, y = pn.sample(truth, n, rng=np.random.default_rng([seed, n]))
    found = pn.recover(X, y, units=2, budget=RECOVERY_SECONDS, rng=seed)
    return is_right(found.network, truth)


def lower_bound_rows(quick: bool) -> Iterator[Row]:
    """Shares of successes at the same n times share for condition numbers 1/a."""
    kappas = (4, 64) if quick else (4, 32, 256)
    expected = (2.0, 8.0) if quick else (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
    told, recoveries = (100, 3) if quick else (400, 20)
    for kappa in kappas:
        share = differing_share(1 / kappa)
        for mean in expected:
            n = round(mean / share)
            row = {"kappa": kappa, "share": share, "n": n}
            hits = sum(they_differ(1 / kappa, n, seed) for seed in range(told))
            yield {**row, "what": "told apart", "hits": hits, "of": told}
            if n >= 8:  # one more than there are parameters
                hits = sum(recovered_from(1 / kappa, n, seed) for seed in range(recoveries))
                yield {**row, "what": "recovered", "hits": hits, "of": recoveries}


def draw_lower_bound(picture: Any, rows: Sequence[Row]) -> None:
    """Left: successes against n times share, all condition numbers. Right: against n itself."""
    left, right = picture.subplots(1, 2, sharey=True)
    for colour, (kappa, group) in zip(COLOURS, by(rows, "kappa").items(), strict=False):
        share = group[0]["share"]
        for what, points in by(group, "what").items():
            n = column(points, "n")
            told = what == "told apart"
            style, look = ("o", {"mfc": "white"}) if told else ("s", {"mfc": colour})
            label = None if told else rf"$\kappa$ = {kappa}"
            draw_shares(left, n * share, points, style, color=colour, **look)
            draw_shares(right, n, points, style, color=colour, label=label, **look)
        _predictions(left, kappa, share, scale=share)
        _predictions(right, kappa, share, scale=1.0)
    left.plot([], [], "o", color="0.3", mfc="white", label="labels of the two networks differ")
    left.plot([], [], "s", color="0.3", label="provenet recovers the weights")
    left.plot([], [], label="predicted", **GUIDE_STYLE)
    left.annotate("1 - (1 - share)^n", (0.26, 0.36), ha="right", size=8, color="0.35")
    words = f"at least {ALONE} samples\nwith one unit alone"
    left.annotate(words, (10.5, 0.3), size=8, color="0.35")
    finish(left, "n times the share that differs", "share of trials", "One curve for all", "x")
    finish(right, "n", "", "The same against n: kappa times as many", "x")
    left.set_xlim(0.05, 60)
    left.get_legend().set_loc("upper left")
    right.get_legend().set_loc("lower right")


def _predictions(axes: Any, kappa: int, share: float, scale: float) -> None:
    """That one of n samples shows a difference; and that `ALONE` of them have one unit on."""
    n = np.unique(np.round(np.geomspace(0.4, 30, 60) / share))
    axes.plot(n * scale, -np.expm1(n * np.log1p(-share)), **GUIDE_STYLE)
    alone = 2 / np.pi * np.arctan(1 / kappa)
    axes.plot(n * scale, binom.sf(ALONE - 1, n, alone), **GUIDE_STYLE)


LOWER_BOUND = Figure(
    "lower_bound",
    "Lemma 16: no method learns weights of condition number kappa from much fewer than kappa "
    "samples",
    lower_bound_rows,
    draw_lower_bound,
)


# ---------------------------------------------------------------- Theorem 11: Algorithm 7

STEP = 2**0.25
"""Factor between one number of samples that is tried and the next."""
FEWEST = 16
FEATURES = 6


def hidden_between(units: int, kappa: float) -> Array:
    """Orthonormal units but the last, which leans off the middle of the others' cone; cond = kappa.

    For the last to be on alone all others must be off by less than it leans, which has a
    probability like `kappa^-(units - 1)`.
    """

    def weights(lean: float) -> Array:
        W = np.eye(units, FEATURES)
        W[-1] = 0.0
        W[-1, : units - 1] = np.cos(lean) / np.sqrt(units - 1)
        W[-1, units - 1] = np.sin(lean)
        return W

    def excess(lean: float) -> float:
        return float(np.log(np.linalg.cond(weights(lean)) / kappa))

    return weights(float(brentq(excess, 1e-6, np.pi / 2)))


def random_units(units: int, rng: np.random.Generator) -> Array:
    """Units in random directions."""
    W = rng.standard_normal((units, FEATURES))
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def two_outputs(W: Array) -> pn.Network:
    """Output weights in directions spread over a half plane: no two are parallel."""
    angles = np.pi * (np.arange(len(W)) + 0.25) / len(W)
    return pn.Network(W, output_weights=np.array([np.cos(angles), np.sin(angles)]))


def alone_share(W: Array, unit: int) -> float:
    """The share of standard normal inputs on which only that unit is on."""
    signs = np.where(np.arange(len(W)) == unit, -1.0, 1.0)
    covariance = signs[:, None] * (W @ W.T) * signs
    zero = np.zeros(len(W))
    return float(multivariate_normal(zero, covariance, allow_singular=True, seed=0).cdf(zero))


def printed(X: Array, Y: Array, truth: pn.Network, seed: int) -> bool:
    """Whether Algorithm 7's steps 1 to 5 and nothing more give the hidden network."""
    try:
        found = algorithm_7(X, Y, truth.units, np.random.default_rng(seed))
    except NoAnswer:
        return False
    return is_right(found, truth)


def subtracting(X: Array, Y: Array, truth: pn.Network, seed: int) -> bool:
    """Whether `"rank-deficient"`, which subtracts what it finds, gives the hidden network."""
    found = pn.recover(X, Y, units=truth.units, method="rank-deficient", refine=False, rng=seed)
    return is_right(found.network, truth)


Succeeds = Callable[[Array, Array, pn.Network, int], bool]
PRINTED, OURS = "Algorithm 7", "with subtraction"
ROADS: dict[str, Succeeds] = {PRINTED: printed, OURS: subtracting}


def samples_needed(succeeds: Succeeds, truth: pn.Network, most: int, seed: int) -> int | None:
    """The fewest of a growing grid of numbers of samples that do, by bisection; None: not most."""
    X, Y = pn.sample(truth, most, rng=np.random.default_rng(seed))
    steps = int(np.log(most / FEWEST) / np.log(STEP)) + 1
    grid = (FEWEST * STEP ** np.arange(steps)).astype(int)
    low, high = -1, len(grid)
    while high - low > 1:
        middle = (low + high) // 2
        n = int(grid[middle])
        if succeeds(X[:n], Y[:n], truth, seed):
            high = middle
        else:
            low = middle
    return int(grid[high]) if high < len(grid) else None


def rank_deficient_rows(quick: bool) -> Iterator[Row]:
    """The samples that each road needs, for networks of growing condition and of growing width."""
    seeds, most = (2, 20_000) if quick else (15, 400_000)
    for units in (2, 3) if quick else (2, 3, 4):
        for kappa in (3.0, 6.0) if quick else (2.5, 4.0, 6.0, 9.0, 14.0, 20.0):
            W = hidden_between(units, kappa)
            share = alone_share(W, units - 1)
            if 2 * FEATURES / share < most:
                row = {"against": "kappa", "kappa": kappa, "alone": share}
                yield from _needed([two_outputs(W)] * seeds, most, row)
    for units in (2, 4) if quick else (2, 3, 4, 5, 6):
        rngs = [np.random.default_rng([units, seed]) for seed in range(seeds)]
        networks = [two_outputs(random_units(units, rng)) for rng in rngs]
        least = [min(alone_share(net.weights, i) for i in range(units)) for net in networks]
        row = {"against": "units", "kappa": None, "alone": float(np.median(least))}
        yield from _needed(networks, most, row)


def _needed(networks: Sequence[pn.Network], most: int, row: Row) -> Iterator[Row]:
    for road, succeeds in ROADS.items():
        found = [samples_needed(succeeds, net, most, seed) for seed, net in enumerate(networks)]
        yield {**row, "units": networks[0].units, "road": road, **quartiles(found)}


def draw_rank_deficient(picture: Any, rows: Sequence[Row]) -> None:
    """Samples against the condition number, and against units."""
    left, right = picture.subplots(1, 2)
    groups = by(rows, "against")
    for colour, (units, group) in zip(COLOURS, by(groups["kappa"], "units").items(), strict=False):
        roads = by(group, "road")
        kappa, needed = column(roads[PRINTED], "kappa"), column(roads[PRINTED], "median")
        power = f"{units} units: slope {slope(kappa, needed):.1f}"
        draw_medians(left, kappa, roads[PRINTED], "o-", color=colour, label=power)
        draw_medians(left, kappa, roads[OURS], "s--", color=colour, mfc="white")
        predicted = FEATURES / column(roads[PRINTED], "alone")
        guide(left, kappa, predicted[-1] * (kappa[0] / kappa[-1]) ** (units - 1), units - 1, "")
    left.plot([], [], "s--", color="0.3", mfc="white", label="the same, with subtraction")
    left.plot([], [], label=r"predicted: $\kappa^{units - 1}$", **GUIDE_STYLE)
    finish(left, r"condition number $\kappa$", "samples needed", "A unit between the others", "xy")
    kappas = sorted({row["kappa"] for row in groups["kappa"]})
    left.set_xticks(kappas, [f"{kappa:g}" for kappa in kappas])
    left.set_xticks([], minor=True)
    roads = by(groups["units"], "road")
    units = column(roads[PRINTED], "units")
    draw_medians(right, units, roads[PRINTED], "o-", color="tab:purple", label=PRINTED)
    draw_medians(right, units, roads[OURS], "s--", color="tab:purple", mfc="white", label=OURS)
    needed = FEATURES / column(roads[PRINTED], "alone")
    right.plot(units, needed, label=f"predicted: {FEATURES} / (share alone)", **GUIDE_STYLE)
    right.plot(units, FEATURES * 2**units, "--", color="0.7", lw=1, label=f"{FEATURES} * 2^units")
    finish(right, "units, in random directions", "", "Random units", "y")
    right.set_xticks(units)
    right.get_legend().set_loc("upper left")


RANK_DEFICIENT = Figure(
    "rank_deficient",
    "Theorem 11: with fewer outputs than units, kappa^O(units) samples",
    rank_deficient_rows,
    draw_rank_deficient,
)
