"""Topics and groups go from tables and store: killed at any step, refused by the disk, and told to readers anyway."""

from __future__ import annotations

import asyncio
import re
from errno import ENOSPC
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.state.reconcile import reconcile
from rmqspark.broker.tables import BrokerTables
from rmqspark.broker.topic_deletion import TopicDeletion
from rmqspark.errors import NotWritable
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.testing.disk_faults import CHANGES, ProcessDied

from ..store.store_bench import StoreBench

if TYPE_CHECKING:
    from collections.abc import Coroutine

pytestmark = pytest.mark.faults

CONFIG = BrokerConfig()


class Broker:
    """Store and tables of a broker that has eight messages in topic t, and a group at 6 of them."""

    def __init__(self) -> None:
        self.bench = StoreBench()
        self.start()
        self.tables.topics.put(TopicConfig(topicName="t", readQueueNums=1, writeQueueNums=1), self.bench.clock.now_ms())
        self.bench.send("t", 0, *[b"%d" % number for number in range(8)])
        self.tables.offsets.commit("g", "t", 0, 6)
        self.bench.store.checkpoint()
        asyncio.run(self.tables.save())

    def forget(self, topic: str) -> None:
        appender: Any = SimpleNamespace(append_gathered=lambda: None)
        TopicDeletion(self.tables, self.bench.store, appender, lambda _: None).forget(topic)

    async def delete(self) -> None:
        self.forget("t")
        await self.tables.save()

    async def delete_group(self) -> None:
        self.tables.forget_group("g", with_offsets=True)
        await self.tables.save()

    def know(self, topic: str, group: str) -> None:
        """Topic, group, and all that is known of the two."""
        tables, now_ms = self.tables, self.bench.clock.now_ms()
        tables.topics.put(TopicConfig(topicName=topic), now_ms)
        tables.groups.put(SubscriptionGroupConfig(groupName=group), now_ms)
        tables.offsets.reset(group, topic, 0, 5)
        tables.locks.take(group, "m", [MessageQueue(topic, "broker-a", 0)], self.bench.clock.monotonic_ms())

    def make_anew(self) -> None:
        """The next topic t: it has another queue, and messages in it."""
        config = TopicConfig(topicName="t", readQueueNums=2, writeQueueNums=2)
        self.tables.topics.put(config, self.bench.clock.now_ms())
        for queue_id in range(2):
            self.bench.send("t", queue_id, *[b"new%d" % number for number in range(10)])

    def start(self) -> None:
        self.tables = BrokerTables(CONFIG, self.bench.files, self.bench.clock)
        reconcile(CONFIG, self.bench.store, self.tables, self.bench.clock)

    @property
    def told_ms(self) -> int:
        return self.bench.store.deletions.deleted_ms("t")

    @property
    def is_whole(self) -> bool:
        known = self.tables.topics.get("t") is not None and self.tables.offsets.committed("g", "t", 0) == 6
        return known and len(self.bench.bodies("t", 0)) == 8


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A death in a thread would be another death than that of the process. A write still takes turns of the loop."""
    paces = Random(1)

    async def sooner_or_later(work: Any, *given: Any) -> Any:
        for _ in range(paces.randrange(6)):
            await asyncio.sleep(0)
        return work(*given)

    monkeypatch.setattr("rmqspark.broker.state.table_file.in_thread", sooner_or_later)


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


def test_a_topic_goes_from_the_disk_after_what_was_known_of_it() -> None:
    """Where a large file does not fit, the small one behind it waits, or its groups' offsets were the next topic's."""
    broker = Broker()
    broker.tables.offsets.commit("g", "t", 0, 7)
    broker.tables.topics.remove("t", broker.bench.clock.now_ms())
    broker.bench.disk.fail_at(1, OSError(ENOSPC, "full"), counted=CHANGES)
    with pytest.raises(NotWritable, match="consumerOffset.json"):
        asyncio.run(broker.tables.save())
    stored = BrokerTables(CONFIG, broker.bench.files, broker.bench.clock)
    assert stored.topics.get("t") is not None


@pytest.mark.parametrize("deleted", ["topic", "group"])
@pytest.mark.parametrize("turns", [0, 3, 6, 12])
def test_what_is_deleted_in_the_middle_of_a_round_goes_from_the_disk_last(deleted: str, turns: int) -> None:
    """Killed at any step, topic and group are there still, or nothing is there that a next one could take for its own:
    a group went on where another one was, and committed what it had read for that."""
    steps, has_died = 0, True
    while has_died:
        steps += 1
        broker = Broker()
        broker.know("t", "g")
        asyncio.run(broker.tables.save())
        broker.know("u", "h")
        broker.bench.disk.stop_at(steps)
        has_died = asyncio.run(dies_in_a_round(broker, deleted, turns))
        broker.bench.disk.kill()
        stored = BrokerTables(CONFIG, broker.bench.files, broker.bench.clock)
        if stored.topics.get("t") is None or stored.groups.get("g") is None:
            left = known(stored)
            assert left <= {("u", "h")}, f"killed at step {steps}"
    assert steps > 20


async def dies_in_a_round(broker: Broker, deleted: str, turns: int) -> bool:
    """Whether the process died, of a round of the clock and a deletion that comes so many turns of the loop later."""
    saving = asyncio.create_task(broker.tables.save())
    for _ in range(turns):
        await asyncio.sleep(0)
    deletion = broker.delete() if deleted == "topic" else broker.delete_group()
    outcomes: list[Any] = await asyncio.gather(saving, deletion, return_exceptions=True)
    errors = [outcome for outcome in outcomes if outcome is not None]
    assert all(isinstance(error, ProcessDied) for error in errors), errors
    return bool(errors)


def known(tables: BrokerTables) -> set[tuple[str, str]]:
    """The topics and groups of which offsets, resets or leases are kept."""
    leases = {(lease.topic, lease.group) for lease in tables.locks.table().leases}
    resets = {(queue.topic, queue.group) for group in ("g", "h") for queue in tables.offsets.resets.of(group)}
    return leases | resets | {(queue.topic, queue.group) for queue, _ in tables.offsets}


def test_who_saves_meanwhile_shares_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many make topics at once, while groups commit: each is told when a round that began after it is over."""
    rounds = []

    async def written(work: Any, *given: Any) -> Any:
        rounds.append(given)
        broker.tables.offsets.commit("g", "t", 0, 6 + len(rounds))
        await asyncio.sleep(0)
        return work(*given)

    async def all_at_once() -> None:
        broker.tables.topics.put(TopicConfig(topicName="new"), 1)
        await asyncio.gather(*(broker.tables.save() for _ in range(50)))

    broker = Broker()
    monkeypatch.setattr("rmqspark.broker.state.table_file.in_thread", written)
    asyncio.run(all_at_once())
    assert len(rounds) <= 4
    broker.start()
    assert broker.tables.topics.get("new")


