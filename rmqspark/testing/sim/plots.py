"""What may go on in a run besides its sends and reads; each kind is told in a module of its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from rmqspark.testing.sim.expired import messages_of
from rmqspark.testing.sim.places import Place
from rmqspark.testing.sim.readers import QueueReader

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable
    from typing import Any

    from rmqspark.message_queue import MessageQueue
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.places import Body
    from rmqspark.testing.sim.processes import SimProcess
    from rmqspark.testing.sim.world import World


class Plot(Protocol):
    """Begins with the faults, and goes on after the healing until it is settled."""

    topics: list[str]
    groups: list[str]
    """What it needs on all brokers."""

    @property
    def hosts(self) -> list[str]:
        """Where its clients are."""

    def begin(self) -> list[asyncio.Task[Any]]:
        """What must end by itself after `end`."""

    def healed(self) -> None:
        """Nothing goes wrong any more, and nobody has to make it."""

    def unsettled(self) -> str:
        """What is still to come, once nobody sends any more; empty where all is done."""

    def end(self) -> None:
        """It has been settled."""

    async def judge(self, operator: SimClient) -> None:
        """When it has ended, while servers still serve. Raises RmqError."""


class PlacesAndReaders:
    """A plot that is made of processes that come and go, and of those who read what they leave."""

    def __init__(self, world: World, namesrvs: list[str]) -> None:
        self.topics: list[str] = []
        self.groups: list[str] = []
        self.readers: list[QueueReader] = []
        self._world = world
        self._namesrvs = namesrvs
        self._places: list[Place] = []

    def add_place(self, name: str, host: str, make: Callable[[SimProcess], Body], *, may_freeze: bool = False) -> None:
        self._places.append(Place(self._world, name, host, self._namesrvs, make, may_freeze=may_freeze))

    @property
    def hosts(self) -> list[str]:
        return [place.host for place in self._places]

    def begin(self) -> list[asyncio.Task[Any]]:
        reading = [reader.client.spawn(reader.follow()) for reader in self.readers]
        return [*reading, *(self._world.spawn(place.run()) for place in self._places)]

    def names_seen(self, cluster: Cluster) -> Counter[str]:
        """Of the messages that readers were given, of those that have expired, and of those at offsets that were given
        once more when a slave was made the master: a reader that was further leaves these out."""
        queues = [reader.queue for reader in self.readers]
        seen = Counter(name for reader in self.readers for name in reader.names)
        seen += self._world.expired.names(queues)
        for queue in queues:
            if reused := self._world.heirs.reused.get(queue):
                found = messages_of(cluster.store_of(queue), queue)
                seen.update(each.keys[0] for each in found if each.queue_offset in reused and each.keys)
        return seen

    def healed(self) -> None:
        for place in self._places:
            place.is_healed = True

    def end(self) -> None:
        for place in self._places:
            place.is_to_stop = True
        for reader in self.readers:
            reader.is_to_stop = True


async def names_in(operator: SimClient, queues: Iterable[MessageQueue]) -> Counter[str]:
    """How often each message is there, or was until it expired, by its name. Raises RmqError."""
    queues = list(queues)
    found = operator.world.expired.names(queues)
    for queue in queues:
        reader = QueueReader(operator, queue)
        await reader.scan()
        found.update(reader.names)
    return found
