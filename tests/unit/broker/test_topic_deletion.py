"""A topic goes from tables and store: killed at any step, refused by the disk, and told to readers in any case."""

from __future__ import annotations

import asyncio
from errno import ENOSPC
from types import SimpleNamespace
from typing import Any

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.recall import recall
from rmqspark.broker.tables import BrokerTables
from rmqspark.broker.topic_deletion import TopicDeletion
from rmqspark.errors import NotWritable
from rmqspark.protocol.bodies import TopicConfig
from rmqspark.testing.disk_faults import CHANGES, ProcessDied

from ..store.store_bench import StoreBench

pytestmark = pytest.mark.faults

CONFIG = BrokerConfig()


class Broker:
    """Store and tables of a broker that has eight messages in topic t, and a group at 6 of them."""

    def __init__(self) -> None:
        self.bench = StoreBench()
        self.tables = BrokerTables(CONFIG, self.bench.files, self.bench.clock)
        self.tables.topics.put(TopicConfig(topicName="t", readQueueNums=1, writeQueueNums=1), self.bench.clock.now_ms())
        self.bench.send("t", 0, *[b"%d" % number for number in range(8)])
        self.tables.offsets.commit("g", "t", 0, 6)
        self.bench.store.checkpoint()
        asyncio.run(self.tables.save())

    async def delete(self) -> None:
        appender: Any = SimpleNamespace(append_gathered=lambda: None)
        deletion = TopicDeletion(self.tables, self.bench.store, appender, lambda _: None)
        deletion.forget("t")
        await deletion.save_what_was_known()
        await self.tables.topic_file.save()

    def start(self) -> None:
        self.tables = BrokerTables(CONFIG, self.bench.files, self.bench.clock)
        recall(CONFIG, self.bench.store, self.tables, self.bench.clock.now_ms())

    @property
    def told_ms(self) -> int:
        return self.tables.topics.deleted_ms("t")

    @property
    def is_whole(self) -> bool:
        known = self.tables.topics.get("t") is not None and self.tables.offsets.committed("g", "t", 0) == 6
        return known and len(self.bench.bodies("t", 0)) == 8


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A death in a thread would be another death than that of the process."""

    async def directly(work: Any, *given: Any) -> Any:
        return work(*given)

    monkeypatch.setattr("rmqspark.broker.table_file.in_thread", directly)


def test_whoever_counts_from_zero_again_is_told() -> None:
    """Killed at any step, the topic is whole, or its deletion is told: a query would skip as much as it had read."""
    steps = 0
    finished = False
    while not finished:
        steps += 1
        broker = Broker()
        broker.bench.disk.stop_at(steps)
        try:
            asyncio.run(broker.delete())
        except ProcessDied:
            pass
        else:
            finished = True
            broker.bench.disk.heal()
        broker.bench.kill()
        broker.start()
        assert broker.is_whole or (broker.told_ms and broker.bench.bodies("t", 0) == []), f"killed at step {steps}"
        told_ms = broker.told_ms
        asyncio.run(broker.tables.save())
        broker.bench.reopen()
        broker.start()
        assert broker.told_ms == told_ms, "the next start told of another deletion"
    assert steps > 10


def test_a_deletion_that_is_refused_forgets_nothing() -> None:
    """Its messages are there still, and so are the topic and where its groups are, now and after a start."""
    broker = Broker()
    broker.bench.disk.fail_at(1, OSError(ENOSPC, "full"), counted=CHANGES)
    with pytest.raises(OSError, match="full"):
        asyncio.run(broker.delete())
    broker.bench.disk.heal()
    assert broker.is_whole
    assert not broker.told_ms
    asyncio.run(broker.tables.save())
    broker.bench.reopen()
    broker.start()
    assert broker.is_whole


def test_what_rocketmq_left_out_of_the_table_is_told_again() -> None:
    """It writes topics.json without our deletions; the store remembers them."""
    broker = Broker()
    asyncio.run(broker.delete())
    told_ms = broker.told_ms
    broker.tables.topics._deleted_ms.clear()
    broker.tables.topics.version = broker.tables.topics.version.next(broker.bench.clock.now_ms())
    asyncio.run(broker.tables.save())
    broker.bench.reopen()
    broker.start()
    assert broker.told_ms == told_ms


def test_a_topic_goes_from_the_disk_after_what_was_known_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a large file does not fit, the small one behind it waits, or its groups' offsets were the next topic's."""

    def full(_: str) -> None:
        raise OSError(ENOSPC, "full")

    broker = Broker()
    broker.tables.offsets.commit("g", "t", 0, 7)
    broker.tables.topics.remove("t", broker.bench.clock.now_ms())
    monkeypatch.setattr(broker.tables.offset_file._file, "save", full)
    with pytest.raises(NotWritable):
        asyncio.run(broker.tables.save())
    stored = BrokerTables(CONFIG, broker.bench.files, broker.bench.clock)
    assert stored.topics.get("t") is not None
