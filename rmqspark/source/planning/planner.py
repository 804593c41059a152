"""Which messages the next micro-batch holds. Pure: numbers in, numbers out.

Two rules keep a query right whatever the cluster does meanwhile:

- An entry of an offset is only ever compared with one of the same identity (store, incarnation, epoch). A queue that is
  new, or whose identity has changed, enters at a recorded position and is read from the next micro-batch on; so every
  range that is read has both its ends in the checkpoint, and a batch that is run again reads the same messages. (The
  very first batch has its beginning from another look: `_count_alike`.)
- A position never falls within one identity, whatever a broker reports: Spark would take it as an order to read again.

How limits are shared out is `shares`' and `admission`'s business, how tasks get their ranges that of `dealing`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from rmqspark.message_queue import MessageQueue
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.queue_range import QueueRange


@dataclass(frozen=True)
class Snapshot:
    """What the cluster said at one moment: the end of each queue, and which store each broker serves."""

    ends: Mapping[MessageQueue, int]
    stores: Mapping[str, StoreIdentity]  # by broker name
    begins: Mapping[MessageQueue, int] = field(default_factory=dict)  # asked only for queues that need it
    deletions_ms: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by topic and broker name; 0 if never
    left_out: frozenset[str] = frozenset()  # brokers that are registered and answer nothing
    copied_from: Mapping[MessageQueue, int] = field(default_factory=dict)  # where queues begin that only a slave shows

    def having(self, positions: Mapping[MessageQueue, int]) -> Snapshot:
        """Without queues that only a slave shows, and it does not have these positions: what it lacks its master may
        have. Until that is back they are out of sight."""
        lacking = {
            queue
            for queue, begin in self.copied_from.items()
            if queue in self.ends and not begin <= positions.get(queue, begin - 1) <= self.ends[queue]
        }
        return replace(self, ends={queue: end for queue, end in self.ends.items() if queue not in lacking})

    def store_of(self, queue: MessageQueue) -> StoreIdentity:
        """The identity that gives the queue's offsets their meaning."""
        store = self.stores[queue.broker_name]
        deleted_ms = self.deletions_ms.get((queue.topic, queue.broker_name), 0)
        return store._replace(topic_deleted_ms=deleted_ms) if deleted_ms else store

    @property
    def store_ids(self) -> dict[str, str]:
        """By broker name."""
        return {name: store.store_id for name, store in self.stores.items()}

    def shown_stores(self) -> dict[tuple[str, str], StoreIdentity]:
        """The same by topic and broker name, of all topics that have a queue in sight there."""
        return {(queue.topic, queue.broker_name): self.store_of(queue) for queue in self.ends}


NO_RESETS: Mapping[MessageQueue, int] = MappingProxyType({})


Admit = Callable[[Sequence[QueueRange]], list[int]]


def everything(backlogs: Sequence[QueueRange]) -> list[int]:
    """No limit."""
    return [backlog.size for backlog in backlogs]


def is_idle(start: Offsets, snapshot: Snapshot) -> bool:
    """Whether there is nothing behind `start`."""
    return all(end == start.positions.get(queue) for queue, end in snapshot.ends.items())


def needing_begin(
    start: Offsets, snapshot: Snapshot, resets: Mapping[MessageQueue, int] = NO_RESETS
) -> list[MessageQueue]:
    """The queues whose lowest offset `advance` may want to know: new ones, those with another end or store, and those
    that are set to another place."""
    return [
        queue
        for queue, end in sorted(snapshot.ends.items())
        if end < start.positions.get(queue, end + 1)
        or start.store_of(queue) != snapshot.store_of(queue)
        or queue in resets
    ]


def advance(
    start: Offsets,
    snapshot: Snapshot,
    *,
    admit: Admit = everything,
    ceiling: Offsets | None = None,
    reborn: Collection[str] = (),
    resets: Mapping[MessageQueue, int] = NO_RESETS,
) -> Offsets:
    """The end of the next micro-batch. `ceiling` is where Trigger.AvailableNow stops; `admit` says how many messages of
    what waits in each queue are let through.

    Topics in `reborn` have begun anew under their old names: their epoch rises, and so does that of topics whose known
    queues the cluster tells to be others now, or which lost numbers that were read, and of those with queues in
    `resets`, which the group has been set to another place in. Queues that the cluster does not show just now keep
    their entries, unless their topic has been made anew without them.
    """
    seen = snapshot.shown_stores()
    replaced = _replaced(start, seen)
    anew = replaced | _cut_short(start, snapshot) | (resets.keys() & snapshot.ends.keys())
    renewed = {*reborn, *(queue.topic for queue in anew)}
    entering = _entering(start, snapshot, renewed) | {
        queue: min(max(offset, snapshot.begins[queue]), snapshot.ends[queue])
        for queue, offset in resets.items()
        if queue in snapshot.ends
    }
    backlogs = [
        QueueRange(queue, position, max(position, _end(queue, snapshot, ceiling)))
        for queue, position in sorted(start.positions.items())
        if queue in snapshot.ends and queue not in entering
    ]
    # A position of a queue that went with its topic would pass for one in a new topic.
    carried_on = {queue: at for queue, at in start.positions.items() if queue not in replaced}
    positions = carried_on | entering
    for backlog, count in zip(backlogs, admit(backlogs), strict=True):
        positions[backlog.queue] = backlog.start + count
    raised = {topic: start.epochs.get(topic, 0) + 1 for topic in renewed}
    epochs = {**_first_epochs(start, snapshot), **start.epochs, **raised}
    end = Offsets(start.group, positions, {**start.stores, **seen}, epochs, left=start.left)
    unseen = carried_on.keys() - snapshot.ends.keys()
    return end.of_incarnations({queue: start.store_of(queue).incarnation for queue in unseen})


