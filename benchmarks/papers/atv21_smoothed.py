"""ATV21, Corollary 3.3 and appendix E: a little chance in the weights makes hard networks easy.

An adversary chooses the weights; then every weight is perturbed by a normal number of variance
`tau^2 / features`, so that a unit moves by about tau. The corollary rests on

    s_min(W^(.)l) >= c_l tau^l / poly(d)    with high probability, for m <= 0.99 binomial(d+l-1, l).

The worst adversary makes all units parallel: `w_i = u + tau g_i`, and of the powers `w_i^(x)l` only
the parts of degree l in g tell apart more units than there are polynomials of lower degree. So the
power l of tau is reached. The networks' moments are known without sampling error, so what is left
of the parameters' error is rounding, enlarged: the flattened moment whose rank shows the units has
a least singular value of about s_min squared, so that errors grow as `tau^(-2l)`.

On the right, from samples: two nearly parallel units among four, perturbed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import provenet as pn
from atv21_errors import median_of_all, s_min
from figures import GUIDE_STYLE, Figure, Row, by, column, finish, guide, slope
from provenet.common.typing import Array

FEATURES = 4
UNITS = {1: 3, 2: 9, 3: 19}
"""The most that `0.99 binomial(d + l - 1, l)` allows, by the order l."""
OF_SAMPLES = {"Algorithm 6": 200_000, "moments fitted jointly": 200_000, "expand-prune": 1_000}
OPTIONS: dict[str, dict[str, Any]] = {
    "Algorithm 6": {"method": "biased-relu", "faithful": True, "refine": False},
    "moments fitted jointly": {"method": "biased-relu", "refine": False},
    "expand-prune": {"method": "expand-prune", "refine": True},
}
NEARLY_PARALLEL = 1e-3
COLOURS = ("tab:blue", "tab:red", "tab:green")
USELESS = 1.0
"""A parameter error of this size says nothing of the network."""


def all_parallel(order: int, tau: float, seed: int) -> pn.Network:
    """As many units as order l has room for, all the same but for the perturbation."""
    rng = np.random.default_rng([seed, order])
    m = UNITS[order]
    W = np.tile(np.eye(FEATURES)[0], (m, 1))
    W += tau / np.sqrt(FEATURES) * rng.standard_normal(W.shape)
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    a = rng.choice([-1.0, 1.0], m) * rng.uniform(0.5, 1.5, m)
    return pn.Network(W, np.linspace(-0.95, 1.05, m), a)


def population_error(network: pn.Network, order: int, seed: int) -> float | None:
    """Parameter error of the paper's algorithm on moments without sampling error."""
    options: dict[str, Any] = {"order": order} if order > 1 else {}
    try:
        found = pn.recover(
            pn.PopulationSource(network),
            units=network.units,
            method="overcomplete" if order > 1 else "biased-relu",
            faithful=True,
            refine=False,
            rng=seed,
            **options,
        ).network
    except pn.InvalidInput:  # parallel to rounding
        return None
    return _told(found, network)


def two_nearly_parallel(tau: float, seed: int) -> pn.Network:
    """Four units of eight features, the second nearly the first, perturbed."""
    rng = np.random.default_rng([0, seed])
    network = pn.random_network(4, 8, rng=rng)
    W = network.weights.copy()
    W[1] = W[0] + NEARLY_PARALLEL * W[1]
    W += rng.standard_normal(W.shape) * tau / np.sqrt(8)
    return network.replace(weights=W, biases=np.linspace(-0.8, 0.8, 4))


def sampled_error(network: pn.Network, road: str, seed: int) -> float | None:
    """Parameter error of a road on samples without noise."""
    X, y = pn.sample(network, OF_SAMPLES[road], rng=seed)
    found = pn.recover(X, y, units=4, rng=seed, budget=5.0, **OPTIONS[road]).network
    return _told(found, network)


def _told(found: pn.Network | None, network: pn.Network) -> float | None:
    error = np.inf if found is None else pn.parameter_error(found, network)
    return float(error) if np.isfinite(error) else None


