"""From a send request to a draft for the store: what a message must be like, and what a broker writes into it.

The checks come in RocketMQ's order, so that a request that is wrong in two ways is refused as RocketMQ refuses it
(spec: requests, section 4, steps 1 to 12). Two things differ on purpose:
- The properties a broker adds (region, trace switch, cluster) stand behind the sender's, whose order is kept; RocketMQ
  rebuilds the string from a hash map. Nothing depends on the order.
- Batches with messages that ask for a delay are refused. Stored as they are, they would be delivered at once.
A message that asks to wait goes to where it does (`delays/asked_delays.py`). A message of a transaction (TRAN_MSG)
becomes a half message: it goes to RMQ_SYS_TRANS_HALF_TOPIC, queue 0, and says in its properties where it belongs
(`txn/half_messages/half_message.py` has what becomes of it).
RocketMQ: SendMessageProcessor, AbstractSendMessageProcessor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from rmqspark.broker.delays.parking import TIMER_PROPERTIES, Place, asked_level
from rmqspark.broker.sending.batches import Batch
from rmqspark.broker.sending.drafting import (
    Origin,
    asks_for_transaction,
    draft_of,
    refuse_delay,
    refuse_half,
    waits_for_flush,
)
from rmqspark.broker.sending.usual_properties import BROKERS_NAMES, read_usual
from rmqspark.errors import InvalidMessage, InvalidQueue, NoPermission, NotSupported
from rmqspark.protocol.names import (
    HALF_TOPIC,
    MAX_TOPIC_LENGTH,
    NOT_SENDABLE,
    RETRY_PREFIX,
    check_body,
    check_topic,
)
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.properties import (
    Property,
    decode_properties,
    encode_properties,
    join_properties,
    parse_properties,
    without_properties,
)
from rmqspark.protocol.records.record import SysFlag, encode_unplaced
from rmqspark.store.draft import Draft
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.delays.asked_delays import AskedDelays
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.protocol.bodies.route import TopicConfig
    from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
    from rmqspark.protocol.records.message_id import UniqueIds

MULTI_TAG: Final = "MULTI_TAG"

_SENDERS_FLAGS: Final = SysFlag.COMPRESSED | SysFlag.MULTI_TAGS | SysFlag.COMPRESSION_MASK
_REFUSED_FLAGS: Final = SysFlag.TRANSACTION_MASK | SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH

_LONGEST_WRAPPER: Final = 256  # characters; the remembered ones take memory

_born_host = lru_cache(maxsize=4096)(pack_host)
"""The same few clients send again and again."""


OnStored: TypeAlias = "Callable[[int, int], None]"
"""Told at which queue offset and physical offset."""


class Admitted(Draft, gc=False):
    """A message that may be stored, and what its sender will be told besides the place."""

    transaction_id: str = ""  # the sender's UNIQ_KEY
    waits_for_flush: bool = True
    belongs_to: int | None = None  # of a delayed message: the queue it will be in
    recall_handle: str | None = None  # of one that waits for its time
    has_shard: bool = False
    on_stored: OnStored | None = None  # told its queue and physical offset before its sender is

    @property
    def told_queue_id(self) -> int:
        """The queue that its sender hears of."""
        return self.queue_id if self.belongs_to is None else self.belongs_to

    def tell_stored(self, queue_offset: int, physical_offset: int) -> None:
        """Tells whoever is to know before the sender."""
        if self.on_stored is not None:
            self.on_stored(queue_offset, physical_offset)


class Intake:
    """Admits single messages and batches; raises what is wrong with one. Stores nothing and creates no topic."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        groups: SubscriptionGroups,
        delays: AskedDelays,
        *,
        max_body_bytes: int,
        unique_ids: UniqueIds,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._max_body_bytes = max_body_bytes
        self._delays = delays
        self._rejects_transactions = config.reject_transaction_message
        self._unique_ids = unique_ids
        self._clock = clock
        self._entropy = entropy
        self._brokers_own = brokers_own_properties(config)

    def admit(self, header: SendMessageRequestHeaderV2, body: memoryview, peer: tuple[str, int]) -> Admitted:
        """One message. Raises TopicNotFound where the topic would have to be created first, InvalidName where it cannot
        be."""
        check_body(len(body), self._max_body_bytes)
        topic, queue_id, sys_flag, text = header.b, header.e, header.f, header.i or ""
        if topic in NOT_SENDABLE:
            raise of_broker(topic)
        check_topic(topic)  # also of one that is there: those of a broker and a cluster may be called like a host
        config = self._topics.require(topic)
        if not 0 <= queue_id < config.writeQueueNums:
            queue_id = self.choose_queue(config, queue_id)
        if topic.startswith(RETRY_PREFIX):
            self._groups.require(topic.removeprefix(RETRY_PREFIX))
        usual = read_usual(text)
        if usual is None:
            return self._admit_unusual(header, body, peer, config, queue_id)
        if sys_flag or config.topicFilterType == MULTI_TAG:
            sys_flag = self._check_flags(sys_flag, config)
        outline, keys = usual
        properties = join_properties(text.encode(), self._brokers_own)
        record = encode_unplaced(
            topic, body, properties, queue_id, header.h, sys_flag, header.g, _born_host(*peer), header.j or 0
        )
        return Admitted(
            topic,
            queue_id,
            record,
            outline.tags_code,
            keys,
            keys[0],
            outline.waits_for_flush,
            has_shard=outline.has_shard,
        )

    def _admit_unusual(
        self,
        header: SendMessageRequestHeaderV2,
        body: memoryview,
        peer: tuple[str, int],
        config: TopicConfig,
        queue_id: int,
    ) -> Admitted:
        """A message whose properties must be looked at pair by pair, everything else about it being right."""
        topic, text = header.b, header.i or ""
        encoded = text.encode("utf-8", "replace")
        properties = parse_properties(text) if text.isascii() else decode_properties(encoded)
        is_half = Property.TRANSACTION_PREPARED in properties and self._is_half(header, properties)
        sys_flag = self._check_flags(header.f & ~SysFlag.TRANSACTION_MASK if is_half else header.f, config)
        if Property.UNIQ_KEY not in properties:
            unique_key = properties[Property.UNIQ_KEY] = self._unique_ids.next(self._clock.now_ms())
            encoded = join_properties(encoded, encode_properties({Property.UNIQ_KEY: unique_key}))
        encoded = self._with_brokers_own(encoded, properties)
        belongs_to = recall_handle = None
        if is_half:
            encoded = _as_half(encoded, topic, queue_id, properties[Property.UNIQ_KEY])
            topic, queue_id = HALF_TOPIC, 0
        elif parked := self._delays.park(Place(topic, queue_id), encoded, properties):
            belongs_to = queue_id
            recall_handle = self._delays.recall_handle(topic, parked, properties[Property.UNIQ_KEY])
            topic, queue_id, encoded, _ = parked
        origin = Origin(topic, queue_id, sys_flag, _born_host(*peer), header.g, header.j or 0)
        draft = draft_of(origin, body, header.h, encoded, properties)
        return Admitted(
            topic,
            queue_id,
            draft.record,
            draft.tags_code,
            draft.index_keys,
            properties[Property.UNIQ_KEY],
            waits_for_flush(properties),
            belongs_to,
            recall_handle,
            Property.SHARDING_KEY in properties and not is_half,
        )

    def admit_batch(self, header: SendMessageRequestHeaderV2, body: memoryview, peer: tuple[str, int]) -> Batch:
        """One batch, its messages unseen so far. All are for the same queue.

        Each keeps its own properties and nothing else (spec: requests, section 4). Brokers of 5.3 append those of the
        request, whose UNIQ_KEY then hides each message's own; later ones do not (RocketMQ's issue 9416).
        """
        check_body(len(body), self._max_body_bytes)
        topic, text = header.b, header.i or ""
        if topic in NOT_SENDABLE:
            raise of_broker(topic)
        check_topic(topic)
        config = self._topics.require(topic)
        queue_id = self.choose_queue(config, header.e)
        if topic.startswith(RETRY_PREFIX) or len(topic) > MAX_TOPIC_LENGTH:
            raise InvalidMessage(f"Topic {topic!r} takes no batches.", hint="Send the messages one by one.")
        sys_flag = self._check_flags(header.f, config)
        origin = Origin(topic, queue_id, sys_flag, _born_host(*peer), header.g, header.j or 0)
        transaction_id, waits = _known_wrapper(text) if len(text) <= _LONGEST_WRAPPER else _read_wrapper(text)
        return Batch(origin, bytes(body), transaction_id, waits)

    def choose_queue(self, config: TopicConfig, queue_id: int) -> int:
        """The queue asked for, or any if it is below 0; raises InvalidQueue outside the topic's."""
        if 0 <= queue_id < config.writeQueueNums:
            return queue_id
        if queue_id >= config.queue_count or (queue_id < 0 and not config.writeQueueNums):
            queues = counted(config.writeQueueNums, "queue")
            raise InvalidQueue(f"Topic {config.topicName!r} has {queues} to write to, there is no {queue_id}.")
        return queue_id if queue_id >= 0 else self._entropy.below(config.writeQueueNums)

    def _check_flags(self, sys_flag: int, config: TopicConfig) -> int:
        """The bits a sender decides about; host bits are the broker's own business."""
        if sys_flag & _REFUSED_FLAGS:
            raise NotSupported(f"Messages with sysFlag {sys_flag:#x} (transactions, inner batches) are not supported.")
        return sys_flag & _SENDERS_FLAGS | (SysFlag.MULTI_TAGS if config.topicFilterType == MULTI_TAG else 0)

    def _is_half(self, header: SendMessageRequestHeaderV2, properties: dict[str, str]) -> bool:
        """Whether this is a half message. Raises NoPermission, and InvalidMessage for one that could not be ended."""
        is_sent_back = (header.j or 0) > 0 and asked_level(properties) > 0  # RocketMQ's issue 1648
        if not asks_for_transaction(properties) or is_sent_back:
            return False
        if self._rejects_transactions:
            raise NoPermission("This broker takes no transactional messages.", hint="See reject_transaction_message.")
        if Property.PRODUCER_GROUP not in properties:
            raise InvalidMessage("A transactional message needs the group of its producer, in property PGROUP.")
        if properties.get(Property.DELAY, "0") != "0" or not properties.keys().isdisjoint(TIMER_PROPERTIES):
            raise InvalidMessage("A transactional message cannot be delayed.", hint="Send it without a delay.")
        return True

    def _with_brokers_own(self, encoded: bytes, properties: dict[str, str]) -> bytes:
        """The sender's properties with the broker's behind them. What he says of the broker's matters is left out: he
        may have received the message and sends it on."""
        if not BROKERS_NAMES.isdisjoint(properties):
            encoded = without_properties(encoded, BROKERS_NAMES)
        return join_properties(encoded, self._brokers_own)