def _first_epochs(start: Offsets, snapshot: Snapshot) -> dict[str, int]:
    """The epochs of topics that `start` does not know: when one of the name was last deleted. So it lies above those
    that were, where the topic was known before, was deleted and left the offsets."""
    epochs: dict[str, int] = {}
    for (topic, _), deleted_ms in snapshot.deletions_ms.items():
        epochs[topic] = max(deleted_ms, epochs.get(topic, 0))
    return epochs


def _entering(start: Offsets, snapshot: Snapshot, renewed: Collection[str]) -> dict[MessageQueue, int]:
    """Where the queues stand that this step records under an identity that is new to them."""
    entering = {}
    for queue, end in snapshot.ends.items():
        position, before, now = start.positions.get(queue), start.store_of(queue), snapshot.store_of(queue)
        if position is None or before.begins_anew(now):
            entering[queue] = snapshot.begins[queue]
        elif before != now:  # the same store, its tail cut and perhaps grown again
            entering[queue] = min(position, end)
        elif queue.topic in renewed:
            entering[queue] = snapshot.begins[queue] if end < position else position
    return entering


def _replaced(start: Offsets, seen: Mapping[tuple[str, str], StoreIdentity]) -> set[MessageQueue]:
    """The known queues whose numbers have begun anew, though there may be fewer queues now."""
    return {
        queue
        for queue in start.positions
        if (now := seen.get((queue.topic, queue.broker_name))) is not None and start.store_of(queue).begins_anew(now)
    }


def _cut_short(start: Offsets, snapshot: Snapshot) -> set[MessageQueue]:
    """The known queues whose store lost its end in a crash, and with it messages that were read: others get their
    numbers."""
    return {
        queue
        for queue, end in snapshot.ends.items()
        if end < start.positions.get(queue, 0)
        and start.store_of(queue).incarnation != snapshot.store_of(queue).incarnation
    }


def unchanged(planned: Sequence[QueueRange], known: Offsets, snapshot: Snapshot) -> list[QueueRange]:
    """The ranges whose numbers count the same messages as when `known` was recorded, as far as they are there still;
    with those of queues that are out of sight."""
    shown = snapshot.shown_stores()
    stores = {each: known.store_of(each.queue) for each in planned}
    return [
        each
        for each, before in stores.items()
        if not before.begins_anew(shown.get((each.queue.topic, each.queue.broker_name), before))
    ]


def _end(queue: MessageQueue, snapshot: Snapshot, ceiling: Offsets | None) -> int:
    return snapshot.ends[queue] if ceiling is None else min(snapshot.ends[queue], ceiling.positions.get(queue, 0))


def out_of_sight(start: Offsets, ceiling: Offsets | None, snapshot: Snapshot) -> list[MessageQueue]:
    """The queues that are to be read up to `ceiling` yet, and are not shown, nor in another store or topic by now."""
    if ceiling is None:
        return []
    shown = snapshot.shown_stores()
    return [
        queue
        for queue, end in sorted(ceiling.positions.items())
        if start.positions.get(queue, 0) < end
        and queue not in snapshot.ends
        and not (then := ceiling.store_of(queue)).begins_anew(shown.get((queue.topic, queue.broker_name), then))
    ]


def ranges(start: Offsets, end: Offsets) -> list[QueueRange]:
    """What lies between two offsets. Queues that entered with `end` give nothing yet; those that were put back into the
    subscription, and those of brokers that have another name since, go on from where they were."""
    names = start.new_names({name: store.store_id for (_, name), store in end.stores.items()})
    start = start.under_names(names).reading(end.positions.__contains__)
    return [
        range_in(end.store_of(queue), queue, start.positions[queue], position)
        for queue, position in sorted(end.positions.items())
        if queue in start.positions and _count_alike(start, end, queue) and position > start.positions[queue]
    ]


def range_in(store: StoreIdentity, queue: MessageQueue, start: int, end: int) -> QueueRange:
    """A range of offsets that this store has given out."""
    return QueueRange(queue, start, end, store.topic_deleted_ms, store.store_id)


def _count_alike(start: Offsets, end: Offsets, queue: MessageQueue) -> bool:
    """Whether both count the same messages. Where the first batch is run again its beginning has just been looked up,
    perhaps in a store that has lost its end since the batch was planned: what is left of it is to be read."""
    before, then = start.identity(queue), end.identity(queue)
    is_looked_up_again = before.store.incarnation > then.store.incarnation
    if is_looked_up_again:
        before = before._replace(store=before.store._replace(incarnation=then.store.incarnation))
    return before == then
