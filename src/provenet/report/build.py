"""From a recovery and its samples to one page of HTML that needs nothing else."""

from __future__ import annotations

import base64
import datetime
import platform
import tempfile
from importlib import import_module
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from provenet.certify.checks import Claim, Status
from provenet.certify.result import Recovery
from provenet.certify.summary import facts, figure, units_in_words
from provenet.common import __version__
from provenet.common.exceptions import InvalidInput
from provenet.common.files import check_writable, write_atomically
from provenet.common.words import counted
from provenet.networks.canonical import parameter_error
from provenet.networks.network import Network
from provenet.report.console import describe, why_infinite
from provenet.report.gathering import ReportData, gather
from provenet.report.pictures import pictures
from provenet.report.tables import small
from provenet.report.tolerances import LARGEST_DOWNLOAD
from provenet.report.units import unit_tables
from provenet.validation import as_source

_ENDINGS = (".html", ".htm")
_MARKS = {Status.EXACT: "✓", Status.WITHIN_NOISE: "✓", Status.PARTIAL: "◐", Status.FAILED: "✗"}


def check_report(path: str | PathLike[str]) -> None:
    """Raise before any work is done if a report could not be made, or not written to `path`."""
    check_writable(path)
    if Path(path).suffix.lower() not in _ENDINGS:
        raise InvalidInput(f"{path} is no name for a report: give one that ends in .html.")
    for name in ("jinja2", "matplotlib"):
        try:
            import_module(name)
        except ImportError:
            raise InvalidInput(
                f'A report needs the package {name}: pip install "provenet[report]".'
            ) from None


def write_report(
    path: str | PathLike[str],
    result: Recovery,
    X: Any = None,
    y: Any = None,
    *,
    truth: Network | None = None,
    command: str | None = None,
    seed: int | None = None,
) -> None:
    """Write a page that tells what was found, how sure it is, and how to find it again.

    Parameters
    ----------
    path
        The file to write, whole or not at all; its name ends in `.html`.
    result
        What was found.
    X, y
        The samples that it was found from, or a `Source` in place of both: the pictures need them.
        Of a model that was asked, the random points among the questions take their place.
    truth
        The true network, where it is known, to compare.
    command
        The command that made the recovery, for those who want to repeat it.
    seed
        The seed it was given; the pictures are drawn with the same.
    """
    if not isinstance(result, Recovery):
        raise InvalidInput("A report tells of a result: call write_report(path, result, X, y).")
    check_report(path)
    if X is None and result.queries is None:
        raise InvalidInput("A report needs the samples: call write_report(path, result, X, y).")
    source = None if X is None else as_source(X, y)
    data = gather(result, source, truth=truth, rng=0 if seed is None else seed)
    page = _render(result, data, command, seed).encode()
    write_atomically(path, lambda file: file.write(page))


def _render(result: Recovery, data: ReportData, command: str | None, seed: int | None) -> str:
    template = files("provenet.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = import_module("jinja2").Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page: str = environment.from_string(template).render(
        status=result.status.value,
        mark=_MARKS[result.status],
        headline=_headline(result),
        message=result.message,
        found=_found(result, data),
        comparison=_comparison(result, data.truth),
        facts=_facts(result, data),
        checks=result.checks,
        notes=[(name.capitalize(), text) for name, text in facts(result)],
        tables=unit_tables(result, data.truth),
        pictures=pictures(result, data),
        download=_download(result.network),
        reproduction=_reproduction(result, data, command, seed),
    )
    return page


def _headline(result: Recovery) -> str:
    """Status, size, and how many questions were answered well: what is read first."""
    status, number = result.status.capitalize(), len(result.checks)
    held = sum(check.holds for check in result.checks)
    size = "nothing found" if result.network is None else units_in_words(result.network)
    return f"{status}: {size}, {held} of {counted(number, 'check')} hold"


def _download(network: Network | None) -> str | None:
    """The network as a file inside the page; None where there is none, or it is large."""
    if network is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.npz"
        try:
            network.save(path)
        except InvalidInput:  # an activation of the user's own has no name
            return None
        content = path.read_bytes()
    if len(content) > LARGEST_DOWNLOAD:
        return None
    return f"data:application/octet-stream;base64,{base64.b64encode(content).decode('ascii')}"


def _found(result: Recovery, data: ReportData) -> str:
    """What was found, in a sentence."""
    samples = _samples(result, data)
    if result.network is None:
        return f"No network was found in {samples} by the method {result.method}."
    verb = "was found in" if result.success else "is the best that was found in"
    found = f"lowest layer of {describe(result.network)}"
    if result.claim is not Claim.LAYER:
        found = f"network of {describe(result.network)}"
    if result.network.units == 0:
        found = f"linear model of {counted(result.network.features, 'feature')}"
    return f"A {found} {verb} {samples} by the method {result.method}."


def _number(result: Recovery, data: ReportData) -> tuple[str, str]:
    """What was looked at, and how much of it."""
    if result.queries is None:
        return "samples", f"{data.samples:,}"
    return "queries", f"{result.queries:,}"


def _samples(result: Recovery, data: ReportData) -> str:
    if result.queries is None:
        return counted(data.samples, "sample")
    return f"{result.queries:,} {'query' if result.queries == 1 else 'queries'}"


def _comparison(result: Recovery, truth: Network | None) -> str | None:
    if truth is None:
        return None
    error = np.inf if result.network is None else parameter_error(result.network, truth)
    return (
        f"Largest error of any unit, compared with the truth: {small(error)}"
        f"{why_infinite(result.network, truth)}."
    )


def _facts(result: Recovery, data: ReportData) -> list[tuple[str, str]]:
    """The few numbers that a reader looks for first."""
    certificate = result.certificate
    facts = [_number(result, data)]
    if data.features:
        facts.append(("features", f"{data.features:,}"))
    if data.outputs is not None:
        facts.append(("outputs", f"{data.outputs:,}"))
    if result.network is not None:
        facts.append(("units", ", ".join(f"{width:,}" for width in result.network.widths)))
    if certificate is not None:
        facts.append(("parameters", f"{certificate.parameters:,}"))
        facts.append(("noise", figure(certificate.noise) if certificate.noise else "none"))
    if "total" in result.timings:
        facts.append(("seconds", f"{result.timings['total']:.2g}"))
    return facts


def _reproduction(
    result: Recovery, data: ReportData, command: str | None, seed: int | None
) -> dict[str, Any]:
    outputs = "" if data.outputs is None else f", {counted(data.outputs, 'output')}"
    what, number = _number(result, data)
    sizes = f", with {counted(data.features, 'feature')}{outputs}" if data.features else ""
    now = datetime.datetime.now(datetime.UTC)
    versions = {
        "provenet": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "Python": platform.python_version(),
    }
    return {
        "command": command,
        "lines": [
            ("Seed", "not given" if seed is None else str(seed)),
            (what.capitalize(), number + sizes),
            ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
            ("System", f"{platform.system()} {platform.machine()}"),
            ("Date", now.strftime("%Y-%m-%d %H:%M UTC")),
        ],
    }
