"""A user's message made ready for the wire: checked, given its id and properties, compressed. Pure.

Spec: semantics, sections 3 and 4 (RocketMQ's DefaultMQProducerImpl.sendKernelImpl and Validators.checkMessage).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqspark.client.sending.message_kinds import check_body_kind, check_kinds
from rmqspark.errors import InvalidArgument, InvalidMessage
from rmqspark.model import Message
from rmqspark.protocol.milliseconds import other_unit
from rmqspark.protocol.names import (
    MAX_BODY_BYTES,
    MAX_DELAY_LEVEL,
    RETRY_PREFIX,
    check_body,
    check_sendable,
    trimmed_tag,
)
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.protocol.records.compression import compress
from rmqspark.protocol.records.properties import KEY_SEPARATOR, Property, check_user_properties, encode_properties
from rmqspark.protocol.records.record import SysFlag
from rmqspark.settings import check_bounds, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_TIMEOUT_MS = (1 << 31) - 1  # 24 days


@dataclass(frozen=True)
class SendConfig:
    """How a producer sends; names and defaults are RocketMQ's (DefaultMQProducer)."""

    send_msg_timeout: int = setting(
        3000, "Time for one send, all its tries together.", unit="ms", at_most=MAX_TIMEOUT_MS
    )
    send_msg_max_timeout_per_request: int = setting(
        -1, "The longest for a try that another may follow; -1: all that is left.", unit="ms", at_least=-1
    )
    retry_times_when_send_failed: int = setting(
        2, "Further tries after one that failed, within the same time.", at_least=0
    )
    send_latency_fault_enable: bool = setting(
        False, "Leave brokers alone for a while that were slow, as those are that failed."
    )
    compress_msg_body_over_howmuch: int = setting(
        4096, "Bodies from this size on are compressed with zlib; 0: none.", at_least=0
    )
    max_message_size: int = setting(MAX_BODY_BYTES, "The largest body that is accepted.", unit="bytes")

    def __post_init__(self) -> None:
        check_bounds(self)

    def timeout(self, timeout_ms: int | None) -> int:
        """The time of a send: what its caller gives it, else that of all. InvalidArgument."""
        if timeout_ms is None:
            return self.send_msg_timeout
        if not 0 < timeout_ms <= MAX_TIMEOUT_MS:
            raise InvalidArgument(f"timeout_ms is 1 to {MAX_TIMEOUT_MS} milliseconds, not {timeout_ms}.")
        return timeout_ms


@dataclass(frozen=True, slots=True)
class CopiedMessage(Message):
    """One that a topic held, on its way to another: its tag is what it was, though nobody could subscribe to that."""

    @classmethod
    def of(cls, message: Message) -> Self:
        return cls(**{each.name: getattr(message, each.name) for each in fields(message)})


class Outgoing(NamedTuple):
    """What a send request carries of a message or batch, the same for each try."""

    body: bytes
    properties: str
    sys_flag: int
    flag: int


def outgoing(message: Message, unique_id: str, config: SendConfig, shard: str | None = None) -> Outgoing:
    """Makes one message ready. Raises InvalidMessage or InvalidName for what no broker would take."""
    check_kinds(message, shard)
    check_sendable(message.topic)
    body, sys_flag = compressed(_checked_body(message, config), config.compress_msg_body_over_howmuch)
    properties = encode_properties(wire_properties(message, unique_id, shard)).decode()
    return Outgoing(body, properties, sys_flag, message.flag)


def outgoing_batch(
    messages: Sequence[Message], unique_ids: Sequence[str], config: SendConfig, shard: str | None = None
) -> Outgoing:
    """Makes a batch ready. Never compressed, as RocketMQ has it.

    Brokers of 5.3 append the wrapper's properties to every element (spec: observed), so WAIT is there and not in the
    elements, and UNIQ_KEY is not, for it would take the place of each element's own.
    """
    for message in messages:
        check_kinds(message, shard)
    check_batch(messages)
    elements = []
    for message, unique_id in zip(messages, unique_ids, strict=True):
        check_sendable(message.topic)
        body = _checked_body(message, config)
        properties = wire_properties(message, unique_id, shard)
        del properties[Property.WAIT]
        elements.append(BatchElement(body, encode_properties(properties), message.flag))
    batch = encode_batch(elements)
    if len(batch) > config.max_message_size:
        raise InvalidMessage(
            f"A batch of {len(batch)} bytes is over the limit of {config.max_message_size}.",
            hint="Send it in several: a batch is stored all or none.",
        )
    wrapper = encode_properties({Property.WAIT: wait_value(messages[0])}).decode()
    return Outgoing(batch, wrapper, 0, 0)


