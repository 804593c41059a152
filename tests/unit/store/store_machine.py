"""Everything that can happen to a store, as rules of a hypothesis state machine, checked against a `Model`."""

from __future__ import annotations

from contextlib import suppress
from errno import EDQUOT, EIO, ENOSPC
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.errors import NotWritable, StoreError
from rmqspark.protocol.records.record import MIN_RECORD_BYTES, decode_record
from rmqspark.store.checkpoint import Checkpoint
from rmqspark.store.config import StoreConfig
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.threads import Once

from .store_bench import SMALL, StoreBench, bulk, draft, single, table
from .store_model import NOWHERE, Model, Queue, Sent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.store.appending.single_tables import StoredTable
    from rmqspark.store.appending.singles import Places

QUEUES: list[Queue] = [("orders", 0), ("orders", 1), ("AaAa", 0), ("BBBB", 0)]  # the last two share their Java hash
RESERVED_MS = SMALL.file_reserved_time * 3_600_000
MOST_CLOCK_ERROR_MS = 5_000
_PROPERTIES_BYTES = 30

queues = st.sampled_from(QUEUES)
lengths = st.integers(6, 150) | st.integers(400, 900)
sends = st.lists(st.tuples(queues, lengths), min_size=1, max_size=5)
few_lengths = st.lists(st.integers(6, 60), min_size=1, max_size=4)
counts = st.integers(1, 6) | st.integers(1, 25)
torn = st.sampled_from([0, 1, 90, 512, 600])
seeds = st.none() | st.integers(0, 1 << 16)  # of a power loss: None takes everything that was not synced
under_a_check = st.sampled_from([*range(12), *range(28, 36), *range(84, 88)])  # size, magic, CRC, place, body's size
deaths = st.lists(st.tuples(counts, st.booleans(), seeds), max_size=4)  # in recovery: after so many changes, how
sizes = st.sampled_from([(1024, 100), (256, 20), (4096, 60), (2048, 400)])  # of log and queue files
modes = st.sampled_from(["ASYNC_FLUSH", "SYNC_FLUSH"])


def alike(sends: Sequence[tuple[Queue, int]]) -> list[tuple[Queue, int]]:
    """As long as the first one, in queues of topics with names as long as its."""
    (topic, _), length = sends[0]
    return [(queue if len(queue[0]) == len(topic) else sends[0][0], length) for queue, _ in sends]


def to_one_queue(sends: Sequence[tuple[Queue, int]]) -> list[tuple[Queue, int]]:
    return [(sends[0][0], length) for _, length in sends]


APPENDS: dict[str, Callable[[Sequence[tuple[Queue, int]]], list[tuple[Queue, int]]]] = {
    "append": list,
    "bulk": to_one_queue,
    "singles": list,
    "table": alike,
}
"""The ways messages may come, and which can come by each."""
OTHERS = ("flush", "checkpoint", "expire", "delete", "reopen")


