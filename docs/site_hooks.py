"""What the site does that Markdown does not: the changelog, formulas, sources of the pictures.

Formulas are written `$a_i w_i$`, or between two lines of `$$`, as the hosts of repositories show
them too. They become MathML, which browsers typeset by themselves: no script, no network.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).parent.parent
CHANGELOG = ROOT / "CHANGELOG.md"
_CODE_OR_FORMULA = re.compile(
    r"(?P<code>^```.*?^```$|`[^`\n]+(?:\n[^`\n]+)?`)"
    r"|^\$\$\n(?P<block>.+?)\n\$\$$|\$(?P<inline>[^$\s](?:[^$]*[^$\s])?)\$",
    re.MULTILINE | re.DOTALL,
)
_SCRIPT = re.compile(r"Script:\s`(?P<path>examples/\w+\.py)`\.$", re.MULTILINE)
_HEADING = re.compile(r"^#{2,3} ", re.MULTILINE)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page, or of the file that it stands for."""
    if page.file.src_uri == "changelog.md":
        markdown = CHANGELOG.read_text(encoding="utf-8").replace("](docs/", "](")
    if not _HEADING.search(markdown):
        page.meta.setdefault("hide", ["toc"])
    return _SCRIPT.sub(_with_source, with_formulas(markdown))


def _with_source(match: re.Match[str]) -> str:
    """A script by its name, and folded up below it what it says."""
    lines = (ROOT / match["path"]).read_text(encoding="utf-8").splitlines()
    code = "\n".join(f"    {line}".rstrip() for line in ("```python", *lines, "```"))
    return f'{match[0]}\n\n??? note "{match["path"]}"\n\n{code}\n'


def with_formulas(markdown: str) -> str:
    """Formulas as MathML; code stays as it is."""
    return _CODE_OR_FORMULA.sub(_typeset, markdown)


def _typeset(match: re.Match[str]) -> str:
    if match["code"] is not None:
        return match[0]
    if match["block"] is not None:
        return str(convert(match["block"], display="block"))
    return f"<span>{convert(match['inline'])}</span>"  # at the start of a line, too, no block
