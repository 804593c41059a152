"""Which topics were deleted, and where the log ended then: what they have in it goes into no queue again.

A deletion removes the queues; the messages stay in the log until they expire. A recovery that goes through them, for it
is after a crash or a queue is missing, would put them into queues again, before the first messages of the next topic of
that name. Readers are told, for the queues of a topic made anew count from 0 again; that outlasts the messages, so an
entry stays when they expire. In `deletedtopics.json` at the root of the store, a file RocketMQ does not know and leaves
alone:

    {"<topic>": [<physical offset of the log's end>, <ms of the deletion>, <whether only ours wrote the log since>]}

What lies below that end is of the deleted topic: our own recovery, where it cuts the log, moves the entries along.
RocketMQ does not. Once it may have cut the log and continued it, a topic made anew may have messages where those of the
deleted one were; they were stored later, so from then on, and only then, time tells, and clocks have to be right.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rmqspark.protocol.learned import learned
from rmqspark.store.json_table import JsonTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.store.files import FileSystem

PATH: Final = "deletedtopics.json"
_MOST: Final = 20_000


class Deletion(NamedTuple):
    """The last deletion of one topic."""

    log_end_offset: int
    deleted_ms: int
    only_ours_since: bool = False  # whether nobody else has written the log; of an older entry it is not known

    def spares(self, physical_offsets: Positions, store_timestamps_ms: Positions) -> NDArray[np.bool_]:
        """Which of these messages of the topic came after it."""
        lie_behind = physical_offsets >= self.log_end_offset
        return lie_behind if self.only_ours_since else lie_behind | (store_timestamps_ms > self.deleted_ms)

    def took(self, physical_offset: int, stored_ms: Callable[[], int]) -> bool:
        """Whether one message of the topic came before it. `stored_ms` is asked where its place does not tell."""
        if physical_offset >= self.log_end_offset or self.only_ours_since:
            return physical_offset < self.log_end_offset
        return stored_ms() <= self.deleted_ms


class Deletions:
    """The table, of the 20,000 newest. `warning` is not empty if it had to be read from its copy.

    Raises DamagedFile where neither can be read."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._table = JsonTable(files, PATH)
        self._by_topic = self._table.load(parse) or {}
        self.newest_ms = max((each.deleted_ms for each in self._by_topic.values()), default=0)
        self.warning = self._table.warning

    def get(self, topic: str) -> Deletion | None:
        return self._by_topic.get(topic)

    def all(self) -> Mapping[str, Deletion]:
        """By topic, not to be changed."""
        return self._by_topic

    def since(self, ms: int) -> set[str]:
        """Topics that were deleted after the deletion that has this time."""
        return {topic for topic, each in self._by_topic.items() if each.deleted_ms > ms}

    def sync_name(self) -> None:
        """Makes durable what was read: a process that was killed may have renamed the file and not got as far as that.
        Raises OSError."""
        self._files.sync_directory("")

    def add(self, topic: str, deletion: Deletion) -> None:
        """Durable when this returns; its time is above `newest_ms`. Raises OSError; then it is not noted."""
        self._put({topic: deletion})

    def follow(self, news: Mapping[str, Deletion]) -> None:
        """Takes over a master's. Durable when this returns. Raises OSError; then none is noted."""
        if news:
            self._put(dict(sorted(news.items(), key=lambda item: item[1].deleted_ms)))

    def _put(self, news: Mapping[str, Deletion]) -> None:
        """The oldest first."""
        before = self._by_topic
        after = {name: each for name, each in before.items() if name not in news} | dict(news)
        try:
            self._save(dict(list(after.items())[-_MOST:]))
        except OSError:
            with suppress(OSError):  # it may be in the file: a start would act on it, though the topic goes on
                self._save(before)
            raise
        self.newest_ms = max(self.newest_ms, *(each.deleted_ms for each in news.values()))

    def follow_log_end(self, log_end_offset: int) -> None:
        """What is appended from here on is new, though a deletion has seen a longer log. Durable when this returns."""
        if any(each.log_end_offset > log_end_offset for each in self._by_topic.values()):
            ends = {name: min(each.log_end_offset, log_end_offset) for name, each in self._by_topic.items()}
            self._save({name: each._replace(log_end_offset=ends[name]) for name, each in self._by_topic.items()})

    def distrust_places(self) -> None:
        """RocketMQ wrote the store last: from now on time tells, of all deletions so far."""
        self._by_topic = {name: each._replace(only_ours_since=False) for name, each in self._by_topic.items()}

    def save(self) -> None:
        """Makes it durable that places are distrusted, before anything says that ours wrote the store last. Raises
        OSError."""
        if self._by_topic:
            self._save(self._by_topic)

    def _save(self, by_topic: dict[str, Deletion]) -> None:
        self._table.save(msgspec.json.encode(by_topic).decode())
        self._by_topic = by_topic


class _Entry(msgspec.Struct, array_like=True):
    """As it is written. What a later version says behind this is passed over, like members of the other tables that are
    not known: the topic is deleted all the same."""

    log_end_offset: int
    deleted_ms: int
    only_ours_since: bool = False


def parse(text: str) -> dict[str, Deletion]:
    """What the file says. Raises ValueError for what it cannot."""
    entries = msgspec.json.decode(text, type=learned(dict[str, _Entry]))
    return {topic: Deletion(*msgspec.structs.astuple(entry)) for topic, entry in entries.items()}
