"""A report says what the recovery says, in one file, written whole or not at all."""

from __future__ import annotations

import base64
import html
import re
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import provenet as pn
from provenet.certify.checks import Check, Status
from provenet.certify.class_labels import ClassDetails
from provenet.certify.result import Recovery
from provenet.cli import app as cli
from provenet.cli import recover as cli_recover
from provenet.cli.ending import BAD_INPUT, NOT_RECOVERED
from provenet.report import build, check_report, gather
from provenet.report.units import unit_tables

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

NOISE = 0.1


class Case:
    """A network, its samples, and what was made of them."""

    def __init__(self, samples: int, noise: float = 0.0, **options: Any) -> None:
        self.truth = pn.random_network(3, 5, rng=0)
        X, y = pn.sample(self.truth, samples, noise=noise, rng=1)
        self.source = pn.ArraySource(X, y)
        self.result = pn.recover(X, y, rng=0, **options)

    def page(self, path: Path, **options: Any) -> str:
        pn.write_report(path, self.result, self.source, **options)
        return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def exact() -> Case:
    return Case(400)


@pytest.fixture(scope="module")
def noisy() -> Case:
    return Case(4000, NOISE)


@pytest.fixture(scope="module")
def failed() -> Case:
    return Case(400, units=1, budget=0.5)


def words(page: str) -> str:
    """The text of a page without its tags and styles."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


@pytest.fixture(scope="module")
def exact_page(exact: Case, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("exact") / "r.html"
    return exact.page(path, truth=exact.truth, command="provenet recover", seed=7)


def test_an_exact_report_has_the_numbers_of_the_result(exact: Case, exact_page: str) -> None:
    assert exact.result.status is Status.EXACT
    text, network = words(exact_page), exact.result.network
    assert network is not None
    for parameter in (*network.weights.ravel(), *network.biases, *network.output_weights):
        assert f" {parameter:.6f} " in text
    number = len(exact.result.checks)
    assert f"Exact: 3 units, {number} of {number} checks hold A network of 5 features" in text
    assert "5 features, 3 ReLU units was found in 400 samples" in text
    assert exact.result.message in text
    assert f"compared with the truth: {pn.parameter_error(network, exact.truth):.1e}." in text
    assert "provenet recover Seed 7 Samples 400, with 5 features" in text
    assert f"provenet {pn.__version__}, numpy {np.__version__}" in text
    titles = re.findall(r"<h3>(.*?)</h3>", exact_page)
    assert titles == [
        "Predicted against observed",
        "Which inputs matter",
        "Error against samples used",
        "Truth against estimate",
        "Truth and estimate, unit by unit",
    ]


def test_a_page_needs_nothing_else_and_is_light(exact_page: str) -> None:
    page = exact_page
    images = re.findall(r'<img src="([^"]*)" alt="([^"]+)"', page)
    assert len(images) == page.count("<img") == 5  # each with words in its place
    assert all(uri.startswith("data:image/svg+xml;base64,") for uri, _ in images)
    rest = re.sub(r'(src|href)="data:[^"]*"', "", page)
    assert not re.search(r"https?://|<script|@import|url\(", rest)
    assert len(page) < 500_000


def test_the_page_carries_the_network(exact: Case, exact_page: str, tmp_path: Path) -> None:
    """What the page's link gives is the network itself, to the last digit."""
    (content,) = re.findall(r'download="network.npz" href="data:[^,]*,([^"]+)"', exact_page)
    (tmp_path / "network.npz").write_bytes(base64.b64decode(content))
    loaded = pn.load_network(tmp_path / "network.npz")
    assert exact.result.network is not None
    assert np.array_equal(loaded.weights, exact.result.network.weights)


def test_every_link_of_the_page_leads_somewhere(exact_page: str) -> None:
    links = re.findall(r'href="#([^"]+)"', exact_page)
    places = set(re.findall(r'id="([^"]+)"', exact_page))
    assert {"certificate", "pictures", "units", "again"} <= set(links) <= places


