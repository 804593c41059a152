"""The offset that Spark keeps in its checkpoint: how far each queue has been read, and in which store that was.

    {"v": 1, "group": "billing",
     "topics": {"orders": {"epoch": 0,
                           "brokers": {"broker-a": {"incarnation": 1, "storeId": "9f…", "offsets": {"0": 12}}}}}}

An offset means something only within the store that gave it out. `storeId` and `incarnation` are what the broker said
when the entry was made: another store, or the same one after a recovery that cut its tail, gives the same numbers to
other messages. `topicDeleted` is there where the broker has deleted a topic of this name before, and says when (ms):
the numbers of its queues have begun anew since. A stock broker says nothing about its store; its entries carry an
empty storeId and incarnation 0. `epoch` rises when it is seen, by any of these or by lower ends, that the queues of a
topic begin anew under the same names, and when the group is set to another place in them. A topic that enters has the
time of its last deletion as its first epoch: above those of another of its name that was read before, and forgotten.

A query that shares its group (groupMode=shared) has only what it owns in its offsets, each queue with the number of
its lease, `"leases": {"0": 7}` beside `offsets`, and its own name in the group, `"member": "…"`, beside `group`.

Queues that were taken out of the subscription keep their places under `left`, in the form of `topics`, with the
identities of then: put back, they go on there, and what became of them meanwhile is told as of a queue that was away.
An entry is of what was last seen of its broker. A place of another incarnation, for its queue had been taken out or was
out of sight when that was seen, has the number beside `offsets`: `"incarnations": {"0": 1}`.

Entries whose identity differs are never subtracted from one another (`planner.ranges`). Spark compares offsets as
text, so the form is canonical: keys in order, one form for each offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rmqspark.errors import InvalidArgument
from rmqspark.message_queue import MessageQueue

VERSION = 1
_MEMBERS = {"group", "left", "member", "topics", "v"}
_MEMBERS_OF_TOPIC = {"brokers", "epoch"}
_MEMBERS_OF_BROKER = {"incarnation", "incarnations", "leases", "offsets", "storeId", "topicDeleted"}
MOST_LEFT = 10_000
"""So many queues that are read no longer an offset remembers: it is written with every batch."""


class StoreIdentity(NamedTuple):
    """Which store an offset belongs to, as `capabilities` tells it, and when a topic of that name was last deleted
    there (0: never); the default is that of a stock broker."""

    store_id: str = ""
    incarnation: int = 0
    topic_deleted_ms: int = 0

    def begins_anew(self, now: StoreIdentity) -> bool:
        """Whether the queues' numbers have begun anew since. A deletion that is told no more, for RocketMQ wrote the
        broker's table of topics, is none."""
        return self.store_id != now.store_id or now.topic_deleted_ms > self.topic_deleted_ms


_STOCK = StoreIdentity()


class Identity(NamedTuple):
    """What gives an offset its meaning."""

    epoch: int
    store: StoreIdentity
    lease: int


