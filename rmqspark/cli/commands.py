"""What all commands of `rmq` have in common: how they are listed, and what none of them takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from rmqspark.errors import InvalidArgument


class Verb(TyperCommand):
    """A command that takes no empty option: `--store "$DIR"`, with DIR not set, never means the default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for option in self.params:
            if isinstance(option, TyperOption) and _is_empty(given.get(option.name)):
                remedy = "" if option.required else " Leave it out for the default."
                raise InvalidArgument(f"{max(option.opts, key=len)} is empty.", hint=f"{option.help}{remedy}")
        return super().parse_args(ctx, args)


class VerbGroup(typer.Typer):
    """Commands under one name, such as `rmq topic`."""

    def __init__(self, *, help: str) -> None:
        super().__init__(help=help, no_args_is_help=True, rich_markup_mode=None)

    def command(self, name: str | None = None, **attributes: Any) -> Callable[[Any], Any]:
        return super().command(name, **{"cls": Verb, **attributes})


def _is_empty(given: object) -> bool:
    """Whether any of what was said for an option is empty; it may have been said more than once."""
    return any(isinstance(word, str) and not word.strip() for word in (given if isinstance(given, list) else [given]))
