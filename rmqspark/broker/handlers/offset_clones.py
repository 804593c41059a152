"""CLONE_GROUP_OFFSET (314): a group takes over where another one is in a topic.

RocketMQ's AdminBrokerProcessor.cloneGroupOffset, which answers success also where there was nothing to take over: the
topic is not there, its source committed nothing in it, or is online (unless `offline`) and reads other topics. Without
a topic it does nothing there; here that is refused. What is taken over is on disk when it is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import CloneGroupOffsetRequestHeader
from rmqspark.protocol.names import check_group
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.progress import Progress
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.remoting.request import Request


class OffsetCloneHandlers:
    """Thin: the table does it."""

    def __init__(self, tables: BrokerTables, progress: Progress) -> None:
        self._tables = tables
        self._progress = progress

    def routes(self) -> Routes:
        return {RequestCode.CLONE_GROUP_OFFSET: Route(CloneGroupOffsetRequestHeader, self.clone)}

    async def clone(self, request: Request[CloneGroupOffsetRequestHeader]) -> Reply:
        source, topic = request.header.srcGroup, request.header.topic
        target = check_group(request.header.destGroup)
        if not topic or topic.isspace():
            raise InvalidArgument("No topic was named.", hint="Clone the offsets of one topic after the other.")
        is_there = self._tables.topics.get(topic) is not None
        if is_there and (request.header.offline or self._progress.goes_on(source, topic)):
            self._tables.offsets.clone(source, target, topic)
            await self._tables.save()
        return Reply()