class StoreMachine(RuleBasedStateMachine):
    """One store through kills, power losses, failing and full disks, with tiny files."""

    examples = 0
    bounds: ClassVar[dict[str, int]] = {}  # for all of its stores

    @initialize(sizes=sizes, mode=modes, index=st.sampled_from([(5, 4), (50, 40)]))
    def start(self, sizes: tuple[int, int], mode: str, index: tuple[int, int]) -> None:
        type(self).examples += 1
        settings = {
            "mapped_file_size_commit_log": sizes[0],
            "mapped_file_size_consume_queue": sizes[1],
            "max_hash_slot_num": index[0],
            "max_index_num": index[1],
            "flush_disk_type": mode,
            "sync_flush_timeout": 1 << 40,  # nobody flushes by the clock here, so no flush takes too long
        }
        self.config = StoreConfig(**{**SMALL.__dict__, **settings, **self.bounds})
        self.bench = StoreBench(self.config)
        self.model = Model()
        self.groups = ConsumerOffsets()
        self.places: dict[bytes, int] = {}  # where each message was first seen to lie in the log
        self.number = 0
        self.is_behind = False  # a fault may have kept queue entries waiting
        self.has_failed = False  # an fsync has
        self.clock_error_ms = 0  # how far it is ahead
        self.damaged: set[int] = set()  # where the log was
        self.deleting = ""  # the topic whose deletion a crash has cut short
        self.plan: Any = None
        self.planned = 0

    @rule(sends=sends)
    def append(self, sends: list[tuple[Queue, int]]) -> None:
        self.store_all(self.messages(sends), together=False)

    @rule(queue=queues, lengths=few_lengths)
    def append_together(self, queue: Queue, lengths: list[int]) -> None:
        messages = self.messages([(queue, length) for length in lengths])
        if sum(MIN_RECORD_BYTES + _PROPERTIES_BYTES + 2 * len(sent.body) for sent in messages) < self.segment_bytes:
            self.store_all(messages, together=True)

    @rule(queue=queues, lengths=st.lists(st.integers(6, 150), min_size=1, max_size=6))
    def append_bulk(self, queue: Queue, lengths: list[int]) -> None:
        self.store_bulk(self.messages([(queue, length) for length in lengths]))

    @rule(sends=sends)
    def append_singles(self, sends: list[tuple[Queue, int]]) -> None:
        self.store_singles(self.messages(sends))

    @rule(sends=sends)
    def append_table(self, sends: list[tuple[Queue, int]]) -> None:
        self.store_table(self.messages(alike(sends)))

    @rule(queue=queues)
    def consume(self, queue: Queue) -> None:
        self.groups.commit("g", *queue, self.bench.store.queues.max_offset(*queue))

    # --- onto the disk

    @rule(thorough=st.booleans())
    def flush(self, thorough: bool) -> None:
        self.finish_flush()
        if self.has_failed:
            return
        self.bench.store.checkpoint() if thorough else self.bench.store.flush()
        self.is_behind = False
        self.model.all_durable()

    @precondition(lambda self: self.plan is None)
    @rule(thorough=st.booleans())
    def begin_flush(self, thorough: bool) -> None:
        if not self.has_failed:
            self.plan, self.planned = self.bench.store.flusher.begin(thorough=thorough), len(self.model.sent)

    @rule()
    def finish_flush(self) -> None:
        """Ends a flush that is under way, if there is one."""
        if self.plan is not None:
            plan, self.plan = self.plan, None
            plan.run()
            self.bench.store.flusher.finish(plan)
            self.model.durable = max(self.model.durable, self.planned)

    @rule(ms=st.integers(1, 5000))
    def let_time_go_by(self, ms: int) -> None:
        self.bench.clock.advance(ms=ms)

    @rule(error_ms=st.integers(-MOST_CLOCK_ERROR_MS, MOST_CLOCK_ERROR_MS))
    def set_the_clock(self, error_ms: int) -> None:
        """It jumps, ahead or back, to so much before or behind the right time."""
        clock = self.bench.clock
        clock.set_now_ms(clock.now_ms() - self.clock_error_ms + error_ms)
        self.clock_error_ms = error_ms

    @rule(hours=st.sampled_from([1, 30, 73]))
    def expire(self, hours: int) -> None:
        self.bench.clock.advance(hours=hours)
        self.drop_expired()

    @precondition(lambda self: not self.has_failed)
    @rule(queue=queues, is_flushing=st.booleans())
    def delete_topic(self, queue: Queue, is_flushing: bool) -> None:
        """Whatever comes then, it stays deleted."""
        self.bring_to_places()
        if is_flushing:
            self.begin_flush(thorough=True)
        self.delete(queue[0])

    # --- the end of a process, and the next one

    @rule()
    def reopen(self) -> None:
        self.finish_flush()
        self.bench.store.close()
        self.come_back([], has_lost_power=self.has_failed and self.cut_power(None))

    @rule(has_lost_power=st.booleans(), seed=seeds, deaths=deaths)
    def crash(self, has_lost_power: bool, seed: int | None, deaths: list[tuple[int, bool, int | None]]) -> None:
        self.end(has_lost_power, seed)
        self.come_back(deaths, has_lost_power=has_lost_power)

    @rule(
        what=st.sampled_from([*APPENDS, *OTHERS]),
        sends=sends,
        at=counts,
        after_bytes=torn,
        power=st.booleans(),
        seed=seeds,
        deaths=deaths,
    )
    def die_in(
        self,
        what: str,
        sends: list[tuple[Queue, int]],
        at: int,
        after_bytes: int,
        power: bool,
        seed: int | None,
        deaths: list[tuple[int, bool, int | None]],
    ) -> None:
        self.finish_flush()
        messages = self.messages(APPENDS.get(what, list)(sends))
        if what == "delete":
            self.bring_to_places()
        self.bench.disk.stop_at(at, after_bytes=after_bytes)
        try:
            self.carry_out(what, messages)
        except ProcessDied:
            if what in APPENDS and not self.has_failed:
                self.model.sent += messages
            written = len(self.model.sent) - len(messages) if what in APPENDS else len(self.model.sent)
        else:
            written = len(self.model.sent)
        self.end(power, seed)
        self.come_back(deaths, has_lost_power=power, at_least=written)

    # --- a disk that refuses

    @rule(
        what=st.sampled_from([*APPENDS, *OTHERS]),
        sends=sends,
        at=counts,
        after_bytes=torn,
        error=st.sampled_from([EIO, ENOSPC, EDQUOT]),
    )
    def fail_in(self, what: str, sends: list[tuple[Queue, int]], at: int, after_bytes: int, error: int) -> None:
        self.finish_flush()
        messages = self.messages(APPENDS.get(what, list)(sends))
        if what == "delete":
            self.bring_to_places()
        self.bench.disk.fail_at(at, OSError(error, "refused"), after_bytes=after_bytes)
        self.is_behind = True
        try:
            self.carry_out(what, messages)
        except NotWritable:
            assert what in APPENDS
        except (OSError, StoreError):
            assert what not in APPENDS
            if what == "delete":
                self.bench.disk.heal()
                self.delete(messages[0].queue[0])
            elif what == "reopen":
                self.bench.disk.heal()
                self.bench.kill()
                self.settle(at_least=len(self.model.sent))
            else:  # of an expiry it may be a file that could not be deleted
                self.has_failed = what != "expire" or not self.bench.store.is_writable
        else:
            failed = self.bench.disk.failed
            if failed is not None and failed.name == "fsync":  # to make room for a file: a later flush would tell
                self.bench.disk.heal()
                self.bench.kill()
                self.settle(at_least=len(self.model.sent))
        finally:
            self.bench.disk.heal()
            self.is_behind = True
        if what == "expire":
            self.drop_expired()

    @rule(all_sends=st.lists(sends, min_size=1, max_size=4), pages=st.integers(0, 3))
    def fill_the_disk(self, all_sends: list[list[tuple[Queue, int]]], pages: int) -> None:
        if self.has_failed:
            return
        self.finish_flush()
        disk = self.bench.disk
        usage = disk.disk_usage()
        disk.set_budget(usage.total_bytes - usage.free_bytes + pages * 4096)
        self.is_behind = True
        for number, some in enumerate(all_sends):
            messages = self.messages(some)
            try:
                self.store_all(messages, together=False)
            except NotWritable:
                continue
            if number % 2:
                self.bench.store.checkpoint()
                self.model.all_durable()
        disk.set_budget(None)
        self.append(all_sends[0])  # it goes on without a restart
        self.flush(thorough=True)

    @precondition(lambda self: not self.has_failed)
    @rule(which=st.integers(0, 100), at=under_a_check, bit=st.integers(0, 7))
    def rot(self, which: int, at: int, bit: int) -> None:
        """One bit of a record between checkpoint and watermark is another when the process comes back."""
        self.flush(thorough=False)
        checkpoint = Checkpoint.decode(self.bench.read_file("checkpoint"))
        victims = [
            place
            for place in range(self.model.first, len(self.model.sent))
            if checkpoint.recovery_offset <= self.places.get(self.model.sent[place].body, -1) < checkpoint.watermark
        ]
        if not victims:
            return
        before = self.bench.store.incarnation
        victim = victims[which % len(victims)]
        position = self.places[self.model.sent[victim].body]
        base = position - position % self.segment_bytes
        self.bench.disk.kill()
        self.bench.flip_bit(f"commitlog/{base:020d}", position - base + at, bit)
        self.bench.open()
        self.damaged.add(position)
        assert position in [damage.start for damage in self.bench.store.damage]
        assert self.bench.store.incarnation > before
        self.forget_damaged(victim)

    def forget_damaged(self, victim: int) -> None:
        """Its place in the queue is kept, unless nothing is left that says it was taken."""
        queue = self.model.sent[victim].queue
        if self.bench.store.queues.max_offset(*queue) == self.model.count(queue, len(self.model.sent)):
            self.model.lost.add(victim)
        else:
            self.places.pop(self.model.sent[victim].body)
            del self.model.sent[victim]
            self.model.lost = {place - (place > victim) for place in self.model.lost}
        self.model.keep(len(self.model.sent))

    # --- what must hold

    @invariant()
    def readers_see_what_was_stored(self) -> None:
        if not hasattr(self, "model"):
            return
        model = self.model
        limit = model.durable if self.is_sync else len(model.sent)
        for queue in QUEUES:
            first, end = self.bench.store.queues.bounds(*queue)
            assert end == model.count(queue, limit) or (self.is_behind and end < model.count(queue, limit))
            assert self.records(queue) == [message for message in model.queue(queue, limit) if message[0] < end]
            oldest = min(end, model.count(queue, model.first))
            assert first == oldest or (self.damaged and first > oldest)
        if not self.is_behind:
            model.seen = max(model.seen, limit)
        assert self.bench.store.is_writable != self.has_failed

    @invariant()
    def keys_lead_to_their_messages(self) -> None:
        if not hasattr(self, "model"):
            return
        limit = self.model.durable if self.is_sync else len(self.model.sent)
        for queue in QUEUES:
            for _, body in self.model.queue(queue, limit)[-1:]:
                found = self.bench.store.query(queue[0], body.decode(), 0, 1 << 60, 64)
                count = sum(decode_record(record).body == body for record in found)
                assert count == 1 or (self.is_behind and count == 0)

    def teardown(self) -> None:
        """Whatever happened, queues and index are, byte for byte, what a log alone leads to."""
        if not hasattr(self, "model") or self.has_failed or self.damaged:
            return
        if self.bench.store.figures().min_physical_offset:  # messages have gone, or vouchers
            return
        if self.model.count(NOWHERE, len(self.model.sent)):  # a log alone does not tell what was deleted
            return
        self.finish_flush()
        self.bench.reopen()
        self.bench.store.close()
        before = self.bench.derived()
        for path in [*self.bench.content("consumequeue"), *self.bench.content("index"), "checkpoint"]:
            self.bench.files.unlink(path)
        self.bench.write_abort()
        self.bench.open()
        self.bench.store.close()
        assert self.bench.derived() == before

    # --- steps

    @property
    def is_sync(self) -> bool:
        return self.config.flush_disk_type == "SYNC_FLUSH"

    @property
    def segment_bytes(self) -> int:
        return self.config.mapped_file_size_commit_log

    def messages(self, sends: Sequence[tuple[Queue, int]]) -> list[Sent]:
        """Messages that each fit into a file of the log."""
        longest = (self.segment_bytes - MIN_RECORD_BYTES - _PROPERTIES_BYTES) // 2
        messages, last = [], self.last_byte(len(sends))
        for queue, length in sends:
            self.number += 1
            body = b"%05d" % self.number
            body = body.ljust(min(length, longest) - 1, b".") + last
            messages.append(Sent(queue, body, self.bench.clock.now_ms()))
        return messages

    def last_byte(self, count: int) -> bytes:
        """Of the bodies of some messages: of many a time those that have properties with zeros (`ODD`)."""
        has_room_for_many = self.segment_bytes >= 4096 and count == 1
        return {0: b"!", 1: b"?" if has_room_for_many else b"!"}.get(self.number % 4, b".")

    def store_all(self, messages: list[Sent], *, together: bool) -> None:
        drafts = [draft(*sent.queue, sent.body) for sent in messages]
        if self.expects_refusal(lambda: self.bench.store.append(drafts, together=together)):
            return
        appended = self.bench.store.append(drafts, together=together)
        assert not together or len({where.physical_offset // self.segment_bytes for where in appended}) == 1
        for sent, where in zip(messages, appended, strict=True):
            assert where.queue_offset == self.model.count(sent.queue, len(self.model.sent))
            self.model.sent.append(sent)

    def store_bulk(self, messages: list[Sent]) -> None:
        queue = messages[0].queue
        buffer, sizes = bulk(*queue, [sent.body for sent in messages])
        if self.expects_refusal(lambda: self.bench.store.append_bulk(*queue, buffer, sizes)):
            return
        appended = self.bench.store.append_bulk(*queue, buffer, sizes)
        assert appended.queue_offset == self.model.count(queue, len(self.model.sent))
        buffer[:] = bytes(len(buffer))  # the next request is received into it
        self.model.sent += messages

    def store_singles(self, messages: list[Sent]) -> None:
        """As a broker does: by the common way where the newest file has no room for all of them."""
        singles = [single(*sent.queue, sent.body) for sent in messages]
        if self.expects_refusal(lambda: self.bench.store.writer.append_singles(singles)):
            return
        self.took(messages, self.bench.store.writer.append_singles(singles))

    def store_table(self, messages: list[Sent]) -> None:
        rows = table([sent.queue for sent in messages], [sent.body for sent in messages])
        if self.expects_refusal(lambda: self.bench.store.writer.append_table(rows)):
            return
        self.took(messages, self.bench.store.writer.append_table(rows))

    def took(self, messages: list[Sent], places: Places | StoredTable | None) -> None:
        """The store has taken messages, or has not for want of room."""
        if places is None:
            self.store_all(messages, together=False)
            return
        for sent, queue_offset in zip(messages, places.queue_offsets, strict=True):
            assert queue_offset == self.model.count(sent.queue, len(self.model.sent))
            self.model.sent.append(sent)

    def expects_refusal(self, send: Callable[[], object]) -> bool:
        if self.has_failed:
            with pytest.raises(NotWritable, match="fsync"):
                send()
        return self.has_failed

    def carry_out(self, what: str, messages: list[Sent]) -> None:
        if what == "append":
            self.store_all(messages, together=False)
        elif what == "bulk":
            self.store_bulk(messages)
        elif what == "singles":
            self.store_singles(messages)
        elif what == "table":
            self.store_table(messages)
        elif what == "reopen":
            self.reopen()
        elif what == "expire":
            self.expire(73)
        elif what == "delete":
            self.delete(messages[0].queue[0])
        elif not self.has_failed:
            self.bench.store.checkpoint() if what == "checkpoint" else self.bench.store.flush()
            self.model.all_durable()

    def bring_to_places(self) -> None:
        """All there is comes onto the disk, and is read: where it lies is known then."""
        self.flush(thorough=False)
        for queue in QUEUES:
            self.records(queue)

    def delete(self, topic: str) -> None:
        if not self.has_failed:
            self.deleting = topic
            self.bench.store.deletions.delete(topic)
            self.has_deleted()

    def has_deleted(self) -> None:
        self.groups.forget_topics([self.deleting])
        self.model.delete(self.deleting)
        self.deleting = ""

    def drop_expired(self) -> None:
        """Only what has been readable is expired here: of other messages the model does not know where they lie."""
        self.finish_flush()
        self.flush(thorough=self.number % 2 > 0)  # of what is in no queue on disk nothing goes
        ends = {queue: self.bench.store.queues.max_offset(*queue) for queue in QUEUES}
        if any(end < self.model.count(queue, len(self.model.sent)) for queue, end in ends.items()):
            return
        now_ms = self.bench.clock.now_ms()
        for queue in QUEUES:
            self.records(queue)  # notes their places
        while self.bench.store.expire(now_ms).deleted:
            pass
        self.note_first(now_ms)

    def note_first(self, now_ms: int) -> None:
        """What the log begins with now; nothing that has its time still before it is gone, by whatever clock."""
        oldest = self.bench.store.figures().min_physical_offset
        model = self.model
        while model.first < len(model.sent) and self.places.get(model.sent[model.first].body, oldest) < oldest:
            assert model.sent[model.first].stored_ms <= now_ms - RESERVED_MS + 2 * MOST_CLOCK_ERROR_MS
            model.first += 1

    def end(self, has_lost_power: bool, seed: int | None) -> None:
        self.plan = None
        if has_lost_power:
            self.cut_power(seed)
        else:
            self.bench.disk.kill()

    def cut_power(self, seed: int | None) -> bool:
        self.bench.disk.crash(None if seed is None else self.bench.chance(seed))
        return True

    def come_back(
        self, deaths: list[tuple[int, bool, int | None]], *, has_lost_power: bool, at_least: int | None = None
    ) -> None:
        """The store is opened, dying in that some times over; then what is there is looked at."""
        before = self.bench.store.incarnation
        for at, power, seed in deaths:
            self.bench.disk.stop_at(at)
            try:
                self.bench.open()
            except ProcessDied:
                pass
            else:
                self.bench.disk.heal()
            self.end(power, seed)
            has_lost_power = has_lost_power or power
        self.bench.disk.heal()
        self.bench.open()
        written = len(self.model.sent) if at_least is None else at_least
        seen = self.model.seen
        self.settle(at_least=self.model.durable if has_lost_power else written)
        if len(self.model.sent) < seen:
            assert self.bench.store.incarnation > before
        assert self.bench.store.incarnation >= before
        if (not has_lost_power or self.is_sync) and not self.damaged:
            assert self.bench.store.incarnation == before

    def settle(self, *, at_least: int) -> None:
        """An opened store has a prefix of the log, not shorter than promised, and all of it is on disk."""
        self.has_failed = False
        self.plan = None
        self.is_behind = False
        queues = [queue for queue in QUEUES if queue[0] == self.deleting]
        if not any(self.bench.store.queues.max_offset(*queue) for queue in queues):
            self.has_deleted()
        self.deleting = ""
        end = self.readable()
        assert at_least <= end <= len(self.model.sent)
        self.model.keep(end)
        assert {damage.start for damage in self.bench.store.damage} <= self.damaged
        self.groups.clamp(self.bench.store.queues.bounds)
        for (_, *queue), offset in self.groups:
            low, high = self.bench.store.queues.bounds(*queue)
            assert low <= offset <= high
        self.bench.check_tail()
        self.model.first = 0  # a power loss may bring back files whose deletion failed half way
        self.note_first(self.bench.clock.now_ms())

    def readable(self) -> int:
        """How many messages, in the order of the log, readers can see: the queues must agree on it."""
        ends = {queue: self.bench.store.queues.max_offset(*queue) for queue in QUEUES}
        end = sum(ends.values()) + self.model.count(NOWHERE, len(self.model.sent))  # those are on disk
        assert ends == {queue: self.model.count(queue, end) for queue in QUEUES}
        return end

    def records(self, queue: Queue) -> list[tuple[int, bytes]]:
        """What a reader finds; each message lies for ever where it was first found."""
        found = self.bench.records(*queue)
        for record in found:
            assert self.places.setdefault(record.body, record.physical_offset) == record.physical_offset
        return [(record.queue_offset, record.body) for record in found]


class FilesAheadMachine(StoreMachine):
    """With the next file of the log made ahead of need, whatever happens then, or while it is made."""

    @rule()
    def make_the_next_file(self) -> None:
        segments = self.bench.store._log.segments
        if segments and not segments.has_next and not self.has_failed:
            file = segments.begin_next()
            make = Once(file.run)
            file.begin(lambda _: make)
            make()

    @rule(at=counts, power=st.booleans(), seed=seeds, deaths=deaths)
    def die_making_it(self, at: int, power: bool, seed: int | None, deaths: list[tuple[int, bool, int | None]]) -> None:
        self.finish_flush()
        self.bench.disk.stop_at(at)
        with suppress(ProcessDied):
            self.make_the_next_file()
        self.end(power, seed)
        self.come_back(deaths, has_lost_power=power)

    @rule(at=counts, error=st.sampled_from([EIO, ENOSPC]))
    def fail_making_it(self, at: int, error: int) -> None:
        self.bench.disk.fail_at(at, OSError(error, "refused"))
        self.make_the_next_file()
        self.bench.disk.heal()
