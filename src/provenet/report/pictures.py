"""The pictures of a report, as SVG in data URIs, each with a caption and a text in its place."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from provenet import plotting
from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.networks.canonical import matched_layers
from provenet.networks.network import Network
from provenet.report.gathering import ClassesSeen, ErrorCurve, HeldOut, ReportData, Spectrum
from provenet.report.tables import small
from provenet.report.tolerances import (
    HEAT_MAP_HEIGHTS,
    MOST_BARS,
    MOST_FEATURES_SHOWN,
    ROW_HEIGHT,
)

_DPI = 150
"""Of clouds of points and heat maps, the only parts that are not lines."""


@dataclass(frozen=True)
class Picture:
    """A picture and its words."""

    title: str
    caption: str
    alternative: str
    """What it shows, for those who do not see it."""
    uri: str


def pictures(result: Recovery, data: ReportData) -> list[Picture]:
    """Those that there are data for."""
    return list(_all(result, data))


def _all(result: Recovery, data: ReportData) -> Iterator[Picture]:
    network, truth = result.network, data.truth
    if data.spectrum is not None:
        yield _spectrum(data.spectrum, network)
    if data.held_out is not None:
        yield _held_out(data.held_out)
        if not _is_rounding(result):
            yield from _residuals(data.held_out, data.shares, _names(result, data.features))
    if data.classes is not None:
        yield _calibration(data.classes)
    if data.shares is not None:
        yield _importance(data.shares, _names(result, data.features))
    if data.curve is not None:
        yield _curve(data.curve)
    if network is None or network.units == 0:
        return
    if truth is None or not _comparable(truth, network):
        yield from _weights(network, result.feature_names)
    else:
        yield _scatter(truth, network)
        names = result.feature_names
        flat = network.layers == 1
        yield from _beside(truth, network, names) if flat else _weights(network, names)


def _is_rounding(result: Recovery) -> bool:
    """Whether what is left are last digits, of which a picture tells nothing."""
    explained = result.status is not Status.FAILED
    return result.certificate is not None and result.certificate.noise == 0 and explained


def _names(result: Recovery, features: int) -> tuple[str, ...]:
    return result.feature_names or tuple(f"x{k + 1}" for k in range(features))


def _comparable(truth: Network, network: Network) -> bool:
    sizes = [(net.features, net.outputs or 1, net.layers) for net in (truth, network)]
    return sizes[0] == sizes[1] and truth.units > 0


def _as_uri(figure: Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="svg", dpi=_DPI, metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def _spectrum(found: Spectrum, network: Network | None) -> Picture:
    figure, span = plotting.new_figure(), found.span
    rank = span.rank if network is None else network.units
    plotting.spectrum(figure.add_subplot(), span, rank=rank)
    kept = "" if network is None else f" Kept are as many as there are units, {rank:,}."
    return Picture(
        "Spectrum of the second moment",
        f"From {counted(found.samples, 'sample')}. With Gaussian inputs and independent weights "
        "every unit lifts one eigenvalue, and those of units that moments show stand above the "
        f"noise of sampling: here {span.rank:,}.{kept}",
        f"{span.rank:,} of {counted(len(span.eigenvalues), 'eigenvalue')} stand above the noise "
        f"level of {small(span.noise_level)}; the largest is "
        f"{small(float(np.abs(span.eigenvalues[0])))}.",
        _as_uri(figure),
    )


def _held_out(held: HeldOut) -> Picture:
    figure = plotting.new_figure()
    plotting.predicted_against_observed(figure.add_subplot(), held.predict, held.X, held.y)
    error = float(np.sqrt(np.mean((held.predict(held.X) - held.y) ** 2)))
    unseen = "that the network drawn was not fitted to" if held.unseen else "of those given"
    outputs = f", {counted(held.y.shape[1], 'output')} each" if held.y.ndim > 1 else ""
    number = counted(len(held.X), "sample")
    return Picture(
        "Predicted against observed",
        f"{number} {unseen}{outputs}. Root mean square error {small(error)}, of labels that spread "
        f"by {small(float(np.sqrt(np.mean(np.var(held.y, axis=0)))))}.",
        f"Predictions of {number} against their labels; the root mean square error is "
        f"{small(error)}.",
        _as_uri(figure),
    )


def _residuals(held: HeldOut, shares: Array | None, names: tuple[str, ...]) -> Iterator[Picture]:
    """What is left of the first output against its prediction, then against inputs."""
    predicted = held.predict(held.X).reshape(len(held.X), -1)[:, 0]
    left = held.y.reshape(len(held.y), -1)[:, 0] - predicted
    first = " of the first output" if held.y.ndim > 1 else ""
    figure = plotting.new_figure()
    plotting.residuals(figure.add_subplot(), predicted, left, "predicted")
    yield Picture(
        "Residuals against prediction",
        f"What is left{first}. Noise has no shape: a bend, a funnel or a trend is something that "
        "the network misses.",
        f"Residuals of {counted(len(left), 'sample')} against their predictions.",
        _as_uri(figure),
    )
    order = np.arange(len(names)) if shares is None else np.argsort(-shares)
    shown = order[:MOST_FEATURES_SHOWN]
    rows = -(-len(shown) // 2)
    figure = plotting.new_figure(5.2, 0.4 + 1.7 * rows)
    axes = np.atleast_1d(figure.subplots(rows, min(len(shown), 2), sharey=True)).ravel()
    for ax, k in zip(axes, shown, strict=False):
        plotting.residuals(ax, held.X[:, k], left, names[k])
        ax.set_ylabel("")
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    few = f"the {len(shown)} inputs that matter most"
    which = "each input" if len(shown) == len(names) else few
    yield Picture(
        "Residuals against inputs",
        f"What is left{first}, against {which}.",
        f"Residuals against {', '.join(names[k] for k in shown)}.",
        _as_uri(figure),
    )


def _calibration(seen: ClassesSeen) -> Picture:
    figure, number = plotting.new_figure(), counted(seen.labels, "label")
    plotting.calibration(figure.add_subplot(), seen.probabilities, seen.happened)
    return Picture(
        "Are the probabilities right?",
        f"{number} of those given, in groups of equal size by the probability that the network "
        "says: how often it came true. Bars are two standard errors on either side.",
        f"Shares of {number} against their probabilities.",
        _as_uri(figure),
    )


def _importance(shares: Array, names: tuple[str, ...]) -> Picture:
    order = np.argsort(-shares)[:MOST_BARS]
    figure = plotting.new_figure(4.0, 0.9 + 0.22 * len(order))
    plotting.importance(figure.add_subplot(), shares[order], [names[k] for k in order])
    cut = "" if len(order) == len(names) else f" The first {len(order)} of {len(names)} inputs."
    top = ", ".join(f"{names[k]} {small(float(shares[k]))}" for k in order[:3])
    return Picture(
        "Which inputs matter",
        "How much predictions move when the values of one input change places among the samples, "
        f"as a share of their variance. Shares overlap where inputs act together.{cut}",
        f"The inputs that predictions hang on most: {top}.",
        _as_uri(figure),
    )


def _curve(curve: ErrorCurve) -> Picture:
    figure = plotting.new_figure()
    goal = "the truth" if curve.against_truth else "the answer"
    plotting.error_against_samples(
        figure.add_subplot(), curve.samples, curve.errors, curve.expected, f"distance to {goal}"
    )
    ends = [f"{small(float(curve.errors[k]))} from {curve.samples[k]:,} samples" for k in (0, -1)]
    line = "" if curve.expected is None else " Dashed: what the standard errors let expect."
    return Picture(
        "Error against samples used",
        f"Least squares again on parts of the samples, from a start near the answer: the largest "
        f"distance of a unit from {goal}.{line}",
        f"The largest distance of a unit from {goal}: {ends[0]}, {ends[1]}.",
        _as_uri(figure),
    )


_COLOURS = (
    "Red is positive, blue negative. Weights, output weights (out) and biases each have colours of "
    "their own scale, written below."
)


def _weights(network: Network, names: tuple[str, ...]) -> Iterator[Picture]:
    """A heat map a hidden layer that has units."""
    for number in np.flatnonzero(network.widths).tolist():
        layer = network.layer(number)
        figure = plotting.new_figure(4.0, 0.6 + _heat_map_height(layer.units))
        plotting.weights(figure.add_subplot(), layer, names=() if number else names)
        title, fed = "Units", ""
        if network.layers > 1:
            title = f"Units of layer {number + 1}"
        if number < network.layers - 1:
            fed = f" Out are the weights of layer {number + 2} on these units."
        caption = f"A row for each unit.{fed} {_COLOURS}"
        yield Picture(title, caption, _in_words(layer, number), _as_uri(figure))


def _heat_map_height(units: int) -> float:
    return float(np.clip(ROW_HEIGHT * units, *HEAT_MAP_HEIGHTS))


def _in_words(layer: Network, number: int = 0) -> str:
    units = counted(layer.units, "unit")
    inputs = f"layer {number}" if number else counted(layer.features, "feature")
    return f"Heat map of the weights of {units} on {inputs}; their numbers are in the table."


def _scatter(truth: Network, network: Network) -> Picture:
    figure = plotting.new_figure()
    plotting.truth_against_estimate(figure.add_subplot(), truth, network)
    matched = sum(len(layer.rows) for layer in matched_layers(network, truth))
    return Picture(
        "Truth against estimate",
        f"Every parameter of the {counted(matched, 'unit')} that have a partner: found against "
        "true. What is exact lies on the diagonal.",
        f"Parameters of {counted(matched, 'matched unit')}, found against true.",
        _as_uri(figure),
    )


def _beside(truth: Network, network: Network, names: tuple[str, ...]) -> Iterator[Picture]:
    """Both heat maps, one above the other, in the order and the colours of the truth."""
    left, right = plotting.in_matched_order(truth, network)
    heights = [0.6 + _heat_map_height(net.units) for net in (left, right)]
    figure = plotting.new_figure(4.0, sum(heights) + 0.4)
    axes = figure.subplots(2, 1, height_ratios=heights)
    for ax, net, title in zip(axes, (left, right), ("truth", "found"), strict=True):
        plotting.weights(ax, net, like=left, names=names)
        ax.set_title(title, fontsize=10, loc="left")
    yield Picture(
        "Truth and estimate, unit by unit",
        f"A row for each unit, partners in the same row. {_COLOURS}",
        _in_words(right),
        _as_uri(figure),
    )
