"""What holds for each command of `rmq`, whichever it is."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from rmqspark.cli.verbs import LoadedVerbs, app
from rmqspark.errors import InvalidArgument, NotThereYet

if TYPE_CHECKING:
    from collections.abc import Iterator


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    within = getattr(command, "commands", None)
    if within is None:
        yield name, command
    for word in within or ():
        yield from _commands(within[word], f"{name} {word}")


COMMANDS = dict(pair for word, verb in LoadedVerbs().items() for pair in _commands(verb, word))
OPTIONS = [
    (name, option.opts[0])
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option" and not option.is_flag
]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_no_option_is_empty(name: str, option: str) -> None:
    """`--store "$DIR"` with DIR not set is refused, and says what the option takes; never is it the default."""
    with pytest.raises(InvalidArgument) as refused:
        COMMANDS[name].make_context(name, [option, ""])
    assert refused.value.message == f"{option} is empty."
    assert refused.value.hint


PROMISED = {  # what design and README promise, word for word
    "": "up namesrv broker admin demo topic send consume group message dlq txn config cluster context spark audit "
    "check top dashboards store bench doctor",
    "topic": "list create update describe delete schema export import replay",
    "group": "list describe reset delete",
    "message": "get query journey",
    "dlq": "list resend",
    "txn": "list describe commit rollback",
    "config": "get set",
    "cluster": "info health",
    "spark": "list describe rewind diagnose",
    "context": "list use add remove show",
    "check": "lag cluster dlq",
    "store": "check",
}


@pytest.mark.parametrize(("group", "words"), PROMISED.items())
def test_what_was_promised_is_there_or_says_that_it_is_not_yet(group: str, words: str) -> None:
    """What is not there yet stands in one line of the help, and says in one line what does instead."""
    listed = CliRunner().invoke(app, [*group.split(), "--help"]).output
    there = {line.split()[0] for line in listed.partition("Commands:")[2].partition("\n\n")[0].splitlines() if line}
    coming = set(words.split()) - there
    assert coming == set(listed.partition("Not there yet: ")[2].replace(",", "").split())
    for word in coming:
        outcome = CliRunner().invoke(app, [*group.split(), word, "list", "--warn", "30s"], prog_name="rmq")
        assert isinstance(outcome.exception, NotThereYet)
        assert outcome.exception.message.startswith(f"rmq {group} {word} is not there yet. ".replace("  ", " "))
        assert "\n" not in str(outcome.exception)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example_that_parses(name: str) -> None:
    """What the help shows can be typed as it stands."""
    _, _, shown = (COMMANDS[name].help or "").partition("Example")
    paragraph = " ".join(shown.partition("\n\n")[0].split())
    examples = [words for words in re.split(r"[:|] ", paragraph) if words.startswith(f"rmq {name}")]
    assert examples
    for example in examples:
        words = shlex.split(example)[1 + len(name.split()) :]
        COMMANDS[name].make_context(name, words)


def test_what_tells_something_tells_it_to_programs() -> None:
    """Only what serves has no --json, and what changes contexts, users and rights: its exit code tells all."""
    silent = {name for name, command in COMMANDS.items() if "--json" not in {o for p in command.params for o in p.opts}}
    changing = {"context add", "context use", "context remove"}
    changing |= {"user create", "user update", "user delete", "acl create", "acl delete"}
    assert silent == {"up", "namesrv", "broker", "admin", "demo", *changing}


@pytest.mark.parametrize("words", ["store check", "topic import", "topic replay"])
def test_no_path_is_empty(words: str) -> None:
    """An empty word is not this directory."""
    outcome = CliRunner().invoke(app, [*words.split(), ""])
    assert (outcome.exit_code, "The path is empty." in outcome.output) == (2, True)
