"""A store on a memory disk with tiny files, and short ways to fill it, break it and look into it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import BODY_CRC_AT, Record, decode_record, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.appending.made_records import made_of_committed
from rmqspark.store.appending.single_tables import SingleTable
from rmqspark.store.appending.singles import Single
from rmqspark.store.appending.targets import Targets
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft, Run
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rmqspark.store.draft import BulkAppended
    from rmqspark.store.files import FileSystem

SMALL = StoreConfig(
    mapped_file_size_commit_log=1024,
    mapped_file_size_consume_queue=100,
    max_hash_slot_num=50,
    max_index_num=40,
    max_open_files=3,
    delete_when=";".join(map(str, range(24))),
)
QUEUE_FILE_ENTRIES = 5  # the entry that begins a file is written at once, those behind it may wait in memory
HOST = pack_host("10.0.0.7", 10911)
EVERYTHING = 1 << 40
ODD = {b"!": b"k\1v\0", b"?": b"k\1" + bytes(1100) + b"v\2"}
"""Properties with zeros, by the last byte of a body."""


def properties_for(body: bytes, tags: str | None = None) -> bytes:
    """Where the body ends in one of `ODD`, they look as if a crash had taken some of them."""
    properties = encode_properties({"UNIQ_KEY": body.decode(), **({"TAGS": tags} if tags else {})})
    return properties + ODD.get(body[-1:], b"")


def draft(topic: str, queue_id: int, body: bytes, tags: str | None = None, sys_flag: int = 0) -> Draft:
    """A message whose body is its unique key, too."""
    record = encode_record(
        topic=topic, queue_id=queue_id, body=body, properties=properties_for(body, tags), sys_flag=sys_flag
    )
    return Draft(topic, queue_id, record, tags_code(tags), (body.decode(),))


def bulk(topic: str, queue_id: int, bodies: Sequence[bytes]) -> tuple[bytearray, np.ndarray]:
    """The same messages as a bulk send carries them."""
    records = [draft(topic, queue_id, body).record for body in bodies]
    return bytearray().join(records), np.array([len(record) for record in records], np.int32)


def single(topic: str, queue_id: int, body: bytes) -> Single:
    """The same message, known by its fields."""
    return Single(topic, queue_id, body, properties_for(body), 0, (body.decode(),), 0, 0, bytes(8), 0)


def table(queues: Sequence[tuple[str, int]], bodies: Sequence[bytes]) -> SingleTable:
    """Such messages in columns, with bodies as long as each other."""
    records = [draft(*queue, body).record for queue, body in zip(queues, bodies, strict=True)]
    targets = Targets()
    keys = np.frombuffer(b"".join(bodies), np.uint8).reshape(len(bodies), -1)
    target_of = np.array([targets.number_of(*queue) for queue in queues])
    sizes = np.array([len(record) for record in records])
    return SingleTable(targets, target_of, np.frombuffer(bytearray().join(records), np.uint8), sizes, 0, [keys])


class StoreBench:
    """A store that can be lost and opened again. `files` is its disk; the store's directory is `root`."""

    def __init__(self, config: StoreConfig = SMALL, *, files: FileSystem | None = None, root: str = "store") -> None:
        self.clock = ManualClock()
        self.config = config
        self.disk = MemoryFileSystem(clock=self.clock)
        self.files = (files or self.disk).within(root)
        self._whole = files or self.disk
        self._root = root
        self.store = self.open()

    def open(self) -> MessageStore:
        self.store = MessageStore.open(
            self._root, self.config, files=self._whole, clock=self.clock, entropy=SystemEntropy(1), store_host=HOST
        )
        return self.store

    def kill(self) -> MessageStore:
        """The process dies, the page cache stays; the store is opened again."""
        self.disk.kill()
        return self.open()

    def chance(self, seed: int) -> SystemEntropy:
        """What decides which of the unsynced changes a power loss leaves."""
        return SystemEntropy(seed)

    def lose_power(self, seed: int | None = None) -> MessageStore:
        """What was not synced is gone, all of it or (with a seed) some of it; the store is opened again."""
        self.disk.crash(None if seed is None else SystemEntropy(seed))
        return self.open()

    def reopen(self) -> MessageStore:
        self.store.close()
        return self.open()

    def send(self, topic: str, queue_id: int, *bodies: bytes, tags: str | None = None) -> None:
        self.store.append([draft(topic, queue_id, body, tags) for body in bodies])

    def send_bulk(self, topic: str, queue_id: int, *bodies: bytes) -> None:
        self.store.append_bulk(topic, queue_id, *bulk(topic, queue_id, bodies))

    def send_falsely(
        self, topic: str, queue_id: int, bodies: Sequence[bytes], false: Collection[int], properties: bytes = b""
    ) -> None:
        """A bulk in which the checksums of some rows are not those of their bodies."""
        records = [encode_record(topic=topic, body=body, properties=properties) for body in bodies]
        for row in false:
            records[row][BODY_CRC_AT] ^= 1
        sizes = np.array([len(record) for record in records])
        self.store.append_bulk(topic, queue_id, RecordBatch.from_sizes(bytearray().join(records), sizes))

    def commit(self, topic: str, queue_id: int, records: RecordBatch, half_offset: int) -> BulkAppended:
        """Appends the records of a half batch that is committed."""
        made = made_of_committed(Run(topic, queue_id, len(records)), records, half_offset)
        (appended,) = self.store.writer.append_made(made, lambda: None)
        return appended

    def expire(self, *, hours: int = 100) -> None:
        """Time passes, and what has been there for longer than it is kept goes."""
        self.store.checkpoint()
        self.clock.advance(hours=hours)
        while self.store.expire(self.clock.now_ms()).deleted:
            pass

    def bodies(self, topic: str, queue_id: int, start: int | None = None) -> list[bytes]:
        """What a reader finds in a queue from its first message on."""
        first = self.store.queues.min_offset(topic, queue_id) if start is None else start
        return [body for _, body in self.numbered_bodies(topic, queue_id, first)]

    def numbered_bodies(self, topic: str, queue_id: int, first: int) -> list[tuple[int, bytes]]:
        return [(record.queue_offset, record.body) for record in self.records(topic, queue_id, first)]

    def records(self, topic: str, queue_id: int, start: int | None = None) -> list[Record]:
        """What a reader finds in a queue, whole and sound."""
        first = self.store.queues.min_offset(topic, queue_id) if start is None else start
        result = self.store.read_bulk(topic, queue_id, first, EVERYTHING, max_count=EVERYTHING, max_bytes=EVERYTHING)
        ends = np.cumsum(result.sizes)
        body = bytes(result.body)
        records = [decode_record(body, int(at)) for at in ends - result.sizes]
        assert all(record.property_map()["UNIQ_KEY"] == record.body.decode() for record in records)
        return records

    def content(self, directory: str) -> dict[str, bytes]:
        """All files below a directory of the store, byte for byte."""
        if not self.files.exists(directory):
            return {}
        found: dict[str, bytes] = {}
        for name in self.files.listdir(directory):
            path = f"{directory}/{name}"
            if self.files.is_directory(path):
                found |= self.content(path)
            else:
                found[path] = self.read_file(path)
        return found

    def derived(self) -> list[bytes]:
        """Queues by name and index files in their order, byte for byte; files without an entry say nothing."""
        queues = [path.encode() + data for path, data in sorted(self.content("consumequeue").items()) if any(data)]
        return queues + [data for _, data in sorted(self.content("index").items()) if any(data)]

    def check_tail(self) -> None:
        """Behind the end of the log there are zeros, and after a power loss at this very moment there would be."""
        left = copy.deepcopy(self.disk)
        left.crash(None)
        for disk in (self.disk, left):
            files = disk.within(self._root)
            for name in files.listdir("commitlog") if files.exists("commitlog") else ():
                file = files.open(f"commitlog/{name}", read_only=True)
                behind = max(0, self.store.end_offset - int(name))
                assert not any(file.pread(file.size(), behind))

    def read_file(self, path: str) -> bytes:
        file = self.files.open(path, read_only=True)
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    def write_file(self, path: str, data: bytes, at: int = 0) -> None:
        """Changes a file behind the store's back, durably."""
        file = self.files.open(path)
        try:
            file.pwrite(data, at)
            file.fsync()
        finally:
            file.close()

    def write_abort(self, content: bytes = b"") -> None:
        """Leaves the mark of a process that did not close the store."""
        self.files.open("abort", create=True).close()
        self.write_file("abort", content)

    def flip_bit(self, path: str, at: int, bit: int = 0) -> None:
        self.write_file(path, bytes([self.read_file(path)[at] ^ 1 << bit]), at)
