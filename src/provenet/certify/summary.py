"""What is printed of a recovery, wherever it is printed: the checks, and facts beside them.

`print(result)` and notebooks show it as it is; console, page and JSON take the same lists. Nothing
is judged or computed again here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from provenet.common.words import counted
from provenet.networks.network import Network

if TYPE_CHECKING:
    from provenet.certify.certificate import Certificate
    from provenet.certify.result import Recovery

_MOST_UNITS, _MOST_WEIGHTS = 12, 6
"""What a screen of eighty columns and a short glance hold."""


def as_text(result: Recovery) -> str:
    """Status and message, the checks, what else was seen, the units."""
    head = f"{headline(result)}\n{result.message}"
    rows = [("yes" if c.holds else "NO", c.name, c.figure, c.needed) for c in result.checks]
    parts = [
        head,
        _columns("Checks", [("", "", "measured", "needed"), *rows]),
        _columns("Beside them", list(facts(result))),
    ]
    if result.network is not None and result.network.units:
        parts.append(_columns("Units", _unit_rows(result.network, result.feature_names)))
    return "\n\n".join(filter(None, parts))


def as_html(result: Recovery) -> str:
    """The same for a notebook."""
    rows = [(c.name, "yes" if c.holds else "NO", c.figure, c.needed) for c in result.checks]
    tables = [_html_table(("check", "holds", "measured", "needed"), rows)]
    if result.network is not None and result.network.units:
        head, *units = _unit_rows(result.network, result.feature_names)
        tables.append(_html_table(head, units))
    lines = "".join(f"<li>{escape(n)}: {escape(t)}</li>" for n, t in facts(result))
    return (
        f"<p><b>{escape(headline(result))}</b><br>{escape(result.message)}</p>"
        f"{tables[0]}<ul>{lines}</ul>{''.join(tables[1:])}"
    )


def headline(result: Recovery) -> str:
    """Status, claim, size and method in a line."""
    if result.network is None:
        return f"{result.status.capitalize()}: nothing was found by {result.method}."
    units = units_in_words(result.network)
    return f"{result.status.capitalize()}: a {result.claim} of {units}, found by {result.method}."


def units_in_words(network: Network, noun: str = "unit") -> str:
    """How many units there are, a layer at a time where there are several."""
    if network.layers == 1:
        return counted(network.units, noun) if network.units else f"no {noun}s"
    *lower, last = map(str, network.widths)
    return f"{', '.join(lower)} and {last} {noun}s in {network.layers} layers"


def facts(result: Recovery) -> Iterator[tuple[str, str]]:
    """What was seen beside the checks, as name and text."""
    if result.certificate is not None:
        yield from _certified(result.certificate)
    if result.details is not None and hasattr(result.details, "facts"):
        yield from result.details.facts()
    yield from (("ambiguity", ambiguity) for ambiguity in result.ambiguities)
    if result.queries is not None:
        yield "queries", f"{result.queries:,}"
    if result.timings:
        yield "time", _timings(result.timings)


def _certified(certificate: Certificate) -> Iterator[tuple[str, str]]:
    labels = f", {certificate.outputs:,} labels each" if certificate.outputs > 1 else ""
    parameters = f"{certificate.parameters:,} parameters"
    yield "samples", f"{certificate.samples_fitted:,} fitted{labels}, for {parameters}"
    held_out = f"{certificate.samples_held_out:,} that no fit had seen"
    if certificate.samples_refitted:
        held_out += f"; they judged, and then all {certificate.samples_refitted:,} were fitted"
    if certificate.coverage:
        held_out += f": {certificate.coverage}"
    yield "unseen", held_out
    if certificate.own_residual is not None:
        before, after = certificate.own_residual, certificate.relative_residual
        yield (
            "refinement",
            f"the paper's own answer left {figure(before)} of the labels' spread, least squares "
            f"leaves {figure(after)}",
        )
    yield "noise", figure(certificate.noise) if certificate.noise else "none"
    if certificate.label_precision:
        yield "precision", f"labels are {certificate.label_precision}"
    if np.isfinite(certificate.linear_residual) and certificate.noise:
        share = 1 - certificate.linear_residual**2
        yield "linear model", f"explains {share:.0%} of the labels' variance"
    if certificate.parameter_error_bound and not np.isnan(certificate.parameter_error_bound):
        yield "error bound", f"{figure(certificate.parameter_error_bound)} on the parameters"
    if not np.isnan(certificate.condition):
        yield "condition", f"{figure(certificate.condition)} (condition number of the weights)"
    if certificate.width_evidence:
        yield "width", certificate.width_evidence
    yield "inputs", certificate.gaussian.message
    others = set(certificate.warnings) - {certificate.gaussian.message}
    yield from (("warning", warning) for warning in sorted(others))


def figure(value: float) -> str:
    """Three digits, or a word for what is not finite."""
    if np.isfinite(value):
        return f"{value:.3g}"
    return "unknown" if np.isnan(value) else "infinite"


def _timings(timings: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.2g} s" for name, seconds in timings.items())


def _unit_rows(network: Network, names: Sequence[str]) -> Sequence[tuple[str, ...]]:
    """A heading and a row a unit, those of every layer one after the other."""
    if network.layers == 1:
        return _layer_rows(network.layer(0), names)
    head: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = []
    for number in range(network.layers):
        own, *units = _layer_rows(network.layer(number), ())
        head = ("layer", *own)
        rows += [(str(number + 1), *unit) for unit in units]
    return [head, *rows]


def _layer_rows(network: Network, names: Sequence[str]) -> Sequence[tuple[str, ...]]:
    """A heading and a row a unit: index, output weight or its size, bias, the first weights."""
    A = np.atleast_2d(network.output_weights)
    size = A[0] if len(A) == 1 else np.linalg.norm(A, axis=0)
    shown = min(network.features, _MOST_WEIGHTS)
    named = " ".join(f"{name[:8]:>8}" for name in names[:shown]) or "weights ..."
    rows = [("unit", "output" if len(A) == 1 else "|output|", "bias", named)]
    for i in range(min(network.units, _MOST_UNITS)):
        weights = " ".join(f"{w:8.4f}" for w in network.weights[i, :shown])
        more = " ..." if network.features > shown else ""
        rows.append((str(i), f"{size[i]:.4g}", f"{network.biases[i]:.4g}", weights + more))
    if network.units > _MOST_UNITS:
        rows.append(("...", "", "", f"{network.units - _MOST_UNITS} more"))
    return rows


def _columns(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join([title, *(f"  {line}" for line in lines)])


def _html_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
