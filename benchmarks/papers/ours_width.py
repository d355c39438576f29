"""The width found under noise, beside the width that the samples themselves tell.

Labels carry normal noise, a share of their spread. "expand-prune" is not told the width. Whether it
gives up or the samples do is seen from least squares started at the truth, which searches nothing:

- *The likelihood ratio of the weakest unit*, `n log(rss_{m-1} / rss_m)`: the hidden network fitted,
  against the best fit that starts at it less one unit, with and without a linear term. Schwarz's
  criterion counts log n for each parameter that the larger has more. Below that price, the samples
  speak for the smaller network.
- *The width the samples tell*: units are dropped from the truth one by one, the cheapest first,
  while Schwarz's criterion falls. Least squares from there may miss a better network with fewer
  units; where "expand-prune" found another width, whose criterion is lower is kept too.

With normal errors the ratio is `n log(1 + (misfit / noise)^2)`, the misfit being that of the best
network with a unit less on labels without noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import provenet as pn
from common import Problem, random_problem
from figures import GUIDE_STYLE, Figure, Row, by, column, finish, share_with_error
from provenet.common.typing import Array
from trials import fitted_from, solver_rng

FEATURES, UNITS, SAMPLES = 8, 5, 1000
NOISE, RATIO = "noise over the spread of labels", "one unit fewer, from the truth"
STYLES: dict[str, dict[str, Any]] = {
    "width": {"color": "#0b6e4f", "marker": "o", "linestyle": "-", "label": "expand-prune"},
    "told": {"color": "0.35", "marker": "s", "linestyle": ":", "label": "what the samples tell"},
}


@dataclass(frozen=True)
class Fitted:
    """A network fitted to samples, and Schwarz's criterion of it."""

    network: pn.Network
    rss: float
    value: float


def noisy_problem(noise: float, seed: int, samples: int = SAMPLES) -> Problem:
    """A random network and labels with noise, a share of their spread."""
    problem = random_problem(FEATURES, UNITS, samples, "gauss", 0.0, seed)
    errors = np.random.default_rng([seed, 0x4E]).standard_normal(samples)
    return replace(problem, y=problem.y + noise * np.std(problem.y) * errors)


def fitted(start: pn.Network, X: Array, y: Array) -> Fitted:
    """Least squares from a network; without units, of its linear part alone."""
    network = fitted_from(start, X, y) if start.units else _linear_fit(start, X, y)
    rss = float(np.sum((network(X) - y) ** 2))
    n = len(y)
    return Fitted(network, rss, n * np.log(rss) + network.free_parameters * np.log(n))


def _linear_fit(start: pn.Network, X: Array, y: Array) -> pn.Network:
    if start.linear is None:
        return start.replace(output_bias=float(y.mean()))
    beta = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y)[0]
    return start.replace(linear=beta[:-1], output_bias=float(beta[-1]))


def less_one(network: pn.Network, X: Array, y: Array) -> dict[str, Fitted]:
    """The best fits that start at a network less one of its units, without a linear term and with.

    A unit is half of its absolute value and half linear, so the start with a linear term keeps its
    linear half; another start with one is the best fit without.
    """
    found: dict[str, list[Fitted]] = {"without": [], "with": []}
    for k in range(network.units):
        others = network.keep(np.arange(network.units) != k)
        half = 0.5 * float(network.output_weights[k]) * network.weights[k]
        linear = half if network.linear is None else network.linear + half
        found["with"].append(fitted(others.replace(linear=linear), X, y))
        if network.linear is None:
            found["without"].append(fitted(others, X, y))
            no_worse = found["without"][-1].network.replace(linear=np.zeros(X.shape[1]))
            found["with"].append(fitted(no_worse, X, y))
    return {kind: min(fits, key=lambda fit: fit.rss) for kind, fits in found.items() if fits}


def told(best: Fitted, X: Array, y: Array) -> Fitted:
    """What is left when dropping more units no longer lowers Schwarz's criterion."""
    while best.network.units:
        other = min(less_one(best.network, X, y).values(), key=lambda fit: fit.value)
        if other.value >= best.value:
            break
        best = other
    return best


