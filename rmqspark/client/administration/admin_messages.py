"""Messages found again: by either id, or by a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.key_walk import KeySearch, key_page
from rmqspark.client.cluster.futures import then
from rmqspark.client.cluster.silence import RollCall, Silence
from rmqspark.client.cluster.user_topics import user_topics
from rmqspark.client.pulling.received import received_all
from rmqspark.errors import InvalidArgument, MessageNotFound, NotFound, RmqError
from rmqspark.protocol.names import HIDDEN_TOPICS
from rmqspark.protocol.records.message_id import offset_msg_id, parse_offset_msg_id, unpack_host
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record
from rmqspark.remoting.address import format_address

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.model import MessageQueue, ReceivedMessage
    from rmqspark.protocol.commands.command import Buffer
    from rmqspark.remoting.response import Response

MOST_ASKED_FOR = (1 << 31) - 1
_DIGITS_OF_AN_OFFSET = 16  # hexadecimal, at the end of an offset id
UNIQUE_MATCHES = 32  # RocketMQ's brokers look at that many entries for a unique id


def message_by_id(cluster: ClusterClient, msg_id: str, topic: str | None) -> ReceivedMessage:
    """The message with this offset id, or this unique id in `topic` (None: in any). MessageNotFound.

    A broker that does not answer hides no message that another has; where none has it, that is the error.

    """
    if (stored := stored_under(cluster, msg_id)) is not None:
        broker_name, record = stored
        (found,) = received_all(memoryview(record), broker_name)
        check_is_message(found.topic, msg_id)
        return found
    roll = RollCall(cluster, Silence())
    for candidate in [topic] if topic is not None else user_topics(cluster):
        for message in _alike(cluster, roll, candidate, msg_id):
            if message.properties.get(Property.UNIQ_KEY) == msg_id:
                return message
    roll.insist()
    raise not_found(msg_id, topic)


def check_is_message(topic: str, offset_id: str) -> None:
    """Raises MessageNotFound for a record of those topics that only the broker reads: batches that are not committed
    are there, too."""
    if topic in HIDDEN_TOPICS:
        raise MessageNotFound(f"{offset_id} is of no message: the broker keeps its own books there.")


def not_found(msg_id: str, topic: str | None) -> MessageNotFound:
    return MessageNotFound(
        f"No message {msg_id!r} is in {f'topic {topic!r}' if topic else 'any topic'}.",
        hint="It takes either id of a message: rmq consume TOPIC --json shows them. Expired messages are gone.",
    )


def messages_by_key(
    cluster: ClusterClient, topic: str, key: str, *, begin_ms: int, end_ms: int, max_count: int
) -> list[ReceivedMessage]:
    """The newest `max_count` messages with this key, stored in [begin_ms, end_ms], oldest first."""
    if not 0 < max_count <= MOST_ASKED_FOR:
        raise InvalidArgument(f"max_count is 1 to {MOST_ASKED_FOR}, not {max_count}.")
    return in_order(key_page(cluster, KeySearch(topic, key, begin_ms, end_ms), max_count).messages)


def in_order(messages: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
    """By store time, the oldest first; of one millisecond those of one broker as they lie in its log."""
    return sorted(messages, key=_age)


def _age(message: ReceivedMessage) -> tuple[int, str, str, MessageQueue, int]:
    place_in_log = message.offset_msg_id[-_DIGITS_OF_AN_OFFSET:]
    return message.store_timestamp_ms, message.queue.broker_name, place_in_log, message.queue, message.queue_offset


def _alike(cluster: ClusterClient, roll: RollCall, topic: str, unique_id: str) -> list[ReceivedMessage]:
    """What the index of each of the topic's brokers gives for a unique id: others may have the same hash."""
    pairs = [(broker_name, topic) for broker_name in sorted(cluster.route(topic).brokers)]
    answers = roll.ask(pairs, lambda broker, topic: _submit_query(broker, topic, unique_id))
    return [
        message for (name, _), found in answers.items() if found for message in received_all(memoryview(found), name)
    ]


def _submit_query(broker: BrokerClient, topic: str, unique_id: str) -> Future[Buffer]:
    query = BrokerAdmin(broker).submit_query(topic, unique_id, unique=True, max_count=UNIQUE_MATCHES)
    return then(query, _records)


def _records(response: Response) -> Buffer:
    try:
        return response.raise_for_code().body
    except NotFound:
        return b""


def stored_under(cluster: ClusterClient, offset_id: str) -> tuple[str, Buffer] | None:
    """The record with this offset id, and the broker that has it; None for what is none, or where no broker is at its
    address and none has the record. Raises what kept the broker there from giving it.

    The id holds the address that its broker had when it stored the record. Whoever is there is asked first, and then
    the others of this cluster, and nobody else: whoever sends the id must not choose whom we connect to.
    """
    try:
        host, physical_offset = parse_offset_msg_id(offset_id)
    except InvalidArgument:
        return None
    address, brokers = format_address(*unpack_host(host)), cluster.cluster_info().brokerAddrTable
    there = {name for name, broker in brokers.items() if address in broker.brokerAddrs.values()}
    failures: list[RmqError] = []
    for name in [*sorted(there), *sorted(brokers.keys() - there)]:
        try:
            record = BrokerAdmin(cluster.broker(name)).message_at(physical_offset)
        except RmqError as error:
            failures.append(error)
            continue
        if _is_under(offset_id, record):
            return name, record
    if there:
        raise failures[0] if failures else not_found(offset_id, None)
    return None


def _is_under(offset_id: str, record: Buffer) -> bool:
    """Another broker has another record at the same place, or none."""
    decoded = decode_record(memoryview(record), check_crc=False)
    return offset_msg_id(decoded.store_host, decoded.physical_offset) == offset_id.upper()
