"""Pictures of a recovery, each drawn on the matplotlib axes that it is given.

Every function takes `ax` first, draws on it alone and returns it. Nothing global is touched, so
pictures may be drawn in any thread, and with `new_figure` no window is ever opened. Colours are
told apart by colour-blind readers too (Okabe and Ito; red to blue through white for signs), and
sizes are such that a picture four inches wide is readable on a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.moments.subspace import Span
from provenet.networks.canonical import MatchedLayer, align_to, match_units, matched_layers
from provenet.networks.network import Network

BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"
MOST_POINTS = 2000
"""Convention: labels that are drawn: more would only cover each other."""
_FONT = 10
"""Convention: points of the names of axes: about the text around a picture."""
_SMALL_FONT = 9
"""Convention: points of ticks and legends: a little less than that."""
_SIGNED = "RdBu_r"
_NARROWEST, _GAP = 0.1, 0.025
"""Width of output weights or biases, and of what parts them, as shares of the weights' width."""
_MOST_TICKS = 10
"""Convention: units that are named along an axis: names of more would touch each other."""
_GROUPS = 10
"""Convention: groups of labels by their probability."""
_ROUNDING = 1e-17
"""Where differences of zero are drawn on a logarithmic axis."""


def new_figure(width: float = 4.0, height: float = 3.0) -> Any:
    """A figure, in inches, that belongs to no window."""
    try:
        figure = import_module("matplotlib.figure")
    except ImportError:
        raise InvalidInput(
            'Pictures need the package matplotlib: pip install "provenet[plot]".'
        ) from None
    return figure.Figure(figsize=(width, height), layout="constrained")


def spectrum(
    ax: Any,
    eigenvalues: Span | Array,
    noise_level: float | None = None,
    rank: int | None = None,
) -> Any:
    """Sizes of eigenvalues by rank, their noise level, and how many were kept.

    Takes a `Span`, which has all three, or the eigenvalues by falling size.
    """
    if isinstance(eigenvalues, Span):
        span = eigenvalues
        noise_level = span.noise_level if noise_level is None else noise_level
        rank = span.rank if rank is None else rank
        eigenvalues = span.eigenvalues
    sizes = np.abs(np.asarray(eigenvalues, dtype=float))
    kept = len(sizes) if rank is None else min(rank, len(sizes))
    order = np.arange(1, len(sizes) + 1)
    ax.plot(order[:kept], sizes[:kept], "o", ms=5, color=BLUE, label=f"{kept} kept")
    if kept < len(sizes):
        rest = f"{len(sizes) - kept} left"
        ax.plot(order[kept:], sizes[kept:], "o", ms=5, mfc="white", color=GREY, label=rest)
    if noise_level is not None:
        ax.axhline(noise_level, ls="--", lw=1.2, color=VERMILION, label="noise level")
    if kept < len(sizes):
        ax.axvline(kept + 0.5, ls=":", lw=1.2, color=GREY)
    ax.set_xlim(0.5, len(sizes) + 0.5)
    ax.xaxis.get_major_locator().set_params(integer=True)
    _label(ax, "number", "size of the eigenvalue")
    _whole_decades(ax, sizes, noise_level)
    return _legend(ax)


def weights(
    ax: Any,
    network: Network,
    like: Network | None = None,
    names: Sequence[str] = (),
) -> Any:
    """Heat map: a row a unit; weights, output weights and bias in columns.

    `names` are those of the inputs, which are numbered from 1 if they have none.

    Blue is negative, red positive. Each of the three blocks has colours of its own scale, written
    below: up to its largest value, or that of the network `like`, to compare the two. Of a deep
    network it draws one hidden layer, `network.layer(number)`, whose outputs feed the next.
    """
    network = network.as_one_layer("A heat map")
    like = None if like is None else like.as_one_layer("A heat map")
    values, scales = _blocks(network), _blocks(network if like is None else like)
    left, (ticks, labels), ranges = 0.0, _thinned(network.features, names), []
    for name, block in values.items():
        largest = _largest(scales[name])
        width = max(block.shape[1], _NARROWEST * network.features)
        _heat_map(ax, block, left, width, largest)
        ranges.append(f"{name} ±{largest:.3g}")
        if name != "weights":
            ticks, labels = [*ticks, left + width / 2], [*labels, name]
        left += width + _GAP * network.features
    _label(ax, ", ".join(ranges), "unit")
    ax.set_xticks(ticks, labels, rotation=45 if names else 0, ha="right" if names else "center")
    places, numbers = _units(network.units)
    ax.set_yticks(places, numbers)
    ax.set(xlim=(0, left - _GAP * network.features), ylim=(network.units, 0))
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return ax


