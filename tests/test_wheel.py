"""The wheel as others install it: whole, typed, and of use without any extra.

What the package needs lies in the environment of the tests; extras are hidden from it by a finder
that refuses them, as if they were not installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HIDDEN = (
    *("matplotlib", "jinja2", "dask", "distributed", "h5py", "zarr", "pyarrow", "onnx"),
    *("onnxruntime", "safetensors", "urllib3", "torch", "pandas"),
)
WITHOUT_EXTRAS = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HIDDEN}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
import provenet as pn
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    ended = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def run(wheel: zipfile.ZipFile, folder: Path, script: str) -> str:
    """What a script prints that has this wheel, what it requires, and no extra."""
    wheel.extractall(folder / "site")
    environment = {**os.environ, "PYTHONPATH": str(folder / "site")}
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_wheel_is_whole_and_typed(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in (source / "provenet").rglob("*.*")}
    wanted = {name for name in files if "__pycache__" not in name}
    assert wanted <= names and "provenet/py.typed" in names
    own = [name for name in names if ".dist-info/" not in name]
    assert all(name.startswith("provenet/") for name in own)


def test_extras_are_asked_for_by_name_and_nothing_else_is_required(wheel: zipfile.ZipFile) -> None:
    head = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    metadata = Parser().parsestr(wheel.read(head).decode())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra" not in line]
    assert sorted(required) == sorted(project["dependencies"])
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])


def test_without_extras_it_works_and_says_which_one_is_wanted(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    script = """
import numpy as np
assert "site/provenet" in pn.__file__.replace("\\\\", "/")
net = pn.random_network(2, 3, rng=0)
X, y = pn.sample(net, 100, rng=1)
result = pn.recover(X, y, rng=2)
assert result.status == "exact" and pn.extract(net, rng=3).status == "exact"
pn.NetworkRegressor(random_state=0).fit(X, y)
(np.savez("s.npz", X=X, y=y), net.save("n.npz"), pn.load_network("n.npz"), pn.open_samples("s.npz"))
for name in ("s.h5", "s.zarr", "s.parquet", "m.onnx"):
    open(name, "w").write("x")
wants = {
    "report": lambda: pn.write_report("r.html", result, X, y),
    "plot": lambda: pn.plotting.new_figure(),
    "files": lambda: pn.open_samples("s.parquet"),
    "onnx": lambda: net.save("n.onnx"),
    "safetensors": lambda: net.save("n.safetensors"),
    "http": lambda: pn.extract("http://localhost:9/", features=3),
}
for extra, wish in wants.items():
    try:
        wish()
    except pn.InvalidInput as why:
        print(extra, f'pip install "provenet[{extra}]"' in str(why), why)
from provenet.cli.app import main
sys.argv = ["provenet", "recover", "s.npz", "--quiet"]
main()
"""
    told = run(wheel, tmp_path, script).splitlines()
    extras = [line.split()[:2] for line in told[:-1]]
    wanted = ("report", "plot", "files", "onnx", "safetensors", "http")
    assert extras == [[extra, "True"] for extra in wanted], told
    assert told[-1].startswith("Exact.")
