"""What a number or a heuristic buys: the panel's families that it touches, with it changed.

    python benchmarks/ablate.py provenet.fitting.search.driver:grow.pool \\
        --families "relu 20-10" "few samples" --what "random candidates of a new unit" --off 1

A name is `module:function.argument` (a default of a function, a method or a dataclass field) or
`module:NAME` (a number of the module, wherever it was imported). It is halved and doubled, and set
to each value of `--off`. A line a value goes to `ablation.md`: problems right before and after, the
probability that fewer are right by luck alone, and the median ratio of processor times.

What buys less than one problem in fifty, or a tenth of the time, goes. A number whose halving and
doubling change nothing is no parameter.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from datetime import date
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from common import markdown_head, markdown_row
from panel import RIGHT, Trial, planned, probability_of_luck, run, time_ratio

TABLE = Path(__file__).with_name("ablation.md")
TITLES = ("date", "what", "name", "value", "families", "right", "luck", "time ratio")


def value_of(name: str) -> Any:
    """The number as it is."""
    module, _, path = name.partition(":")
    owner = import_module(module)
    if "." not in path:
        return getattr(owner, path)
    holder, _, argument = path.rpartition(".")
    return _defaults(_function(owner, holder))[argument]


def set_value(name: str, value: Any) -> None:
    """Change it in this process, before anything has used it."""
    module, _, path = name.partition(":")
    owner = import_module(module)
    if "." in path:
        holder, _, argument = path.rpartition(".")
        function = _function(owner, holder)
        function.__kwdefaults__ = _changed(function.__kwdefaults__, argument, value)
        positional = _positional(function)
        if argument in positional:
            function.__defaults__ = tuple((positional | {argument: value}).values())
        return
    import_module("provenet")
    before = getattr(owner, path)
    for other in [m for key, m in sys.modules.items() if key.startswith("provenet")]:
        if getattr(other, path, None) is before:
            setattr(other, path, value)


def _function(owner: Any, path: str) -> Any:
    """A function, or a class's constructor."""
    for part in path.split("."):
        owner = getattr(owner, part)
    return vars(owner)["__init__"] if isinstance(owner, type) else owner


def _positional(function: Any) -> dict[str, Any]:
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))


def _defaults(function: Any) -> dict[str, Any]:
    return _positional(function) | (function.__kwdefaults__ or {})


def _changed(defaults: dict[str, Any] | None, name: str, value: Any) -> dict[str, Any] | None:
    return {**defaults, name: value} if defaults and name in defaults else defaults


def values_to_try(value: Any, off: Sequence[str]) -> list[Any]:
    """Half, twice, and what was named."""
    named = [ast.literal_eval(text) for text in off]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [*dict.fromkeys((value // 2, 2 * value)), *named]
    return [value / 2, 2 * value, *named]


def trials_of(families: Sequence[str], jobs: int, prepare: Any = None) -> list[Trial]:
    plan = [task for family in families for task in planned(False, family)]
    return list(run([*dict.fromkeys(plan)], jobs, prepare))


def row(name: str, what: str, value: Any, families: Sequence[str], before: Any, after: Any) -> str:
    right, right_before = (sum(t.outcome == RIGHT for t in trials) for trials in (after, before))
    luck = probability_of_luck(right, len(after), right_before, len(before), "less")
    return markdown_row(
        (
            date.today().isoformat(),
            what,
            f"`{name}`",
            f"{value_of(name)!r} -> {value!r}",
            "; ".join(families),
            f"{right_before} -> {right} of {len(after)}",
            f"{luck:.2g}",
            f"{time_ratio(before, after):.2f}",
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", help="module:function.argument or module:NAME")
    parser.add_argument("--families", nargs="+", required=True, help="as panel.py --family takes")
    parser.add_argument("--what", required=True, help="what it is, in a phrase")
    parser.add_argument("--off", nargs="*", default=[], help="further values to try")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    values = values_to_try(value_of(args.name), args.off)
    before = trials_of(args.families, args.jobs)
    if not TABLE.exists():
        TABLE.write_text(f"# Ablations\n\n{markdown_head(TITLES)}\n")
    for value in values:
        after = trials_of(args.families, args.jobs, partial(set_value, args.name, value))
        line = row(args.name, args.what, value, args.families, before, after)
        print(line, flush=True)
        with TABLE.open("a") as table:
            table.write(line + "\n")


if __name__ == "__main__":
    main()
