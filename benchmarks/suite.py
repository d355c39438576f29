"""All benchmarks in one command; every figure stands beside one measured in the same run.

    python benchmarks/suite.py                            # hours
    python benchmarks/suite.py --quick                    # a few minutes on two cores
    python benchmarks/suite.py --parts moments recovery   # the day's other parts are kept
    python benchmarks/suite.py --from benchmarks/results/2026-11-16.json --docs
    python benchmarks/suite.py --from one/2026-11-16.json other/2026-11-16.json   # put together
    python benchmarks/suite.py --parts calls --compare before.json   # before landing a change

Writes `results/YYYY-MM-DD.json` and the same as a Markdown table (`YYYY-MM-DD-quick` with --quick).
`--docs` writes docs/benchmarks.md from these results; `--compare` tells what
became slower since others, and by how many standard errors (`compare.py`). A part that fails is
reported as failed, and the rest goes on.

A part is a function: told whether it must be quick, it returns records, or lines of a table of its
own. To add one, add a line to `PARTS`.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import compare
import telling
from common import Line, Record, machine, markdown_head, markdown_row
from trials import report

Part = Callable[[bool], Sequence[Record | Line]]


def _of(module: str) -> Part:
    """What a script gives the suite. Imported when it runs: every trial's process imports this."""
    return lambda quick: import_module(module).run(quick)


PARTS: dict[str, Part] = {
    "calls": _of("calls"),
    "moment pass": _of("moments"),
    "disk and cluster": _of("scaling"),
    "decomposition": _of("decomposition"),
    "recovery, one output": _of("recovery"),
    "few samples": _of("samples"),
    "recovery, several outputs": _of("outputs"),
    "recovery, smooth units": _of("activations"),
    "extraction by queries": _of("extraction"),
    "lowest layer": _of("lowest_layer"),
    "union of halfspaces": _of("halfspaces"),
    "regression": _of("regression"),
    "landscape": _of("landscape"),
}
OPTIONAL = ("tensorly", "matplotlib", "dask", "h5py", "zarr", "pyarrow")
HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
TITLES = ("figure", "value", "unit", "reference", "its value", "ratio")
Content = dict[str, Any]


# ---------------------------------------------------------------- measuring


def measured(name: str, quick: bool) -> Content:
    """What one part gave, or why it failed."""
    report(f"--- {name}")
    begin, failure = time.perf_counter(), None
    found: list[Record | Line] = []
    try:
        found = list(PARTS[name](quick))
    except ModuleNotFoundError as missing:
        failure = f"Skipped: {missing}."
    except Exception as error:  # the other parts still have something to say
        report(traceback.format_exc())
        failure = f"Failed: {type(error).__name__}: {error}."
    seconds = round(time.perf_counter() - begin, 1)
    report(f"--- {name}: {failure or f'{len(found)} figures'}, {seconds} s")
    return {
        "date": date.today().isoformat(),
        "failure": failure,
        "seconds": seconds,
        "records": [one.content() for one in found if isinstance(one, Record)],
        "lines": [[one.titles, one.cells] for one in found if isinstance(one, Line)],
    }


def environment() -> Content:
    """The machine and the versions of all that was used."""
    return {**machine(), **{name: found for name in OPTIONAL if (found := _version(name))}}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def started(path: Path, quick: bool, afresh: bool) -> Content:
    """The day's results so far, without the parts if all are measured afresh."""
    parts: Content = {}
    if path.exists() and not afresh:
        parts = json.loads(path.read_text())["parts"]
    today = date.today().isoformat()
    return {"date": today, "quick": quick, "machine": environment(), "parts": parts}


def put_together(contents: Sequence[Content]) -> Content:
    """Parts that were measured apart, on a core each, say; where two have one, that of the last.

    What they say of the machine is that of the first, and more cores where others had them.
    """
    parts = {
        name: {**part, "quick": content["quick"]}
        for content in contents
        for name, part in content["parts"].items()
    }
    about: Content = {}
    for content in reversed(contents):
        about |= content["machine"]
    about["cores"] = max(content["machine"]["cores"] for content in contents)
    return {
        **contents[0],
        "machine": about,
        "quick": all(content["quick"] for content in contents),
        "parts": {name: parts[name] for name in PARTS if name in parts},
    }


