"""What the docs leave out fails here: verbs, settings, request codes."""

from __future__ import annotations

import re
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.main import get_command

from rmqspark.cli.verbs import app
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def verbs(command: Any, context: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every verb that does something, by its full name: `topic create`."""
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    for name in names:
        yield from verbs(command.get_command(context, name), context, (*words, name))
    if not names:
        yield " ".join(words), command


COMMAND = get_command(app)
VERBS = dict(verbs(COMMAND, typer.Context(COMMAND)))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_docs(verb: str) -> None:
    """README or docs/operations.md names it, as it is typed or in a list `topic list|create`."""
    text = (ROOT / "README.md").read_text() + (DOCS / "operations.md").read_text()
    group, _, name = verb.rpartition(" ")
    listed = re.search(rf"`{group} [a-z|]*\b{name}\b" if group else rf"`{name}\b|rmq {name}\b", text)
    assert listed or f"rmq {verb}" in text


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example(verb: str) -> None:
    """`--help` shows how it is typed."""
    assert f"rmq {verb}" in (VERBS[verb].help or "")


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_says_what_it_is_for(verb: str) -> None:
    """No option or argument is listed without a word."""
    assert [param.name for param in VERBS[verb].params if not param.help] == []


def test_every_listing_has_json() -> None:
    """What prints a table prints the same for scripts."""
    listings = {verb for verb in VERBS if verb.split()[-1] in ("list", "describe", "get", "consume", "doctor", "send")}
    with_json = {verb for verb in VERBS for param in VERBS[verb].params if "--json" in param.opts}
    assert listings - with_json == set()


def test_every_setting_is_in_the_docs() -> None:
    """The docs show settings and options as they are; `python docs/generate.py` mends them."""
    spec = spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name, made in generate.tables().items():
        page = (DOCS / name).read_text()
        assert generate.renewed(page, made) == page


@pytest.mark.parametrize("code", RequestCode, ids=lambda code: code.name)
def test_every_request_code_is_in_the_docs(code: RequestCode) -> None:
    """docs/wire-format.md names each code with its number."""
    page = (DOCS / "wire-format.md").read_text()
    assert re.search(rf"\b{code.value}\b", page)
    assert re.search(rf"\b{code.name}\b", page)


@pytest.mark.parametrize("package", sorted(file.parent.name for file in (ROOT / "rmqspark").glob("*/__init__.py")))
def test_every_package_is_in_the_architecture(package: str) -> None:
    """docs/architecture.md says of each what it is, and what it owns."""
    page = (DOCS / "architecture.md").read_text()
    assert re.search(rf"^\| .*`{package}/`.* \| .+ \| .+ \|$", page, re.MULTILINE)


def test_the_licence_is_there() -> None:
    """What pyproject.toml and the README name stands in LICENSE, which a wheel takes along."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *DOCS.glob("*.md"),
    *ROOT.glob("rmqspark/**/*.md"),
]


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^ *```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_table_is_whole(page: Path) -> None:
    """Each has a header, and every row as many cells: `|` in a command is escaped, and no line is empty in between."""
    tables = [table.splitlines() for table in re.findall(r"(?:^ *\|.*\n)+", prose(page) + "\n", re.MULTILINE)]
    for table in tables:
        assert re.fullmatch(r" *\|[-: |]+\|", table[1]), table[0]
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in table]
        assert [row for row, count in zip(table, cells, strict=True) if count != cells[0]] == []


def anchors(page: Path) -> set[str]:
    """What a link into the page may name, as GitHub makes it of the headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file that is there, and to one of its headings."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        place, _, anchor = link.partition("#")
        target = page.parent / place if place else page
        assert place.startswith("https:") or target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_nobody_takes_it_for_rabbitmq() -> None:
    """`rmq` is that one's nickname, too: the first line that anybody sees says whose protocol it is."""
    summary = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]
    for seen in ((ROOT / "README.md").read_text().splitlines()[0], summary):
        assert "RocketMQ protocol" in seen


def test_what_is_ours_is_marked_alike() -> None:
    """docs/operations.md says how: `(ours)` before what a setting means."""
    settings = re.findall(r"^\| `\w+` \| .* \| (.*) \|$", (DOCS / "operations.md").read_text(), re.MULTILINE)
    assert [meaning for meaning in settings if meaning.lower().startswith("ours")] == []
