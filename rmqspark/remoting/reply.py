"""What a handler answers with: plain data, encoded by whoever owns the connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rmqspark.protocol.commands.command import Buffer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import msgspec

__all__ = ["Body", "Buffer", "Reply", "reply_after"]

Body: TypeAlias = Buffer | Sequence[Buffer]
"""A body in one piece or in several to be sent one after the other. Memoryviews are of bytes, format "B"."""


class Reply(NamedTuple):
    """An answer. The body's memory must not change until it is sent, which may be after the handler has returned."""

    header: msgspec.Struct | None = None
    body: Body = b""
    code: int = 0
    remark: str | None = None
    extra: Mapping[str, str] | None = None  # fields beyond those the header declares


_DONE: Final = Reply()


async def reply_after(keep: Callable[[], Awaitable[None]], reply: Reply = _DONE) -> Reply:
    """The reply to a change, when that is as safe as its sender is to believe. Raises what keeping it raises.

    Begun here: what was begun before would be kept, with the lock it holds, by the traceback of an error that ends this
    while it waits, as where memory has run out.
    """
    await keep()
    return reply
