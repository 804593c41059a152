"""Where reading starts or ends: one word for all queues, moments, or an offset for each queue."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from rmqspark.errors import InvalidArgument
from rmqspark.message_queue import MessageQueue
from rmqspark.options import Moment, json_object, moment
from rmqspark.protocol.names import check_topic

EARLIEST_MARK = -2  # Kafka's numbers for "earliest" and "latest" within a JSON of offsets
LATEST_MARK = -1
ENDING_OFFSETS = "endingOffsets"
ENDING_TIMES = "endingOffsetsByTimestamp"

T = TypeVar("T")


class Earliest(msgspec.Struct, frozen=True):
    """The first message that is still there."""


class Latest(msgspec.Struct, frozen=True):
    """Behind the last message there is when it is asked."""


class AtTime(msgspec.Struct, frozen=True):
    """The first message stored at or after `moment`; where all are older, an error, or the end if `else_latest`. Queues
    that hold nothing start at their end."""

    moment: Moment
    else_latest: bool = False


class AtOffsets(msgspec.Struct, frozen=True):
    """An offset for each queue; EARLIEST_MARK and LATEST_MARK stand for the ends. `option` says so, for errors."""

    offsets: Mapping[MessageQueue, int] = msgspec.field(default_factory=dict)
    option: str = "startingOffsets"

    def of(self, queue: MessageQueue) -> int:
        if queue not in self.offsets:
            mark, word = (LATEST_MARK, "latest") if self.option == ENDING_OFFSETS else (EARLIEST_MARK, "earliest")
            raise InvalidArgument(
                f"{self.option} says nothing about queue {queue}.",
                hint=f"Add {_for_queue(queue, str(mark))}: {mark} is {word}.",
            )
        return self.offsets[queue]


class BeforeEnd(msgspec.Struct, frozen=True):
    """So many messages before the end of each queue; its first message where it has fewer."""

    messages: int


class AtTimes(msgspec.Struct, frozen=True):
    """As AtTime, with a moment for each topic, or for single queues of it, which count first."""

    topics: Mapping[str, Moment] = msgspec.field(default_factory=dict)
    queues: Mapping[MessageQueue, Moment] = msgspec.field(default_factory=dict)
    else_latest: bool = False
    option: str = "startingOffsetsByTimestamp"

    def of(self, queue: MessageQueue) -> Moment:
        found = self.queues.get(queue) or self.topics.get(queue.topic)
        if found is None:
            is_end = self.option == ENDING_TIMES
            mark, meaning = ('"-0s"', "being now") if is_end else ("0", "being the first message of each")
            raise InvalidArgument(
                f"{self.option} says nothing about queue {queue}.",
                hint=f'Add {{"{queue.topic}": {mark}}} for all queues of the topic, {mark} {meaning}, or '
                f"{_for_queue(queue, mark)}.",
            )
        return found


class Committed(msgspec.Struct, frozen=True):
    """What the group has committed; in queues where it has not, the end (`else_latest`) or the first message."""

    group: str
    else_latest: bool = True


Position = Earliest | Latest | AtTime | AtTimes | AtOffsets | BeforeEnd | Committed


class OfGroup(msgspec.Struct, frozen=True):
    """The word `group`: it becomes `Committed` once the other options have said which group that is."""


def read_start(value: str) -> Earliest | Latest | BeforeEnd | AtOffsets | OfGroup:
    """Reads `earliest`, `latest`, `group`, `-1000` or `{"topic": {"broker": {"0": 12}}}`."""
    if value.lower() == "group":
        return OfGroup()
    if value.startswith("-") and value[1:].isascii() and value[1:].isdigit() and len(value) <= 19 and int(value):
        return BeforeEnd(-int(value))
    accepted = 'earliest, latest, group, -1000 or JSON like {"topic": {"broker-a": {"0": 12}}}'
    return _position(value, accepted, option="startingOffsets", for_times="startingTimestamp")


def read_end(value: str) -> Earliest | Latest | AtOffsets:
    """Reads `earliest`, `latest` or `{"topic": {"broker": {"0": 12}}}`."""
    accepted = 'latest or JSON like {"topic": {"broker-a": {"0": 12}}}'
    return _position(value, accepted, option=ENDING_OFFSETS, for_times="endingTimestamp")


def read_start_time(value: str) -> Moment:
    """Reads a moment, as `startingTimestamp` has it."""
    if re.fullmatch("-[0-9]+", value):
        raise ValueError("it is a number of messages, and belongs in startingOffsets. Here -10m, -2h, -1d is accepted.")
    return moment(value)


def read_times(value: str) -> AtTimes:
    """Reads `{"topic": 1700000000000}` and `{"topic": {"broker-a": {"0": "-10m"}}}`, also side by side."""
    document = json_object(value, 'JSON like {"topic": 1700000000000} or {"topic": {"broker-a": {"0": "-10m"}}}')
    topics = {topic: _moment(topic, given) for topic, given in document.items() if not isinstance(given, dict)}
    by_queue = {topic: given for topic, given in document.items() if topic not in topics}
    if not document:
        raise ValueError("it names no topic.")
    return AtTimes(topics, dict(_by_queue(by_queue, "times", _moment)))


def _position(value: str, accepted: str, *, option: str, for_times: str) -> Earliest | Latest | AtOffsets:
    match value.lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    if _is_time(value):
        raise ValueError(f"it is a time, and belongs in {for_times}. Here {accepted} is accepted.")
    if not value.startswith("{"):
        raise ValueError(f"{accepted} is accepted.")
    found = _by_queue(json_object(value, accepted), "offsets", _offset)
    if not found:
        raise ValueError("it names no queue.")
    return AtOffsets(dict(found), option)


def _is_time(value: str) -> bool:
    """Whether it is `-10m` or an ISO-8601 time."""
    try:
        return not value.isdigit() and moment(value) is not None
    except ValueError:
        return False


def _for_queue(queue: MessageQueue, value: str) -> str:
    """How to say this about a queue, in JSON."""
    return f'{{"{queue.topic}": {{"{queue.broker_name}": {{"{queue.queue_id}": {value}}}}}}}'


def check_order(start: Position, end: Position) -> None:
    """Raises InvalidArgument where reading would begin behind its end, as far as what was given alone shows it."""
    match start, end:
        case AtOffsets(), AtOffsets():
            for queue in sorted(start.offsets.keys() & end.offsets.keys()):
                if start.offsets[queue] > end.offsets[queue] >= 0:
                    raise InvalidArgument(
                        f"Queue {queue} would be read from offset {start.offsets[queue]} to {end.offsets[queue]}.",
                        hint="startingOffsets may not lie behind endingOffsets.",
                    )
        case ((AtTime() | AtTimes()), (AtTime() | AtTimes())):
            _check_moments(start, end)


def _check_moments(start: AtTime | AtTimes, end: AtTime | AtTimes) -> None:
    by_place = [each for each in (start, end) if isinstance(each, AtTimes)]
    queues = {queue for each in by_place for queue in each.queues}
    topics = {topic for each in by_place for topic in each.topics}
    places: list[MessageQueue | str] = [*sorted(queues), *sorted(topics)]
    for place in places or [""]:
        begins, ends = _moment_of(start, place), _moment_of(end, place)
        if begins is not None and ends is not None and begins.is_after(ends):
            first = start.option if isinstance(start, AtTimes) else "startingTimestamp"
            last = end.option if isinstance(end, AtTimes) else "endingTimestamp"
            where = f" for {place}" if place else ""
            raise InvalidArgument(f"{first} lies behind {last}{where}.", hint="Nothing could be read.")


def _moment_of(position: AtTime | AtTimes, place: MessageQueue | str) -> Moment | None:
    """Of a queue, or of a topic as a whole; None where nothing is said about it."""
    if isinstance(position, AtTime):
        return position.moment
    if isinstance(place, MessageQueue):
        return position.queues.get(place) or position.topics.get(place.topic)
    return position.topics.get(place)


def read_assignment(value: str) -> frozenset[MessageQueue]:
    """Reads `{"topic": {"broker-a": [0, 1]}}`."""
    queues: set[MessageQueue] = set()
    for topic, broker, listed in _topic_brokers(json_object(value, 'JSON like {"topic": {"broker-a": [0, 1]}}')):
        if not isinstance(listed, list) or not all(_is_queue_id(item) for item in listed):
            raise ValueError(f"{topic}.{broker} must list queue ids, like [0, 1].")
        check_topic(topic)
        queues.update(MessageQueue(topic, broker, queue_id) for queue_id in listed)
    if not queues:
        raise ValueError("it names no queue.")
    return frozenset(queues)


def assignment_of(queues: Iterable[MessageQueue]) -> str:
    """All of these queues as `read_assignment` reads them."""
    document: dict[str, dict[str, list[int]]] = {}
    for topic, broker_name, queue_id in sorted(queues):
        document.setdefault(topic, {}).setdefault(broker_name, []).append(queue_id)
    return json.dumps(document, ensure_ascii=False)


def check_assigned(queues: Iterable[MessageQueue], there: Collection[MessageQueue]) -> None:
    """Raises InvalidArgument for a queue that is not `there`; its hint names those of the same topic that are."""
    missing = sorted(set(queues).difference(there))
    if missing:
        others = [queue for queue in there if queue.topic == missing[0].topic]
        raise InvalidArgument(
            f"Queue {missing[0]}, named in assign, does not exist.",
            hint=f"There are: {assignment_of(others)}."
            if others
            else f"Topic {missing[0].topic!r} has no queue there.",
        )


def _by_queue(document: Mapping[str, Any], what: str, read: Callable[[str, object], T]) -> list[tuple[MessageQueue, T]]:
    """The values of `{"topic": {"broker": {"0": value}}}`; `read` gets the place of each for its complaint."""
    found = []
    for topic, broker, by_queue in _topic_brokers(document):
        if not isinstance(by_queue, dict):
            raise ValueError(
                f"{topic}.{broker} must map queue ids to {what}; queues go by their broker too: "
                f'{{"{topic}": {{"broker-a": {{"0": 12}}}}}}.'
            )
        for queue_id, value in by_queue.items():
            if re.fullmatch("0|[1-9][0-9]{0,9}", queue_id) is None:  # "00" would be a second name of "0"
                raise ValueError(f"{queue_id!r} in {topic}.{broker} is not a queue id.")
            found.append((MessageQueue(topic, broker, int(queue_id)), read(f"{topic}.{broker}.{queue_id}", value)))
    return found


def _offset(place: str, value: object) -> int:
    if type(value) is not int or value < EARLIEST_MARK:
        raise ValueError(f"{place} must be an offset, -2 (earliest) or -1 (latest).")
    return value


def _moment(place: str, value: object) -> Moment:
    if type(value) not in (int, str):
        raise ValueError(f"{place} must be a time.")
    try:
        return moment(str(value))
    except ValueError as error:
        raise ValueError(f"{place} cannot be {value!r}: {error}") from error


def _topic_brokers(document: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    for topic, brokers in document.items():
        if not isinstance(brokers, dict):
            raise ValueError(f'{topic!r} must map broker names to queues: {{"{topic}": {{"broker-a": …}}}}.')
    return [(topic, broker, inner) for topic, brokers in document.items() for broker, inner in brokers.items()]


def _is_queue_id(item: object) -> bool:
    return type(item) is int and item >= 0
