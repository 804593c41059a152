"""GET_BROKER_CONSUME_STATS (317): how far all groups of this broker are, as mqadmin's brokerConsumeStats shows it.

RocketMQ's AdminBrokerProcessor.fetchAllConsumeStatsInBroker. Two things differ: `pullOffset` is told, without which
what is in flight comes out below 0; and what does not fit into a frame, which no client reads, is refused. There may be
millions of queues: they are looked at a few at a time, for one asker after the other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rmqspark.broker.metrics.turns import Turns
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.admin import ConsumeStatsList
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.frame import MAX_ANSWER_BYTES
from rmqspark.protocol.headers.admin import GetBrokerConsumeStatsRequestHeader
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.progress import Progress
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.broker.whereabouts import Whereabouts
    from rmqspark.remoting.request import Request

_QUEUES_AT_ONCE: Final = 100
_PAIRS_AT_ONCE: Final = 5000


class BrokerProgressHandlers:
    """Thin but for its patience."""

    def __init__(self, tables: BrokerTables, progress: Progress, whereabouts: Whereabouts) -> None:
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._progress = progress
        self._whereabouts = whereabouts
        self._looking = asyncio.Lock()

    def routes(self) -> Routes:
        return {RequestCode.GET_BROKER_CONSUME_STATS: Route(GetBrokerConsumeStatsRequestHeader, self.all)}

    async def all(self, request: Request[GetBrokerConsumeStatsRequestHeader]) -> Reply:
        async with self._looking:
            return Reply(body=await self._look(in_order_only=request.header.isOrder))

    async def _look(self, *, in_order_only: bool) -> bytes:
        behind, in_flight, size_bytes, turns = 0, 0, 0, Turns(_QUEUES_AT_ONCE)
        found: dict[str, list[bytes]] = {group.groupName: [] for group in self._groups}
        for group, topic, queues in await self._consumed(in_order_only=in_order_only):
            if group not in found or not self._progress.goes_on(group, topic):
                continue
            await turns.did(1 + queues)
            stats = self._progress.of(group, topic, range(queues))
            for each in stats.offsetTable.values():
                behind += each.brokerOffset - each.consumerOffset
                in_flight += each.pullOffset - each.consumerOffset
            found[group].append(stats.encode())
            size_bytes += len(found[group][-1])
            _require_room(size_bytes)
        body = ConsumeStatsList.join(found, self._whereabouts.address, behind, in_flight)
        _require_room(len(body))
        return body

    async def _consumed(self, *, in_order_only: bool) -> list[tuple[str, str, int]]:
        """Groups, topics that are there, and how many queues these have."""
        turns, consumed = Turns(_PAIRS_AT_ONCE), []
        for topic, group in self._offsets.pairs():
            await turns.did()
            config = self._topics.get(topic)
            if config is not None and (config.order or not in_order_only):
                consumed.append((group, topic, config.queue_count))
        return consumed


def _require_room(size_bytes: int) -> None:
    if size_bytes > MAX_ANSWER_BYTES:
        raise InvalidArgument(
            f"How far all groups are takes more than {MAX_ANSWER_BYTES} bytes here, and no client reads that.",
            hint="Ask for one group at a time: mqadmin consumerProgress -g, or rmq group describe.",
        )
