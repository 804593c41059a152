"""Topics that go, and what is asked about those that went.

A deletion is noted first, durably (`deletions.py`), and finished then: a crash between the two is mended by the next
start, and one before them has deleted nothing. The records stay in the log until they expire, and in no queue.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqspark.errors import TopicRemade
from rmqspark.store.deletions import Deletion
from rmqspark.store.reading.left_over import LeftOver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.clock import Clock
    from rmqspark.store.appending.writer import Writer
    from rmqspark.store.contents import Contents
    from rmqspark.store.dispatcher import Dispatcher
    from rmqspark.store.flush import Flusher
    from rmqspark.store.reading.time_search import TimeSearch


class TopicDeletions:
    """Deletes topics, and tells of each the last deletion."""

    def __init__(
        self,
        contents: Contents,
        dispatcher: Dispatcher,
        flusher: Flusher,
        writer: Writer,
        times: TimeSearch,
        clock: Clock,
    ) -> None:
        self._log, self._queues, self._noted = contents.log, contents.queues, contents.deletions
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._writer = writer
        self._times = times
        self._clock = clock

    def delete(self, topic: str) -> None:
        """Removes a topic's queues, for good.

        Raises OSError; then all or some of the queues may be there still, until it is called again or the store opened:
        with all they had where the deletion could not be noted, else empty (`left_over.py`).
        """
        self.note(topic)
        self.finish(topic)

    def note(self, topic: str) -> None:
        """Notes for good that a topic goes; who calls it finishes it, or else the next start does. Raises OSError; then
        nothing has gone."""
        # A clock may have been put back, and a deletion is told from those before by its time.
        now_ms = max(self._clock.now_ms(), self._writer.store_timestamp_ms, self.newest_ms + 1)
        self._noted.add(topic, Deletion(self._log.end_offset, now_ms, only_ours_since=True))

    def finish(self, topic: str) -> None:
        """Removes the queues of a topic whose deletion is noted. Raises OSError, as `delete` does; nothing of what is
        left is read any more."""
        self._dispatcher.forget(topic)
        try:
            self._flusher.checkpoint_without(topic)
            self._queues.remove_topic(topic)
        except OSError:
            self._queues.hide_topic(topic)
            raise

    # --- on a copy of a master's store

    def follow(self, told: Mapping[str, Deletion]) -> list[str]:
        """Notes for good what a master says of its deletions, for `finish_all`; returns the topics of which it is news.

        Each once the log has come to where the master's ended then. Not before: a master that loses the end of its log
        may get the next topic's messages there. Raises OSError; then none is noted.
        """
        end_offset, known = self._log.end_offset, self._noted.get
        news = {
            topic: each for topic, each in told.items() if each.log_end_offset <= end_offset and each != known(topic)
        }
        self._noted.follow(news)
        return list(news)

    def finish_all(self) -> None:
        """Removes what queues have of topics since deleted. Raises OSError; then some is left for the next call."""
        left_over = LeftOver(self._noted, self._log, self._times)
        for topic, queue_ids in left_over.whole_queues(self._queues):
            self._flusher.checkpoint_without(topic)
            self._queues.remove(topic, queue_ids)

    # --- those that went

    def deleted_ms(self, topic: str) -> int:
        """When a topic of this name was last deleted, ms; 0 if never."""
        deletion = self._noted.get(topic)
        return deletion.deleted_ms if deletion is not None else 0

    @property
    def newest_ms(self) -> int:
        """When a topic was last deleted, ms; 0 if never. Every deletion has a time above those before."""
        return self._noted.newest_ms

    def since(self, ms: int) -> set[str]:
        """Topics deleted after the deletion that has this time; there may be next ones of their names."""
        return self._noted.since(ms)

    def all(self) -> Mapping[str, Deletion]:
        """The last deletion of each topic, of the 20,000 newest."""
        return self._noted.all()

    def is_remade(self, topic: str, deleted_ms: int | None) -> bool:
        """Whether a topic of this name was deleted later than a reader knows; of one that does not say it, no."""
        return deleted_ms is not None and self.deleted_ms(topic) > deleted_ms

    def require_not_remade(self, topic: str, deleted_ms: int | None) -> None:
        """Raises TopicRemade where a topic of this name was deleted later than a reader knows; None: any will do."""
        if self.is_remade(topic, deleted_ms):
            raise TopicRemade(f"Topic {topic!r} was deleted since its offsets were looked up.")

    def took(self, topic: str, physical_offset: int) -> bool:
        """Whether the topic was deleted since its record at this physical offset was stored; there may be a next one of
        its name. Known for as long as the log has the record, of the 20,000 newest deletions."""
        deletion = self._noted.get(topic)
        return deletion is not None and deletion.took(
            physical_offset, partial(self._times.store_time_of, physical_offset)
        )
