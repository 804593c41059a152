"""What administration shows: topics, queues, groups, brokers as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqspark.client.administration.drain import seconds_to_catch_up
from rmqspark.display import table_html, time_text
from rmqspark.message_queue import MessageQueue
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """One queue: its messages are those at [min_offset, max_offset). `last_stored_ms` is 0 where nothing ever was."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_stored_ms: int


@dataclass(frozen=True, slots=True)
class TopicOnBroker:
    """How one broker has a topic. `perm` is like "rw"; `attributes` are RocketMQ's, e.g. message.type."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: str
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def message_type(self) -> str:
        """What its messages are: NORMAL, FIFO, DELAY, TRANSACTION or MIXED."""
        return self.attributes.get("message.type", "NORMAL")


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """`silent` are those of its brokers that do not answer, and why: what they have is in no other figure."""

    name: str
    brokers: list[TopicOnBroker]
    queues: list[QueueDescription]
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def broker_count(self) -> int:
        """Those that it is on, silent or not."""
        return len(self.brokers) + len(self.silent)

    @property
    def message_type(self) -> str | None:
        """What it is for, in small letters: one word, unless brokers differ; None where none answers."""
        return ", ".join(sorted({broker.message_type.lower() for broker in self.brokers})) or None

    @property
    def perm(self) -> str | None:
        """The same of what may be done with it; "" is nothing."""
        return ", ".join(sorted({broker.perm for broker in self.brokers})) if self.brokers else None

    @property
    def queue_count(self) -> int | None:
        """As far as known; None where none of its brokers answers."""
        return len(self.queues) if self.brokers or not self.silent else None

    @property
    def message_count(self) -> int | None:
        """Messages that can be read now, as far as known; None where none of its brokers answers."""
        if self.queue_count is None:
            return None
        return sum(queue.max_offset - queue.min_offset for queue in self.queues)

    def _repr_html_(self) -> str:
        rows = (
            (*each.queue[1:], each.min_offset, each.max_offset, time_text(each.last_stored_ms)) for each in self.queues
        )
        columns = ("broker", "queue", "min offset", "max offset", "last stored")
        count = "unknown" if self.message_count is None else counted(self.message_count, "message")
        return table_html(f"Topic {self.name}: {count}{_without(self.silent)}", columns, rows)


@dataclass(frozen=True, slots=True)
class GroupQueue:
    """How far a group is in one queue. Never committed is unknown: `committed` and `lag` are None then.

    `waiting_since_ms` is when the first message that is still to be consumed was stored; None where there is none, or
    where that is unknown.
    """

    queue: MessageQueue
    committed: int | None
    max_offset: int
    waiting_since_ms: int | None = None

    @property
    def lag(self) -> int | None:
        """Messages still to be consumed."""
        return None if self.committed is None else max(0, self.max_offset - self.committed)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A consumer that is connected now."""

    client_id: str
    address: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """`consumed_per_second` is how many messages it consumed lately; None where it was not asked: nothing waits.
    `silent` are brokers that do not answer, and why: of what they know of it nothing is here."""

    name: str
    members: list[GroupMember]
    queues: list[GroupQueue]
    consumed_per_second: float | None = None
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def lag(self) -> int | None:
        """Messages still to be consumed, as far as known; None where the group has committed nothing at all."""
        known = [queue.lag for queue in self.queues if queue.lag is not None]
        return sum(known) if known else None

    def behind_ms(self, now_ms: int) -> int | None:
        """The group is as far behind in time as it is in its latest queue; None where that is unknown."""
        if self.lag == 0:
            return 0
        waiting = [queue.waiting_since_ms for queue in self.queues if queue.waiting_since_ms is not None]
        return max(0, now_ms - min(waiting)) if waiting else None

    def caught_up_in_s(self, now_ms: int) -> int | None:
        """Seconds until nothing waits, if things go on as lately; None where it is unknown or it does not catch up."""
        if self.lag is None:
            return None
        return seconds_to_catch_up(self.lag, self.behind_ms(now_ms), self.consumed_per_second)

    def _repr_html_(self) -> str:
        lag = "unknown" if self.lag is None else counted(self.lag, "message")
        columns = ("topic", "broker", "queue", "committed", "max offset", "lag")
        rows = ((*each.queue, each.committed, each.max_offset, each.lag) for each in self.queues)
        title = f"Group {self.name}: {counted(len(self.members), 'member')}, lag {lag}{_without(self.silent)}"
        return table_html(title, columns, rows)


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker name and its addresses by broker id: 0 is the master, the others are slaves."""

    name: str
    cluster: str
    addresses: dict[int, str]


def _without(silent: Iterable[str]) -> str:
    names = ", ".join(sorted(silent))
    return f", without {names}, which does not answer" if names else ""
