"""Which queues of a topic are whose: RocketMQ's allocation strategies, by the names people type.

Every member computes its own share, from the same queues and the same client ids, both sorted; who does not see itself
among the ids gets nothing. Two that see different members for a moment may want the same queue: that one of them waits
is what leases are for. RocketMQ: AllocateMessageQueueStrategy; spec: semantics, section 8.2.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from hashlib import md5
from typing import TYPE_CHECKING

from rmqspark.message_queue import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

VIRTUAL_NODES = 10
ROOM_MARK = "@"  # room@name, in names of brokers; room@…, in client ids

Queues = list[MessageQueue]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One of NAMES. `rooms`: of machine-room, those whose brokers are read, all brokers where none is named (RocketMQ's
    strategy without `consumeridcs` ends with a NullPointerException, and its members read nothing); of
    machine-room-nearby, that of this member (a single one, or none: then it has what nobody lives beside)."""

    name: str = "averagely"
    rooms: tuple[str, ...] = ()

    def allocate(self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> Queues:
        """The share of `member`. Queues and members may come in any order, each once."""
        queues, members = sorted(queues), sorted(members)
        if self.name == "config":
            return queues
        if member not in members:
            return []
        if self.name == "machine-room":
            return machine_room(member, queues, members, self.rooms)
        return _BY_NAME[self.name](member, queues, members)

    @property
    def word(self) -> str:
        """The same for all who divide queues alike: they may live in different rooms, but not read different ones."""
        rooms = sorted(self.rooms) if self.name == "machine-room" else ()
        return ":".join(filter(None, (self.name, ",".join(rooms))))

    def leaves_all(self, queues: Iterable[MessageQueue]) -> bool:
        """Whether none of the queues is ever anybody's share: machine-room, and none is in the rooms it names."""
        return self.name == "machine-room" and not any(_is_in(queue, self.rooms) for queue in queues)


def read_strategy(value: str) -> Strategy:
    """Reads one of RocketMQ's strategies by name, in any case, those of machine rooms perhaps with rooms as brokers
    spell them: `machine-room:EAST,WEST`. Raises ValueError saying what is accepted."""
    typed, colon, listed = value.partition(":")
    name = typed.lower()
    rooms = tuple(filter(None, (room.strip() for room in listed.split(","))))
    if name not in NAMES:
        raise ValueError(f"one of {', '.join(NAMES)} is accepted.")
    if colon and name not in _WITH_ROOMS:
        raise ValueError(f"{name} takes no rooms.")
    if (colon and not rooms) or (name == "machine-room-nearby" and len(rooms) > 1):
        raise ValueError(f"it goes by rooms, like {_WITH_ROOMS[name]}.")
    return Strategy(name, rooms)


def averagely(member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> Queues:
    """Neighbouring queues, the first members one more: 8 queues for 3 members are 0-2, 3-5, 6-7."""
    index, (size, rest) = members.index(member), divmod(len(queues), len(members))
    start = index * size + min(index, rest)
    return list(queues[start : start + size + (index < rest)])


def circle(member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> Queues:
    """In turn: 8 queues for 3 members are 0 3 6, 1 4 7, 2 5."""
    return list(queues[members.index(member) :: len(members)])


def machine_room(member: str, queues: Sequence[MessageQueue], members: Sequence[str], rooms: Sequence[str]) -> Queues:
    """Queues of brokers in `rooms` alone, of all where there are none: neighbouring ones in equal number, what is left
    over in turn."""
    here = [queue for queue in queues if _is_in(queue, rooms)]
    index, (size, rest) = members.index(member), divmod(len(here), len(members))
    share = here[index * size : (index + 1) * size]
    return share + ([here[size * len(members) + index]] if index < rest else [])


def machine_room_nearby(member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> Queues:
    """Averagely among the members of each room; rooms in which nobody lives are shared out among all."""
    by_room: dict[str, Queues] = {}
    for queue in queues:
        by_room.setdefault(_room(queue.broker_name), []).append(queue)
    share: Queues = []
    for room, inside in sorted(by_room.items(), key=lambda item: (item[0] != _room(member), item[0])):
        residents = [each for each in members if _room(each) == room]
        if member in residents or not residents:
            share += averagely(member, inside, residents or members)
    return share


def consistent_hash(member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> Queues:
    """Each queue belongs to the next point on a ring on which every member has ten: few queues move when one comes."""
    ring = sorted((_hash(f"{each}-{number}"), each) for each in members for number in range(VIRTUAL_NODES))
    points = [point for point, _ in ring]
    return [queue for queue in queues if ring[bisect_left(points, _queue_hash(queue)) % len(ring)][1] == member]


def _queue_hash(queue: MessageQueue) -> int:
    topic, broker_name, queue_id = queue
    return _hash(f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]")


def _hash(key: str) -> int:
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:4], "big")


def _is_in(queue: MessageQueue, rooms: Sequence[str]) -> bool:
    return not rooms or (queue.broker_name.count(ROOM_MARK) == 1 and _room(queue.broker_name) in rooms)


def _room(name: str) -> str:
    return name.partition(ROOM_MARK)[0]


_BY_NAME: dict[str, Callable[[str, Sequence[MessageQueue], Sequence[str]], Queues]] = {
    "averagely": averagely,
    "circle": circle,
    "machine-room-nearby": machine_room_nearby,
    "consistent-hash": consistent_hash,
}
_WITH_ROOMS = {"machine-room": "machine-room:EAST,WEST", "machine-room-nearby": "machine-room-nearby:EAST"}
NAMES = ("averagely", "circle", "config", "machine-room", "machine-room-nearby", "consistent-hash")
