"""What a query can no longer read: found by comparing its offset with what the cluster says now, or when it is read.

Option failOnDataLoss decides what follows: an error that names queue and range, or a warning and a place to go on from.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.errors import BrokerNotRegistered, DataLoss, InvalidQueue, TopicNotFound, TopicRemade
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.offsets import Offsets, StoreIdentity
    from rmqspark.source.planning.planner import Snapshot
    from rmqspark.source.queue_range import QueueRange

HINT = "To go on without it, restart the query with failOnDataLoss=false."
TOPIC_IS_GONE = (TopicNotFound, TopicRemade)
"""What a broker says to a task whose topic was deleted when the batch was planned already, and made anew or not."""

_log = logging.getLogger(__name__)


class Loss(NamedTuple):
    """One queue whose messages up to `position` cannot be accounted for any more, why, and what to do then."""

    queue: MessageQueue
    position: int
    story: str
    hint: str = HINT

    def __str__(self) -> str:
        return f"Queue {self.queue} was read up to offset {self.position}, but {self.story}"


def shrunken(start: Offsets, snapshot: Snapshot) -> list[Loss]:
    """Queues that end before what was read of them, in the same store: a topic made anew, or a broker that flaps."""
    return overrun({queue: at for queue, at in start.positions.items() if _is_of(start, queue, snapshot)}, snapshot)


def overrun(positions: Mapping[MessageQueue, int], snapshot: Snapshot) -> list[Loss]:
    """Queues that end before these positions. Where only a slave shows them, its master may have more."""
    return [
        Loss(
            queue,
            position,
            f"now ends at {snapshot.ends[queue]}: the topic was made anew, or the broker lost its tail.",
        )
        for queue, position in sorted(positions.items())
        if snapshot.ends[queue] < position and queue not in snapshot.copied_from
    ]


def _is_of(start: Offsets, queue: MessageQueue, snapshot: Snapshot) -> bool:
    return queue in snapshot.ends and start.store_of(queue) == snapshot.store_of(queue)


def replaced(start: Offsets, snapshot: Snapshot) -> list[Loss]:
    """Queues of another identity than the offset is of, where something had been read: of brokers that serve another
    store, and of topics made anew, with fewer queues perhaps. What a crash took of a queue that is out of sight is told
    when it is back: its place waits for that."""
    read = {queue: at for queue, at in start.positions.items() if at > 0}
    return _renumbered(read, start, snapshot, read.keys() & snapshot.ends.keys())


def replaced_since(planned: Iterable[QueueRange], end: Offsets, snapshot: Snapshot) -> list[Loss]:
    """The same of ranges that a batch ending at `end` was to read when it was planned."""
    positions = {each.queue: each.start for each in planned}
    return _renumbered(positions, end, snapshot, positions.keys())


def _renumbered(
    positions: Mapping[MessageQueue, int], known: Offsets, snapshot: Snapshot, due: Collection[MessageQueue]
) -> list[Loss]:
    """`due`: the queues of which it is to be told now that their store lost its end."""
    shown = snapshot.shown_stores()
    return [
        Loss(queue, position, _replacement(before, now), _way_on(before, now, known.group))
        for queue, position in sorted(positions.items())
        if (before := known.store_of(queue)).begins_anew(now := shown.get((queue.topic, queue.broker_name), before))
        or (before.incarnation != now.incarnation and queue in due)
    ]


def strangers(start: Offsets, snapshot: Snapshot, resets: Collection[MessageQueue]) -> list[Loss]:
    """The queues of topics all of whose known queues are away, while others are there: those of another cluster. Those
    in `resets` are known as well, and enter anew: of them nothing is lost.

    Not those of a member of a shared group: it may have known but those of a broker that is away, and where it goes on
    in others is for its group to say."""
    if start.member:
        return []
    known, there = _by_topic(start.positions), _by_topic(snapshot.ends)
    story = "none of the queues known of its topic is there: is the checkpoint of another cluster?"
    return [
        Loss(queue, start.positions[queue], story)
        for topic in sorted(known.keys() & there.keys())
        if known[topic].isdisjoint(there[topic])
        for queue in sorted(known[topic].difference(resets))
    ]


def _by_topic(queues: Iterable[MessageQueue]) -> dict[str, set[MessageQueue]]:
    found: dict[str, set[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.topic, set()).add(queue)
    return found


def deleted(start: Offsets, topics: Collection[str]) -> list[Loss]:
    """The queues of topics that matched subscribePattern and are there no longer."""
    story = "its topic was deleted: messages may be gone that had not been read."
    return [
        Loss(queue, position, story) for queue, position in sorted(start.positions.items()) if queue.topic in topics
    ]


def _replacement(before: StoreIdentity, now: StoreIdentity) -> str:
    if before.store_id != now.store_id:
        return f"its broker now serves another store ({now.store_id or 'of a stock broker'})."
    if before.topic_deleted_ms < now.topic_deleted_ms:
        return "its topic was deleted or made anew: the messages that follow, if any had not been read, are gone."
    return (
        f"its broker has since lost the end of its store in a crash (incarnation {before.incarnation} is now "
        f"{now.incarnation}): offsets may have been given to other messages."
    )


def _way_on(before: StoreIdentity, now: StoreIdentity, group: str) -> str:
    """RocketMQ's brokers do not say which store they serve: it may be the same, with the same offsets."""
    if bool(before.store_id) == bool(now.store_id):
        return HINT
    return (
        "If RocketMQ's broker and ours serve one store in turns, start it where its group has come: with another "
        f"checkpointLocation, group={group}, startingOffsets=group. With failOnDataLoss=false all is read once more."
    )


