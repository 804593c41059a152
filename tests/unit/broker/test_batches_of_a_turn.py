"""Batches that come in one turn of the loop: what is stored, and what each sender is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.metrics.counted import Counted
from rmqspark.broker.safekeeping.flusher import Flusher
from rmqspark.broker.safekeeping.safety import Safety
from rmqspark.broker.sending.appender import Appender
from rmqspark.broker.sending.batches import Batch
from rmqspark.broker.sending.drafting import Origin
from rmqspark.broker.stats import BrokerStats
from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

from .store_content import content_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.errors import RmqError
    from rmqspark.protocol.records.offset_ids import StoredRun

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=400, max_hash_slot_num=50, max_index_num=200
)
SOUND = st.builds(
    BatchElement,
    st.binary(max_size=40) | st.just(b"always the same length"),
    st.sampled_from([b"", b"TAGS\x01a\x02UNIQ_KEY\x010123456789abcdef\x02", b"KEYS\x01a b", b"KEYS\x01c\x02"]),
    st.integers(-(2**31), 2**31 - 1),
)
LARGE = st.just(BatchElement(b"enough to be worth it" * 200))
LATE = st.just(BatchElement(b"late", b"DELAY\x013\x02"))
BODIES = st.lists(SOUND | LARGE, min_size=1, max_size=6).map(encode_batch)
WRONG = st.sampled_from([b"", b"no batch"]) | st.lists(SOUND | LATE, max_size=3).map(encode_batch)
REQUESTS = st.tuples(st.sampled_from(["orders", "bills", "bil"]), st.integers(0, 3), BODIES | BODIES | BODIES | WRONG)


class Told(NamedTuple):
    """What a sender hears."""

    queue_offset: int
    physical_offsets: list[int]
    refusal: str


class Sender:
    """One request, waiting for its answer."""

    def __init__(self, number: int, topic: str, queue_id: int, body: bytes) -> None:
        origin = Origin(topic, queue_id, 0, bytes([10, 0, 0, number, 0, 0, 0, 9]), 1_700_000_000_000 + number, 0)
        self.batch = Batch(origin, body, "", waits_for_flush=True)
        self.told: list[Told] = []

    @property
    def queue(self) -> tuple[str, int]:
        return self.batch.origin.topic, self.batch.origin.queue_id

    def let_go(self) -> None:
        self.batch = self.batch.without_body()

    def finish(self, queue_offset: int, stored: StoredRun, error: RmqError | None) -> None:
        assert error is None
        self.told.append(Told(queue_offset, stored.physical_offsets.tolist(), ""))

    def refuse(self, error: RmqError) -> None:
        self.told.append(Told(-1, [], str(error)))


class Bench:
    """An appender and its store."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.files = MemoryFileSystem(clock=clock)
        self.store = MessageStore.open(
            "store", CONFIG, files=self.files, clock=clock, entropy=SystemEntropy(1), store_host=bytes(8)
        )
        self.stats = BrokerStats(now_ms=0)
        counted = Counted(BrokerConfig(), self.store, clock)
        self._appender = Appender(
            self.store, Safety(Flusher(self.store, CONFIG), sync_flush=False), self.stats, counted
        )

    async def turn(self, senders: Sequence[Sender]) -> None:
        """All of them send in one turn of the loop."""
        for sender in senders:
            self._appender.submit_batch(sender)
        await asyncio.sleep(0)

    def content(self) -> dict[str, bytes]:
        """Log, queues and index, byte for byte."""
        return content_of(self.store, self.files.within("store"))


@given(st.lists(REQUESTS, min_size=1, max_size=9))
def test_batches_of_a_turn_are_stored_as_if_each_had_come_alone(requests: list[tuple[str, int, bytes]]) -> None:
    """Whatever comes at the same moment, a sender gets the answer, and the store the bytes, that it would have got
    alone: those for one queue in the order they came."""

    async def talk() -> None:
        together, alone = Bench(), Bench()
        senders = [Sender(number, *request) for number, request in enumerate(requests)]
        await together.turn(senders)
        answers = {sender: sender.told.copy() for sender in senders}
        for sender in sorted(senders, key=lambda sender: sender.queue):
            await alone.turn([sender])
            assert sender.told == answers[sender] * 2
        assert together.content() == alone.content()
        assert together.stats.totals() == alone.stats.totals()

    asyncio.run(talk())
