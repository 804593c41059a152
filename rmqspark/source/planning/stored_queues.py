"""The queues of store directories, as a plan needs them: the part of `ClusterView` where there is no cluster.

`brokerName` is the name of the store's directory, since nothing in a store says what its broker was called.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument, StoreError, TopicNotFound
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.names import is_made_by_brokers
from rmqspark.source.offsets import StoreIdentity
from rmqspark.source.planning.planner import Snapshot
from rmqspark.source.positions import check_assigned
from rmqspark.store.direct.offline import OfflineStore
from rmqspark.store.disk_errors import as_store_errors
from rmqspark.store.inspection.store import is_in_use, stores_at
from rmqspark.store.posix_files import PosixFileSystem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from types import TracebackType
    from typing import Self

    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.subscription import Subscription
    from rmqspark.store.direct.lanes import EntrySource
    from rmqspark.store.direct.tails import Tail


class StoredQueues:
    """The subscribed queues of the stores at or in `directory`; close it. Raises InvalidArgument where there is no
    store, StoreError where one cannot be read."""

    def __init__(self, directory: str, subscription: Subscription) -> None:
        self.paths = {path.absolute().name: str(path.absolute()) for path in find_stores(Path(directory))}
        self._subscription = subscription
        with ExitStack() as opened:
            self._stores = {name: opened.enter_context(_open(path)) for name, path in self.paths.items()}
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.close()

    def snapshot(self) -> Snapshot:
        """The end of each subscribed queue, and what gives its offsets their meaning. Raises TopicNotFound, or
        InvalidArgument for a queue that is not there."""
        there = {
            MessageQueue(topic, name, queue_id): store.end((topic, queue_id))
            for name, store in self._stores.items()
            for topic, queue_id in store.queues()
        }
        stores = {name: StoreIdentity(*(store.identity or ("", 0))[:2]) for name, store in self._stores.items()}
        wanted = self._wanted(there)
        deletions_ms = {
            (topic, name): self._stores[name].deleted_ms(topic)
            for topic, name in {(queue.topic, queue.broker_name) for queue in wanted}
        }
        return Snapshot({queue: there[queue] for queue in wanted}, stores, deletions_ms=deletions_ms)

    def begins(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The lowest offset of each of these queues."""
        return {queue: self._stores[queue.broker_name].begin((queue.topic, queue.queue_id)) for queue in queues}

    def ends_of(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Where each of these queues ends now."""
        return {queue: self._stores[queue.broker_name].end((queue.topic, queue.queue_id)) for queue in queues}

    def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """The first message of each queue stored at or after that time, or the end where there is none."""
        return {
            queue: self._stores[queue.broker_name].offset_at((queue.topic, queue.queue_id), timestamp_ms)
            for queue in queues
        }

    def committed(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Nothing: offsets of groups are the broker's. Raises InvalidArgument."""
        raise InvalidArgument(
            f"startingOffsets=group: what group {group!r} has committed is known to its broker only.",
            hint="Start the broker on that store (rmq up --store DIR), or say where to start.",
        )

    def check_log(self, name: str) -> None:
        """Raises StoreError for a store that has queues alone, and nothing of what they lead to."""
        if not self._stores[name].view.log.segments:
            raise StoreError(
                f"The store at {self.paths[name]} has queues of messages, and no commit log: its directory commitlog "
                "is empty, or not there.",
                hint="Where RocketMQ was told to keep it elsewhere (storePathCommitLog), link that directory to this "
                "name.",
            )

    def source(self, queue: MessageQueue) -> EntrySource | None:
        """The entries of a queue."""
        return self._stores[queue.broker_name].source((queue.topic, queue.queue_id))

    def tails(self, task: Iterable[QueueRange]) -> dict[tuple[str, int], Tail]:
        """The entries of these ranges, in queues of one store, that the queues lack in their files."""
        found: dict[tuple[str, int], Tail] = {}
        for wanted in task:
            name = wanted.queue.topic, wanted.queue.queue_id
            tail = self._stores[wanted.queue.broker_name].tails.get(name)
            if tail is not None and tail.start < wanted.end:
                found[name] = tail.within(wanted.start, wanted.end)
        return found

    def _wanted(self, there: Collection[MessageQueue]) -> set[MessageQueue]:
        subscription = self._subscription
        if not subscription.topics and subscription.pattern is None:
            return {queue for queue in there if not is_made_by_brokers(queue.topic)}
        found = {queue for queue in there if subscription.includes(queue)}
        topics = {queue.topic for queue in there}
        for topic in subscription.topics:
            if topic not in topics:
                known = ", ".join(sorted(filterfalse(is_made_by_brokers, topics))) or "no topic"
                raise TopicNotFound(topic, hint=f"The store has: {known}.")
        check_assigned(subscription.queues or (), there)
        return found


def find_stores(directory: Path) -> list[Path]:
    """The directory itself, or those in it that are stores. Raises InvalidArgument where there are none, StoreError
    where one may not be looked into."""
    with as_store_errors("read", directory, PosixFileSystem(directory)):
        if not directory.is_dir():
            hint = "Tasks look for it on their own machines."
            raise InvalidArgument(f"store: {directory} is no directory.", hint=hint)
        if found := stores_at(directory):
            return found
    raise InvalidArgument(f"store: {directory} is no store, and none of the directories in it is one.")


def _open(path: str) -> OfflineStore:
    files = PosixFileSystem(path)
    with as_store_errors("read", path, files):
        return OfflineStore(files, is_open=is_in_use(files))