def predicted_against_observed(
    ax: Any, predict: Callable[[Array], Array], X: Array, y: Array
) -> Any:
    """Points near the diagonal: what a network says of samples against their labels.

    At most 2000 labels are drawn, evenly spaced among those given.
    """
    observed, predicted = np.ravel(y), np.ravel(predict(X))
    every = -(-len(observed) // MOST_POINTS)
    observed, predicted = observed[::every], predicted[::every]
    _diagonal(ax, observed, predicted)
    ax.scatter(
        observed, predicted, s=9, alpha=0.5, lw=0, color=BLUE, rasterized=True, label="labels"
    )
    _label(ax, "observed", "predicted")
    return _legend(ax)


def residuals(ax: Any, values: Array, left: Array, name: str) -> Any:
    """What a network leaves of labels, against anything that is known of the samples.

    At most 2000 are drawn, evenly spaced among those given.
    """
    every = -(-len(values) // MOST_POINTS)
    ax.axhline(0.0, lw=1, color=GREY)
    ax.scatter(values[::every], left[::every], s=9, alpha=0.5, lw=0, color=BLUE, rasterized=True)
    _label(ax, name, "observed - predicted")
    return ax


def calibration(ax: Any, probabilities: Array, happened: Array) -> Any:
    """How often a thing happened against how likely it was said to be, in groups of equal size.

    Bars are two standard errors long on either side, by the probabilities.
    """
    order = np.argsort(probabilities, kind="stable")
    parts = np.array_split(order, min(_GROUPS, len(order)))
    said = np.array([probabilities[part].mean() for part in parts])
    seen = np.array([happened[part].mean() for part in parts])
    doubts = [np.sum(probabilities[part] * (1 - probabilities[part])) for part in parts]
    errors = np.sqrt(doubts) / [len(part) for part in parts]
    ax.plot([0, 1], [0, 1], lw=1, color=GREY, label="as said")
    ax.errorbar(said, seen, 2 * errors, fmt="o", ms=4, lw=1, color=BLUE, label="seen")
    _label(ax, "probability", "share of labels")
    _legend(ax)
    return ax


def importance(ax: Any, shares: Array, names: Sequence[str]) -> Any:
    """Bars by falling length: by what share of their variance predictions hang on each input."""
    order = np.argsort(-shares)
    places = np.arange(len(order))
    ax.barh(places, shares[order], color=BLUE, height=0.7)
    ax.set_yticks(places, [names[k] for k in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    _label(ax, "share of the variance of predictions", "")
    return ax


def error_against_samples(
    ax: Any,
    samples: AnyArray,
    errors: Array,
    expected: Array | None = None,
    name: str = "largest error of a unit",
) -> Any:
    """Errors of fits to growing numbers of samples, and what standard errors let expect."""
    drawn = np.maximum(np.asarray(errors, dtype=float), _ROUNDING)
    ax.plot(samples, drawn, "o-", ms=5, lw=1.5, color=BLUE, label="refitted")
    if expected is not None:
        ax.plot(samples, expected, "--", lw=1.2, color=VERMILION, label="from standard errors")
    ax.set_xscale("log")
    ax.set_xticks(samples, [f"{n:,}" for n in samples], rotation=45)
    ax.set_xticks([], minor=True)
    _label(ax, "samples used", name)
    _whole_decades(ax, drawn, expected)
    return _legend(ax)


def truth_against_estimate(ax: Any, truth: Network, estimate: Network) -> Any:
    """Every parameter of matched units: found against true. Exact ones lie on the diagonal.

    Both have the same number of hidden layers; all of them are drawn up to the first whose widths
    differ.
    """
    if truth.layers != estimate.layers:
        raise InvalidInput(
            f"The truth has {truth.layers} hidden layers and the estimate {estimate.layers}: "
            "give networks of the same depth."
        )
    left, right = _matched_blocks(matched_layers(estimate, truth), truth.layers)
    values = [np.concatenate([np.ravel(b) for b in blocks.values()]) for blocks in (left, right)]
    _diagonal(ax, *values)
    styles = {"weights": ("o", BLUE), "out": ("s", VERMILION), "bias": ("^", GREEN)}
    names = {"weights": "weights", "out": "output weights", "bias": "biases"}
    for name, (marker, colour) in styles.items():
        ax.scatter(
            np.ravel(left[name]),
            np.ravel(right[name]),
            s=16,
            marker=marker,
            lw=0,
            alpha=0.7,
            color=colour,
            label=names[name],
            rasterized=True,
        )
    _label(ax, "truth", "found")
    return _legend(ax)


def _matched_blocks(
    layers: tuple[MatchedLayer, ...], depth: int
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Parameters of matched units of truth and estimate; output weights of the last layer."""
    sides: tuple[dict[str, Array], ...] = ({}, {})
    for number, layer in enumerate(layers):
        pair = layer.truth.keep(layer.columns), layer.estimate.keep(layer.rows)
        for side, units in zip(sides, pair, strict=True):
            blocks = _blocks(units)
            if number < depth - 1:
                blocks["out"] = blocks["out"][:, :0]
            for name, block in blocks.items():
                side[name] = np.concatenate([side.get(name, np.empty(0)), np.ravel(block)])
    return sides[0], sides[1]


def in_matched_order(truth: Network, estimate: Network) -> tuple[Network, Network]:
    """Both canonical networks, each unit of the estimate in the place of its partner.

    Units without a partner come last. Both have one hidden layer.
    """
    truth, estimate = (net.as_one_layer("A picture of pairs") for net in (truth, estimate))
    found, hidden = match_units(estimate, truth)
    order = np.argsort(hidden)
    rows = [_partners_first(hidden[order], truth), _partners_first(found[order], estimate)]
    return truth.canonical().keep(rows[0]), align_to(estimate, truth).keep(rows[1])


def _partners_first(matched: AnyArray, network: Network) -> AnyArray:
    alone = np.setdiff1d(np.arange(network.canonical().units), matched)
    return np.concatenate([matched, alone]).astype(int)


def _blocks(network: Network) -> dict[str, Array]:
    """Parameters of the units, a row each."""
    A = network.output_weights
    return {
        "weights": network.weights,
        "out": A[:, None] if A.ndim == 1 else A.T,
        "bias": network.biases[:, None],
    }


def _largest(block: Array) -> float:
    return float(np.max(np.abs(block), initial=0.0)) or 1.0


def _heat_map(ax: Any, block: Array, left: float, width: float, largest: float) -> None:
    """One block of columns; the range of colours is the same on both sides of zero."""
    if block.size:
        ax.imshow(
            block,
            cmap=_SIGNED,
            vmin=-largest,
            vmax=largest,
            extent=(left, left + width, len(block), 0),
            aspect="auto",
            interpolation="nearest",
        )


def _thinned(number: int, names: Sequence[str] = ()) -> tuple[list[float], list[str]]:
    """Centres and names of columns, or their numbers from 1: all of few, some of many."""
    step = _step(number)
    shown = [1, *range(step, number + 1, step)] if step > 2 else list(range(1, number + 1, step))
    return [k - 0.5 for k in shown], [names[k - 1] if names else str(k) for k in shown]


def _units(number: int) -> tuple[list[float], list[str]]:
    """Centres and names of units, by their index."""
    shown = range(0, number, _step(number))
    return [k + 0.5 for k in shown], [str(k) for k in shown]


def _step(number: int) -> int:
    step = max(1, -(-number // _MOST_TICKS))
    return step if step <= 2 else 5 * -(-step // 5)


def _diagonal(ax: Any, first: Array, second: Array) -> None:
    both = np.concatenate([first, second])
    both = both[np.isfinite(both)]
    ends = [float(both.min()), float(both.max())] if len(both) else [0.0, 1.0]
    ax.plot(ends, ends, "-", lw=1, color=GREY, label="equal")


def _whole_decades(ax: Any, *values: Array | float | None) -> None:
    """A logarithmic axis that ends at powers of ten, so that two ticks at least have names."""
    known = [np.ravel(value) for value in values if value is not None]
    every = np.concatenate(known)
    positive = every[every > _ROUNDING * every.max()]
    low, high = np.log10(positive.min()), np.log10(positive.max())
    ax.set_yscale("log")
    ax.set_ylim(10.0 ** np.floor(low), 10.0 ** max(np.ceil(high), np.floor(low) + 1))


def _label(ax: Any, x: str, y: str) -> None:
    ax.set_xlabel(x, fontsize=_FONT)
    ax.set_ylabel(y, fontsize=_FONT)
    ax.tick_params(which="both", labelsize=_SMALL_FONT)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(ax: Any) -> Any:
    ax.legend(frameon=False, fontsize=_SMALL_FONT)
    return ax
