"""Where reading starts or ends: one word for all queues, a moment, or an offset for each queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqspark.errors import InvalidArgument, NotSupported
from rmqspark.model import MessageQueue
from rmqspark.options import Moment, json_object

EARLIEST_MARK = -2  # Kafka's numbers for "earliest" and "latest" within a JSON of offsets
LATEST_MARK = -1


@dataclass(frozen=True)
class Earliest:
    """The first message that is still there."""


@dataclass(frozen=True)
class Latest:
    """Behind the last message there is when it is asked."""


@dataclass(frozen=True)
class AtTime:
    """The first message stored at or after `moment`; where there is none, an error, or the end if `else_latest`."""

    moment: Moment
    else_latest: bool = False


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each queue; EARLIEST_MARK and LATEST_MARK stand for the ends."""

    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)

    def of(self, queue: MessageQueue) -> int:
        if queue not in self.offsets:
            raise InvalidArgument(
                f"The offsets given say nothing about queue {queue}.",
                hint=f'Add {{"{queue.topic}": {{"{queue.broker_name}": {{"{queue.queue_id}": -2}}}}}}: -2 is earliest.',
            )
        return self.offsets[queue]


Position = Earliest | Latest | AtTime | AtOffsets


def read_position(value: str) -> Position:
    """Reads `earliest`, `latest` or `{"topic": {"broker": {"0": 12}}}`."""
    match value.lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case "group":
            raise NotSupported(
                "Starting at a group's committed offsets is not there yet in this version.",
                hint="Use earliest, latest or JSON with an offset for each queue.",
            )
    if not value.startswith("{"):
        raise ValueError('earliest, latest or JSON like {"topic": {"broker-a": {"0": 12}}} is accepted.')
    return AtOffsets(dict(_offsets(json_object(value))))


def read_assignment(value: str) -> frozenset[MessageQueue]:
    """Reads `{"topic": {"broker-a": [0, 1]}}`."""
    queues: set[MessageQueue] = set()
    for topic, broker, listed in _topic_brokers(json_object(value)):
        if not isinstance(listed, list) or not all(_is_queue_id(item) for item in listed):
            raise ValueError(f"{topic}.{broker} must list queue ids, like [0, 1].")
        queues.update(MessageQueue(topic, broker, queue_id) for queue_id in listed)
    if not queues:
        raise ValueError("it names no queue.")
    return frozenset(queues)


def _offsets(document: Mapping[str, Any]) -> list[tuple[MessageQueue, int]]:
    found = []
    for topic, broker, by_queue in _topic_brokers(document):
        if not isinstance(by_queue, dict):
            raise ValueError(f'{topic}.{broker} must map queue ids to offsets, like {{"0": 12}}.')
        for queue_id, offset in by_queue.items():
            if not (queue_id.isascii() and queue_id.isdigit()):
                raise ValueError(f"{queue_id!r} in {topic}.{broker} is not a queue id.")
            if type(offset) is not int or offset < EARLIEST_MARK:
                raise ValueError(f"{topic}.{broker}.{queue_id} must be an offset, -2 (earliest) or -1 (latest).")
            found.append((MessageQueue(topic, broker, int(queue_id)), offset))
    if not found:
        raise ValueError("it names no queue.")
    return found


def _topic_brokers(document: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    for topic, brokers in document.items():
        if not isinstance(brokers, dict):
            raise ValueError(f'{topic!r} must map broker names to queues, like {{"broker-a": …}}.')
    return [(topic, broker, inner) for topic, brokers in document.items() for broker, inner in brokers.items()]


def _is_queue_id(item: object) -> bool:
    return type(item) is int and item >= 0