def of_broker(topic: str) -> NoPermission:
    """What is said of a topic that only the broker writes to, or makes."""
    return NoPermission(f"Topic {topic!r} is the broker's own.", hint="Send to a topic of your own.")


def brokers_own_properties(config: BrokerConfig) -> bytes:
    """What a broker says of every message it takes, encoded."""
    return encode_properties(
        {
            Property.MSG_REGION: config.region_id,
            Property.TRACE_ON: "true" if config.trace_on else "false",
            Property.CLUSTER: config.broker_cluster_name,
        }
    )


def _read_wrapper(text: str) -> tuple[str, bool]:
    """What the properties of a batch request say: the UNIQ_KEY of the whole, and whether its sender waits for the
    flush. Raises NotSupported or InvalidMessage for what must not be delivered at once."""
    properties = decode_properties(text.encode("utf-8", "replace"))
    refuse_delay(properties)
    refuse_half(properties)
    return properties.get(Property.UNIQ_KEY, ""), waits_for_flush(properties)


_known_wrapper = lru_cache(maxsize=1024)(_read_wrapper)
"""Most batches say the same."""


def _as_half(encoded: bytes, topic: str, queue_id: int, unique_key: str) -> bytes:
    """With what a half message says of itself besides (RocketMQ's TransactionalMessageBridge.parseHalfMessageInner).

    How often its producers were asked about it is not for its sender to say, though he may send on what he was asked
    about once: by that count the copies are known that an Apache broker puts back.
    """
    own = {Property.TRANSACTION_ID: unique_key, Property.REAL_TOPIC: topic, Property.REAL_QUEUE_ID: str(queue_id)}
    return join_properties(without_properties(encoded, (Property.TRANSACTION_CHECK_TIMES,)), encode_properties(own))
