"""QUERY_MESSAGE (12) and VIEW_MESSAGE_BY_ID (33): single messages by key, tags or place.

RocketMQ's QueryMessageProcessor; spec: requests, section 5. Readers test keys themselves, since the index knows only
hashes. Messages of another topic are left out here: who may read a topic could find keys of it that have the hash of
what is in others, and RocketMQ would answer with these. Of messages that are too long for one answer, as many come as
fit into it (RocketMQ sends a frame that no client takes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import MessageNotFound, NotFound
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.frame import MAX_ANSWER_BYTES
from rmqspark.protocol.headers.consume import (
    UNIQUE_KEY_QUERY,
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rmqspark.protocol.records.record import decode_record
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes
from rmqspark.store.reading.key_search import WalkLimits

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore

_MOST_MESSAGES: Final = 64
_BY_TAGS: Final = "T"  # of RocketMQ's other types, keys and unique keys, it is the same index


class MessageHandlers:
    """Looks messages up in index and log."""

    def __init__(self, config: BrokerConfig, store: MessageStore) -> None:
        self._default_max = config.default_query_max_num
        self._store = store

    def routes(self) -> Routes:
        return {
            RequestCode.QUERY_MESSAGE: Route(QueryMessageRequestHeader, self.query),
            RequestCode.VIEW_MESSAGE_BY_ID: Route(ViewMessageRequestHeader, self.view),
        }

    def query(self, request: Request[QueryMessageRequestHeader]) -> Reply:
        header = request.header
        if header.belowPhyOffset is not None:
            return self._walk(header, header.belowPhyOffset)
        by_unique_key = request.fields.get(UNIQUE_KEY_QUERY) == "true"
        max_count = self._default_max if by_unique_key else header.maxNum
        by_tags = header.indexType == _BY_TAGS and not by_unique_key
        found = (self._store.query_tags if by_tags else self._store.query)(
            header.topic,
            header.key,
            header.beginTimestamp,
            header.endTimestamp,
            max(0, min(max_count, _MOST_MESSAGES)),
            max_bytes=MAX_ANSWER_BYTES,
        )
        records = [record for record in found if decode_record(record).topic == header.topic]
        if not records:
            raise NotFound("can not find message, maybe time range not correct")  # RocketMQ's words
        figures = self._store.figures()
        answer = QueryMessageResponseHeader(
            indexLastUpdateTimestamp=figures.newest_timestamp_ms,
            indexLastUpdatePhyoffset=figures.indexed_physical_offset,
        )
        return Reply(answer, records)

    def _walk(self, header: QueryMessageRequestHeader, below: int) -> Reply:
        """Nothing found is no error here: `walkedToPhyOffset` says so."""
        limits = WalkLimits(max(0, min(header.maxNum, _MOST_MESSAGES)), MAX_ANSWER_BYTES, below)
        walked = self._store.walk_key(header.topic, header.key, header.beginTimestamp, header.endTimestamp, limits)
        figures = self._store.figures()
        answer = QueryMessageResponseHeader(
            figures.newest_timestamp_ms, figures.indexed_physical_offset, walkedToPhyOffset=walked.reached
        )
        return Reply(answer, [record for record in walked.records if decode_record(record).topic == header.topic])

    def view(self, request: Request[ViewMessageRequestHeader]) -> Reply:
        offset = request.header.offset
        try:
            return Reply(body=self._store.records.message_at(offset))
        except MessageNotFound:
            raise MessageNotFound(f"can not find message by the offset, {offset}") from None  # RocketMQ's words
