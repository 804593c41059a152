"""What all commands of `rmq` have in common: how they are listed, and what none of them takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from rmqspark.errors import InvalidArgument, NotThereYet


class Verb(TyperCommand):
    """A command that takes no empty option: `--store "$DIR"`, with DIR not set, never means the default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, unknown = _first_look(self, ctx, args)
        _refuse_option_of_root(ctx, unknown)
        for option in self.params:
            if isinstance(option, TyperOption) and _is_empty(given.get(option.name)):
                remedy = "" if option.required else " Leave it out for the default."
                raise InvalidArgument(f"{option.opts[0]} is empty.", hint=f"{option.help}{remedy}")
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """A group of commands that knows which are still to come: command → what does instead today, in a sentence."""

    coming: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, left = _first_look(self, ctx, args)
        if left and left[0].startswith("-") and not ctx.resilient_parsing:
            _refuse_option_of_root(ctx, left[:1])
            _refuse_option_of_verb(self, ctx, left)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        instead = self.coming.get(args[0])
        if instead is not None:
            raise NotThereYet(f"{ctx.command_path} {args[0]} is not there yet. {instead}")
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.coming:
            formatter.write_paragraph()
            formatter.write_text(f"Not there yet: {', '.join(self.coming)}")


class VerbGroup(typer.Typer):
    """Commands under one name, such as `rmq topic`."""

    def __init__(self, *, help: str, cls: type[Group] = Group) -> None:
        super().__init__(cls=cls, help=help, no_args_is_help=True, rich_markup_mode=None)

    def command(self, name: str | None = None, **attributes: Any) -> Callable[[Any], Any]:
        return super().command(name, **{"cls": Verb, **attributes})


def _first_look(command: Any, ctx: Any, args: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Its options that are given, and the words that are none of them nor their values, up to a `--`."""
    parser = command.make_parser(ctx)
    parser.ignore_unknown_options = True
    given, words, _ = parser.parse_args(args=list(args[: args.index("--")] if "--" in args else args))
    for argument in command.params:  # what is unknown was taken for one
        if not isinstance(argument, TyperOption):
            value = given.pop(argument.name, None)
            words += value if isinstance(value, list | tuple) else [value]
    return given, [word for word in words if isinstance(word, str)]


def _refuse_option_of_root(ctx: Any, words: Sequence[str]) -> None:
    root = ctx.find_root()
    for word in words:
        option = None if ctx is root or ctx.resilient_parsing else _option(root.command, word)
        if option is not None:
            verb = ctx.command_path.removeprefix(root.command_path)
            raise InvalidArgument(
                f"{option.opts[0]} goes before the verb.", hint=f"{root.command_path} {_usage(option)}{verb}"
            )


def _refuse_option_of_verb(group: Any, ctx: Any, words: Sequence[str]) -> None:
    """The first of the words is an option that the group does not know: the verb among the others may."""
    command, path = group, ctx.command_path
    for word in words:
        if word in getattr(command, "commands", ()):
            command, path = command.commands[word], f"{path} {word}"
    option = _option(command, words[0])
    if option is not None:
        raise InvalidArgument(f"{option.opts[0]} goes behind the verb.", hint=f"{path} {_usage(option)}")


def _option(command: Any, word: str) -> Any:
    name = word.partition("=")[0]
    return next((each for each in command.params if isinstance(each, TyperOption) and name in each.opts), None)


def _usage(option: Any) -> str:
    return option.opts[0] if option.is_flag else f"{option.opts[0]} {option.metavar or option.name.upper()}"


def _is_empty(given: object) -> bool:
    """Whether any of what was said for an option is empty; it may have been said more than once."""
    return any(isinstance(word, str) and not word.strip() for word in (given if isinstance(given, list) else [given]))
