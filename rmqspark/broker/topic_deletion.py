"""Takes a topic out of everything that a broker knows of it: tables, locks, waiting pulls and the store.

In memory that is one step, so that no request meets half of it. The store has it on disk at once, tables when they are
saved next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.store.message_store import MessageStore


class TopicDeletion:
    """Who is told that a topic goes. `on_deleted` is told at once, when the topic is in no table any more."""

    def __init__(
        self,
        tables: BrokerTables,
        store: MessageStore,
        appender: Appender,
        on_deleted: Callable[[str], None],
    ) -> None:
        self._tables = tables
        self._store = store
        self._appender = appender
        self._on_deleted = on_deleted

    def forget(self, topic: str) -> None:
        """From here on the topic is not there, nor is anything that a next one of its name could take for its own.

        Raises OSError: as long as the store cannot note it, nothing is forgotten; after that all is but its files.
        """
        tables = self._tables
        self._appender.append_gathered()  # or they would be the first messages of the next topic of this name
        is_known = tables.topics.get(topic) is not None or bool(self._store.queues.queue_ids(topic))
        if is_known:  # the store has room for so many deletions, and forgets the oldest
            self._store.deletions.note(topic)
            tables.known_deletion_ms = self._store.deletions.newest_ms
        tables.forget_topic(topic)
        self._on_deleted(topic)
        if is_known:
            self._store.deletions.finish(topic)

    def all(self) -> dict[str, tuple[int, int, bool]]:
        """The last one of each topic, as a slave is told."""
        return dict(self._store.deletions.all())
