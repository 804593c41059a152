"""Bytes of an answer that lie in a file: they go from there to a socket, and through nobody's memory in between.

Netty's FileRegion, by which RocketMQ sends what a pull has found (transferMsgByHeap=false).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from rmqspark.protocol.commands.command import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence


class FileRegion(Protocol):
    """So many bytes of a file, which may not change any more: a socket holds on to the pages that they lie on."""

    def __len__(self) -> int: ...

    def send(self, descriptor: int) -> int:
        """Hands as many of its first bytes to a socket that does not block as it takes now; returns how many: 0, too,
        where they can only be read. Raises OSError, BlockingIOError where it takes none."""

    def after(self, taken: int) -> FileRegion:
        """What is left when so many of its first bytes have gone."""

    def read(self) -> memoryview:
        """All of it, in memory. Raises OSError, and StoreError where it is not there any more."""


Part: TypeAlias = Buffer | FileRegion
"""What an encoded answer consists of."""


def in_memory(parts: Sequence[Part]) -> list[Buffer]:
    """The same, with what lies in files read. Raises OSError, and StoreError where it is not there any more."""
    return [part if isinstance(part, Buffer) else part.read() for part in parts]
