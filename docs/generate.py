"""Write the pages that follow from the code: the list of methods, and where their derivations are.

python docs/generate.py
"""

from __future__ import annotations

import inspect
from pathlib import Path

from provenet.methods import METHODS

DOCS = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py: edit src/provenet/methods/registry.py instead. -->"
OPTIONS = """\
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
    """A table with a row a method, from the registry."""
    rows = [
        f"| [`{m.name}`]({m.name}.md) | {m.summary} | {m.needs} | {m.paper} |"
        for m in METHODS.values()
    ]
    return f"""{NOTE}

# Methods

`pn.recover(..., method=name)`; on the command line `provenet methods` prints the same.

| method | what it does | what it needs | paper |
| --- | --- | --- | --- |
{chr(10).join(rows)}

Papers: ATV21 is Awasthi, Tang, Vijayaraghavan, *Efficient algorithms for learning depth-2 neural
networks with general ReLU activations* (2021); BJW19 Bakshi, Jayaram, Woodruff, *Learning two layer
rectified neural networks in polynomial time* (2018); GLM17 Ge, Lee, Ma, *Learning one-hidden-layer
neural networks with landscape design* (2017); GP19 Goel, Panigrahy, *Recovering the lowest layer of
deep networks with high threshold activations* (2019).
"""


def derivations() -> str:
    """The docstrings of the modules of all methods, in the order of the list."""
    parts = [f"{NOTE}\n\n# Derivations\n\nEach method as its module tells it."]
    for method in METHODS.values():
        module = inspect.getmodule(method.candidates)
        assert module is not None
        parts.append(f"## {method.name}\n\n::: {module.__name__}\n{OPTIONS}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
