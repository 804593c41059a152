"""What a handler answers with: plain data, encoded by whoever owns the connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from rmqspark.protocol.commands.command import Buffer
from rmqspark.protocol.commands.file_region import Part

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    import msgspec

__all__ = ["AnswerBody", "Body", "Buffer", "CarriedOut", "Part", "Reply", "reply_after"]

Body: TypeAlias = Buffer | Sequence[Buffer]
"""A body in one piece or in several to be sent one after the other. Memoryviews are of bytes, format "B"."""

AnswerBody: TypeAlias = Buffer | Sequence[Part]
"""The same, of which some may lie in a file."""


class Reply(NamedTuple):
    """An answer. The body's memory must not change until it is sent, which may be after the handler has returned."""

    header: msgspec.Struct | None = None
    body: AnswerBody = b""
    code: int = 0
    remark: str | None = None
    extra: Mapping[str, str] | None = None  # fields beyond those the header declares


class CarriedOut:
    """The reply to a request that is carried out: it comes later, and nothing of the request is looked at any more."""

    def __init__(self, reply: Coroutine[Any, Any, Reply]) -> None:
        self._reply = reply

    def __await__(self) -> Generator[Any, Any, Reply]:
        return self._reply.__await__()


_DONE: Final = Reply()


def reply_after(keep: Callable[[], Awaitable[None]], reply: Reply = _DONE) -> CarriedOut:
    """The reply to a change that is made, when that is as safe as its sender is to believe. Raises what keeping it
    raises."""
    return CarriedOut(_kept(keep, reply))


async def _kept(keep: Callable[[], Awaitable[None]], reply: Reply) -> Reply:
    """Begun here: what was begun before would be kept, with the lock it holds, by the traceback of an error that ends
    this while it waits, as where memory has run out."""
    await keep()
    return reply