def trial(noise: float, seed: int, budget: float) -> Row:
    """What was found, and what the samples tell."""
    problem = noisy_problem(noise, seed)
    X, y = problem.X, problem.y
    result = pn.recover(X, y, method="expand-prune", budget=budget, rng=solver_rng(seed))
    truth = fitted(problem.truth, X, y)
    smaller, left, n = less_one(truth.network, X, y), told(truth, X, y), len(y)
    row: Row = {
        "noise": noise,
        "seed": seed,
        "width": None if result.network is None else result.network.units,
        "linear": result.network is not None and result.network.linear is not None,
        "success": result.success,
        "told": left.network.units,
        "better": _better(result.network, left, X, y),
    }
    for kind, fit in smaller.items():
        more = truth.network.free_parameters - fit.network.free_parameters
        row[f"ratio {kind}"] = n * float(np.log(fit.rss / truth.rss))
        row[f"price {kind}"] = more * float(np.log(n))
    return row


def _better(found: pn.Network | None, left: Fitted, X: Array, y: Array) -> bool | None:
    """Whether a network of another width has the lower criterion, fitted to the same samples."""
    if found is None or found.units == left.network.units:
        return None
    return bool(fitted(found, X, y).value < left.value)


def measure(quick: bool) -> Iterator[Row]:
    """Every noise with the same networks, inputs and errors, the noise's size apart."""
    noises = (0.01, 1.0) if quick else (0.003, 0.01, 0.03, 0.06, 0.1, 0.17, 0.3, 0.5, 1.0, 2.0)
    for noise in noises:
        for seed in range(1 if quick else 15):
            yield trial(noise, seed, budget=3.0 if quick else 10.0)


def draw(picture: Any, rows: Sequence[Row]) -> None:
    """Widths, how often they are right, and what the likelihood says of the weakest unit."""
    widths, right, ratios = picture.subplots(1, 3)
    groups = by(rows, "noise")
    _draw_widths(widths, groups)
    _draw_right(right, groups)
    _draw_ratios(ratios, groups)


def _draw_widths(axes: Any, groups: dict[float, list[Row]]) -> None:
    for key, style in STYLES.items():
        mean = [float(np.nanmean(column(group, key))) for group in groups.values()]
        axes.plot(list(groups), mean, ms=4, **style)
    axes.axhline(UNITS, color="0.8", linewidth=1, zorder=0)
    axes.set_ylim(0, UNITS + 0.5)
    finish(axes, NOISE, "mean width", log="x")


def _draw_right(axes: Any, groups: dict[float, list[Row]]) -> None:
    for key, style in STYLES.items():
        shares = [
            share_with_error(sum(row[key] == UNITS for row in group), len(group))
            for group in groups.values()
        ]
        middle, low, high = np.transpose(shares)
        axes.errorbar(list(groups), middle, (low, high), ms=4, elinewidth=0.8, **style)
    axes.set_ylim(-0.04, 1.04)
    finish(axes, NOISE, f"share with all {UNITS} units", log="x")


def _draw_ratios(axes: Any, groups: dict[float, list[Row]]) -> None:
    noises = np.array(list(groups))
    over = [column(g, "ratio without") / column(g, "price without") for g in groups.values()]
    for noise, each in zip(noises, over, strict=True):
        axes.plot(np.full(len(each), noise), each, ".", color="tab:blue", alpha=0.35, ms=5)
    middle = np.array([np.median(each) for each in over])
    seen = middle > 0  # at the largest noise least squares may end lower from one unit fewer
    axes.plot(noises[seen], middle[seen], "o-", color="tab:blue", ms=4, label=RATIO)
    axes.plot(noises, expected_ratio(groups), label="n log(1 + (misfit / noise)²)", **GUIDE_STYLE)
    axes.axhline(1.0, color="k", linewidth=1, label="Schwarz's price")
    axes.set_ylim(bottom=0.03)
    finish(axes, NOISE, "2 log likelihood ratio / price", log="xy")


def expected_ratio(groups: dict[float, list[Row]]) -> Array:
    """With the misfit of one unit fewer as it is at the least noise; over the price, the median."""
    noises = np.array(list(groups))
    first = next(iter(groups.values()))
    ratio, price = column(first, "ratio without"), column(first, "price without")
    misfit = noises[0] * np.sqrt(np.expm1(ratio / SAMPLES))
    each = SAMPLES * np.log1p((misfit / noises[:, None]) ** 2) / price
    return np.asarray(np.median(each, axis=1))


WIDTH = Figure(
    "width",
    "Beyond the papers: the width found under noise, and whether the samples tell it",
    measure,
    draw,
    width=11.0,
)
