"""Law 9: what a group committed never goes back, but for what a crash may take and what was on its way.

A broker writes committed offsets every few seconds. So a life that ends in a crash may forget what was committed in
its last moments, and nothing older. A commit of which nobody heard may still arrive, long after the next one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rmqspark.errors import OffsetNotFound, RmqError
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import (
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)

if TYPE_CHECKING:
    from rmqspark.message_queue import MessageQueue
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.loop import Life
    from rmqspark.testing.sim.node import Node
    from rmqspark.testing.sim.readers import QueueReader

GROUP: Final = "billing"
_TIMEOUT_MS: Final = 2_000
_NEVER: Final = 0
"""What is answered where nothing was committed: message 0 is still there."""


class Possible:
    """What a broker may have stored for one group and queue. Pure; times in seconds."""

    def __init__(self, saved_after_s: float) -> None:
        self.saved_after_s = saved_after_s
        """How long it may take until a commit is in the file."""
        self._at_start: set[int] = {_NEVER}  # of the life that it is in
        self._acked: list[tuple[float, int]] = []
        self._doubtful: Counter[int] = Counter()  # each may arrive once more
        self._ever: set[int] = {_NEVER}

    def committing(self, offset: int) -> None:
        """It is asked for. From now on it may be there."""
        self._doubtful[offset] += 1
        self._ever.add(offset)

    def committed(self, now_s: float, offset: int) -> None:
        """It was answered, by the life that was asked."""
        self._doubtful[offset] -= 1
        self._acked.append((now_s, offset))

    def crashed(self, now_s: float) -> None:
        """The life is over, and with it what it had not written."""
        saved = [at for at, (acked_s, _) in enumerate(self._acked) if acked_s < now_s - self.saved_after_s]
        left = {offset for _, offset in self._acked[saved[-1] if saved else 0 :]}
        self._at_start = left | self._on_the_way | (set() if saved else self._at_start)
        self._acked.clear()

    def succeeded(self) -> None:
        """A slave was made the master, that had looked at the table whenever it could."""
        self._acked.clear()
        self._at_start = set(self._ever)

    @property
    def most(self) -> int:
        """Behind that nobody has ever been."""
        return max(self._ever)

    @property
    def _on_the_way(self) -> set[int]:
        return set(+self._doubtful)

    def values(self) -> set[int]:
        now = {self._acked[-1][1]} if self._acked else self._at_start
        return now | self._on_the_way


class Committer:
    """Commits what a reader has come to, and asks what is committed."""

    def __init__(self, client: SimClient, reader: QueueReader, cluster: Cluster, possible: Possible) -> None:
        self.is_to_stop = False
        self.answers = 0
        self.possible = possible
        self.client = client
        self._reader = reader
        self._queue: MessageQueue = reader.queue
        self._cluster = cluster
        cluster.when_master_ends(self._queue.broker_name, lambda: possible.crashed(client.world.loop.time()))
        cluster.when_succeeded(self._queue.broker_name, possible.succeeded)

    async def run(self) -> None:
        """Until it is to stop."""
        while not self.is_to_stop:
            try:
                await (self._commit() if self.client.random.random() < 0.5 else self.ask())
            except RmqError as error:
                self.client.world.trace.reached(f"commit {type(error).__name__}")
            await self.client.pause(1.0)

    async def _commit(self) -> None:
        offset, life = self._reader.position, self._node.life
        self.possible.committing(offset)
        header = UpdateConsumerOffsetRequestHeader(
            GROUP, self._queue.topic, self._queue.queue_id, offset, self._queue.broker_name
        )
        address = await self.client.address_of(self._queue)
        answer = await self.client.call(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout_ms=_TIMEOUT_MS)
        answer.raise_for_code()
        is_masters = address.startswith(f"{self._node.host}:")  # what a slave takes is as good as on its way
        if is_masters and self._is_in(life):  # and no answer that was on its way when the broker died
            self.possible.committed(self.client.world.loop.time(), offset)

    async def ask(self) -> None:
        """Raises RmqError; what may not be is a violation."""
        life, world = self._node.life, self.client.world
        header = QueryConsumerOffsetRequestHeader(
            GROUP, self._queue.topic, self._queue.queue_id, bname=self._queue.broker_name
        )
        address = await self.client.address_of(self._queue)
        answer = await self.client.call(address, RequestCode.QUERY_CONSUMER_OFFSET, header, timeout_ms=_TIMEOUT_MS)
        try:
            found = answer.raise_for_code().header(OffsetResponseHeader).offset
        except OffsetNotFound:
            found = _NEVER
        if not self._is_in(life):
            return
        self.answers += 1
        may_be = sorted(self.possible.values() | set(world.expired.begins(self._queue)))
        most = max(self.possible.most, world.expired.begin(self._queue))
        if found > most:
            world.violated(f"Law 9: {GROUP} has committed {found} of {self._queue}, and never more than {most}")
        elif found not in may_be and not self._may_be_cut():
            world.violated(f"Law 9: {GROUP} has committed {found} of {self._queue}, where {may_be} may be")

    @property
    def _node(self) -> Node:
        """Where the master is by now."""
        return self._cluster.brokers[self._queue.broker_name]

    def _is_in(self, life: Life | None) -> bool:
        return life is self._node.life and self._node.is_up

    def _may_be_cut(self) -> bool:
        """Whether the queue may have become shorter than what was committed: such offsets are put into it."""
        return not self.client.world.is_whole(self._queue.broker_name)