def test_inputs_that_do_not_matter_have_no_share() -> None:
    """A linear function: the share of an input is its part of the variance, here 0.8, 0.2 and 0."""
    rng = np.random.default_rng(0)
    network = pn.Network(np.zeros((1, 3)), output_weights=[0.0], linear=[2.0, 1.0, 0.0])
    result = replace(pn.Recovery.nothing("auto", "."), network=network)
    X = rng.standard_normal((2000, 3))
    shares = gather(result, pn.ArraySource(X, network(X)), rng=0).shares
    # 2000 samples know a variance to a few parts in a hundred.
    assert shares is not None and np.abs(shares - [0.8, 0.2, 0.0]).max() < 0.05
    assert shares[2] == 0


def test_a_noisy_report_has_standard_errors(noisy: Case, tmp_path: Path) -> None:
    assert noisy.result.status is Status.WITHIN_NOISE
    page = noisy.page(tmp_path / "r.html")
    network, errors = noisy.result.network, noisy.result.standard_errors
    assert network is not None and errors is not None
    cells = f"{network.biases[0]:.4f} ± {errors.biases[0]:.4f}"
    assert cells in words(page)
    assert "± is one standard error." in page
    assert "<h3>Units</h3>" in page and "Truth" not in page


def test_a_failed_report_has_the_advice_and_what_was_measured(failed: Case, tmp_path: Path) -> None:
    assert failed.result.status is Status.FAILED
    text = words(failed.page(tmp_path / "r.html"))
    assert "Failed: " in text and failed.result.message in text
    assert any(not check.holds and check.name in text for check in failed.result.checks)
    assert "Error against samples used" not in text  # of parameters that mean nothing


