"""What brokers count: from queues, a little later than it happens, and each message once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker.metrics.arrivals import Arrivals
from rmqspark.broker.metrics.client_figures import version_name
from rmqspark.broker.metrics.departures import Departures
from rmqspark.broker.metrics.ends_of_halves import EndsOfHalves
from rmqspark.broker.metrics.families import RPC_LATENCY, TIMING
from rmqspark.broker.metrics.figures import Figures
from rmqspark.broker.metrics.histograms import Histogram
from rmqspark.broker.metrics.rpc_latency import RpcLatency
from rmqspark.broker.metrics.settings import exports, labels_of
from rmqspark.broker.metrics.tally import Tally
from rmqspark.broker.metrics.timer_counts import TimerCounts
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import InvalidArgument, NotThereYet
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rmqspark.store.draft import Appended

BOUNDS = (10.0, 100.0)
CONFIG = StoreConfig(mapped_file_size_commit_log=1 << 20, max_hash_slot_num=64, max_index_num=200)


@given(st.lists(st.integers(0, 200)))
def test_many_values_at_once_count_as_one_by_one(values: list[int]) -> None:
    """A bound belongs to the bucket below it, as in Prometheus."""
    together, alone = Histogram(BOUNDS), Histogram(BOUNDS)
    together.record_all(np.array(values, np.int64))
    for value in values:
        alone.record(value)
    assert (together.counts, together.total) == (alone.counts, alone.total)
    assert together.total == sum(values)
    below = [sum(value <= bound for value in values) for bound in BOUNDS]
    assert [sum(together.counts[:1]), sum(together.counts[:2]), sum(together.counts)] == [*below, len(values)]


def there(series: AsyncIterator[tuple[tuple[str, str], list[int]]]) -> dict[tuple[str, str], list[int]]:
    async def gather() -> dict[tuple[str, str], list[int]]:
        return {key: numbers async for key, numbers in series}

    return asyncio.run(gather())


def test_beyond_the_limit_all_is_counted_as_one() -> None:
    """A tally takes no more memory than it may, whoever names what."""
    tally = Tally(2)
    for group in ("a", "b", "c", "d", "a"):
        tally.of((group, "orders"))[0] += 1
    assert dict(tally.items()) == {("a", "orders"): [2], ("b", "orders"): [1]}
    assert tally.overflow == [2]
    assert there(tally.of_those(lambda group, _: group != "a")) == {("b", "orders"): [1]}
    tally.of(("c", "orders"))[0] += 1
    assert dict(tally.items()) == {("b", "orders"): [1], ("c", "orders"): [1]}


def test_what_is_read_of_what_is_gone_is_forgotten() -> None:
    """Reads in bulk name no group, so it cannot be gone."""
    departures = Departures(10)
    for topic, group in (("orders", "billing"), ("orders", "old"), ("gone", "billing"), ("orders", "")):
        departures.count(topic, group, 3, 300)
    departures.count("%RETRY%billing", "billing", 1, 100)
    departures.count("orders", "billing", 0, 0)
    left = departures.of_what_is_there(lambda topic: topic == "orders", lambda group: group == "billing")
    assert there(left) == {("orders", "billing"): [3, 300, 1], ("orders", ""): [3, 300, 1]}
    assert len(departures) == 2


class Store:
    """A store, and what is counted of what comes into it from now on."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem()
        self.store = MessageStore.open("store", CONFIG, files=self.files, clock=ManualClock(), entropy=SystemEntropy(1))

    def shorten(self, path: str) -> None:
        """Takes from a file all that is in it, behind the store's back."""
        file = self.files.open(f"store/{path}")
        file.truncate(0)
        file.close()

    def put(self, topic: str, *bodies: int, queue_id: int = 0) -> tuple[list[Draft], list[Appended]]:
        drafts = [Draft(topic, queue_id, encode_record(topic=topic, body=b"x" * size)) for size in bodies]
        return drafts, self.store.append(drafts)


