"""The store against a model of a few dicts, under everything that can happen to it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rmqspark.store.config import StoreConfig

from .store_bench import SMALL, StoreBench, bulk, draft

QUEUES = [("orders", 0), ("orders", 1), ("AaAa", 0), ("BBBB", 0)]  # the last two share their Java hash
queues = st.sampled_from(QUEUES)
lengths = st.lists(st.integers(1, 150), min_size=1, max_size=6)


class StoreModel(RuleBasedStateMachine):
    """`messages` is what was stored, `durable` how much of each queue a power loss must leave."""

    config = SMALL

    @initialize()
    def start(self) -> None:
        self.bench = StoreBench(self.config)
        self.messages: dict[tuple[str, int], list[bytes]] = {queue: [] for queue in QUEUES}
        self.durable = dict.fromkeys(QUEUES, 0)
        self.sent = 0

    def body(self, length: int) -> bytes:
        self.sent += 1
        return f"{self.sent:05d}".encode().ljust(length, b".")

    @rule(sends=st.lists(st.tuples(queues, st.integers(1, 150)), min_size=1, max_size=5))
    def append(self, sends: list[tuple[tuple[str, int], int]]) -> None:
        messages = [(queue, self.body(length)) for queue, length in sends]
        appended = self.bench.store.append([draft(*queue, body) for queue, body in messages])
        for (queue, body), where in zip(messages, appended, strict=True):
            assert where.queue_offset == len(self.messages[queue])
            self.messages[queue].append(body)

    @rule(queue=queues, lengths=st.lists(st.integers(1, 60), min_size=1, max_size=4))
    def append_together(self, queue: tuple[str, int], lengths: list[int]) -> None:
        bodies = [self.body(length) for length in lengths]
        appended = self.bench.store.append([draft(*queue, body) for body in bodies], together=True)
        assert len({where.physical_offset // self.config.mapped_file_size_commit_log for where in appended}) == 1
        self.messages[queue] += bodies

    @rule(queue=queues, lengths=lengths)
    def append_bulk(self, queue: tuple[str, int], lengths: list[int]) -> None:
        bodies = [self.body(length) for length in lengths]
        appended = self.bench.store.append_bulk(*queue, *bulk(*queue, bodies))
        assert (appended.queue_offset, appended.count) == (len(self.messages[queue]), len(bodies))
        self.messages[queue] += bodies

    @rule()
    def flush(self) -> None:
        self.bench.store.flush()
        self.durable = {queue: len(bodies) for queue, bodies in self.messages.items()}

    @rule()
    def checkpoint(self) -> None:
        self.bench.store.checkpoint()
        self.durable = {queue: len(bodies) for queue, bodies in self.messages.items()}

    @rule(ms=st.integers(1, 5000))
    def let_time_go_by(self, ms: int) -> None:
        self.bench.clock.advance(ms=ms)

    @rule()
    def reopen(self) -> None:
        incarnation = self.bench.store.incarnation
        self.bench.reopen()
        self.durable = {queue: len(bodies) for queue, bodies in self.messages.items()}
        assert self.bench.store.incarnation == incarnation

    @rule()
    def kill(self) -> None:
        incarnation = self.bench.store.incarnation
        self.bench.kill()
        self.durable = {queue: len(bodies) for queue, bodies in self.messages.items()}
        assert self.bench.store.incarnation == incarnation

    @rule(seed=st.none() | st.integers(0, 1000))
    def lose_power(self, seed: int | None) -> None:
        incarnation = self.bench.store.incarnation
        self.bench.lose_power(seed)
        for queue, bodies in self.messages.items():
            left = self.bench.store.max_offset(*queue)
            assert self.durable[queue] <= left <= len(bodies)
            if left < len(bodies) and self.config.flush_disk_type == "ASYNC_FLUSH":
                assert self.bench.store.incarnation > incarnation
            del bodies[left:]
        self.durable = {queue: len(bodies) for queue, bodies in self.messages.items()}

    @invariant()
    def readers_see_what_was_stored(self) -> None:
        if not hasattr(self, "bench"):
            return
        for queue, bodies in self.messages.items():
            assert self.bench.numbered_bodies(*queue, 0) == list(enumerate(bodies))
            assert self.bench.store.max_offset(*queue) == len(bodies)
        assert self.bench.store.damage == ()

    @invariant()
    def keys_lead_to_their_messages(self) -> None:
        if not hasattr(self, "bench"):
            return
        for (topic, _), bodies in self.messages.items():
            for body in bodies[-1:]:
                found = self.bench.store.query(topic, body.decode(), 0, 1 << 60, 10)
                assert any(body in record for record in found)


class SyncStoreModel(StoreModel):
    """With SYNC_FLUSH nothing is readable that a power loss can take; so every append here is flushed at once."""

    config = StoreConfig(**{**SMALL.__dict__, "flush_disk_type": "SYNC_FLUSH"})

    @rule(sends=st.lists(st.tuples(queues, st.integers(1, 150)), min_size=1, max_size=5))
    def append(self, sends: list[tuple[tuple[str, int], int]]) -> None:
        before = {queue: self.bench.store.max_offset(*queue) for queue in QUEUES}
        super().append(sends)
        assert {queue: self.bench.store.max_offset(*queue) for queue in QUEUES} == before
        self.flush()

    @rule(queue=queues, lengths=st.lists(st.integers(1, 60), min_size=1, max_size=4))
    def append_together(self, queue: tuple[str, int], lengths: list[int]) -> None:
        super().append_together(queue, lengths)
        self.flush()

    @rule(queue=queues, lengths=lengths)
    def append_bulk(self, queue: tuple[str, int], lengths: list[int]) -> None:
        super().append_bulk(queue, lengths)
        self.flush()


EXAMPLES = settings.default.max_examples  # the profile's: many more in a soak

TestStoreModel = pytest.mark.property(StoreModel.TestCase)
TestStoreModel.settings = settings(max_examples=EXAMPLES * 2 // 3, stateful_step_count=25)
TestSyncStoreModel = pytest.mark.property(SyncStoreModel.TestCase)
TestSyncStoreModel.settings = settings(max_examples=EXAMPLES // 3, stateful_step_count=25)
