"""What the site shows that is written elsewhere: the changelog, its links seen from here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page, or of the file that it stands for."""
    if page.file.src_uri != "changelog.md":
        return markdown
    return CHANGELOG.read_text(encoding="utf-8").replace("](docs/", "](")
