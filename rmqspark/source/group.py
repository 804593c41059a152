"""Progress reported to the broker as the committed offsets of a consumer group, so that lag can be seen there.

It is a report, not what the query goes by: that is Spark's checkpoint. What is reported is the start of the next batch:
Spark calls a source's `commit` one batch late, and never for the last one. A report that fails is made up for by the
next; a group's offset is never set back, not by a query that reads an old part again either.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rmqspark.client.group_reading import committed_offsets, pending_resets
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.offsets import Identity, Offsets

_log = logging.getLogger(__name__)


class GroupProgress:
    """Reports the offsets of one query. `enabled=False`: option commitOffsets says not to."""

    def __init__(self, client: ClusterClient, *, enabled: bool = True) -> None:
        self._client = client
        self._enabled = enabled
        self._attempted: Offsets | None = None
        self._reported: dict[MessageQueue, tuple[Identity, int]] = {}
        self._introduced: set[str] = set()  # to these brokers

    def report(self, reached: Offsets) -> None:
        """Commits what has grown since the last report. An idle query comes here a hundred times a second."""
        if not self._enabled or reached == self._attempted:
            return
        self._attempted = reached
        try:
            for queue in reached.positions:
                self._introduce(reached, queue)
            self._commit(reached.group, self._grown(reached), reached)
        except RmqError as error:
            _log.warning("The progress of group %s could not be reported: %s", reached.group, error)
            return
        self._reported = {queue: (reached.identity(queue), at) for queue, at in reached.positions.items()}

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

    def _grown(self, reached: Offsets) -> list[MessageQueue]:
        """The queues that have come further than was reported, or, before anything was, than is committed."""
        new = [queue for queue in reached.positions if queue not in self._reported]
        committed = committed_offsets(self._client, reached.group, new)
        grown = [queue for queue in new if (before := committed[queue]) is None or reached.positions[queue] > before]
        for queue, (identity, position) in self._reported.items():
            at = reached.positions.get(queue)
            if at is not None and (at > position or identity != reached.identity(queue)):
                grown.append(queue)
        return grown

    def _commit(self, group: str, queues: list[MessageQueue], reached: Offsets) -> None:
        """All on their way before the first answer is awaited."""
        answers = [
            self._client.broker(queue.broker_name).submit_commit(
                group, queue.topic, queue.queue_id, reached.positions[queue]
            )
            for queue in queues
        ]
        for answer in answers:
            answer.result().raise_for_code()
