"""All consume queues of a store, by topic and queue id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidQueue
from rmqspark.protocol.names import SCHEDULE_TOPIC, check_topic, may_be_topic
from rmqspark.store.files import remove_tree
from rmqspark.store.queues.consume_queue import ConsumeQueue
from rmqspark.store.queues.write_behind import WaitingBytes, WriteBehindLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.store.files import FileSystem
    from rmqspark.store.log.segment import SegmentFiles

DIRECTORY: Final = "consumequeue"
_MAX_QUEUE_ID: Final = 0x7FFFFFFF


class ConsumeQueues:
    """Finds queues, makes them when their first message comes, and removes them with their topic.

    `by_topic` has all there are, by queue id, for those who look up many; only this class changes it. Whoever holds
    queues looks them up anew when `removals` has changed.
    """

    def __init__(
        self, files: FileSystem, segment_files: SegmentFiles, segment_bytes: int, delays_ms: tuple[int, ...]
    ) -> None:
        self._files = files
        self._segment_files = segment_files
        self._segment_bytes = segment_bytes
        self._delays_ms = delays_ms
        self.by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        self.removals = 0
        self._waiting = WaitingBytes()

    def load(self) -> None:
        """Finds the queues there are files for. Directories whose names cannot be a topic's are left alone."""
        if not self._files.exists(DIRECTORY):
            return
        for topic in self._files.listdir(DIRECTORY):
            if may_be_topic(topic) and self._files.is_directory(f"{DIRECTORY}/{topic}"):
                for name in self._files.listdir(f"{DIRECTORY}/{topic}"):
                    if name.isdecimal() and name == str(int(name)):
                        self._load_one(topic, int(name))

    def _load_one(self, topic: str, queue_id: int) -> None:
        queue = self._new(topic, queue_id)
        queue.segments.load()
        if queue.segments:
            self.by_topic.setdefault(topic, {})[queue_id] = queue

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self.by_topic.values():
            yield from queues.values()

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.by_topic.get(topic)
        return queues.get(queue_id) if queues is not None else None

    def get_or_make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue; a new one has no file until its first entry. Raises InvalidName, InvalidQueue."""
        queues = self.by_topic.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        if queue is None:
            check_topic(topic)
            if not 0 <= queue_id <= _MAX_QUEUE_ID:
                raise InvalidQueue(f"Queue {queue_id} of topic {topic} cannot exist.")
            queue = self.by_topic.setdefault(topic, {})[queue_id] = self._new(topic, queue_id)
        return queue

    def topics(self) -> list[str]:
        return sorted(self.by_topic)

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(self.by_topic.get(topic, ()))

    def ends(self, topic: str) -> dict[int, int]:
        """The max offset of each of a topic's queues, by their ids."""
        return {queue_id: queue.max_offset for queue_id, queue in self.by_topic.get(topic, {}).items()}

    def entries_total(self) -> int:
        """The sum of all max offsets: a cheap proof, at the next start, that no queue has been lost."""
        return sum(queue.max_offset for queue in self)

    def write_out(self) -> None:
        """Writes the entries that wait in memory to their files. Raises OSError; what is left waits on."""
        self._waiting.write_out()

    def make_room(self, size_bytes: int) -> None:
        """To be called before so many bytes of entries are added to what waits of queues. Raises OSError."""
        self._waiting.make_room(size_bytes)

    def sync_names(self) -> None:
        """Makes it durable that the files of the queues are there. Raises OSError.

        A process that is killed may have made them and not got as far as that; the next one finds them all the same.
        """
        for topic, queues in self.by_topic.items():
            directories = [queue.segments.directory for queue in queues.values() if queue.segments]
            for directory in (*directories, *([f"{DIRECTORY}/{topic}", DIRECTORY, ""] if directories else ())):
                self._files.sync_directory(directory)

    def remove_topic(self, topic: str) -> None:
        """Deletes a topic's queues and their files. Raises OSError; then those that are left are queues still, and go
        on where they end: a new one would begin in the old one's files (`hide_topic`)."""
        check_topic(topic)
        self.remove(topic, self.queue_ids(topic))
        if self._files.exists(f"{DIRECTORY}/{topic}"):
            remove_tree(self._files, f"{DIRECTORY}/{topic}")

    def hide_topic(self, topic: str) -> None:
        """Empties what is left of a topic's queues for readers, whatever their files have."""
        for queue in self.by_topic.get(topic, {}).values():
            queue.hide()

    def remove(self, topic: str, queue_ids: Iterable[int]) -> None:
        """Deletes the files of some queues of a topic; durable when this returns. Raises OSError, as above."""
        self.removals += 1
        for queue_id in queue_ids:
            queue = self.by_topic[topic][queue_id]
            has_files = bool(queue.segments)
            queue.clear()
            del self.by_topic[topic][queue_id]
            if has_files:
                self._files.sync_directory(queue.segments.directory)
        if not self.by_topic.get(topic, True):
            del self.by_topic[topic]

    def remove_all(self) -> None:
        """Deletes every queue: there is no log they could point into."""
        for topic in self.topics():
            self.remove_topic(topic)

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = queue_directory(topic, queue_id)
        segments = WriteBehindLog(self._files, self._segment_files, directory, self._segment_bytes, self._waiting)
        queue = ConsumeQueue(segments, topic, queue_id, segments.tail)
        if topic == SCHEDULE_TOPIC and queue_id < len(self._delays_ms):
            queue.delay_ms = self._delays_ms[queue_id]
        return queue


def queue_directory(topic: str, queue_id: int) -> str:
    """Where the files of a queue are."""
    return f"{DIRECTORY}/{topic}/{queue_id}"
