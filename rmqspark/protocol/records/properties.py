"""Message properties: the one string of a record that holds tags, keys, the unique id and the user's own pairs.

A pair is `name 0x01 value 0x02`, pairs follow each other, UTF-8 (spec: storage, section 2; RocketMQ's MessageDecoder).
Nothing is escaped, so the two separators are illegal inside names and values. A pair counts only if it has a name, a
0x01 and a value; every other segment is skipped, as RocketMQ does. Of pairs with the same name the last one wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidMessage

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

NAME_END: Final = 0x01
PAIR_END: Final = 0x02
MAX_PROPERTIES_BYTES: Final = 32767  # what the signed 16-bit length of a record can say
TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."  # client-side only, never stored
KEY_SEPARATOR: Final = " "  # of KEYS; other white space is a part of a key


class Property:
    """The names that RocketMQ reserves (its MessageConst; spec: semantics, section 3)."""

    KEYS = "KEYS"
    TAGS = "TAGS"
    WAIT = "WAIT"
    DELAY = "DELAY"
    SHARDING_KEY = "__SHARDINGKEY"

    UNIQ_KEY = "UNIQ_KEY"
    EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO"
    DUP_INFO = "DUP_INFO"
    INSTANCE_ID = "INSTANCE_ID"

    TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
    TIMER_OUT_MS = "TIMER_OUT_MS"
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
    TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"

    REAL_TOPIC = "REAL_TOPIC"
    REAL_QUEUE_ID = "REAL_QID"
    RETRY_TOPIC = "RETRY_TOPIC"
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    RECONSUME_TIME = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"

    TRANSACTION_PREPARED = "TRAN_MSG"
    PRODUCER_GROUP = "PGROUP"
    TRANSACTION_ID = "__transactionId__"
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"

    MIN_OFFSET = "MIN_OFFSET"
    MAX_OFFSET = "MAX_OFFSET"
    CONSUME_START_TIME = "CONSUME_START_TIME"

    MSG_REGION = "MSG_REGION"
    TRACE_ON = "TRACE_ON"
    TRACE_CONTEXT = "TRACE_CONTEXT"
    CLUSTER = "CLUSTER"

    BUYER_ID = "BUYER_ID"
    TRANSFER_FLAG = "TRANSFER_FLAG"
    CORRECTION_FLAG = "CORRECTION_FLAG"
    MQ2_FLAG = "MQ2_FLAG"

    CORRELATION_ID = "CORRELATION_ID"
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
    TTL = "TTL"
    ARRIVE_TIME = "ARRIVE_TIME"
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
    MESSAGE_TYPE = "MSG_TYPE"

    POP_CK = "POP_CK"
    POP_CK_OFFSET = "POP_CK_OFFSET"
    FIRST_POP_TIME = "1ST_POP_TIME"

    INNER_NUM = "INNER_NUM"
    INNER_BASE = "INNER_BASE"
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
    REDIRECT = "REDIRECT"
    FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID"
    BORN_HOST = "__BORNHOST"
    BORN_TIMESTAMP = "BORN_TIMESTAMP"
    CRC32 = "__CRC32#"


class HalfBatchProperty:
    """What a half batch, which is ours alone, says of itself; no other message has these."""

    TRANSACTIONAL_ID = "RMQ_TXN_ID"
    EPOCH = "RMQ_TXN_EPOCH"
    VERSION = "RMQ_TXN_VERSION"
    PARTITION = "RMQ_TXN_PARTITION"
    ATTEMPT = "RMQ_TXN_ATTEMPT"
    SEQUENCE = "RMQ_TXN_SEQUENCE"
    COUNT = "RMQ_TXN_COUNT"
    RECORD_SIZE = "RMQ_TXN_RECORD_SIZE"
    HAS_TAGS = "RMQ_TXN_TAGS"
    BODY_CRC = "RMQ_TXN_BODY_CRC"  # with its sign bit, which a record has no room for


RESERVED_NAMES: Final = frozenset(value for name, value in vars(Property).items() if name.isupper())


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The pairs as a record stores them, in the mapping's order; empty values are left out, for no reader sees them.

    Raises InvalidMessage where a separator is inside a name or value, a name is empty, or the whole is too long.
    """
    pairs = [f"{name}\x01{value}\x02" for name, value in properties.items() if value]
    text = "".join(pairs)
    if text.count("\x01") != len(pairs) or text.count("\x02") != len(pairs) or properties.get(""):
        raise InvalidMessage(_story_of_bad_pair(properties), hint="Names and values are stored unescaped.")
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessage(f"The properties are not valid Unicode: {error.reason}.") from None
    if len(encoded) > MAX_PROPERTIES_BYTES:
        raise InvalidMessage(
            f"The properties take {len(encoded)} bytes; a record has room for {MAX_PROPERTIES_BYTES}.",
            hint="Put large values into the body.",
        )
    return encoded


