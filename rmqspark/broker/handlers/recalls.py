"""RECALL_MESSAGE (370): the sender of a message that waits for its time wants it back.

RocketMQ's RecallMessageProcessor, with its codes and words; spec: requests, section 4. Two things differ: recalling is
allowed unless `recall_message_enable` says otherwise, and behind the words for what the store refuses stands why.
As there, nobody looks for the message: whether it was there, the handle's holder must know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.delays.recalls import checked_handle, recall_draft
from rmqspark.errors import FlushTimeout, RmqError, ServerFault
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.faults import to_response
from rmqspark.protocol.headers.produce import RecallMessageRequestHeader, RecallMessageResponseHeader
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request
    from rmqspark.store.draft import Draft

_FORBIDDEN: Final = "recall failed, operation is forbidden"
_REFUSED: Final = "recall failed, execute error"


class RecallHandlers:
    """Stores what recalls a message. `require_room` raises Busy where no more may wait."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        appender: Appender,
        require_room: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._enabled = config.recall_message_enable
        self._broker_name = config.broker_name
        self._max_delay_ms = config.timer_max_delay_sec * 1000
        self._extra = {"MSG_REGION": config.region_id}
        self._topics = topics
        self._appender = appender
        self._require_room = require_room
        self._clock = clock

    def routes(self) -> Routes:
        return {RequestCode.RECALL_MESSAGE: Route(RecallMessageRequestHeader, self.recall)}

    async def recall(self, request: Request[RecallMessageRequestHeader]) -> Reply:
        """Answered when the recall is as safe as the flush mode promises."""
        try:
            return Reply(RecallMessageResponseHeader(await self._recall(request)), extra=self._extra)
        except RmqError as error:
            code, remark = to_response(error)
            return Reply(code=code, remark=remark, extra=self._extra)

    async def _recall(self, request: Request[RecallMessageRequestHeader]) -> str:
        """The id of the message that is recalled."""
        header, now_ms = request.header, self._clock.now_ms()
        if not self._enabled:
            raise ServerFault(_FORBIDDEN, code=ResponseCode.NO_PERMISSION)
        if self._topics.get(header.topic) is None:
            raise ServerFault(f"recall failed, the topic[{header.topic}] not exist", code=ResponseCode.TOPIC_NOT_EXIST)
        handle = checked_handle(header.recallHandle, header.topic, self._broker_name, now_ms, self._max_delay_ms)
        await self._store(recall_draft(handle, header.producerGroup, pack_host(*request.connection.peer), now_ms))
        return handle.msg_id

    async def _store(self, draft: Draft) -> None:
        """Returns when it is safe, or, as in RocketMQ, when that took too long."""
        try:
            self._require_room()
            place = self._appender.append_together([draft])[0]
            await self._appender.safe(place.end_offset)
        except FlushTimeout:
            return
        except RmqError as error:
            raise ServerFault(f"{_REFUSED}: {error}") from error
