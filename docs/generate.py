"""Write the pages that follow from the code: the list of methods, and where their derivations are.

python docs/generate.py
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from provenet.methods import METHODS, Method
from provenet.methods.options import OPTIONS, Option

DOCS = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py: edit src/provenet/methods/registry.py instead. -->"
SHOWN = """\
    options:
      members: false
      show_root_heading: false
      show_root_toc_entry: false"""


def pages() -> dict[Path, str]:
    """The text of every page that is generated."""
    return {
        DOCS / "methods" / "index.md": list_of_methods(),
        DOCS / "reference" / "methods.md": derivations(),
    }


def list_of_methods() -> str:
    """A table with a row a method, and one with a row an option, from what methods declare."""
    return f"""{NOTE}

# Methods

`pn.recover(..., method=name)`; on the command line `provenet methods` prints the same.

| method | what it does | what it needs | what it takes | paper |
| --- | --- | --- | --- | --- |
{lines(row_of(method) for method in METHODS.values())}

## Options

Keywords of `pn.recover`, and options of `provenet recover`. A method that does not take one refuses
it.

| option | default | what it means | methods |
| --- | --- | --- | --- |
{lines(row_of_option(option) for option in OPTIONS.values())}

Papers: ATV21 is Awasthi, Tang, Vijayaraghavan, *Efficient algorithms for learning depth-2 neural
networks with general ReLU activations* (2021); BJW19 Bakshi, Jayaram, Woodruff, *Learning two layer
rectified neural networks in polynomial time* (2018); GLM17 Ge, Lee, Ma, *Learning one-hidden-layer
neural networks with landscape design* (2017); GP19 Goel, Panigrahy, *Recovering the lowest layer of
deep networks with high threshold activations* (2019).
"""


def row_of(method: Method) -> str:
    """What the registry says of a method."""
    takes = ", ".join(f"`{option.name}=`" for option in method.options) or "-"
    name = f"[`{method.name}`]({method.name}.md)"
    return f"| {name} | {method.summary} | {method.needs} | {takes} | {method.paper} |"


def row_of_option(option: Option) -> str:
    """What an option means, and which methods declare it."""
    having = [method.name for method in METHODS.values() if option in method.options]
    names = "all but " + ", ".join(sorted(set(METHODS) - set(having)))
    if 2 * len(having) <= len(METHODS):
        names = ", ".join(having)
    return f"| `{option.name}=` | `{option.default!r}` | {option.help} | {names} |"


def lines(rows: Iterable[str]) -> str:
    """One below the other."""
    return "\n".join(rows)


def derivations() -> str:
    """The docstrings of the modules of all methods, in the order of the list."""
    parts = [f"{NOTE}\n\n# Derivations\n\nEach method as its module tells it."]
    for method in METHODS.values():
        module = method.candidates.__module__
        parts.append(f"## {method.name}\n\n::: {module}\n{SHOWN}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