def decode_properties(encoded: bytes | bytearray | memoryview) -> dict[str, str]:
    """The pairs that RocketMQ would see; whatever is no pair is skipped, bytes that are not UTF-8 become U+FFFD."""
    return parse_properties(str(encoded, "utf-8", "replace"))


def parse_properties(text: str) -> dict[str, str]:
    """The same from a string, as they travel in the header of a send."""
    pairs = text.split("\x02")
    if not pairs[-1]:
        pairs.pop()  # what is behind the last separator
    try:
        properties = dict([pair.split("\x01", 1) for pair in pairs])
    except ValueError:  # a segment without 0x01
        return _parse_loosely(pairs)
    return _parse_loosely(pairs) if "" in properties or "" in properties.values() else properties


def _parse_loosely(pairs: list[str]) -> dict[str, str]:
    properties = {}
    for pair in pairs:
        name, _, value = pair.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


def split_keys(text: str) -> list[str]:
    """The keys that a property KEYS holds: those by which an index finds the message."""
    return list(filter(None, text.split(KEY_SEPARATOR)))


def join_properties(encoded: bytes, more: bytes) -> bytes:
    """Two property strings in one; some clients leave the last separator out."""
    return encoded + more if not encoded or encoded[-1] == PAIR_END else encoded + b"\x02" + more


def without_properties(encoded: bytes, names: Container[str]) -> bytes:
    """The pairs but for those of these names, all others byte for byte as they are."""
    pairs = encoded.split(b"\x02")
    return b"\x02".join(pair for pair in pairs if pair.partition(b"\x01")[0].decode("utf-8", "replace") not in names)


def first_that_fits(*choices: bytes) -> bytes:
    """The first of these property strings that a record has room for; the last where it has room for none."""
    return next((each for each in choices if len(each) <= MAX_PROPERTIES_BYTES), choices[-1])


def is_reserved(name: str) -> bool:
    """Whether RocketMQ keeps the name for itself. What was read has such properties; whoever sends it on has none."""
    return name in RESERVED_NAMES or name.startswith(TRANSIENT_PREFIX)


def check_user_properties(properties: Mapping[str, str]) -> None:
    """Raises InvalidMessage for what RocketMQ's putUserProperty refuses: reserved names, empty names or values."""
    for name, value in properties.items():
        if is_reserved(name):
            raise InvalidMessage(f"Property {name!r} is reserved by RocketMQ.", hint="Choose another name for it.")
        if not name or not value:
            raise InvalidMessage(f"Property {name!r} has an empty name or value, and would vanish on the way.")
        if _has_separator((name, value)):
            raise InvalidMessage(
                f"Property {name!r} contains byte 0x01 or 0x02.", hint="RocketMQ separates properties with these two."
            )


def _has_separator(texts: Iterable[str]) -> bool:
    return any("\x01" in text or "\x02" in text for text in texts)


def _story_of_bad_pair(properties: Mapping[str, str]) -> str:
    for name, value in properties.items():
        if _has_separator((name, value)):
            return f"Property {name!r} contains byte 0x01 or 0x02, which separate properties."
    return "A property has an empty name."
