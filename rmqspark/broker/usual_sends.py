"""Sends as nearly all are: a plain message for a queue that is there, from a client that waits for the answer.

They differ in little, and there are many. So they are told apart before a request is made of them, and what would be
done for each of them is done for all of a turn (`store/singles.py`). Whatever is not usual, or is wrong in any way, is
left to the common way (`intake.py`, `handlers/sends.py`), which knows what to say; a test holds the two against each
other.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rmqspark.broker.intake import MULTI_TAG, brokers_own_properties
from rmqspark.broker.receipts import pack_prefix
from rmqspark.broker.usual_properties import read_usual
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.command import Envelope, encode_response
from rmqspark.protocol.headers_produce import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rmqspark.protocol.message_id import IPV4_HOST_BYTES, pack_host
from rmqspark.protocol.names import NOT_SENDABLE, RETRY_PREFIX
from rmqspark.protocol.record import encode_unplaced
from rmqspark.remoting.request import SERIALIZE_NAMES
from rmqspark.store.draft import Draft
from rmqspark.store.singles import Places, Single

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.broker.appender import Appender
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.receipts import Receipts
    from rmqspark.broker.topics import TopicTable
    from rmqspark.errors import RmqError
    from rmqspark.protocol.bodies import DataVersion
    from rmqspark.remoting.reply import Reply
    from rmqspark.remoting.request import Connection


class UsualSend(Single, gc=False):
    """Such a message on its way into the log, and whom to answer."""

    waits_for_flush: bool
    unique_key: bytes  # letters and digits
    opaque: int
    connection: Connection
    serialize_type: int
    receipts: Receipts

    @property
    def draft(self) -> Draft:
        """The same message for the common way into the store."""
        record = encode_unplaced(
            self.topic,
            self.body,
            self.properties,
            self.queue_id,
            self.flag,
            0,
            self.born_timestamp_ms,
            self.born_host,
            self.reconsume_times,
        )
        return Draft(self.topic, self.queue_id, record, self.tags_code, self.index_keys)

    def finish(self, queue_offset: int, physical_offset: int, error: RmqError | None) -> None:
        if error is None:
            finish_all([self], Places([queue_offset], [physical_offset]))
        else:
            unique_key = self.unique_key.decode()
            self._answer(self.receipts.reply_to(self.queue_id, unique_key, queue_offset, physical_offset, error))

    def refuse(self, error: RmqError) -> None:
        self._answer(self.receipts.refusal(error))

    def _answer(self, reply: Reply) -> None:
        code, remark, extra = reply.code, reply.remark, reply.extra
        serialize = SERIALIZE_NAMES[self.serialize_type]
        response = encode_response(self.opaque, code, reply.header, remark=remark, extra=extra, serialize=serialize)
        self.connection.answer(b"".join(response), 1)


def finish_all(sends: Sequence[UsualSend], places: Places) -> None:
    """Finishes sends that have succeeded, those of a connection that follow each other with one answer.

    One loop, for the reason that `store/singles.py` gives.
    """
    first = sends[0]
    connection, serialize_type = first.connection, first.serialize_type
    form, kind = first.receipts.forms[serialize_type]
    answers: list[bytes] = []
    for send, queue_offset, physical_offset in zip(sends, *places, strict=True):
        if send.connection is not connection or send.serialize_type != serialize_type:
            connection.answer(b"".join(answers), len(answers) // 2)
            connection, serialize_type, answers = send.connection, send.serialize_type, []
            form, kind = send.receipts.forms[serialize_type]
        header = form % (physical_offset, send.queue_id, queue_offset, send.unique_key, send.opaque)
        length = len(header)
        answers += (pack_prefix(length + 4, kind | length), header)
    connection.answer(b"".join(answers), len(answers) // 2)


class UsualSends:
    """Takes the requests that are usual."""

    def __init__(
        self, config: BrokerConfig, topics: TopicTable, appender: Appender, receipts: Receipts, *, max_body_bytes: int
    ) -> None:
        self._topics = topics
        self._version: DataVersion | None = None  # of the topics, when `_write_queues` was last begun
        self._write_queues: dict[str, int] = {}  # of each topic that takes such messages, for the others 0
        self._submit = appender.submit_usual
        self._receipts = receipts
        self._max_body_bytes = max_body_bytes
        self._brokers_own = brokers_own_properties(config)

    def take_v1(
        self,
        envelope: Envelope[SendMessageRequestHeader],
        body: memoryview,
        connection: Connection,
        serialize_type: int,
    ) -> bool:
        """The same for SEND_MESSAGE."""
        header = SendMessageRequestHeaderV2.from_v1(envelope.extFields)
        return self.take_v2(Envelope(envelope.code, header, envelope.opaque), body, connection, serialize_type)

    def take_v2(
        self,
        envelope: Envelope[SendMessageRequestHeaderV2],
        body: memoryview,
        connection: Connection,
        serialize_type: int,
    ) -> bool:
        """Takes a SEND_MESSAGE_V2 that is usual; False for any other."""
        header = envelope.extFields
        topic, queue_id, text = header.b, header.e, header.i
        if self._topics.version is not self._version or (queues := self._write_queues.get(topic)) is None:
            queues = self._learn(topic)
        born_host = _usual_host(connection.peer)
        if (
            not text
            or not 0 <= queue_id < queues
            or not 0 < len(body) <= self._max_body_bytes
            or header.f
            or header.m
            or born_host is None
            or (usual := read_usual(text)) is None
        ):
            return False
        outline, keys = usual
        unique_key = keys[0].encode()
        if not unique_key.isalnum():  # then nothing in it could break out of the form of a receipt
            return False
        properties = (text if text[-1] == "\x02" else text + "\x02").encode() + self._brokers_own
        connection.under_way += 1
        self._submit(
            UsualSend(
                topic,
                queue_id,
                bytes(body),
                properties,
                outline.tags_code,
                keys,
                header.h,
                header.g,
                born_host,
                header.j or 0,
                outline.waits_for_flush,
                unique_key,
                envelope.opaque,
                connection,
                serialize_type,
                self._receipts,
            )
        )
        return True

    def _learn(self, topic: str) -> int:
        """How many queues of a topic take such messages, from now until some topic changes."""
        if self._topics.version is not self._version:
            self._version = self._topics.version
            self._write_queues.clear()
        config = self._topics.get(topic)
        if config is None:
            return 0  # and not remembered: there are more names than topics
        is_plain = topic not in NOT_SENDABLE and not topic.startswith(RETRY_PREFIX)
        queues = config.writeQueueNums if is_plain and config.topicFilterType != MULTI_TAG else 0
        self._write_queues[topic] = queues
        return queues


@lru_cache(maxsize=4096)
def _usual_host(peer: tuple[str, int]) -> bytes | None:
    """The host field of a client; None for IPv6, which makes a record's head another. The same few send again and
    again."""
    try:
        host = pack_host(*peer)
    except InvalidArgument:
        return None  # a connection that was gone before it had an address
    return host if len(host) == IPV4_HOST_BYTES else None
