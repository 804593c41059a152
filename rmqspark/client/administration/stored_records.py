"""Records as brokers hold them, looked up for administration: by place, or by the sender's unique id in any topic.

Unlike `admin_messages` this looks where no reader does, too: where messages wait, and among the halves of transactions.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.administration.admin_messages import UNIQUE_MATCHES, check_is_message, not_found, stored_under
from rmqspark.client.administration.admin_topics import readable
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.cluster.user_topics import user_topics
from rmqspark.client.pulling.received import received
from rmqspark.errors import NotFound, RmqError
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.names import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_made_by_brokers,
)
from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.model import ReceivedMessage
    from rmqspark.protocol.commands.command import Buffer
    from rmqspark.protocol.records.record import Record
    from rmqspark.remoting.response import Response

WAITING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, CHECK_MAX_TIME_TOPIC)
"""Where a message lies that its readers do not see yet, or not any more."""

_ASKED_TOGETHER: Final = 64


class Stored(NamedTuple):
    """A record, and the broker in whose log it is."""

    broker_name: str
    record: Record

    @property
    def properties(self) -> dict[str, str]:
        return self.record.property_map()

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.record.topic, self.broker_name, self.record.queue_id)

    @property
    def offset_msg_id(self) -> str:
        return offset_msg_id(self.record.store_host, self.record.physical_offset)

    @property
    def message(self) -> ReceivedMessage:
        return received(self.record, self.broker_name)

    @property
    def is_waiting(self) -> bool:
        """Whether it lies where its readers do not look."""
        return self.record.topic in WAITING_TOPICS


def record_at(cluster: ClusterClient, broker_name: str, physical_offset: int) -> Stored:
    """The record that begins there. MessageNotFound where none does, or where the broker keeps its own books."""
    return _decoded(broker_name, BrokerAdmin(cluster.broker(broker_name)).message_at(physical_offset))


def record_under(cluster: ClusterClient, offset_id: str) -> Stored | None:
    """The record with this offset id; see `stored_under`."""
    stored = stored_under(cluster, offset_id)
    return None if stored is None else _decoded(*stored)


def _decoded(broker_name: str, raw: Buffer) -> Stored:
    return Stored(broker_name, decode_record(memoryview(raw), check_crc=False))


def find_record(cluster: ClusterClient, msg_id: str, topic: str | None, on_silent: OnSilent) -> Stored:
    """The record with this offset id, or the first one stored with this unique id: in `topic`, else in any, and where
    it waits for its readers. MessageNotFound; TopicNotFound for a topic that there is not."""
    if (found := record_under(cluster, msg_id)) is not None:
        check_is_message(found.record.topic, msg_id)
        return found
    for topics in _where_to_look(cluster, topic):
        copies = with_unique_id(cluster, topics, msg_id, on_silent)
        if topic is not None:
            copies = [each for each in copies if topic in (each.record.topic, each.properties.get(Property.REAL_TOPIC))]
        if copies:
            return min(copies, key=lambda each: each.record.store_timestamp_ms)
    raise not_found(msg_id, topic)


def with_unique_id(cluster: ClusterClient, topics: Iterable[str], unique_id: str, on_silent: OnSilent) -> list[Stored]:
    """What the indexes of all brokers know in these topics, oldest first, at most 32 of a broker and topic. A broker
    that does not answer is told to `on_silent`, once, and left out."""
    silent: set[str] = set()
    found: list[Stored] = []
    pairs = ((name, topic) for topic in dict.fromkeys(topics) for name in readable(cluster))
    while some := list(islice(pairs, _ASKED_TOGETHER)):
        asked = [(name, _ask(cluster, name, topic, unique_id)) for name, topic in some if name not in silent]
        for name, answer in asked:
            try:
                found += _found(name, answer)
            except NotFound:
                continue
            except RmqError as error:
                if name not in silent:
                    on_silent(name, error)
                silent.add(name)
    matching = [each for each in found if each.properties.get(Property.UNIQ_KEY) == unique_id]
    return sorted(matching, key=lambda each: (each.record.store_timestamp_ms, each.record.physical_offset))


def _where_to_look(cluster: ClusterClient, topic: str | None) -> Iterator[list[str]]:
    """The users' topics before what their groups could not consume."""
    if topic is not None:
        cluster.route(topic)
        yield [topic]
    else:
        names = user_topics(cluster)
        yield [name for name in names if not is_made_by_brokers(name)]
        yield [name for name in names if is_made_by_brokers(name)]
    yield list(WAITING_TOPICS)


def _ask(cluster: ClusterClient, broker_name: str, topic: str, unique_id: str) -> Future[Response] | RmqError:
    try:
        broker = BrokerAdmin(cluster.broker(broker_name))
        return broker.submit_query(topic, unique_id, unique=True, max_count=UNIQUE_MATCHES)
    except RmqError as error:
        return error


def _found(broker_name: str, answer: Future[Response] | RmqError) -> Iterator[Stored]:
    if isinstance(answer, RmqError):
        raise answer
    body, at = memoryview(answer.result().raise_for_code().body), 0
    while at < len(body):
        record = decode_record(body, at, check_crc=False)
        yield Stored(broker_name, record)
        at += record.size
