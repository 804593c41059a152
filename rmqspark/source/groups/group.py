"""Progress reported to the broker as the committed offsets of a consumer group, so that lag can be seen there.

It is a report, not what the query goes by: that is Spark's checkpoint. What is reported is the start of the next batch:
Spark calls a source's `commit` one batch late, and never for the last one. A report that fails is made up for by the
next, or made again; a group's offset is never set back, not by a query that reads an old part again either.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from rmqspark.client.cluster.futures import asked
from rmqspark.client.cluster.group_reading import NO_OFFSET, committed_offsets, pending_resets
from rmqspark.client.cluster.patience import may_pass
from rmqspark.errors import RmqError, TopicRemade

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.capabilities import Capabilities
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.offsets import Identity, Offsets, StoreIdentity

    _Place: TypeAlias = tuple[Identity, int]

AGAIN_MS = 10_000

_log = logging.getLogger(__name__)


class GroupProgress:
    """Reports the offsets of one query. `enabled=False`: option commitOffsets says not to."""

    def __init__(self, client: ClusterClient, *, enabled: bool = True) -> None:
        self._client = client
        self._enabled = enabled
        self._attempted: Offsets | None = None
        self._failed_ms: int | None = None
        self._reported: dict[MessageQueue, _Place] = {}
        self._introduced: set[str] = set()  # to these brokers
        self._able: dict[str, Capabilities] = {}  # what each said on its connection

    def report(self, reached: Offsets) -> None:
        """Commits what has grown since the last report. An idle query comes here a hundred times a second, and tells
        now and then once more what it could not."""
        if not self._enabled:
            return
        self._doubt(reached)
        if reached == self._attempted and not self._is_due_again():
            return
        self._attempted, self._failed_ms = reached, None
        try:
            for queue in reached.positions:
                self._introduce(reached, queue)
            known = self._known(reached)
            grown = {
                queue: (reached.identity(queue), at)
                for queue, at in reached.positions.items()
                if at > known[queue][1] or reached.identity(queue) != known[queue][0]
            }
            self._commit(reached.group, grown)
        except RmqError as error:
            _log.warning("The progress of group %s could not be reported: %s", reached.group, error)
            self._failed_ms = self._client.clock.monotonic_ms() if may_pass(error) else None
            return
        self._reported = known | grown

    def _doubt(self, reached: Offsets) -> None:
        """A broker that there is a new connection to may have been started anew, and have forgotten the last that it
        was told. Never waits: who is not known yet is looked at the next time."""
        for name in {queue.broker_name for queue in reached.positions}:
            answer = asked(partial(self._ask_capabilities, name))
            able = answer.result() if answer.done() and answer.exception() is None else None
            if able is not None and not able.is_slave and able is not self._able.get(name):
                self._able[name] = able
                self._introduced.discard(name)
                self._reported = {q: place for q, place in self._reported.items() if q.broker_name != name}
                self._attempted = None

    def _ask_capabilities(self, broker_name: str) -> Future[Capabilities]:
        return self._client.broker(broker_name).ask_capabilities()

    def _is_due_again(self) -> bool:
        """Whether the last report failed for what may have passed by now."""
        return self._failed_ms is not None and self._client.clock.monotonic_ms() - self._failed_ms >= AGAIN_MS

    def _introduce(self, reached: Offsets, queue: MessageQueue) -> None:
        """A broker keeps no offset of a group it does not know. Ours get to know it when they are asked for resets
        (`rewinds`); a stock broker by a pull, which would take a reset's place."""
        if queue.broker_name not in self._introduced:
            broker = self._client.broker(queue.broker_name)
            if broker.capabilities().groups:
                pending_resets(broker, reached.group, {}).result()
            else:
                broker.pull(queue, reached.positions[queue], group=reached.group, max_count=1)
            self._introduced.add(queue.broker_name)

    def _known(self, reached: Offsets) -> dict[MessageQueue, _Place]:
        """Where the group is in these queues: as was reported, or, before anything was, as is committed. A query that
        reads an old part again is behind that for a while."""
        new = [queue for queue in reached.positions if queue not in self._reported]
        committed = committed_offsets(self._client, reached.group, new)
        found = {queue: (reached.identity(queue), NO_OFFSET if at is None else at) for queue, at in committed.items()}
        return found | {queue: place for queue, place in self._reported.items() if queue in reached.positions}

    def _commit(self, group: str, places: Mapping[MessageQueue, _Place]) -> None:
        """All on their way before the first answer is awaited. Of a topic that was made anew nothing is committed: the
        query is about to hear of that, too."""
        answers = [
            self._client.broker(queue.broker_name).submit_commit(
                group, queue.topic, queue.queue_id, at, _known_deletion_ms(identity.store)
            )
            for queue, (identity, at) in places.items()
        ]
        for answer in answers:
            with suppress(TopicRemade):
                answer.result().raise_for_code()


def _known_deletion_ms(store: StoreIdentity) -> int | None:
    """None of a stock broker, which tells nothing of itself."""
    return store.topic_deleted_ms if store.store_id else None
