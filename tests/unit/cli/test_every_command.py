"""What holds for each command of `rmq`, whichever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from rmqspark.cli.verbs import LoadedVerbs, app
from rmqspark.errors import InvalidArgument

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
    (name, max(option.opts, key=len))
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


@pytest.mark.parametrize("words", ["store check", "topic import", "topic replay"])
def test_no_path_is_empty(words: str) -> None:
    """An empty word is not this directory."""
    outcome = CliRunner().invoke(app, [*words.split(), ""])
    assert (outcome.exit_code, "The path is empty." in outcome.output) == (2, True)