def test_a_deletion_of_what_was_never_there_is_not_noted() -> None:
    """The store has room for so many: those of topics that were there would be forgotten."""
    broker = Broker()
    broker.forget("never")
    broker.forget("t")
    deletions = broker.bench.store.deletions
    assert (deletions.deleted_ms("never"), deletions.deleted_ms("t") > 0) == (0, True)


def test_a_topic_made_anew_takes_nothing_over_from_files_older_than_it_is() -> None:
    """Killed at any step of saving: a group would begin behind messages that were acknowledged to who sent them."""
    steps, has_died = 0, True
    while has_died:
        steps += 1
        broker = Broker()
        broker.know("t", "g")
        asyncio.run(broker.tables.save())
        broker.forget("t")
        broker.make_anew()
        broker.tables.offsets.commit("g", "t", 1, 3)
        broker.bench.disk.stop_at(steps)
        has_died = dies(broker.tables.save())
        broker.bench.disk.heal()
        broker.bench.kill()
        broker.start()
        assert dict(broker.tables.offsets.committed_queues("g", "t")) in ({}, {1: 3}), f"killed at step {steps}"
        assert not broker.tables.offsets.resets.of("g")
        assert not broker.tables.locks.table().leases
        assert broker.tables.topics.require("t").readQueueNums == 2
    assert broker.tables.offsets.committed("g", "t", 1) == 3
    assert steps > 10