@dataclass(frozen=True)
class Offsets:
    """The next offset to read of each queue, with the identities that give the numbers their meaning."""

    group: str
    positions: Mapping[MessageQueue, int] = field(default_factory=dict)
    stores: Mapping[tuple[str, str], StoreIdentity] = field(default_factory=dict)  # by topic and broker name
    epochs: Mapping[str, int] = field(default_factory=dict)  # by topic
    leases: Mapping[MessageQueue, int] = field(default_factory=dict)  # of a shared group
    member: str = ""  # likewise
    left: Offsets | None = None  # places of queues that are read no longer
    incarnations: Mapping[MessageQueue, int] = field(default_factory=dict)  # of places where it is not that of `stores`

    def store_of(self, queue: MessageQueue) -> StoreIdentity:
        """The store that the place of this queue is of."""
        store = self._entry(queue)
        return store._replace(incarnation=self.incarnations[queue]) if queue in self.incarnations else store

    def _entry(self, queue: MessageQueue) -> StoreIdentity:
        return self.stores.get((queue.topic, queue.broker_name), _STOCK)

    def identity(self, queue: MessageQueue) -> Identity:
        """What must be equal in two `Offsets` for their positions of a queue to be comparable."""
        return Identity(self.epochs.get(queue.topic, 0), self.store_of(queue), self.leases.get(queue, 0))

    def at(self, positions: Mapping[MessageQueue, int]) -> Offsets:
        """The same identities with other positions."""
        return replace(self, positions=dict(positions))

    def of_incarnations(self, known: Mapping[MessageQueue, int]) -> Offsets:
        """The same, with places of which it is known in which incarnation of their store they were taken."""
        others = {queue: number for queue, number in known.items() if number != self._entry(queue).incarnation}
        return replace(self, incarnations=others)

    def new_names(self, store_ids: Mapping[str, str]) -> dict[str, str]:
        """The names by now, by those of then, of brokers that are not among these, each given with its store: one whose
        store another one serves, whose name is new here, is that. A store that several serve has been copied."""
        stores = self.stores if self.left is None else {**self.left.stores, **self.stores}
        known = {name for _, name in stores}
        if known <= store_ids.keys():
            return {}
        served = Counter(store_ids.values())
        new = {
            store_id: name
            for name, store_id in store_ids.items()
            if store_id and served[store_id] == 1 and name not in known
        }
        return {
            name: new[store.store_id]
            for (_, name), store in stores.items()
            if name not in store_ids and store.store_id in new
        }

    def under_names(self, names: Mapping[str, str]) -> Offsets:
        """The same places, of brokers that have these names by now, by those that they had."""
        if not names:
            return self
        return replace(
            self,
            positions={under_new_name(queue, names): at for queue, at in self.positions.items()},
            stores={(topic, names.get(name, name)): store for (topic, name), store in self.stores.items()},
            incarnations={under_new_name(queue, names): number for queue, number in self.incarnations.items()},
            left=None if self.left is None else self.left.under_names(names),
        )

    def reading(self, is_read: Callable[[MessageQueue], bool]) -> Offsets:
        """The same places, where `is_read` says which queues are read: those have positions, the others are `left`.

        Of more than MOST_LEFT the rest is forgotten, first what had left before.
        """
        left = self.left or Offsets("")
        back = {queue: at for queue, at in left.positions.items() if is_read(queue)}
        leaving = {queue: at for queue, at in self.positions.items() if not is_read(queue)}
        if not back and not leaving:
            return self
        read = left.at(back)._with(self.at({queue: at for queue, at in self.positions.items() if queue not in leaving}))
        stay = left.at({queue: at for queue, at in left.positions.items() if queue not in back})
        gone = stay._with(self.at(leaving))
        kept = sorted(gone.positions, key=lambda queue: (queue not in leaving, queue))[:MOST_LEFT]
        kept_apart = gone.at({queue: gone.positions[queue] for queue in kept}) if kept else None
        return replace(read, group=self.group, leases=self.leases, member=self.member, left=kept_apart)

    def _with(self, later: Offsets) -> Offsets:
        """The places of both; those of `self` were recorded before. Where the numbers of its queues have begun anew
        since, they count no more; where a store has only lost its end since, that is still to be told. Of a store that
        tells nothing of itself only the topic's epoch says that they have."""
        before, since = self._entries(), later._entries()
        valid = {
            key: store._replace(incarnation=now.incarnation)  # the places themselves keep that of then
            for key, store in before.items()
            if not store.begins_anew(now := since.get(key, store))
        }
        anew = {topic for topic, epoch in later.epochs.items() if epoch != self.epochs.get(topic, epoch)}
        places = {
            queue: at
            for queue, at in self.positions.items()
            if (store := valid.get(queue[:2])) is not None and (store.store_id or queue.topic not in anew)
        }
        both = Offsets("", {**places, **later.positions}, {**since, **valid}, {**self.epochs, **later.epochs})
        return both.of_incarnations(
            {
                queue: (later if queue in later.positions else self).store_of(queue).incarnation
                for queue in both.positions
            }
        )

    def _entries(self) -> dict[tuple[str, str], StoreIdentity]:
        """The stores of the queues that have a place, by topic and broker name."""
        return {(queue.topic, queue.broker_name): self._entry(queue) for queue in self.positions}

    def to_json(self) -> dict[str, Any]:
        """The canonical document; equal offsets give equal text."""
        shared = {"member": self.member} if self.member else {}
        left = {"left": self.left._topics()} if self.left is not None and self.left.positions else {}
        return {"group": self.group, **left, **shared, "topics": self._topics(), "v": VERSION}

    def _topics(self) -> dict[str, Any]:
        topics: dict[str, Any] = {}
        for queue in sorted(self.positions):
            epoch, store = self.epochs.get(queue.topic, 0), self._entry(queue)
            brokers = topics.setdefault(queue.topic, {"brokers": {}, "epoch": epoch})["brokers"]
            entry = brokers.setdefault(
                queue.broker_name, {"incarnation": store.incarnation, "offsets": {}, "storeId": store.store_id}
            )
            if store.topic_deleted_ms:
                entry["topicDeleted"] = store.topic_deleted_ms
            entry["offsets"][str(queue.queue_id)] = self.positions[queue]
            if queue in self.incarnations:
                entry.setdefault("incarnations", {})[str(queue.queue_id)] = self.incarnations[queue]
            if lease := self.leases.get(queue):
                entry.setdefault("leases", {})[str(queue.queue_id)] = lease
        return topics

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Offsets:
        """Reads what `to_json` wrote. Raises InvalidArgument for anything else: a checkpoint of another source, say."""
        if not isinstance(document, Mapping) or type(document.get("v")) is not int:
            raise InvalidArgument(
                "The checkpoint holds no offset of the rmq source.", hint="Use another checkpointLocation."
            )
        if document["v"] != VERSION:
            raise InvalidArgument(
                f"The checkpoint was written in offset format {document['v']}; this version reads {VERSION}.",
                hint="Run the query with the version of rmqspark that wrote it.",
            )
        try:
            unknown = _unknown_members(document)
            if not unknown:
                left = _from_topics("", "", document["left"]) if "left" in document else None
                offsets = _from_topics(document["group"], document.get("member", ""), document["topics"])
                return replace(offsets, left=left)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidArgument(f"The offset in the checkpoint is damaged: {error!r}.") from error
        raise InvalidArgument(
            f"The checkpoint was written by a later version of rmqspark: its offset has {', '.join(sorted(unknown))}.",
            hint="Run the query with the version of rmqspark that wrote it.",
        )


