"""Opening stores whose half messages ended, but not in every respect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.names import HALF_TOPIC
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft, index_keys
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.half_messages.half_message import HalfMessage, committed_draft, resumed_draft, set_aside_draft
from rmqspark.txn.half_messages.half_operations import operation_draft
from rmqspark.txn.half_messages.half_recovery import recover_halves, was_committed

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = StoreConfig(mapped_file_size_commit_log=1 << 20, max_hash_slot_num=100, max_index_num=400)


class Halves:
    """A store, and what brokers write into it of transactions."""

    def __init__(self) -> None:
        self.store = MessageStore.open(
            "store", CONFIG, files=MemoryFileSystem(), clock=ManualClock(), entropy=SystemEntropy()
        )

    def half(self, key: str, **properties: str) -> int:
        """A half message; its queue offset."""
        named = {"PGROUP": "PG", "UNIQ_KEY": key, "REAL_TOPIC": "orders", "REAL_QID": "0"} | properties
        record = encode_record(topic=HALF_TOPIC, body=b"half", properties=encode_properties(named), born_timestamp_ms=7)
        return self.store.append([Draft(HALF_TOPIC, 0, record, index_keys=index_keys(named))])[0].queue_offset

    def commit(self, queue_offset: int) -> None:
        """The message alone, as a power loss leaves it that takes the mark."""
        found = self.store.read(HALF_TOPIC, 0, queue_offset, max_count=1, max_bytes=1)
        record = decode_record(bytes(found.body))
        self.store.append([committed_draft(HalfMessage.of(record), record, 0)])

    def set_aside(self, queue_offset: int) -> int:
        """Likewise; its physical offset."""
        found = self.store.read(HALF_TOPIC, 0, queue_offset, max_count=1, max_bytes=1)
        return self.store.append([set_aside_draft(decode_record(bytes(found.body)), 15)])[0].physical_offset

    def resume(self, physical_offset: int) -> None:
        self.store.append([resumed_draft(decode_record(self.store.records.at(physical_offset)))])

    def mark(self, *queue_offsets: int) -> None:
        self.store.append([operation_draft(queue_offsets, now_ms=0, host=bytes(8))])

    def recovered(self, half_offset: int = 0, op_offset: int = 0) -> tuple[list[int], list[int]]:
        """Queue offsets of what is open, and of what ended unmarked."""
        found = recover_halves(self.store, half_offset, op_offset)
        return [half.queue_offset for half in found.open], found.unmarked


@pytest.fixture
def halves() -> Iterator[Halves]:
    made = Halves()
    yield made
    made.store.close()


def test_a_message_without_its_mark_is_not_delivered_again(halves: Halves) -> None:
    """The half it names has ended, whatever the op queue says."""
    for key in "abc":
        halves.half(key)
    halves.commit(1)
    halves.mark(0)
    assert halves.recovered() == ([2], [1])


def test_a_message_that_was_set_aside_without_its_mark_is_not_set_aside_again(halves: Halves) -> None:
    """Unless it was resumed since: then it is a half message once more."""
    for key in "abc":
        halves.half(key)
    place = halves.set_aside(1)
    halves.set_aside(2)
    assert halves.recovered() == ([0], [1, 2])
    halves.mark(1, 2)
    halves.resume(place)
    assert halves.recovered() == ([0, 3], [])


def test_a_copy_ended_if_any_copy_was_committed(halves: Halves) -> None:
    """An Apache broker asked again while its mark was on the way, moved its offset past the committed half, and
    died: its copy is no transaction of its own."""
    halves.half("a")
    halves.commit(0)
    halves.half("a", TRANSACTION_CHECK_TIMES="1")
    halves.half("b", TRANSACTION_CHECK_TIMES="1")
    assert halves.recovered(half_offset=1) == ([2], [1])


def test_a_key_that_was_used_before_is_another_transaction(halves: Halves) -> None:
    """One message object of Java's, sent in two transactions: the first was committed, the second is open."""
    halves.half("a")
    halves.commit(0)
    halves.mark(0)
    halves.half("a")
    assert halves.recovered() == ([1], [])
    assert halves.recovered(half_offset=1, op_offset=0) == ([1], [])


def test_marks_below_the_committed_offset_do_not_matter(halves: Halves) -> None:
    """They are still there because one of their record does."""
    for key in "abc":
        halves.half(key)
    halves.mark(0, 2)
    assert halves.recovered(half_offset=1) == ([1], [])


def test_rocketmq_9500_what_is_no_half_message_holds_nothing_up(halves: Halves) -> None:
    """A record that nobody understands is passed over, and what lies behind it is seen to."""
    halves.half("a", PGROUP="")
    halves.half("b", REAL_TOPIC="../etc")
    halves.half("c")
    assert halves.recovered() == ([2], [])


def test_only_the_group_and_time_of_a_half_make_it_the_same(halves: Halves) -> None:
    """A message with its key that another group committed says nothing of it."""
    halves.half("a", PGROUP="other")
    halves.commit(0)
    halves.half("a", TRANSACTION_CHECK_TIMES="1")
    (copy,) = recover_halves(halves.store, 1, 0).open
    assert not was_committed(halves.store, copy)
