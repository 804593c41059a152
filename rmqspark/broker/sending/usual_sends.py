"""Sends as nearly all are: a plain message for a queue that is there, from a client that waits for the answer.

They differ in little, and there are many. So they are told apart before a request is made of them, and what would be
done for each of them is done for all of a turn (`store/appending/singles.py`). Whatever is not usual, or is wrong in
any way, is left to the common way (`intake.py`, `handlers/sends.py`), which knows what to say; a test holds the two
against each other.

Most of them are not even decoded: those whose header is that of one taken before, but for a few values
(`send_stencils.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqspark.broker.sending.at_most import AtMost
from rmqspark.broker.sending.intake import MULTI_TAG, brokers_own_properties
from rmqspark.broker.sending.send_stencils import PLAIN, SendStencil, stencil_of
from rmqspark.broker.sending.usual_properties import read_usual
from rmqspark.broker.sending.usual_send import UsualSend
from rmqspark.protocol.commands.by_length import MOST_HEADER_BYTES, ByLength
from rmqspark.protocol.commands.command import JSON, Envelope, RawCommand
from rmqspark.protocol.commands.stencil import opaque_value
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.names import NOT_SENDABLE, RETRY_PREFIX, may_be_topic
from rmqspark.protocol.records.record import MAX_V1_TOPIC_BYTES
from rmqspark.store.appending.targets import Targets

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.sending.receipts import Receipts
    from rmqspark.broker.sending.send_values import SplitName
    from rmqspark.broker.sending.usual_properties import Outline
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.protocol.bodies.route import DataVersion
    from rmqspark.remoting.request import Connection

_MOST_SPLITS: Final = 64
_NOWHERE: Final = ("", 0)
_QUEUE_IDS: Final = {b"%d" % queue_id: queue_id for queue_id in range(1024)}


class UsualSends:
    """Takes the sends that are usual, and leaves all others to their handlers."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        appender: Appender,
        receipts: Receipts,
        *,
        max_body_bytes: int,
        cut_every: int = 32,
    ) -> None:
        """A stencil is cut of the first of so many requests that none has fitted: to cut one for each that comes only
        once would cost more than they save."""
        self._topics = topics
        self._version: DataVersion | None = None  # of the topics, when the next two were last begun
        self._write_queues: dict[str, int] = {}  # of each topic that takes such messages, for the others 0
        self._by_name: dict[bytes, tuple[str, int]] = {}  # the former, by their names as they stand in headers
        self.targets = Targets()
        """Queues that `numbers` has found, until some topic changes."""
        self._numbers: AtMost[SplitName, dict[bytes, int]] = AtMost(_MOST_SPLITS)
        self._stencils: ByLength[SendStencil] = ByLength()  # by header word, which is a length and the serialization
        self._cut_every = cut_every
        self._unlike = 0  # requests that no stencil fitted
        self._submit = appender.submit_usual
        self._appender = appender
        self._receipts = receipts
        self.max_body_bytes = max_body_bytes
        self._brokers_own = brokers_own_properties(config)

    def take_alike(
        self, view: memoryview, word: int, header_at: int, body_at: int, end: int, connection: Connection
    ) -> bool:
        """Takes a request whose header is that of one taken before, but for what may vary; False for any other.

        All that `take` checks is checked here, or said in the same bytes as in the other header. What varies is such
        that it cannot change how JSON is read.
        """
        for stencil in self._stencils.get(word, ()):
            unpack_from, between, pick, constant, _ = stencil
            found = unpack_from(view, header_at)
            if found[::2] == between:
                break
        else:
            return False
        opaque, name, queue, born, unique_key = pick(found)
        topic, queues = self._by_name.get(name, _NOWHERE)
        queue_id = _QUEUE_IDS.get(queue, queues)
        born_host, serialize_type = connection.ipv4_host, word >> 24
        if (
            self._topics.version is not self._version
            or queue_id >= queues
            or not 0 < end - body_at <= self.max_body_bytes
            or born_host is None
            or not born.isdigit()
            or not unique_key.isalnum()
            or (serialize_type == JSON and not (opaque.isdigit() and opaque >= b"1"))
        ):
            return False
        key = unique_key.decode()
        if constant.both is None:
            properties = constant.properties % unique_key
            index_keys: tuple[str, ...] = (key,)
        else:
            keys = found[constant.keys_at]
            if keys.translate(None, PLAIN):
                return False
            properties = constant.properties % constant.both(found)
            index_keys = key, *filter(None, keys.decode().split(" "))
        if constant.has_shard:
            self._appender.has_shards = True
        self._submit(
            UsualSend(
                topic,
                queue_id,
                view[body_at:end].tobytes(),
                properties,
                constant.tags_code,
                index_keys,
                constant.flag,
                int(born),
                born_host,
                constant.reconsume_times,
                constant.waits_for_flush,
                unique_key,
                opaque,
                connection,
                serialize_type,
                self._receipts,
            )
        )
        connection.under_way += 1
        return True

    @property
    def words(self) -> Container[int]:
        """The header words of requests that were taken and may come again."""
        return self._stencils.keys()

    def stencil_for(self, view: memoryview, word: int, header_at: int) -> SendStencil | None:
        """The stencil that fits a request; None if there is none."""
        for stencil in self._stencils.get(word, ()):
            if stencil.unpack_from(view, header_at)[::2] == stencil.between:
                return stencil
        return None

    def numbers(self, names: Sequence[bytes], split: SplitName) -> list[int] | None:
        """The numbers in `targets` of queues named as in headers, topic and queue id in a name; None unless all are
        known to be there."""
        if self._topics.version is not self._version:
            return None
        known = self._numbers.get(split)
        if known is None:
            known = self._numbers.keep(split, {})
        try:
            return list(map(known.__getitem__, names))
        except KeyError:
            return list(map(known.__getitem__, names)) if self._learn_names(names, split, known) else None

    def _learn_names(self, names: Iterable[bytes], split: SplitName, known: dict[bytes, int]) -> bool:
        """Numbers these names; False if one is not that of a queue that is there."""
        for name in names:
            if name not in known:
                topic, queue = split(name)
                topic_name, queues = self._by_name.get(topic, _NOWHERE)
                queue_id = _QUEUE_IDS.get(queue, queues)
                if queue_id >= queues or len(topic) > MAX_V1_TOPIC_BYTES:
                    return False
                known[name] = self.targets.number_of(topic_name, queue_id)
        return True

    def take(self, envelope: Envelope[Any], raw: RawCommand, connection: Connection) -> bool:
        """Takes a SEND_MESSAGE or SEND_MESSAGE_V2 that is usual; False for any other."""
        fields, body, kind = envelope.extFields, raw.body, raw.serialize_type
        header = fields if type(fields) is SendMessageRequestHeaderV2 else SendMessageRequestHeaderV2.from_v1(fields)
        topic, queue_id, text = header.b, header.e, header.i
        if self._topics.version is not self._version or (queues := self._write_queues.get(topic)) is None:
            queues = self._learn_topic(topic)
        born_host = connection.ipv4_host
        if (
            not text
            or not 0 <= queue_id < queues
            or not 0 < len(body) <= self.max_body_bytes
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
        self._learn_header(raw, envelope, outline)
        if outline.has_shard:
            self._appender.has_shards = True
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
                opaque_value(kind, envelope.opaque),
                connection,
                kind,
                self._receipts,
            )
        )
        connection.under_way += 1
        return True

    def _learn_header(self, raw: RawCommand, envelope: Envelope[Any], outline: Outline) -> None:
        """So that others like it may be taken without being decoded."""
        length, nth = len(raw.header), self._unlike
        self._unlike = nth + 1
        if nth % self._cut_every == 0 and length <= MOST_HEADER_BYTES:
            stencil = stencil_of(raw, envelope, outline, self._brokers_own)
            if stencil is not None:
                self._stencils.remember(raw.serialize_type << 24 | length, stencil)

    def _learn_topic(self, topic: str) -> int:
        """How many queues of a topic take such messages, from now until some topic changes."""
        if self._topics.version is not self._version:
            self._version = self._topics.version
            self._write_queues.clear()
            self._by_name.clear()
            self.targets = Targets()
            self._numbers.clear()
        config = self._topics.get(topic)
        if config is None:
            return 0  # and not remembered: there are more names than topics
        is_plain = topic not in NOT_SENDABLE and not topic.startswith(RETRY_PREFIX)
        is_plain = is_plain and may_be_topic(topic)  # those of brokers and clusters may be called like a host
        queues = config.writeQueueNums if is_plain and config.topicFilterType != MULTI_TAG else 0
        self._write_queues[topic] = queues
        self._by_name[topic.encode()] = topic, queues
        return queues