def under_new_name(queue: MessageQueue, names: Mapping[str, str]) -> MessageQueue:
    return queue._replace(broker_name=names.get(queue.broker_name, queue.broker_name))


def _unknown_members(document: Mapping[str, Any]) -> set[str]:
    """Those that this version does not write. Read without them the places may mean something else, and they would be
    gone from the next offset."""
    unknown = {*document} - _MEMBERS
    for topics in (document["topics"], document.get("left", {})):
        for topic in topics.values():
            unknown |= {*topic} - _MEMBERS_OF_TOPIC
            for broker in topic["brokers"].values():
                unknown |= {*broker} - _MEMBERS_OF_BROKER
    return unknown


def _from_topics(group: str, member: str, topics: Mapping[str, Any]) -> Offsets:
    positions: dict[MessageQueue, int] = {}
    stores: dict[tuple[str, str], StoreIdentity] = {}
    epochs: dict[str, int] = {}
    leases: dict[MessageQueue, int] = {}
    incarnations: dict[MessageQueue, int] = {}
    for topic, topic_entry in topics.items():
        epochs[topic] = int(topic_entry["epoch"])
        for broker_name, entry in topic_entry["brokers"].items():
            stores[topic, broker_name] = StoreIdentity(
                str(entry["storeId"]), int(entry["incarnation"]), int(entry.get("topicDeleted", 0))
            )
            positions.update(_positions(topic, broker_name, entry["offsets"]))
            leases.update(_positions(topic, broker_name, entry.get("leases", {})))
            incarnations.update(_positions(topic, broker_name, entry.get("incarnations", {})))
    return Offsets(str(group), positions, stores, epochs, leases, str(member), incarnations=incarnations)


def _positions(topic: str, broker_name: str, offsets: Mapping[str, Any]) -> Iterator[tuple[MessageQueue, int]]:
    for queue_id, offset in offsets.items():
        if type(offset) is not int or offset < 0:
            raise ValueError(f"{topic}/{broker_name}/{queue_id} has offset {offset!r}")
        yield MessageQueue(topic, broker_name, int(queue_id)), offset
