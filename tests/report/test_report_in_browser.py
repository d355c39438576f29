"""A report in a real browser: no error, every picture drawn, nothing wider than the screen.

The page itself has no script. One is added to a copy, which measures what the browser made of the
page. The copy is shown in a frame, as a window cannot be as narrow as a phone; the page around it
writes down what was measured in an attribute that `--dump-dom` prints.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provenet as pn

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no browser: install chromium to look at reports in one"
)
DESKTOP, PHONE = 1280, 390
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"),
)
CATCH = """<script>
const faults = [];
addEventListener("error", event => faults.push(event.message || event.target.outerHTML), true);
</script>"""
MEASURE = """<script>
function paintedShare(image) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [200, 150];
  const context = canvas.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, 200, 150);
  context.drawImage(image, 0, 0, 200, 150);
  const pixels = context.getImageData(0, 0, 200, 150).data;
  return pixels.filter((value, i) => i % 4 < 3 && value < 200).length / (3 * 200 * 150);
}
addEventListener("load", () => {
  const root = document.documentElement;
  const images = [...document.images].map(image => ({
    natural: image.naturalWidth, shown: image.clientWidth,
    painted: image.naturalWidth ? paintedShare(image) : 0,
  }));
  const measured = {
    width: innerWidth, needed: root.scrollWidth, images, faults,
    status: document.querySelector(".status").innerText,
  };
  parent.postMessage(JSON.stringify(measured), "*");
});
</script>"""


AROUND = """<!DOCTYPE html><html lang="en"><body><script>
addEventListener("message", event => document.body.dataset.measured = event.data);
</script>
<iframe src="copy.html" width="{width}" height="900" style="border:0"></iframe></body></html>"""


def look(page: str, width: int, folder: Path) -> dict[str, Any]:
    """What a browser frame of this width makes of a page, and its complaints."""
    copy = page.replace("<head>", f"<head>{CATCH}").replace("</body>", f"{MEASURE}</body>")
    (folder / "copy.html").write_text(copy, encoding="utf-8")
    around = folder / "around.html"
    around.write_text(AROUND.format(width=width), encoding="utf-8")
    window = ("--window-size=1400,1000", "--virtual-time-budget=5000", "--dump-dom")
    ended = subprocess.run(
        [str(BROWSER), *QUIET, f"--user-data-dir={folder / 'profile'}", *window, around.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r'data-measured="([^"]*)"', ended.stdout)
    assert found is not None, ended.stderr
    measured: dict[str, Any] = json.loads(html.unescape(found[1]))
    console = [line for line in ended.stderr.splitlines() if "CONSOLE" in line]
    return {**measured, "console": console}


def check(page: str, width: int, pictures: int, folder: Path) -> dict[str, Any]:
    seen = look(page, width, folder)
    assert seen["width"] == width
    assert seen["console"] == seen["faults"] == []
    assert seen["needed"] <= width
    assert len(seen["images"]) == pictures
    for image in seen["images"]:
        assert image["natural"] > 300 and 250 < image["shown"] < width
        assert image["painted"] > 0.005  # axes alone are more
    return seen


@pytest.fixture(scope="module")
def wide_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Many features, several outputs, and a command without a space to break it at."""
    truth = pn.random_network(4, 30, outputs=5, rng=0)
    X, y = pn.sample(truth, 600, rng=1)
    result = pn.recover(X, y, rng=0)
    assert result.success
    path = tmp_path_factory.mktemp("wide") / "r.html"
    source = pn.ArraySource(X, y)
    pn.write_report(path, result, source, truth=truth, command="provenet " + 200 * "x", seed=0)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_a_report_is_whole_at_every_width(wide_page: str, width: int, tmp_path: Path) -> None:
    assert check(wide_page, width, 5, tmp_path)["status"].strip().startswith("Exact: ")


def test_a_failed_report_is_whole_on_a_phone(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    result = pn.recover(X, y, method="biased-relu", rng=0)
    pn.write_report(tmp_path / "r.html", result, pn.ArraySource(X, y))
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert check(page, PHONE, 1, tmp_path)["status"].strip().startswith("Failed: ")


def test_faults_of_a_page_would_be_seen(wide_page: str, tmp_path: Path) -> None:
    picture = re.search(r'src="data:image/svg[^"]*"', wide_page)
    assert picture is not None
    broken = wide_page.replace(picture[0], 'src="data:image/svg+xml;base64,AAAA"')
    broken = broken.replace("<main>", "<main><pre style='width:2000px'></pre><script>f()</script>")
    seen = look(broken, PHONE, tmp_path)
    assert seen["needed"] >= 2000
    assert seen["images"][0]["natural"] == 0
    assert len(seen["faults"]) == 2  # the picture and the script
    assert any("f is not defined" in line for line in seen["console"])
