"""What all commands of `rmq` have in common: how they are listed, and what none of them takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from rmqspark.errors import InvalidArgument, NotThereYet


class Verb(TyperCommand):
    """A command that takes no empty option: `--store "$DIR"`, with DIR not set, never means the default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for option in self.params:
            if isinstance(option, TyperOption) and _is_empty(given.get(option.name)):
                remedy = "" if option.required else " Leave it out for the default."
                raise InvalidArgument(f"{max(option.opts, key=len)} is empty.", hint=f"{option.help}{remedy}")
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """A group of commands that knows which are still to come: command → what does instead today, in a sentence."""

    coming: ClassVar[Mapping[str, str]] = {}

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


def _is_empty(given: object) -> bool:
    """Whether any of what was said for an option is empty; it may have been said more than once."""
    return any(isinstance(word, str) and not word.strip() for word in (given if isinstance(given, list) else [given]))