def measure(quick: bool) -> Iterator[Row]:
    """s_min and the population error for three orders; then errors from samples."""
    taus, seeds = (np.geomspace(0.1, 1, 3), 2) if quick else (np.geomspace(0.003, 1, 11), 10)
    for order in UNITS:
        for tau in taus.tolist():
            for seed in range(seeds):
                network = all_parallel(order, tau, seed)
                least = s_min(network.weights, order)
                error = population_error(network, order, seed)
                yield {"order": order, "tau": tau, "seed": seed, "s_min": least, "error": error}
    taus, seeds = (np.geomspace(0.01, 1, 2), 1) if quick else (np.geomspace(0.01, 1, 7), 10)
    for method in OF_SAMPLES:
        for tau in taus.tolist():
            for seed in range(seeds):
                network = two_nearly_parallel(tau, seed)
                least = s_min(network.weights, 1)
                error = sampled_error(network, method, seed)
                yield {
                    "order": 1, "method": method, "tau": tau, "seed": seed,
                    "s_min": least, "error": error,
                }  # fmt: skip


def draw(picture: Any, rows: Sequence[Row]) -> None:
    """Errors in the upper row, s_min below them: from populations, and from samples."""
    picture.set_size_inches(10.0, 7.4)
    (exact, sampled), (least, of_sampled) = picture.subplots(2, 2, sharex="col")
    _draw_population(exact, least, [row for row in rows if "method" not in row])
    _draw_samples(sampled, of_sampled, [row for row in rows if "method" in row])
    title = "all units parallel but for tau; exact moments"
    finish(exact, "", "parameter error", title, "xy")
    finish(least, "perturbation tau", "s_min of the l-th powers", log="xy")
    title = "two of four units nearly parallel; samples"
    finish(sampled, "", "parameter error", title, "xy")
    finish(of_sampled, "perturbation tau", "s_min of the weights", log="xy")


def _draw_population(exact: Any, least: Any, rows: Sequence[Row]) -> None:
    for colour, (order, mine) in zip(COLOURS, by(rows, "order").items(), strict=True):
        groups = by(mine, "tau")
        _curve(exact, groups, "error", colour, "")
        _rounding(exact, groups, 2 * order)
        power = _slope_below(groups, 0.2)
        label = f"l = {order}, {UNITS[order]} units: slope {power:.2f}"
        _curve(least, groups, "s_min", colour, label)
        guide(least, list(groups), _medians(groups, "s_min")[0], order, "")
    exact.plot([], [], label="rounding / s_min²: slopes -2, -4, -6", **GUIDE_STYLE)
    exact.set_ylim(1e-18, 10 * USELESS)
    least.plot([], [], label="predicted: slopes 1, 2, 3", **GUIDE_STYLE)


def _draw_samples(errors: Any, least: Any, rows: Sequence[Row]) -> None:
    for colour, (method, mine) in zip(COLOURS, by(rows, "method").items(), strict=True):
        label = f"{method}, {OF_SAMPLES[method]:,} samples"
        _curve(errors, by(mine, "tau"), "error", colour, label)
    groups = by([row for row in rows if row["method"] == "expand-prune"], "tau")
    _curve(least, groups, "s_min", "0.2", f"slope {_slope_below(groups, 0.2):.2f}")
    guide(least, list(groups), _medians(groups, "s_min")[0], 1, "predicted: slope 1")


def _medians(groups: dict[float, list[Row]], key: str) -> Array:
    return np.array([median_of_all(column(group, key)) for group in groups.values()])


def _slope_below(groups: dict[float, list[Row]], most: float) -> float:
    """Of s_min; a perturbation that is no longer small says nothing of the power."""
    taus = np.array(list(groups))
    small = taus <= most
    middle = _medians(groups, "s_min")
    return slope(taus[small], middle[small]) if small.sum() > 1 else np.nan


def _curve(axes: Any, groups: dict[float, list[Row]], key: str, colour: str, label: str) -> None:
    """Medians where half or more were found, and every network as a dot."""
    values = [column(group, key) for group in groups.values()]
    axes.plot(
        list(groups), [median_of_all(v) for v in values], "o-", color=colour, ms=4, label=label
    )
    for tau, each in zip(groups, values, strict=True):
        axes.plot(np.full(len(each), tau), each, ".", color=colour, alpha=0.25, ms=3)


def _rounding(axes: Any, groups: dict[float, list[Row]], power: int) -> None:
    """The prediction, through the median at the largest tau below a half, where it is of use."""
    taus = np.array(list(groups))
    middle = _medians(groups, "error")
    below = np.flatnonzero(taus < 0.5)
    anchor = below[-1] if len(below) else 0
    line: Array = middle[anchor] * (taus / taus[anchor]) ** -power
    axes.plot(taus[line < USELESS], line[line < USELESS], **GUIDE_STYLE)


SMOOTHED = Figure(
    "smoothed",
    "Corollary 3.3: units perturbed by tau have s_min(W^l) of order tau^l, and are told apart",
    measure,
    draw,
)
