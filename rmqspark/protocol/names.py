"""Names and limits: what a topic, a group, a body may be called and how large they may get.

RocketMQ's TopicValidator, Validators and MixAll (spec: semantics, sections 2 to 4). Names become directory names in
the store, so everything that takes a name from outside passes it through `check_topic` or `check_group` first.
"""

from __future__ import annotations

import re
from enum import IntFlag
from typing import Final

from rmqspark.errors import InvalidArgument, InvalidMessage, InvalidName

MAX_TOPIC_LENGTH: Final = 127
MAX_RETRY_TOPIC_LENGTH: Final = 255  # topics that begin with RETRY_PREFIX or DLQ_PREFIX
MAX_GROUP_LENGTH: Final = 120
MAX_TRANSACTIONAL_ID_LENGTH: Final = 255  # of runs and attempts, too
MAX_CLIENT_ID_LENGTH: Final = 1024
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MOST_QUEUES: Final = 65_536  # that a topic can have on a broker; how many it may have is its brokers' to say
MASTER_ID: Final = 0  # of the brokers of one name; slaves have others

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
HALF_BATCH_TOPIC: Final = "RMQ_SYS_TRANS_HALF_BATCH_TOPIC"  # these five are ours
OP_HALF_BATCH_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_BATCH_TOPIC"
TXN_LEDGER_TOPIC: Final = "RMQ_SYS_TXN_LEDGER_TOPIC"
VOUCHER_TOPIC: Final = "RMQ_SYS_VOUCHER_TOPIC"
GROUP_OFFSET_TOPIC: Final = "RMQ_SYS_GROUP_OFFSET_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT_TOPIC: Final = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"

HIDDEN_TOPICS: Final = frozenset(
    {HALF_BATCH_TOPIC, OP_HALF_BATCH_TOPIC, TXN_LEDGER_TOPIC, VOUCHER_TOPIC, GROUP_OFFSET_TOPIC}
)
"""Topics that the broker alone writes to and reads; they are in no table and no listing."""

NOT_SENDABLE: Final = HIDDEN_TOPICS | {
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    SELF_TEST_TOPIC,
    OFFSET_MOVED_EVENT_TOPIC,
}
"""Topics that only the broker itself writes to."""

_JAVA_BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))

PARKING_TOPICS: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
"""Those of them where messages wait; bulks of such messages may be sent there."""

SYSTEM_TOPICS: Final = NOT_SENDABLE | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC, "CHECKPOINT_TOPIC"}

MAX_DELAY_LEVEL: Final = 18
"""RocketMQ's levels of delay are 1 to this, unless a broker is told other ones."""

INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
"""The producer group of what clients send of their own accord."""

