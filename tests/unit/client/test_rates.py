"""What goes on in a cluster, from two looks at it."""

from __future__ import annotations

from typing import Any

import pytest

from rmqspark.client.administration.cluster_status import BrokerStatus
from rmqspark.client.spark.query_view import OwnedQueue, QueryView
from rmqspark.client.watching.rates import OpenTransaction, Rates, ReaderRates, TopicRates, rates
from rmqspark.client.watching.snapshots import Bounds, BrokerSnapshot, Snapshot
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.txn import TxnState

ORDERS, OTHER = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def broker(
    at_ms: int,
    end: int = 0,
    committed: int | None = None,
    *,
    name: str = "broker-a",
    silence: str = "",
    boot: int = 1,
    put: int | None = None,
    more: dict[MessageQueue, Bounds] | None = None,
    **fields: Any,
) -> BrokerSnapshot:
    """One that has `end` messages of `orders`, of which group `g` has read as many as it has committed."""
    runtime = {"bootTimestamp": str(boot), "putTps": "9.0 1.0 0.5", "getTransferredTps": "8.0 1.0 0.5"}
    if put is not None:
        runtime |= {"msgPutTotalTodayNow": str(put), "msgGetTotalTodayNow": str(2 * put)}
    status = BrokerStatus(name, "c", {0: "h:1"}, 0, 0, runtime, silence=silence)
    readers = {} if committed is None else {"g": {ORDERS: committed}}
    return BrokerSnapshot(status, at_ms, {ORDERS: Bounds(0, end)} | (more or {}), readers, silence=silence, **fields)


def snapshot(at_ms: int, *brokers: BrokerSnapshot, **fields: Any) -> Snapshot:
    return Snapshot(at_ms, {each.name: each for each in brokers}, **fields)


def between(first: BrokerSnapshot, second: BrokerSnapshot) -> Rates:
    return rates(snapshot(first.at_ms, first), snapshot(second.at_ms, second))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (broker(1_000, put=100), broker(3_000, put=300), (100.0, 200.0)),
        (broker(1_000, put=100), broker(3_000, put=100), (0.0, 0.0)),
        (broker(1_000, put=100), broker(3_000, put=50, boot=2), (9.0, 8.0)),  # started anew: its own rates
        (broker(1_000, put=100), broker(3_000, put=50), (None, None)),  # counters that go back say nothing
        (broker(1_000), broker(3_000), (None, None)),  # it does not count
        (broker(1_000, put=100), broker(1_000, put=100, silence="away"), (None, None)),
        (broker(1_000, put=100, silence="away"), broker(5_000, put=500), (100.0, 200.0)),  # since it was heard of last
    ],
)
def test_brokers(first: BrokerSnapshot, second: BrokerSnapshot, expected: tuple[float | None, float | None]) -> None:
    """Messages a second, by what a broker has counted between two answers."""
    frame = between(first, second)
    assert (frame.brokers[0].in_per_second, frame.brokers[0].out_per_second) == expected
    assert (frame.in_per_second, frame.out_per_second) == expected


def test_one_look_alone() -> None:
    """Brokers' own rates are known, and no others."""
    frame = rates(None, snapshot(1_000, broker(1_000, 10, 4)))
    assert (frame.in_per_second, frame.out_per_second) == (9.0, 8.0)
    assert frame.topics == (TopicRates("orders", None, 10),)
    assert frame.readers == (ReaderRates("g", "", 6, None, None, None),)


GROUPS = [  # (end, committed) twice, two seconds apart → lag, read a second, drain, gains
    ((100, 50), (100, 70), (30, 10.0, 3, True)),
    ((100, 50), (120, 70), (50, 10.0, None, False)),
    ((100, 50), (140, 70), (70, 10.0, None, False)),
    ((100, 50), (110, 70), (40, 10.0, 8, True)),
    ((100, 90), (100, 100), (0, 5.0, 0, True)),
    ((100, 100), (100, 100), (0, 0.0, 0, True)),
    ((100, 50), (100, 50), (50, 0.0, None, False)),
    ((100, 50), (100, 20), (80, None, None, None)),  # it was set back: that is no rate
    ((100, None), (100, 50), (50, None, None, None)),  # it has just come
]