def test_a_topic_that_was_never_made_anew_is_gone_after_a_kill() -> None:
    """Who had it deleted was not answered, but readers are told that it was."""
    broker = Broker()
    broker.forget("t")
    broker.bench.kill()
    broker.start()
    assert broker.tables.topics.get("t") is None
    assert broker.tables.offsets.committed("g", "t", 0) is None


def test_what_is_known_of_a_topic_made_anew_outlives_a_kill() -> None:
    """Whoever has saved behind the deletion is believed, start after start."""
    broker = Broker()
    asyncio.run(broker.delete())
    broker.make_anew()
    broker.know("t", "g")
    asyncio.run(broker.tables.save())
    for _ in range(2):
        broker.bench.kill()
        broker.start()
        assert broker.tables.offsets.committed("g", "t", 0) == 5
        asyncio.run(broker.tables.save())


def test_tables_of_a_version_that_noted_no_deletions_in_them_are_kept() -> None:
    """What they say of a topic made anew may be of either; most of it is of the one that is there."""
    broker = Broker()
    asyncio.run(broker.delete())
    broker.make_anew()
    broker.tables.offsets.commit("g", "t", 0, 6)
    asyncio.run(broker.tables.save())
    for name in ("topics.json", "consumerOffset.json"):
        text, members = re.subn(rb',?"knownDeletionMs":[0-9]+', b"", broker.bench.read_file(f"config/{name}"))
        assert members == 1
        put(broker, f"config/{name}", text)
    broker.bench.kill()
    broker.start()
    assert broker.tables.offsets.committed("g", "t", 0) == 6
    broker.tables.offsets.commit("g", "t", 0, 7)
    asyncio.run(broker.tables.save())
    broker.forget("t")
    broker.make_anew()
    broker.bench.kill()
    broker.start()
    assert broker.tables.offsets.committed("g", "t", 0) is None


def test_deletions_are_in_order_though_the_clock_was_put_back() -> None:
    """Else tables that have heard of one would pass for having heard of those behind it."""
    broker = Broker()
    broker.know("u", "h")
    broker.bench.send("u", 0, *[b"u%d" % number for number in range(8)])
    asyncio.run(broker.delete())
    broker.bench.clock.set_now_ms(broker.bench.clock.now_ms() - 3_600_000)
    broker.forget("u")
    broker.bench.kill()
    broker.start()
    assert broker.tables.offsets.committed("h", "u", 0) is None


def test_a_copy_that_is_read_instead_says_itself_what_it_knows() -> None:
    """It is a save older than the file that is damaged, and may have been saved long behind the last deletion."""
    broker = Broker()
    asyncio.run(broker.delete())
    broker.make_anew()
    for offset in (7, 8, 9):
        broker.tables.offsets.commit("g", "t", 0, offset)
        asyncio.run(broker.tables.save())
    put(broker, "config/consumerOffset.json", b"")
    broker.bench.kill()
    broker.start()
    assert broker.tables.offsets.committed("g", "t", 0) == 8


def test_a_table_that_cannot_be_written_casts_no_doubt_on_others() -> None:
    """Offsets of a topic made anew are on disk, though the file with its number of queues is not."""
    refused, step = "", 0
    while "topics.json" not in refused:
        step += 1
        broker = Broker()
        broker.forget("t")
        broker.make_anew()
        broker.tables.offsets.commit("g", "t", 0, 8)
        broker.bench.disk.fail_at(step, OSError(ENOSPC, "full"), counted=CHANGES)
        with pytest.raises(NotWritable) as error:
            asyncio.run(broker.tables.save())
        refused = str(error.value)
    broker.bench.disk.heal()
    broker.bench.kill()
    broker.start()
    assert broker.tables.offsets.committed("g", "t", 0) == 8
    assert broker.tables.topics.require("t").readQueueNums == 2


def put(broker: Broker, path: str, text: bytes) -> None:
    """Has a file say something else."""
    broker.bench.files.unlink(path)
    broker.bench.files.open(path, create=True).close()
    broker.bench.write_file(path, text)


def dies(work: Coroutine[Any, Any, None]) -> bool:
    """Whether the process died of it."""
    try:
        asyncio.run(work)
    except ProcessDied:
        return True
    return False
