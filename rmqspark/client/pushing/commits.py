"""What the brokers have been told of how far queues are consumed, and what they have still to be told. Never waits."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster.futures import after, at_hand, failing, or_else
from rmqspark.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from rmqspark.client.pushing.offsets import Offsets
    from rmqspark.client.pushing.process_queue import ProcessQueue
    from rmqspark.message_queue import MessageQueue

_log = logging.getLogger(__name__)


class Commits:
    """Of one consumer. `post` has its owner's thread do something later; `unlock`, where queues are read in order, lets
    others have a queue."""

    def __init__(
        self,
        offsets: Offsets,
        unlock: Callable[[MessageQueue], Future[Any]] | None,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._offsets = offsets
        self._unlock = unlock
        self._post = post
        self._told: dict[ProcessQueue, int] = {}

    def began(self, held: ProcessQueue) -> None:
        """Where the queue begins is committed already."""
        self._told[held] = held.next_offset

    def catch_up(self, all_held: Iterable[ProcessQueue]) -> None:
        """Commits where there is something new."""
        for held in all_held:
            if not held.dropped and self._told.get(held) != held.commit_offset:
                self._commit(held)
        self._offsets.flush()

    def commit(self, held: ProcessQueue) -> None:
        """Now. A disk that refuses it is asked again with the next round, which says so: the queue goes on."""
        self._commit(held)
        with suppress(StoreError):
            self._offsets.flush()

    def doubt(self, held: ProcessQueue) -> None:
        """Its broker was away: one that crashed may have forgotten the last it was told."""
        self._told.pop(held, None)

    def lose(self, held: ProcessQueue) -> None:
        """The queue is not held any more, and nobody is told how far it is consumed."""
        self._told.pop(held, None)
        self._offsets.forget(held.queue)

    def give_up(self, held: ProcessQueue) -> Future[Any]:
        """The last commit of a queue that is not held any more; only then may others have it, and not yet where a
        listener is still at work on it."""
        self._told.pop(held, None)
        unlock, queue = self._unlock, held.queue
        committed: Future[Any] = self._offsets.commit(queue, held.commit_offset, held.topic_deleted_ms, held.life)
        try:
            self._offsets.flush()
        except StoreError as error:  # the queue is given up all the same, or nobody could ever begin with it again
            committed = failing(error)
        if unlock is None or held.is_at_work:
            return committed
        return after(or_else(committed, lambda _: at_hand(None)), lambda _: unlock(queue))

    def _commit(self, held: ProcessQueue) -> None:
        queue_offset = self._told[held] = held.commit_offset

        def heard(done: Future[None]) -> None:
            if (error := done.exception()) is not None:
                self._post(partial(self._failed, held, queue_offset, error))

        self._offsets.commit(held.queue, queue_offset, held.topic_deleted_ms, held.life).add_done_callback(heard)

    def _failed(self, held: ProcessQueue, queue_offset: int, error: BaseException) -> None:
        _log.debug("Offset %d of %s is not committed, the next one will be: %s", queue_offset, held.queue, error)
        if self._told.get(held) == queue_offset:
            del self._told[held]