@pytest.mark.parametrize(("first", "second", "expected"), GROUPS)
def test_groups(first: tuple[int, int | None], second: tuple[int, int], expected: tuple[Any, ...]) -> None:
    """When a group will have caught up, if all goes on as between two looks."""
    (reader,) = between(broker(1_000, *first), broker(3_000, *second)).readers
    assert (reader.name, reader.lag, reader.read_per_second, reader.drain_s, reader.gains) == ("g", *expected)


def test_topics() -> None:
    """Of all their queues on all brokers; retries and dead letters are none. A queue that was made in between, or whose
    topic was made anew, has no rate yet."""
    away = MessageQueue("orders", "broker-b", 0)
    retry = MessageQueue("%RETRY%g", "broker-a", 0)
    before = snapshot(
        1_000, broker(1_000, 10, more={OTHER: Bounds(0, 9), retry: Bounds(0, 1)}), broker(1_000, name="broker-b")
    )
    now = snapshot(
        3_000,
        broker(3_000, 14, more={OTHER: Bounds(0, 2), retry: Bounds(0, 5)}),
        broker(3_000, name="broker-b", more={away: Bounds(4, 7)}),
    )
    assert rates(before, now).topics == (TopicRates("orders", 2.0, 14 + 2 + 3),)


def test_a_broker_that_does_not_answer() -> None:
    """It stays with the age of its figures; what lies there counts as it was, and is in no rate."""
    a = [broker(at_ms, 10 * (1 + at_ms), 5, put=at_ms) for at_ms in (1_000, 3_000)]
    b_queue = MessageQueue("orders", "broker-b", 0)
    b = broker(1_000, name="broker-b", more={b_queue: Bounds(0, 100)}, put=7, half_messages=4)
    silent = broker(1_000, name="broker-b", more={b_queue: Bounds(0, 100)}, put=7, half_messages=4, silence="refused")
    frame = rates(snapshot(1_000, a[0], b), snapshot(9_000, a[1], silent))
    gone = frame.brokers[1]
    assert (gone.in_per_second, gone.silence, gone.age_ms) == (None, "refused", 8_000)
    assert (frame.in_per_second, frame.half_messages) == (1_000.0, None)
    assert frame.topics[0].in_per_second == 10_000.0
    assert frame.unknown == ("broker-b: refused",)
    never = BrokerSnapshot(BrokerStatus("broker-c", "c", {}, 0, 0, silence="refused"), 9_000, silence="refused")
    assert rates(None, snapshot(9_000, never)).brokers[0].age_ms is None


def test_queries_take_the_place_of_their_groups() -> None:
    """One list: who reads for a query is told as the query, by what its listener said."""
    owned = OwnedQueue("g", ORDERS, 40, 100, 3_000)
    running = QueryView("id", "billing", "running", 0, 7, [owned], behind_ms=3_000, consumed_per_second=50.0)
    silent = QueryView("id-2", "", "unknown", 0, -1)
    frame = rates(None, snapshot(1_000, broker(1_000, 100, 40), queries=(running, silent)))
    assert frame.readers == (
        ReaderRates("billing", "running", 60, 50.0, 2, True, 3_000, "id"),
        ReaderRates("id-2", "unknown", None, None, None, None, None, "id-2"),
    )
    assert frame.lag == 60


def test_transactions_that_are_open() -> None:
    """The oldest first; what is committed or given up is in no doubt."""
    states = (
        TxnState("new", version=3, lastVersion=2, state="version 3 is being written", ageMs=10, rows=5),
        TxnState("old", version=1, lastVersion=-1, state="version 1 is being written", ageMs=9_000),
        TxnState("done", version=4, lastVersion=4, state="version 4 is committed", ageMs=99_000),
        TxnState("given", version=5, lastVersion=4, state="version 5 was given up by a@b", ageMs=99_000),
    )
    frame = rates(None, snapshot(1_000, transactions=states))
    assert [each.transactional_id for each in frame.transactions] == ["old", "new"]
    assert frame.transactions[1] == OpenTransaction("new", 3, "version 3 is being written", 10, 5)


def test_what_is_left_out_is_said() -> None:
    """No name server, too many topics, queries nobody could be asked about."""
    now = snapshot(1_000, broker(1_000, topics_left_out=3), silence="refused", gaps=("broker-b does not answer",))
    assert rates(None, now).unknown == (
        "No name server answers: refused",
        "broker-a has 3 topics more than are looked at",
        "broker-b does not answer",
    )
