"""The documentation holds: links lead somewhere, examples run, commands parse, every method has
its page, and tests that are named exist."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
import typer

import provenet as pn
from provenet.cli.app import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "examples" / "README.md",
    *sorted(DOCS.rglob("*.md")),
]

_FENCE = re.compile(
    r"(?P<skip><!-- not executed: [^>]+ -->\s*\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\((?P<target>[^()\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)
_TEST = re.compile(r"`(?P<file>tests/[\w/]+\.py)::(?P<name>\w+)`")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def blocks(page: Path, kind: str) -> list[str]:
    """The texts of the blocks of a kind that are not marked to be left out."""
    found = _FENCE.finditer(page.read_text(encoding="utf-8"))
    return [m["text"] for m in found if m["kind"] == kind and not m["skip"]]


def anchors(page: Path) -> set[str]:
    """What its headings are called in links."""
    titles = [m["title"].lower() for m in _HEADING.finditer(prose(page))]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for match in _LINK.finditer(prose(page)):
        target, _, anchor = match["target"].partition("#")
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{match['target']} is not there"
        assert not anchor or anchor in anchors(file), f"{match['target']} has no such heading"


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name_of)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    for text in blocks(page, "python"):
        exec(compile(text, name_of(page), "exec"), namespace)


def commands(page: Path) -> list[list[str]]:
    """The words of every command line of a page."""
    lines = "\n".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=name_of)
def test_commands_parse(page: Path) -> None:
    tasks = runpy.run_path(str(ROOT / "run.py"))["TASKS"]
    for program, *words in commands(page):
        if program == "provenet":
            check_options_exist(words)
        elif program.startswith("python") and words[0] == "run.py":
            assert words[1] in tasks
        elif program.startswith("python") and not words[0].startswith("-"):
            assert (ROOT / words[0]).exists(), f"{words[0]} is not there"


def check_options_exist(words: list[str]) -> None:
    """The parser of the subcommand takes these words; it raises for options that it has not."""
    group = typer.main.get_command(app)
    command = group.get_command(group.context_class(group), words[0])  # type: ignore[attr-defined]
    assert command is not None, f"there is no command {words[0]!r}"
    command.make_parser(command.context_class(command)).parse_args(list(words[1:]))


def test_the_checks_can_fail() -> None:
    assert anchors(ROOT / "README.md") >= {"use-it", "what-the-status-means"}
    with pytest.raises(Exception, match="nonsense"):
        check_options_exist(["recover", "samples.npz", "--nonsense"])


def test_every_method_has_its_page_and_the_list_is_current() -> None:
    pages = {page.stem for page in (DOCS / "methods").glob("*.md")} - {"index"}
    assert pages == set(pn.METHODS)
    for path, text in runpy.run_path(str(DOCS / "generate.py"))["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/generate.py"


def test_formulas_become_mathml_and_code_stays() -> None:
    with_formulas = runpy.run_path(str(DOCS / "site_hooks.py"))["with_formulas"]
    text = "Cost `$HOME` and $a_i w_i$:\n\n$$\nx^2\n$$\n\n```console\n$ ls $PWD $\n```\n"
    made = with_formulas(text)
    assert made.count("<math") == 2 and made.count("<msub>") == 2 and made.count("<msup>") == 1
    assert "`$HOME`" in made and "$ ls $PWD $" in made
    for page in DOCS.rglob("*.md"):
        shown = with_formulas(prose(page))
        assert "$" not in re.sub(r"`[^`]*`", "", shown), f"{page} has half a formula"
        assert "<mtext>" not in shown and "<merror" not in shown, page


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        assert f"{page.relative_to(DOCS).as_posix()}\n" in contents, f"{page} is in no menu"


@pytest.mark.parametrize("page", [p for p in PAGES if _TEST.search(prose(p))], ids=name_of)
def test_tests_that_are_named_exist(page: Path) -> None:
    for match in _TEST.finditer(prose(page)):
        text = (ROOT / match["file"]).read_text(encoding="utf-8")
        assert f"def {match['name']}(" in text, match[0]