def bear(losses: list[Loss], *, tolerant: bool) -> None:
    """What failOnDataLoss says to losses: DataLoss, which names the first and counts the others, or a warning each."""
    if losses and not tolerant:
        more = f" {len(losses) - 1} more queues are affected." if len(losses) > 1 else ""
        raise DataLoss(f"{losses[0]}{more}", hint=losses[0].hint)
    for loss in losses:
        _log.warning("%s failOnDataLoss is false: the query goes on with what is there.", loss)


def bear_no_outage(missed: Sequence[MessageQueue], snapshot: Snapshot) -> None:
    """Queues that are to be read now, of brokers that are out of sight: they are away, or have closed their topics to
    readers. An error that may pass. Or of brokers that show others: somebody has taken these away."""
    if missed and missed[0].broker_name in snapshot.stores:
        raise InvalidQueue(
            f"Queue {missed[0]} has not been read up to its end of when the query started, and its topic has fewer "
            "queues to read by now, or may not be read.",
            hint=f"Give it its queues back (rmq topic update {missed[0].topic} --read-queues N), and start the query "
            "again: it goes on from its checkpoint.",
        )
    if missed:
        raise BrokerNotRegistered(
            f"Broker {missed[0].broker_name!r} was there when the query started, and nothing that is read of it is in "
            f"sight any more: queue {missed[0]} has not been read up to its end of then.",
            hint="Start the query again when the broker is back: it goes on from its checkpoint.",
        )


class Fate(NamedTuple):
    """What has become of messages that a task finds missing."""

    of_one: str
    of_many: str


REMOVED = Fate("was removed before it was read", "were removed before they were read")
DELETED = Fate(
    "went with its topic, which was deleted before it was read",
    "went with their topic, which was deleted before they were read",
)
REPLACED = Fate(
    "went with the store of its broker, which serves another one now",
    "went with the store of their broker, which serves another one now",
)
BEYOND_THE_END = Fate("is not there: the queue ends before it", "are not there: the queue ends before them")
DAMAGED = Fate("is damaged or gone from the broker's store", "are damaged or gone from the broker's store")


def lose(queue: MessageQueue, first: int, end: int, fate: Fate, *, tolerant: bool, count: int | None = None) -> None:
    """The same of messages that a task finds missing: all of [first, end), or `count` among them."""
    which = f"offset {first}" if end - first == 1 else f"offsets {first} to {end - 1}"
    lost = end - first if count is None else count
    story = fate.of_one if lost == 1 else fate.of_many
    among = "" if lost == end - first else "among "
    text = f"{counted(lost, 'message')} of queue {queue}, {among}{which}, {story}."
    if not tolerant:
        raise DataLoss(text, hint=HINT)
    _log.warning("%s failOnDataLoss is false: what is missing is skipped.", text)