CHECK_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The group whose committed offsets say how far half and op queue are done with."""

OFFSET_LOG_GROUP: Final = "CID_RMQ_SYS_OFFSET_LOG"
"""The group whose committed offset says which records of GROUP_OFFSET_TOPIC a table of offsets knows."""

PREDEFINED_GROUPS: Final = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        CHECK_GROUP,
    }
)
"""Consumer groups that exist on every broker without being created."""

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_LEGAL_FOR_BROKERS = re.compile(r"[a-zA-Z0-9_%|-][%|a-zA-Z0-9_.@-]*")
_LEGAL_IN_TRANSACTIONS = re.compile(r"[%|a-zA-Z0-9_.:@/-]+")


class Perm(IntFlag):
    """What a topic allows (RocketMQ's PermName)."""

    NONE = 0
    INHERIT = 1  # topics may be auto-created from this one
    WRITE = 2
    READ = 4
    PRIORITY = 8  # unused since RocketMQ 3, but seen in stored topics

    @property
    def readable(self) -> bool:
        return bool(self & Perm.READ)

    @property
    def writable(self) -> bool:
        return bool(self & Perm.WRITE)


def retry_topic(group: str) -> str:
    """Where the messages of `group` wait that are to be consumed again."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Where the messages of `group` lie that were consumed in vain as often as it allows."""
    return DLQ_PREFIX + group


def check_topic(name: str) -> str:
    """Returns `name` if a topic may be called so; raises InvalidName saying what would be right."""
    if not isinstance(name, str):
        raise InvalidName(f"A topic's name is text, not {name!r:.80}.")
    limit = MAX_RETRY_TOPIC_LENGTH if name.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_LENGTH
    return _check_name("topic", name, limit)


def may_be_topic(name: str) -> bool:
    """Whether a topic may be called so."""
    try:
        check_topic(name)
    except InvalidName:
        return False
    return True


def check_group(name: str) -> str:
    """Returns `name` if a consumer or producer group may be called so; raises InvalidName."""
    if not isinstance(name, str):
        raise InvalidName(f"A group's name is text, not {name!r:.80}.")
    return _check_name("group", name, MAX_GROUP_LENGTH)


def check_broker_name(name: str) -> str:
    """Returns `name` if a broker or a cluster may be called so; raises InvalidName.

    Brokers are named after hosts (RocketMQ's default), or `room@name` for allocateStrategy=machine-room. A broker has a
    topic of its own name, and so has a cluster: these alone are not held to `check_topic`.
    """
    if len(name) > MAX_TOPIC_LENGTH or not _LEGAL_FOR_BROKERS.fullmatch(name):
        raise InvalidName(
            f"{name[:32]!r} cannot be the name of a broker or a cluster.",
            hint=f"{_rule(MAX_TOPIC_LENGTH)}, and behind the first one . and @ too",
        )
    return name


def check_transactional(kind: str, name: str) -> str:
    """Returns `name` if a transactional id, a run, an attempt may be called so (`kind` says which); or InvalidName."""
    if not (len(name) <= MAX_TRANSACTIONAL_ID_LENGTH and _LEGAL_IN_TRANSACTIONS.fullmatch(name)):
        raise InvalidName(
            f"The {kind} {name[:32]!r} is not one.",
            hint=f"Use 1 to {MAX_TRANSACTIONAL_ID_LENGTH} of the characters a-z A-Z 0-9 _ - . : @ / % |",
        )
    return name


def stream_transactional_id(query_id: str) -> str:
    """What a streaming query writes under unless it is given another."""
    return f"spark-{query_id}"


def check_client_id(client_id: str) -> str:
    """Returns the id by which a client calls itself; raises InvalidArgument for none, or one too long to keep."""
    if not 0 < len(client_id) <= MAX_CLIENT_ID_LENGTH:
        raise InvalidArgument(f"A client id has 1 to {MAX_CLIENT_ID_LENGTH} characters, not {len(client_id)}.")
    return client_id


def check_sendable(topic: str) -> str:
    """Returns `topic` if clients may send to it; raises InvalidName for one that only the broker writes to."""
    if check_topic(topic) in NOT_SENDABLE:
        raise InvalidName(f"Topic {topic!r} is written by the broker alone.", hint="Send to a topic of your own.")
    return topic


def check_row_target(topic: str) -> str:
    """The same of a topic for rows and for bodies that do not parse, which are sent many at a time: RocketMQ's clients
    send no batches to retry topics either."""
    if check_sendable(topic).startswith(RETRY_PREFIX):
        raise InvalidName(
            f"Topic {topic!r} is for messages that consumers of its group send back.",
            hint="Send to a topic of your own.",
        )
    return topic


def trimmed_tag(text: str) -> str:
    """A tag, or an expression of several, without what RocketMQ's clients take from its ends: blanks and control
    characters of ASCII, as Java's `trim` does. Other white space is a part of a tag."""
    return text.strip(_JAVA_BLANKS)


def check_body(size_bytes: int, max_bytes: int = MAX_BODY_BYTES) -> None:
    """Raises InvalidMessage unless a message body of that size can be sent: 1 byte to `max_bytes`."""
    if size_bytes == 0:
        raise InvalidMessage("A message body cannot be empty.", hint="Send at least one byte.")
    if size_bytes > max_bytes:
        raise InvalidMessage(
            f"A message body of {size_bytes} bytes is over the limit of {max_bytes}.",
            hint="Compress it, split it, or send a reference to where it is kept.",
        )


def is_system_topic(topic: str) -> bool:
    """Whether RocketMQ itself uses the topic. A broker's own name and its cluster's are system topics besides."""
    return topic.startswith(SYSTEM_TOPIC_PREFIX) or topic in SYSTEM_TOPICS


def is_made_by_brokers(topic: str) -> bool:
    """Whether no user makes the topic: RocketMQ's own, and those for what a group could not consume."""
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def is_system_group(group: str) -> bool:
    return group in PREDEFINED_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def _check_name(kind: str, name: str, max_length: int) -> str:
    if not name:
        raise InvalidName(f"A {kind} name cannot be empty.", hint=_rule(max_length))
    if len(name) > max_length:
        raise InvalidName(f"The {kind} name {name[:32]!r}... has {len(name)} characters.", hint=_rule(max_length))
    if not _LEGAL.fullmatch(name):
        raise InvalidName(f"The {kind} name {name!r} has characters that are not allowed.", hint=_rule(max_length))
    return name


def _rule(max_length: int) -> str:
    return f"Use 1 to {max_length} of the characters a-z A-Z 0-9 _ - % |"
