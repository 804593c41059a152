"""What a handler answers with: plain data, encoded by whoever owns the connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rmqspark.protocol.commands.command import Buffer

if TYPE_CHECKING:
    import msgspec

__all__ = ["Body", "Buffer", "Reply"]

Body: TypeAlias = Buffer | Sequence[Buffer]
"""A body in one piece or in several to be sent one after the other. Memoryviews are of bytes, format "B"."""


class Reply(NamedTuple):
    """An answer. The body's memory must not change until it is sent, which may be after the handler has returned."""

    header: msgspec.Struct | None = None
    body: Body = b""
    code: int = 0
    remark: str | None = None
    extra: Mapping[str, str] | None = None  # fields beyond those the header declares
