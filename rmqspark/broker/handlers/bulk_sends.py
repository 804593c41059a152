"""RMQ_BULK_SEND (30001), RMQ_TOPICS_SEND (30004): whole buffers of records come in.

These are rmqspark's own; stock brokers answer them with REQUEST_CODE_NOT_SUPPORTED. There is no Python per message:
what comes is checked (`sending/bulks.py`), patched and appended as arrays, in the memory it was received into. What a
bulk must look like: `protocol/headers/bulk.py`, `protocol/bulk/topic_rows.py`.
Like every send, a bulk is answered when it is as safe as the flush mode promises. Unlike other sends it creates no
topic, and its messages carry neither region nor cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.broker.sending.bulks import check_target, no_bulks
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.bulk import (
    BulkSendRequestHeader,
    BulkSendResponseHeader,
    TopicsSendRequestHeader,
    TopicsSendResponseHeader,
)
from rmqspark.protocol.names import PARKING_TOPICS
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.sending.bulks import BulkIntake
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.errors import RmqError
    from rmqspark.protocol.headers.types import Header
    from rmqspark.remoting.request import Request


class BulkSendHandlers:
    """Bulks for one queue, and rows for many."""

    def __init__(self, topics: TopicTable, appender: Appender, intake: BulkIntake) -> None:
        self._topics = topics
        self._appender = appender
        self._intake = intake

    def routes(self) -> Routes:
        return {
            RequestCode.RMQ_BULK_SEND: Route(BulkSendRequestHeader, self.send),
            RequestCode.RMQ_TOPICS_SEND: Route(TopicsSendRequestHeader, self.send_to_topics),
        }

    def send(self, request: Request[BulkSendRequestHeader]) -> None:
        header = request.header
        check_target(self._topics, header.topic, header.queueId)
        bulk = self._intake.open(header, request.body)
        appended = self._appender.append_bulk(header.topic, header.queueId, bulk)
        receipt = BulkSendResponseHeader(
            queueOffset=appended.queue_offset,
            count=appended.count,
            physicalOffset=appended.physical_offset,
            storeTimestamp=appended.store_timestamp_ms,
        )
        self._answer_when_safe(request, receipt)

    def send_to_topics(self, request: Request[TopicsSendRequestHeader]) -> None:
        header = request.header
        runs, rows = self._intake.open_many(header, request.body)
        for run in runs:
            check_target(self._topics, run.topic, run.queue_id)
            if run.topic in PARKING_TOPICS:
                raise no_bulks(run.topic)
        first = self._appender.append_topic_rows(runs, rows)
        receipt = TopicsSendResponseHeader(
            count=header.count, physicalOffset=first.physical_offset, storeTimestamp=first.store_timestamp_ms
        )
        self._answer_when_safe(request, receipt)

    def _answer_when_safe(self, request: Request[Any], receipt: Header) -> None:
        def answer(error: RmqError | None) -> None:
            if error is None:
                request.reply(receipt)
            else:
                request.fail(error)

        self._appender.when_safe(self._appender.end_offset, answer)
