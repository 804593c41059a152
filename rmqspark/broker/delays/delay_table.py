"""How far the queues of the delay topic have been delivered, as it is kept (config/delayOffset.json)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.bodies.admin import DelayOffsetTable
from rmqspark.protocol.bodies.route import DataVersion

if TYPE_CHECKING:
    from collections.abc import Mapping


class DelayTable:
    """By level, the offset of the first message that is not delivered; it holds what is on disk at most.

    `log_offset` is where the log ended when this was so: what was delivered since lies behind it. 0 where RocketMQ
    wrote the file, which does not say.
    """

    def __init__(self) -> None:
        self.next_offsets: dict[int, int] = {}
        self.log_offset = 0
        self._version = DataVersion()

    @property
    def revision(self) -> int:
        return self._version.counter

    def put(self, next_offsets: Mapping[int, int], log_offset: int, now_ms: int) -> None:
        self.next_offsets = dict(next_offsets)
        self.log_offset = log_offset
        self._version = self._version.next(now_ms)

    def table(self) -> DelayOffsetTable:
        return DelayOffsetTable(dict(self.next_offsets), self._version, self.log_offset)

    def follow(self, table: DelayOffsetTable, now_ms: int) -> None:
        """Takes over what a master's table says."""
        log_offset = table.logOffset or 0
        if (table.offsetTable, log_offset) != (self.next_offsets, self.log_offset):
            self.put(table.offsetTable, log_offset, now_ms)

    def forget(self, now_ms: int) -> None:
        """It was about a log whose end is cut off: what was delivered by the rest of it that says itself. (But not of
        what RocketMQ delivered, which comes again.)"""
        if self.next_offsets or self.log_offset:
            self.put({}, 0, now_ms)

    def load(self, table: DelayOffsetTable) -> None:
        self.next_offsets = dict(table.offsetTable)
        self.log_offset = table.logOffset or 0
        self._version = table.dataVersion or DataVersion()
