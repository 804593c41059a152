"""Pulls held at the end of a queue until there is something to answer. Pure: no socket, no timer.

A parked pull is woken, that is, run once more with waiting forbidden, when
- messages arrive in its queue and its filter accepts one of their tags, or
- the periodic scan finds messages beyond its offset (it wakes whatever the filter says, so a pull whose queue only
  gets other tags still moves forward), or finds that its time is over.
All that comes to a queue is held against the filters of those who wait there. So of a pull by tags that was parked at
the very end it is known, without a look at the queue, that nothing before `passed_offset` is for it.
A pull whose topic is deleted is taken out at once: the next topic of the name has other messages at its offset.
So a pull may be answered one scan later than its own timeout; clients wait twice as long as they ask for.
RocketMQ: PullRequestHoldService; spec: semantics, section 8.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from rmqspark.broker.shares import Shares
from rmqspark.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

R = TypeVar("R")

_TAGS_A_PLACE = 4
_CHARACTERS_A_PLACE = 256


@dataclass(slots=True, eq=False)
class ParkedPull(Generic[R]):
    """A pull of `queue_offset`, the end of its queue when it came. `tag_codes` None accepts every message.

    One with a SQL92 expression is woken by every message and, where that is none it wants, parked again behind it: it
    `has_moved`, and is told so by the next scan.
    """

    topic: str
    queue_id: int
    queue_offset: int
    tag_codes: frozenset[int] | None
    deadline_ms: int  # monotonic
    request: R
    address: str = ""  # of the client, without its port
    text_length: int = 0  # characters that are kept with it
    has_moved: bool = False
    waited_enough: bool = False  # to be answered now, whatever there is
    was_at_end: bool = False  # of its queue, when it was parked
    passed_offset: int = -1  # the end of its queue when the scan took it out

    def may_skip(self, tag_codes: frozenset[int] | None) -> bool:
        """Whether one who wants these tags can be sent on to `passed_offset`: it has been shown all that came."""
        is_same = tag_codes is not None and tag_codes == self.tag_codes
        return is_same and self.was_at_end and self.passed_offset > self.queue_offset

    @property
    def places(self) -> int:
        """What it takes of the room for all: long texts are held, and filters of many tags found by each of them."""
        places = 1 + self.text_length // _CHARACTERS_A_PLACE
        return places if self.tag_codes is None else places + len(self.tag_codes) // _TAGS_A_PLACE


class _Waiting(Generic[R]):
    """The pulls at one queue, in the order they came, and by the tags they want: messages look only at whom they wake,
    however many others wait for something else."""

    __slots__ = ("_all", "_next", "_of_tag", "_unfiltered")

    def __init__(self) -> None:
        self._next = 0
        self._all: dict[int, ParkedPull[R]] = {}
        self._unfiltered: dict[int, None] = {}
        self._of_tag: dict[int, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, pull: ParkedPull[R]) -> None:
        number, self._next = self._next, self._next + 1
        self._all[number] = pull
        for numbers in self._places_of(pull):
            numbers[number] = None

    def take_wanting(self, max_offset: int, tags_codes: Callable[[], Iterable[int]]) -> list[ParkedPull[R]]:
        """Takes out those that accept one of the tags of messages before `max_offset`."""
        numbers = set(self._unfiltered)
        if self._of_tag:
            for code in set(tags_codes()) & self._of_tag.keys():
                numbers.update(self._of_tag[code])
        return [self._take(number) for number in sorted(numbers) if max_offset > self._all[number].queue_offset]

    def take_if(self, condition: Callable[[ParkedPull[R]], bool]) -> list[ParkedPull[R]]:
        return [self._take(number) for number in [number for number, pull in self._all.items() if condition(pull)]]

    def _take(self, number: int) -> ParkedPull[R]:
        pull = self._all.pop(number)
        for numbers in self._places_of(pull):
            del numbers[number]
        for code in pull.tag_codes or ():
            if not self._of_tag[code]:
                del self._of_tag[code]
        return pull

    def _places_of(self, pull: ParkedPull[R]) -> list[dict[int, None]]:
        if pull.tag_codes is None:
            return [self._unfiltered]
        return [self._of_tag.setdefault(code, {}) for code in pull.tag_codes]


class ParkedPulls(Generic[R]):
    """All pulls held by one broker, at most `limit` of them, half of them for one address; fewer where their filters,
    or other texts, are long."""

    def __init__(self, *, limit: int) -> None:
        self._places = Shares(limit)
        self._queues: dict[tuple[str, int], _Waiting[R]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, pull: ParkedPull[R]) -> None:
        """Holds `pull` until it is woken. Raises Busy when the broker holds as many as it may, of all or of its
        client."""
        places = pull.places
        if shortage := self._places.shortage(pull.address, places):
            raise Busy(f"This broker holds {self._count} waiting pulls already; {shortage}.")
        self._places.take(pull.address, places)
        self._queues.setdefault((pull.topic, pull.queue_id), _Waiting()).add(pull)
        self._count += 1

    def arrived(
        self, topic: str, queue_id: int, max_offset: int, tags_codes: Callable[[], Iterable[int]]
    ) -> list[ParkedPull[R]]:
        """Takes out the pulls that new messages wake. `tags_codes` is only called if somebody filters."""
        key = (topic, queue_id)
        waiting = self._queues.get(key)
        return [] if waiting is None else self._taken(key, waiting.take_wanting(max_offset, tags_codes))

    def due(
        self, now_ms: int, max_offset: Callable[[str, int], int], is_gone: Callable[[R], bool]
    ) -> list[ParkedPull[R]]:
        """Takes out what the periodic scan wakes; pulls of clients that are gone are dropped on the way."""
        woken: list[ParkedPull[R]] = []
        for key, waiting in list(self._queues.items()):
            self._taken(key, waiting.take_if(lambda pull: is_gone(pull.request)))
            end = max_offset(*key)
            due = self._taken(key, waiting.take_if(_is_due(now_ms, end)))
            for pull in due:
                pull.passed_offset = end
            woken += due
        return woken

    def take_topic(self, topic: str) -> list[ParkedPull[R]]:
        """Takes out all that wait at the topic's queues, for its deletion."""
        return [
            pull
            for key, waiting in list(self._queues.items())
            if key[0] == topic
            for pull in self._taken(key, waiting.take_if(lambda _: True))
        ]

    def take_all(self) -> list[ParkedPull[R]]:
        """Takes out everything, for the shutdown."""
        return [
            pull
            for key, waiting in list(self._queues.items())
            for pull in self._taken(key, waiting.take_if(lambda _: True))
        ]

    def _taken(self, key: tuple[str, int], pulls: list[ParkedPull[R]]) -> list[ParkedPull[R]]:
        """Accounts for pulls that have been taken out of their queue."""
        self._count -= len(pulls)
        for pull in pulls:
            self._places.give_back(pull.address, pull.places)
        if key in self._queues and not self._queues[key]:
            del self._queues[key]
        return pulls


def _is_due(now_ms: int, end: int) -> Callable[[ParkedPull[R]], bool]:
    return lambda pull: pull.has_moved or end > pull.queue_offset or now_ms >= pull.deadline_ms
