"""Where push consumers keep how far they have come: with the brokers, or, who reads all queues alone, in a file.

The file is RocketMQ's, name and form (LocalFileOffsetStore; spec: semantics, section 8.4).
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from rmqspark.client.cluster.futures import at_hand, failing, then
from rmqspark.errors import BodyError, DamagedFile, InvalidArgument, RmqError, StoreError
from rmqspark.protocol.bodies.admin import ResetOffsetBody

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqspark.client.cluster.capabilities import StoreLife
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.response import Response

_SAY_WHERE: Final = "Say where they can be kept: config=PushConfig(local_offset_store_dir=...)."


class Offsets(Protocol):
    """Neither call waits, or raises what went wrong: their futures do."""

    def committed(self, queue: MessageQueue) -> Future[int | None]:
        """Before which offset everything is consumed; None where nothing was ever committed."""

    def commit(
        self,
        queue: MessageQueue,
        queue_offset: int,
        topic_deleted_ms: int | None = None,
        life: StoreLife | None = None,
    ) -> Future[None]:
        """Where a topic of the name was deleted later than `topic_deleted_ms` a broker takes it not, nor is one told
        that has another store by now than the offset is of."""

    def forget(self, queue: MessageQueue) -> None:
        """It is gone, or another member's: what this consumer has committed of it counts no more."""

    def flush(self) -> None:
        """Whatever was committed is now where it belongs, if the future of its commit said so. Raises StoreError."""


class GroupOffsets:
    """Those of a group whose members divide the queues: each broker has those of its own."""

    def __init__(self, cluster: ClusterClient, group: str) -> None:
        self._cluster = cluster
        self._group = group

    def committed(self, queue: MessageQueue) -> Future[int | None]:
        try:
            broker = self._cluster.broker(queue.broker_name)
            return broker.submit_query_offset(self._group, queue.topic, queue.queue_id)
        except RmqError as error:
            return failing(error)

    def commit(
        self,
        queue: MessageQueue,
        queue_offset: int,
        topic_deleted_ms: int | None = None,
        life: StoreLife | None = None,
    ) -> Future[None]:
        try:
            broker = self._cluster.broker(queue.broker_name)
            answer = broker.submit_commit(
                self._group, queue.topic, queue.queue_id, queue_offset, topic_deleted_ms, life
            )
        except RmqError as error:
            return failing(error)
        return then(answer, _raise_for_code)

    def forget(self, queue: MessageQueue) -> None:
        """The broker has, with the topic; or another member commits now."""

    def flush(self) -> None:
        """Brokers have been told already."""


class LocalOffsets:
    """Those of a consumer that broadcasts, in a file of its machine. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        """Raises DamagedFile for a file that is none of its kind."""
        self._path = path
        self._lock = threading.Lock()
        self._offsets = _read(path)
        self._is_saved = True

    def committed(self, queue: MessageQueue) -> Future[int | None]:
        return at_hand(self._offsets.get(queue))

    def commit(
        self,
        queue: MessageQueue,
        queue_offset: int,
        topic_deleted_ms: int | None = None,
        life: StoreLife | None = None,
    ) -> Future[None]:
        with self._lock:
            self._offsets[queue] = queue_offset
            self._is_saved = False
        return at_hand(None)

    def forget(self, queue: MessageQueue) -> None:
        with self._lock:
            self._is_saved = self._offsets.pop(queue, None) is None and self._is_saved

    def flush(self) -> None:
        with self._lock:
            if self._is_saved:
                return
            try:
                _write(self._path, ResetOffsetBody(self._offsets).encode())
            except OSError as error:
                raise _refused(self._path, "saved", error) from error
            self._is_saved = True


def local_offsets_path(directory: str | None, client_id: str, group: str) -> Path:
    """Where RocketMQ's clients keep them, unless a directory is named."""
    root = Path(directory or os.path.expanduser("~/.rocketmq_offsets"))
    if not directory and not root.is_absolute():  # a user whom the machine does not know, as containers have
        raise InvalidArgument(
            "This user has no home directory to keep offsets in.",
            hint=_SAY_WHERE,
        )
    return root / client_id / group / "offsets.json"


def _read(path: Path) -> dict[MessageQueue, int]:
    try:
        return ResetOffsetBody.decode(path.read_bytes()).offsetTable
    except FileNotFoundError:
        return {}
    except BodyError as error:
        raise DamagedFile(
            f"{path} has no offsets: {error.message}", hint="Take it away to begin where a new consumer does."
        ) from error
    except OSError as error:
        raise _refused(path, "read", error) from error


def _refused(path: Path, deed: str, error: OSError) -> StoreError:
    return StoreError(f"The offsets in {path} cannot be {deed}: {error.strerror}.", hint=_SAY_WHERE)


def _write(path: Path, content: bytes) -> None:
    """In one piece, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _raise_for_code(response: Response) -> None:
    response.raise_for_code()