def _checked_body(message: Message, config: SendConfig) -> bytes:
    check_body_kind(message.body)
    body = bytes(message.body)
    check_body(len(body), config.max_message_size)
    return body


def wire_properties(message: Message, unique_id: str, shard: str | None = None) -> dict[str, str]:
    """The properties stored with a message: the user's own and those that RocketMQ's clients always set."""
    check_user_properties(message.properties)
    properties = dict(message.properties)
    if message.keys:
        properties[Property.KEYS] = _joined_keys(message.keys)
    if message.tags:
        properties[Property.TAGS] = message.tags if isinstance(message, CopiedMessage) else _checked_tags(message.tags)
    if shard is not None:
        properties[Property.SHARDING_KEY] = shard
    if ways := waits(message):
        properties |= _until(message, ways)
    properties[Property.WAIT] = wait_value(message)
    properties[Property.UNIQ_KEY] = unique_id
    return properties


def waits(message: Message) -> list[str]:
    """The fields by which a message is to be delivered later."""
    return [name for name in ("delay_level", "deliver_time_ms", "delay_ms") if getattr(message, name)]


def wait_value(message: Message) -> str:
    return "true" if message.wait_stored else "false"


def check_batch(messages: Sequence[Message]) -> None:
    """Raises InvalidMessage unless these may travel as one batch (spec: semantics, section 4.1)."""
    if not messages:
        raise InvalidMessage("A batch needs at least one message.")
    first = messages[0]
    if first.topic.startswith(RETRY_PREFIX):
        raise InvalidMessage("Retry topics take no batches.", hint="Send the messages one by one.")
    rules: tuple[tuple[str, Callable[[Message], bool]], ...] = (
        ("the same topic", lambda message: message.topic == first.topic),
        ("the same wait_stored", lambda message: message.wait_stored == first.wait_stored),
        ("no delay_level", lambda message: not message.delay_level),
        ("no deliver_time_ms", lambda message: not message.deliver_time_ms),
        ("no delay_ms", lambda message: not message.delay_ms),
    )
    for rule, holds in rules:
        if not all(map(holds, messages)):
            raise InvalidMessage(f"All messages of a batch must have {rule}.", hint="Send the others apart.")


def compressed(body: bytes, threshold: int) -> tuple[bytes, int]:
    """The body as it travels and its compression flags: as it is where compression does not make it smaller."""
    if not threshold or len(body) < threshold:
        return body, 0
    smaller = compress(body, SysFlag.COMPRESSION_ZLIB)
    return (smaller, SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB) if len(smaller) < len(body) else (body, 0)


def _joined_keys(keys: Sequence[str]) -> str:
    """The index splits keys at blanks, so a key cannot contain one. A bare string is one key, not its letters."""
    listed = [keys] if isinstance(keys, str) else list(keys)
    for key in listed:
        if not key or KEY_SEPARATOR in key:
            raise InvalidMessage(f"Key {key!r} is empty or contains a blank.", hint="Give each key as its own entry.")
    return KEY_SEPARATOR.join(listed)


def _checked_tags(tags: str) -> str:
    if "||" in tags or tags != trimmed_tag(tags):
        raise InvalidMessage(f"A message has one tag; {tags!r} could not be subscribed to.")
    return tags


def _until(message: Message, ways: Sequence[str]) -> dict[str, str]:
    """What a message says that is to be delivered later. Raises InvalidMessage."""
    if len(ways) > 1:
        raise InvalidMessage(f"{ways[0]} and {ways[1]} exclude each other.")
    if message.delay_level:
        if not 0 < message.delay_level <= MAX_DELAY_LEVEL:
            raise InvalidMessage(f"delay_level is 1 to {MAX_DELAY_LEVEL}, not {message.delay_level}.")
        return {Property.DELAY: str(message.delay_level)}
    if message.delay_ms:
        if not 0 < message.delay_ms < 1 << 62:  # brokers of RocketMQ add it to the time, in 64 bits
            raise InvalidMessage(f"delay_ms is how long a message waits, in milliseconds, not {message.delay_ms}.")
        return {Property.TIMER_DELAY_MS: str(message.delay_ms)}
    return {Property.TIMER_DELIVER_MS: _checked_time(message.deliver_time_ms)}


def _checked_time(time_ms: int) -> str:
    if not 0 < time_ms < 1 << 63:
        raise InvalidMessage(f"deliver_time_ms counts from 1970, in milliseconds; it cannot be {time_ms}.")
    if unit := other_unit(time_ms):
        raise InvalidMessage(f"deliver_time_ms {time_ms} looks like {unit} since 1970, and is in milliseconds.")
    return str(time_ms)