def write(content: Content, path: Path) -> None:
    """The results as JSON and as Markdown, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for target, text in (
        (path, json.dumps(content, indent=1, allow_nan=False) + "\n"),
        (path.with_suffix(".md"), "\n".join(("# Results", "", *tables(content))) + "\n"),
    ):
        partial = target.with_name(target.name + ".part")
        partial.write_text(text)
        partial.replace(target)


# ---------------------------------------------------------------- tables


def tables(content: Content) -> Iterator[str]:
    """Where it was measured, then a table a part, with its picture if there is one."""
    yield ", ".join(f"{name} {value}" for name, value in content["machine"].items()) + "."
    yield ""
    few = " Few seeds and small sizes (`--quick`)." if content["quick"] else ""
    yield f"Measured on {content['date']}.{few} A ratio is a figure over its reference."
    load, cores = (content["machine"].get(name) for name in ("load at start", "cores"))
    if load and cores and load > cores:
        yield (
            f"Other jobs ran beside it: {load:.0f} wanted {cores} cores. Seconds by the clock, as "
            "those of trials beside rivals, are several times too long; processor time is not."
        )
    for name, part in content["parts"].items():
        yield from ("", f"## {name.capitalize()}", "")
        if part.get("date", content["date"]) != content["date"]:
            yield from (f"Of {part['date']}, with the code of that day.", "")
        if part.get("quick") and not content["quick"]:
            yield from ("Few seeds and small sizes (`--quick`).", "")
        yield from _part(name, part)


def _part(name: str, part: Content) -> Iterator[str]:
    if part["failure"]:
        yield part["failure"]
        return
    for paragraph in telling.told(name, part):
        yield from (paragraph, "")
    if part["lines"]:
        yield markdown_head(part["lines"][0][0])
        yield from (markdown_row(cells) for _, cells in part["lines"])
    if not part["records"]:
        return
    yield markdown_head(TITLES)
    yield from (markdown_row(_cells(record)) for record in part["records"])


def _cells(record: Content) -> Iterable[str]:
    value, reference = _figure(record["value"]), _figure(record["reference_value"])
    ratio = "-" if record["ratio"] is None else f"{record['ratio']:.3g}"
    return record["name"], value, record["unit"], record["reference"], reference, ratio


def _figure(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.3g}"


# ---------------------------------------------------------------- the documentation

INTRODUCTION = """\
# Benchmarks

Written by `python benchmarks/suite.py --docs`: no figure here is copied by hand. Every figure
stands beside one that was measured in the same run on the same machine, so that the ratio means
something elsewhere too. The sentences are made from the figures below them (`telling.py`); more
on what a part measures stands at the top of its script in `benchmarks/`. *Infinite* is what a
solver needs that never succeeds. How few samples suffice is drawn in
[beyond the papers](papers/ours.md).
"""


def write_docs(content: Content, folder: Path) -> None:
    """docs/benchmarks.md."""
    text = "\n".join((INTRODUCTION, *tables(content)))
    (folder / "benchmarks.md").write_text(text + "\n")


# ---------------------------------------------------------------- the command line


def main() -> None:
    """Measure the parts one after the other; results are written after each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few seeds, small sizes: minutes")
    parser.add_argument("--out", type=Path, default=HERE / "results", metavar="DIR")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), metavar="PART")
    parser.add_argument(
        "--from", type=Path, nargs="+", dest="earlier", metavar="FILE", help="measure nothing"
    )
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md too")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="what became slower since")
    args = parser.parse_args()
    if args.earlier:
        content = put_together([json.loads(path.read_text()) for path in args.earlier])
    else:
        content = run_parts(args.parts, args.quick, args.out)
    print("\n".join(tables(content)))
    if args.compare:
        print(
            "\n".join(compare.told(compare.changes(json.loads(args.compare.read_text()), content)))
        )
    if args.docs:
        write_docs(content, DOCS)


def run_parts(parts: Sequence[str] | None, quick: bool, folder: Path) -> Content:
    """Measure and write."""
    path = folder / f"{date.today().isoformat()}{'-quick' if quick else ''}.json"
    content = started(path, quick, afresh=parts is None)
    for name in parts or PARTS:
        content["parts"][name] = measured(name, quick)
        write(content, path)
    return content


if __name__ == "__main__":
    main()
