"""What a page is to whoever serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rmqspark.admin.console.frame import Frame
from rmqspark.admin.console.visits import Visit


@dataclass(frozen=True, slots=True)
class Page:
    """`section` is the address of the entry in the navigation that it belongs to; `is_open` to who is not signed in.
    `build` may raise NotFound: then there is no such page."""

    path: str
    title: Callable[[Visit], str]
    section: str
    build: Callable[[Frame], Awaitable[None]]
    is_open: bool = False