def counted(arrivals: Arrivals) -> dict[tuple[str, str], tuple[int, int]]:
    """Messages and bytes, by topic and type."""
    asyncio.run(arrivals.count())
    return {(a.topic, a.message_type): (sum(a.sizes.counts), a.sizes.total) for a in arrivals.by_type()}


def test_what_is_there_at_the_start_does_not_count() -> None:
    """Counters begin at 0, as RocketMQ's."""
    store = Store()
    store.put("orders", 1, 2, 3)
    arrivals = Arrivals(store.store.queues)
    assert counted(arrivals) == {}
    _, (place,) = store.put("orders", 4, queue_id=1)
    assert counted(arrivals) == {("orders", "normal"): (1, place.size)}
    assert counted(arrivals) == {("orders", "normal"): (1, place.size)}


def test_those_that_are_unlike_most_are_not_counted_twice() -> None:
    """They are in the queue with the others."""
    store = Store()
    arrivals = Arrivals(store.store.queues)
    store.put("orders", 10, 20)
    drafts, places = store.put("orders", 30)
    arrivals.tell_stored("transaction", drafts, places)
    arrivals.tell("orders", "fifo", [place.size for place in store.put("orders", 2000)[1]])
    found = counted(arrivals)
    assert {kind: messages for (_, kind), (messages, _) in found.items()} == {"normal": 2, "transaction": 1, "fifo": 1}
    assert found["orders", "transaction"] == (1, places[0].size)


def test_no_counter_goes_back_where_word_is_ahead_of_the_queues() -> None:
    """With SYNC_FLUSH what is stored is in its queue a little later."""
    store = Store()
    arrivals = Arrivals(store.store.queues)
    size = store.put("orders", 10, 20)[1][0].size
    before = counted(arrivals)["orders", "normal"]
    arrivals.tell("orders", "delay", [size])
    assert counted(arrivals)["orders", "normal"] == before
    store.put("orders", 10)
    assert counted(arrivals) == {("orders", "normal"): before, ("orders", "delay"): (1, size)}


def test_topics_that_are_gone_are_forgotten_and_their_next_ones_counted_anew() -> None:
    """Nobody fills a broker's memory with names."""
    store = Store()
    arrivals = Arrivals(store.store.queues)
    store.put("orders", 1, 2, 3)
    assert counted(arrivals)["orders", "normal"][0] == 3
    store.store.deletions.delete("orders")
    assert counted(arrivals) == {}
    store.put("orders", 1, 2)
    assert counted(arrivals)["orders", "normal"][0] == 2


@pytest.mark.faults
def test_what_cannot_be_read_is_in_nobodys_way() -> None:
    """A queue that lost a file, or the log its oldest: figures tell of all the others, for then they are asked for."""
    store = Store()
    arrivals = Arrivals(store.store.queues)
    store.put("broken", 1, 2, 3)
    store.put("orders", 1, 2, 3)
    store.store.checkpoint()
    store.shorten("consumequeue/broken/0/00000000000000000000")
    store.shorten("commitlog/00000000000000000000")
    assert {topic: messages for (topic, _), (messages, _) in counted(arrivals).items()} == {"orders": 3}
    assert store.store.queues.store_time_at("broken", 0, 0) == -1
    assert store.store.figures().earliest_timestamp_ms == -1
    store.put("orders", 4)
    assert counted(arrivals)["orders", "normal"][0] == 4


def told(counts: EndsOfHalves | TimerCounts) -> set[tuple[str, ...]]:
    """Family and topic of each figure, while topic "old" is gone."""
    figures = Figures({})
    counts.forget(lambda topic: topic != "old")
    counts.tell(figures)
    return {(family.name, *sample.labels[:1]) for family, some in figures.families.items() for sample in some}


