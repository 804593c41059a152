"""A participant on a memory disk: half batches, votes and completions step by step, and what is readable then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from zlib_ng.zlib_ng import crc32

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import RmqError, TopicNotFound
from rmqspark.protocol.bodies.txn import AttemptName, HeldAttempt
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.row_properties import RowProperties
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import HEAD_BYTES, Record, decode_record, encode_record
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.participant.completer import Completer
from rmqspark.txn.participant.half_batch import Batch, HalfBatch, HalfName
from rmqspark.txn.participant.half_store import HalfStore
from rmqspark.txn.participant.hearsay import Verdict
from rmqspark.txn.participant.participant import Participant
from rmqspark.txn.participant.resolver import Resolver, ResolverConfig
from rmqspark.txn.ports import Complete, Vote

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

SMALL = StoreConfig(
    mapped_file_size_commit_log=8192,
    mapped_file_size_consume_queue=200,
    max_hash_slot_num=50,
    max_index_num=60,
    max_open_files=3,
    delete_when=";".join(map(str, range(24))),
)
T = "spark-1"
EVERYTHING = 1 << 40


class Sent(NamedTuple):
    """What one attempt sends for one queue: messages with these bodies."""

    topic: str
    queue_id: int
    bodies: Sequence[bytes]
    tags: str = ""


class Disk:
    """Flushes at once, in the same thread."""

    def __init__(self, bench: ParticipantBench) -> None:
        self._bench = bench
        self.hurried = 0

    async def flushed(self, end_offset: int) -> None:
        self._bench.store.flush()

    def hurry(self) -> None:
        self.hurried += 1


class ParticipantBench:
    """`verdicts` is what coordinators say when they are asked, and `meanwhile` is done before it arrives; `targets` are
    the topics there are."""

    def __init__(
        self,
        config: StoreConfig = SMALL,
        *,
        max_halves: int = 1000,
        max_bytes: int = 1 << 30,
        max_output_bytes: int = 1 << 20,
    ) -> None:
        self.clock = ManualClock()
        self.config = config
        self.files = MemoryFileSystem(clock=self.clock)
        self.targets = {"t", "u"}
        self.verdicts: dict[Batch, Verdict | RmqError] = {}
        self.asked: list[Batch] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self._max_output_bytes = max_output_bytes
        self._bounds = {"max_halves": max_halves, "max_bytes": max_bytes}
        self.start()

    def start(self) -> None:
        """A process opens the store and recovers."""
        self.store = MessageStore.open(
            "store",
            self.config,
            files=self.files,
            clock=self.clock,
            entropy=SystemEntropy(1),
            store_host=pack_host("10.0.0.7", 10911),
        )
        self.participant = Participant(**self._bounds)
        self.halves = HalfStore(self.store, self.clock)
        self.completer = Completer(
            self.participant, self.halves, check_target=self._check_target, broker_name="broker-a"
        )
        self.disk = Disk(self)
        self.resolver = Resolver(
            ResolverConfig(
                6_000,
                60_000,
                reads_unsynced=self.config.flush_disk_type == "ASYNC_FLUSH",
                max_output_bytes=self._max_output_bytes,
            ),
            self.participant,
            self.halves,
            self.completer,
            self.disk,
            self.clock,
            ask=self._ask,
        )
        self.resolver.recover()

    def kill(self) -> None:
        self.files.kill()
        self.start()

    def lose_power(self, seed: int | None = None) -> None:
        self.files.crash(None if seed is None else SystemEntropy(seed))
        self.start()

    def reopen(self) -> None:
        self.store.close()
        self.start()

    # --- requests

    def send(
        self, batch: Batch, *sent: Sent, partition: int = 0, attempt: str = "a", first_sequence: int = 0
    ) -> HeldAttempt:
        """Sends half batches of one attempt, each in the shape of `half`, under an epoch that the coordinator has
        announced; returns what the driver says of them."""
        self.participant.announce(batch)
        held = HeldAttempt(partition, attempt)
        for sequence, each in enumerate(sent, first_sequence):
            half, body = make_half(batch, partition, attempt, sequence, each)
            if self.resolver.known(half) is None:
                self.resolver.take(half, memoryview(body))
            held.halves += 1
            held.rows += half.rows
            held.bytes += half.body_bytes
            held.digest += half.body_crc32
        return held

    def vote(self, batch: Batch, *attempts: HeldAttempt, completed: int = -1) -> str:
        """Empty for yes."""
        answer = run(self.resolver.vote(Vote(*batch, attempts, completed)))
        return "" if answer.yes else answer.remark

    def commit(
        self,
        batch: Batch,
        *attempts: HeldAttempt,
        durable: bool = False,
        each_step: Callable[[], object] = lambda: None,
    ) -> list[tuple[str, int, int, int]]:
        """Where the messages went: topic, queue id, first offset, end."""
        names = [AttemptName(attempt.partition, attempt.attempt) for attempt in attempts]
        outputs = run(self.resolver.complete(Complete(*batch, True, names, durable)), each_step)
        assert all(output.brokerName == "broker-a" for output in outputs)
        return [(output.topic, output.queueId, output.fromOffset, output.toOffset) for output in outputs]

    def drop(self, batch: Batch) -> None:
        assert run(self.resolver.complete(Complete(*batch, commit=False))) == []

    def check_back(self, *, seconds: int = 0) -> None:
        self.clock.advance(seconds=seconds)
        asyncio.run(self.resolver.check_back())

    def delete(self, topic: str, *, anew: bool = False) -> None:
        """A topic is deleted, and made `anew` at once."""
        self.targets.discard(topic)
        self.store.deletions.delete(topic)
        if anew:
            self.targets.add(topic)

    def held(self) -> list[HalfName]:
        return sorted(half.name for half in self.participant.held())

    # --- what readers see

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        return [record.body for record in self.records(topic, queue_id)]

    def records(self, topic: str, queue_id: int = 0) -> list[Record]:
        return read_records(self.store, topic, queue_id)

    def _check_target(self, topic: str, queue_id: int) -> None:
        if topic not in self.targets:
            raise TopicNotFound(topic)

    async def _ask(self, batch: Batch) -> Verdict:
        self.asked.append(batch)
        verdict = self.verdicts.get(batch, Verdict(is_open=True))
        self.meanwhile()
        if isinstance(verdict, RmqError):
            raise verdict
        return verdict


def read_records(store: MessageStore, topic: str, queue_id: int = 0) -> list[Record]:
    first = store.queues.min_offset(topic, queue_id)
    found = store.read_bulk(topic, queue_id, first, EVERYTHING, max_count=EVERYTHING, max_bytes=EVERYTHING)
    ends = np.cumsum(found.sizes)
    records = [decode_record(bytes(found.body), int(at)) for at in ends - found.sizes]
    assert [record.queue_offset for record in records] == [*range(first, first + len(records))]
    return records


def read_bodies(store: MessageStore, topic: str) -> list[bytes]:
    return [record.body for record in read_records(store, topic)]


def make_half(batch: Batch, partition: int, attempt: str, sequence: int, sent: Sent) -> tuple[HalfBatch, bytearray]:
    """A half batch and its body: every other one as rows; records with their sizes ahead unless all are equally
    long."""
    name = HalfName(batch, partition, attempt, sequence)
    if sequence % 2:
        return _half_of_rows(name, sent)
    records = [
        encode_record(
            topic=sent.topic,
            queue_id=sent.queue_id,
            body=body,
            properties=encode_properties({"UNIQ_KEY": body.decode()[:64], "TAGS": sent.tags}),
        )
        for body in sent.bodies
    ]
    sizes = {len(record) for record in records}
    record_size = sizes.pop() if len(sizes) == 1 else 0
    ahead = b"" if record_size else np.array([len(record) for record in records], ">i4").tobytes()
    body = bytearray(ahead + b"".join(records))
    half = HalfBatch(
        name, sent.topic, sent.queue_id, len(records), record_size, len(body), crc32(body), has_tags=bool(sent.tags)
    )
    return half, body


def _half_of_rows(name: HalfName, sent: Sent) -> tuple[HalfBatch, bytearray]:
    count, column = len(sent.bodies), _column_of(sent.bodies)
    crcs, properties = body_crcs(column.values, column.spans()), None
    if sent.tags:
        tags, keys = Column.constant(sent.tags.encode(), count), _column_of([body[:64] for body in sent.bodies])
        properties = RowProperties.of(count, tags=tags, keys=keys)
    rows = BulkRows(5, bytes(8), 0, IdRange("A" * 20, 0), crcs, column, properties)
    body = bytearray().join(part.tobytes() for part in rows.encode())
    half = HalfBatch(
        name, sent.topic, sent.queue_id, count, rows.record_size, len(body), crc32(body), has_tags=bool(sent.tags)
    )
    return half, body


def _column_of(values: Sequence[bytes]) -> Column:
    return Column(np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)]))


def run(work: Coroutine[Any, Any, Any], each_step: Callable[[], object] = lambda: None) -> Any:
    """Runs a coroutine that waits for nobody, and does something whenever the event loop would get its turn."""
    try:
        while True:
            work.send(None)
            each_step()
    except StopIteration as done:
        return done.value
    finally:
        work.close()


def other_message(body: bytes = b"other") -> tuple[bytearray, list[bytes]]:
    """A message of topic `t` that somebody else sends, in parts."""
    record = encode_record(topic="t", body=body)
    return record[:HEAD_BYTES], [bytes(record[HEAD_BYTES:])]