def test_nothing_found_is_reported_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    result = pn.recover(X, y, method="biased-relu", rng=0)
    assert result.network is None
    pn.write_report(tmp_path / "r.html", result, pn.ArraySource(X, y))
    text = words((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "No network was found in 300 samples by the method biased-relu." in text
    assert result.message in text and "Spectrum" in text


def test_names_and_commands_are_escaped(exact: Case, tmp_path: Path) -> None:
    evil = '<script>alert("x")</script> & <img src=x>'
    result = replace(exact.result, message=evil, ambiguities=(evil,), network=None)
    path = tmp_path / "r.html"
    pn.write_report(path, result, exact.source, command=evil)
    page = path.read_text(encoding="utf-8")
    assert "<script" not in page and "<img src=x" not in page
    assert words(page).count(evil) == 3


# ---------------------------------------------------------------- the certificate and the table


def test_the_page_shows_the_checks_as_they_are(exact: Case, tmp_path: Path) -> None:
    failed = Check("pigs fly", False, "none seen", "one or more", "Wait.", Status.PARTIAL)
    result = exact.result.with_checks(failed)
    pn.write_report(tmp_path / "page.html", result, exact.source)
    page = html.unescape((tmp_path / "page.html").read_text())
    table = page[page.index('class="certificate"') : page.index("</table>")]
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", table)
    assert len(rows) == len(result.checks)
    for row, check in zip(rows, result.checks, strict=True):
        cells = re.sub(r"<[^>]+>", "|", row)
        assert check.name in cells and check.figure in cells and check.needed in cells
        assert ("does not hold" in row) == (not check.holds)
    assert "Partial" in page or "partial" in page


def test_units_have_their_distance_from_the_truth(noisy: Case) -> None:
    (table,) = unit_tables(noisy.result, noisy.truth)
    assert noisy.result.network is not None and table.title == ""
    assert table.headings[:4] == ("unit", "distance to truth", "output", "bias")
    largest = max(float(row[1]) for row in table.rows)
    # Two digits; the largest over units, as no other parameter is worse.
    assert largest == pytest.approx(pn.parameter_error(noisy.result.network, noisy.truth), rel=0.06)


def test_a_large_table_is_cut_and_says_so() -> None:
    network = pn.random_network(70, 90, outputs=12, rng=0).canonical()
    (table,) = unit_tables(Recovery(network, Status.EXACT, "", "auto"), None)
    assert (len(table.rows), len(table.rows[0])) == (60, 1 + 10 + 1 + 50)
    assert sum("are shown" in note for note in table.notes) == 3


# ---------------------------------------------------------------- what is read from the samples


def test_error_curve_falls_as_standard_errors_let_expect(noisy: Case) -> None:
    curve = gather(noisy.result, noisy.source, truth=noisy.truth, rng=0).curve
    assert curve is not None and curve.against_truth and curve.expected is not None
    assert curve.samples[-1] == 4000 and len(curve.samples) == 5
    assert curve.errors[-1] < curve.errors[0]
    # The largest of a few sums of normal errors: within a factor of 2.5 of their typical size.
    ratio = curve.errors / curve.expected
    assert np.all((ratio > 0.4) & (ratio < 2.5))
    # On all samples it is the answer again, to the tolerance of the refit.
    assert noisy.result.network is not None
    error = pn.parameter_error(noisy.result.network, noisy.truth)
    assert curve.errors[-1] == pytest.approx(error, rel=0.02)


def test_without_noise_part_of_the_samples_gives_the_same_network(exact: Case) -> None:
    curve = gather(exact.result, exact.source, rng=0).curve
    assert curve is not None and curve.expected is None and not curve.against_truth
    assert curve.samples[0] == 29 and curve.samples[1] < 60  # for 19 parameters
    assert curve.errors[1:].max() < 1e-11  # started 1e-3 away
    assert curve.errors[0] > 1e-5  # too few on one side of a kink: it stays where it started


def test_held_out_samples_are_not_fitted(noisy: Case) -> None:
    held = gather(noisy.result, noisy.source, rng=0).held_out
    assert held is not None and held.unseen and len(held.X) == 400
    residual = held.predict(held.X) - held.y
    # Of 400 samples: the noise within four standard errors of its estimate, 0.1 / sqrt(800) each.
    assert np.sqrt(np.mean(residual**2)) == pytest.approx(NOISE, abs=4 * NOISE / np.sqrt(800))
    assert noisy.result.network is not None
    assert pn.parameter_error(held.predict, noisy.result.network) > 1e-6  # another fit


def test_spectrum_is_that_of_the_second_moment(noisy: Case) -> None:
    assert gather(noisy.result, noisy.source, rng=0).spectrum is None  # nothing was read off it
    by_moments = replace(noisy.result, method="biased-relu")
    spectrum = gather(by_moments, noisy.source, rng=0).spectrum
    assert spectrum is not None and spectrum.samples == 4000
    X, y = noisy.source.X, noisy.source.y
    Z = (X - X.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(X.T, bias=True))).T
    design = np.column_stack([np.ones(len(y)), Z])
    left = y - design @ np.linalg.lstsq(design, y)[0]
    sizes = np.sort(np.abs(np.linalg.eigvalsh((Z.T * left) @ Z / len(y))))[::-1]
    assert np.allclose(np.abs(spectrum.span.eigenvalues), sizes, rtol=1e-8)
    assert spectrum.span.rank == int(np.sum(sizes > spectrum.span.noise_level))


# ---------------------------------------------------------------- the command line


@pytest.fixture(scope="module")
def samples(exact: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "s.npz"
    np.savez(path, X=exact.source.X, y=exact.source.y)
    return path


def test_the_command_line_writes_a_report_whatever_was_found(samples: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.html"
    found = ("--units", "1", "--budget", "0.5", "--report", str(report), "--seed", "4")
    ended = CliRunner().invoke(cli.app, ["recover", str(samples), *found])
    assert ended.exit_code == NOT_RECOVERED
    assert f"Wrote {report}" in ended.stderr.replace("\n", "")
    text = words(report.read_text(encoding="utf-8"))
    assert "Failed: " in text and "Seed 4" in text


def test_the_command_line_checks_the_report_first(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_recover, "open_samples", lambda *args: pytest.fail("worked first"))
    args = ["recover", str(samples), "--report", str(tmp_path / "no" / "r.html")]
    ended = CliRunner().invoke(cli.app, args)
    assert ended.exit_code == BAD_INPUT
    assert "does not exist: make it first" in " ".join(ended.stderr.split())


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["no/r.html", "."])
def test_a_path_that_cannot_be_written_is_named_before_any_work(
    exact: Case, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "gather", lambda *args, **options: pytest.fail("worked first"))
    with pytest.raises(pn.InvalidInput, match="folder"):
        pn.write_report(tmp_path / name, exact.result, exact.source)


@pytest.mark.parametrize("classes", [2, 3])
def test_class_labels_have_probabilities_in_place_of_residuals(
    exact: Case, tmp_path: Path, classes: int
) -> None:
    link, outputs = ("logit", None) if classes == 2 else ("softmax", classes)
    network = pn.random_network(3, 5, outputs=outputs, rng=0).replace(link=link)
    X, rng = exact.source.X, np.random.default_rng(0)
    p = network.predict_proba(X)
    drawn = (rng.random((len(X), 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    y = np.eye(classes)[drawn] if classes > 2 else drawn.astype(float)
    details = ClassDetails(0.5, 0.5, 100.0, False, 1.0, True)
    result = replace(exact.result, network=network, details=details, standard_errors=None)
    seen = gather(result, pn.ArraySource(X, y), rng=0).classes
    assert seen is not None and seen.labels == len(X) and len(seen.happened) == y.size
    # Labels come as often as was said: a sum of so many has a standard deviation of at most this.
    assert abs(np.sum(seen.probabilities - seen.happened)) < 4 * np.sqrt(len(seen.happened)) / 2
    pn.write_report(tmp_path / "r.html", result, X, y)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Are the probabilities right?" in page and "Residuals" not in page


def test_samples_are_arrays_or_a_source(exact: Case, tmp_path: Path) -> None:
    X, y = exact.source.X, exact.source.y
    pages = []
    for samples in ((X, y), (exact.source,)):
        pn.write_report(tmp_path / "r.html", exact.result, *samples)
        pages.append((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert pages[0].count("<img") == pages[1].count("<img") > 3
    for samples in ((X,), ()):
        with pytest.raises(pn.InvalidInput, match=r"y are missing|needs the samples"):
            pn.write_report(tmp_path / "r.html", exact.result, *samples)
    turned: Any = (exact.result, tmp_path / "r.html")
    with pytest.raises(pn.InvalidInput, match=r"write_report\(path, result, X, y\)"):
        pn.write_report(*turned, X, y)


def test_nothing_half_written_is_left(
    exact: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.html"
    path.write_text("before")

    def broken(*args: Any) -> Any:
        raise RuntimeError("no picture")

    monkeypatch.setattr(build, "pictures", broken)
    with pytest.raises(RuntimeError, match="no picture"):
        pn.write_report(path, exact.result, exact.source)
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
    assert path.read_text() == "before"


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_missing_package_is_named(
    tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(pn.InvalidInput, match=rf"{package}: pip install .provenet\[report\]"):
        check_report(tmp_path / "r.html")


def test_the_template_is_in_the_package() -> None:
    assert files("provenet.report").joinpath("page.html").is_file()


def test_the_same_seed_gives_the_same_data(noisy: Case) -> None:
    first, second = (gather(noisy.result, noisy.source, rng=3) for _ in range(2))
    assert first.curve is not None and second.curve is not None
    assert np.array_equal(first.curve.errors, second.curve.errors)
    assert first.held_out is not None and second.held_out is not None
    assert np.array_equal(first.held_out.X, second.held_out.X)