def test_ends_of_halves_and_timed_messages_go_with_their_topics() -> None:
    """But for what still waits: it has to be counted when its time comes."""
    ends, timers = EndsOfHalves(), TimerCounts()
    for topic in ("orders", "old"):
        ends.committed(topic, 1_000)
        ends.rolled_back(topic)
        timers.taken_in(topic, 1_000, is_new=True)
    assert {topic for _, topic in told(ends)} == {"orders"}
    assert (TIMING.name, "old") in told(timers)
    timers.time_came("old")
    assert {topic for _, topic in told(timers)} == {"orders"}
    assert (len(ends._commits), len(ends._rollbacks), len(timers._topics)) == (1, 1, 1)


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_TXN_LEDGER_TOPIC"])
def test_what_brokers_write_for_themselves_is_not_counted(topic: str) -> None:
    """Nor are retries and dead letters, as in RocketMQ."""
    store = Store()
    arrivals = Arrivals(store.store.queues)
    store.put(topic, 1)
    arrivals.tell(topic, "delay", [100])
    assert counted(arrivals) == {}


def test_many_are_read_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn in between, and may bring more."""
    monkeypatch.setattr("rmqspark.broker.metrics.arrivals._ENTRIES_AT_ONCE", 3)
    store = Store()
    arrivals = Arrivals(store.store.queues)
    store.put("orders", *[5] * 10)

    async def count_together() -> None:
        await asyncio.gather(arrivals.count(), arrivals.count())

    asyncio.run(count_together())
    assert counted(arrivals)["orders", "normal"][0] == 10


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (479, "v5_3_3"),
        (478, "v5_3_3_snapshot"),
        (413, "v5_0_0"),
        (401, "v4_9_4"),
        (212, "v4_0_0_snapshot"),
        (121, "v3"),
        (611, "v5_9_9"),
        (612, "higher_version"),
        (-1, "v3"),
    ],
)
def test_versions_are_called_as_rocketmq_calls_them(number: int, name: str) -> None:
    """MQVersion's names; of the versions before 4.0 only that."""
    assert version_name(number) == name


@pytest.mark.parametrize(
    ("text", "wanted"), [("PROM", True), ("2", True), ("prom", True), ("DISABLE", False), ("0", False)]
)
def test_exporters_are_named_as_in_rocketmq(text: str, wanted: bool) -> None:
    """Or by number."""
    assert exports(text) is wanted


@pytest.mark.parametrize(
    ("text", "error"), [("OTLP_GRPC", NotThereYet), ("1", NotThereYet), ("LOG", NotThereYet), ("x", InvalidArgument)]
)
def test_other_exporters_are_refused_with_the_one_there_is(text: str, error: type[Exception]) -> None:
    """Not passed over in silence: who configures one looks for its figures."""
    with pytest.raises(error, match="PROM"):
        exports(text)


def test_labels_are_pairs() -> None:
    """And what is none is named."""
    assert labels_of("zone:east, rack:7") == {"zone": "east", "rack": "7"}
    assert labels_of("") == {}
    for text in ("zone", "a:b:c", "9:x", "__name__:x", ":x"):
        with pytest.raises(InvalidArgument, match="metrics_label"):
            labels_of(text)


def test_a_client_invents_no_series_of_requests() -> None:
    """Codes that nobody knows count together: those of requests, and those that a consumer answers an operator with,
    which is passed on as it is."""
    latency, figures = RpcLatency(ManualClock()), Figures({})
    for code in range(100_000, 100_100):
        latency.answered(RequestCode.GET_CONSUMER_RUNNING_INFO, code, 0, waited=True, result="success")
        latency.answered(code, ResponseCode.SUCCESS, 0, waited=False, result="success")
    latency.tell(figures)
    codes = [sample.labels[1:3] for sample in figures.families[RPC_LATENCY] if sample.labels]
    assert codes == [("get_consumer_running_info", "unknown"), ("unknown", "success")]
