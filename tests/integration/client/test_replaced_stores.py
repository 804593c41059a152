"""Consumers that go on where they were, though that is in another store than their broker's by now."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import AdminClient, Message, Producer, PullConsumer, PushConsumer
from rmqspark.broker.handlers.capabilities import CapabilityHandlers
from rmqspark.errors import OffsetMoved, StoreReplaced
from rmqspark.testing import cluster

from .push_talk import QUICK, Listener, committed, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration
GROUP = "billing"


@pytest.fixture
def one() -> Iterator[LocalCluster]:
    with cluster() as running:
        yield running


def send(one: LocalCluster, *bodies: str) -> None:
    with Producer(one.namesrv) as producer:
        for body in bodies:
            producer.send(Message("orders", body.encode()), queue=0)


def replace_store(one: LocalCluster) -> None:
    """The broker comes back with an empty disk."""
    one.stop_broker("broker-a")
    shutil.rmtree(one.store_dir("broker-a"))
    one.start_broker("broker-a")


def lose_end(one: LocalCluster) -> None:
    """The broker comes back with what its disk had before the last messages, and knows that it has lost some."""
    store = one.store_dir("broker-a")
    one.stop_broker("broker-a")
    shutil.rmtree(store)
    store.with_name("before").rename(store)
    for name in ("rmqspark.json", "rmqspark.json.bak"):
        if (store / name).exists():
            who = json.loads((store / name).read_text())
            (store / name).write_text(json.dumps(who | {"incarnation": who["incarnation"] + 1}))
    one.start_broker("broker-a")


def keep_store(one: LocalCluster) -> None:
    """What `lose_end` goes back to."""
    store = one.store_dir("broker-a")
    one.stop_broker("broker-a")
    shutil.copytree(store, store.with_name("before"))
    one.start_broker("broker-a")


def create_topic(one: LocalCluster) -> None:
    with AdminClient(one.namesrv) as admin:
        admin.create_topic("orders", queues=1)


@pytest.mark.parametrize("how", [{}, {"ordered": True}, {"broadcasting": True}], ids=str)
def test_nothing_is_left_out_of_a_topic_that_was_away(one: LocalCluster, how: Any, tmp_path: Path) -> None:
    """What it has by the time a member finds it again, whose group begins with the latest messages."""
    create_topic(one)
    heard = Listener()
    config = replace(QUICK, rebalance_interval=2_000, local_offset_store_dir=str(tmp_path))
    with PushConsumer(one.namesrv, GROUP, listener=heard, config=config, **how) as consumer:
        consumer.subscribe("orders")
        send(one, "a")
        heard.wait(1)
        replace_store(one)
        wait_until(
            lambda: all(held.topic != "orders" for held in consumer.assignment), "it sees that the topic is gone"
        )
        create_topic(one)
        send(one, "b", "c")
        assert sorted(heard.wait(3)) == ["a", "b", "c"]


@pytest.mark.parametrize("how", [{}, {"ordered": True}, {"broadcasting": True}], ids=str)
@pytest.mark.parametrize("count", [2, 9])
def test_a_push_consumer_reads_another_store_from_its_beginning(
    one: LocalCluster, count: int, how: Any, tmp_path: Path
) -> None:
    """Whether that has fewer messages by then than it had consumed, or more: it went on behind them."""
    create_topic(one)
    heard, config = Listener(), replace(QUICK, local_offset_store_dir=str(tmp_path))
    with PushConsumer(one.namesrv, GROUP, listener=heard, config=config, **how) as consumer:
        consumer.subscribe("orders")
        send(one, *"abcde")
        heard.wait(5)
        replace_store(one)
        create_topic(one)
        there = [f"new {number}" for number in range(count)]
        send(one, *there)
        assert sorted(heard.wait(5 + count)[5:]) == there
        if "broadcasting" not in how:
            wait_until(lambda: list(committed(one.namesrv, GROUP, "orders").values()) == [count], "that is committed")


@pytest.mark.parametrize("count", [2, 9])
def test_a_push_consumer_goes_on_where_a_crash_has_left_its_group(one: LocalCluster, count: int) -> None:
    """What has taken the numbers of lost messages is consumed, however far the queue has grown since."""
    create_topic(one)
    heard = Listener()
    with PushConsumer(one.namesrv, GROUP, listener=heard, config=QUICK) as consumer:
        consumer.subscribe("orders")
        send(one, *"ab")
        heard.wait(2)
        wait_until(lambda: list(committed(one.namesrv, GROUP, "orders").values()) == [2], "that is committed")
        keep_store(one)
        send(one, *"cde")
        heard.wait(5)
        lose_end(one)
        there = [f"{number}" for number in range(count)]  # which lie where lost ones have
        send(one, *there)
        assert sorted(heard.wait(5 + count)[5:]) == there


@pytest.mark.parametrize("tags", ["*", "odd"])
def test_a_push_consumer_goes_on_where_it_was_if_what_it_read_last_is_there(one: LocalCluster, tags: str) -> None:
    """A crash that took nothing of its queue, or a slave that was made the master: nothing comes again, though less is
    committed than it has consumed."""
    create_topic(one)
    heard, config = Listener(), replace(QUICK, persist_consumer_offset_interval=600_000)
    with PushConsumer(one.namesrv, GROUP, listener=heard, config=config) as consumer, Producer(one.namesrv) as producer:

        def send_numbers(*numbers: int) -> list[str]:
            for number in numbers:
                producer.send(Message("orders", b"%d" % number, tags="odd" if number % 2 else "even"), queue=0)
            return [str(number) for number in numbers if tags == "*" or number % 2]

        consumer.subscribe("orders", tags)
        sent = send_numbers(1, 2, 3, 4)
        heard.wait(len(sent))
        one.stop_broker("broker-a")
        (one.store_dir("broker-a") / "abort").touch()  # as if its machine had lost its power
        one.start_broker("broker-a")
        sent += send_numbers(5, 6, 7)
        assert sorted(heard.wait(len(sent))) == sent


@pytest.mark.parametrize(("group", "go_on"), [(GROUP, 2), (None, 5)])
@pytest.mark.parametrize("count", [6, 9])
def test_who_pulls_is_told_that_the_end_was_lost(one: LocalCluster, group: str | None, go_on: int, count: int) -> None:
    """Before other messages are taken for those that were to come next, and committed."""
    create_topic(one)
    send(one, *"ab")
    with PullConsumer(one.namesrv, group) as consumer:
        (queue,) = consumer.queues("orders")
        consumer.assign([queue])
        pull(consumer, 2)
        if group:
            consumer.commit()
        keep_store(one)
        send(one, *"cde")
        pull(consumer, 3)
        lose_end(one)
        send(one, *map(str, range(count)))
        if group:
            with pytest.raises(StoreReplaced, match="'broker-a' may have lost the end of its store in a crash"):
                consumer.commit()
            assert consumer.committed(queue) == 2
        with pytest.raises(OffsetMoved, match=rf"Offset 5 of .* other messages now.*seek\(queue, {go_on}\)") as moved:
            pull(consumer, 1)
        consumer.seek(queue, moved.value.next_offset)
        assert pull(consumer, 2 + count - go_on) == [str(number) for number in range(count)][go_on - 2 :]
        if group:
            consumer.commit()
            assert consumer.committed(queue) == 2 + count


@pytest.mark.parametrize("group", [GROUP, None])
def test_who_pulls_goes_on_where_he_was_if_what_he_read_last_is_there(one: LocalCluster, group: str | None) -> None:
    """What was fetched and not handed out yet is read again, as it is now."""
    create_topic(one)
    send(one, *"abcd")
    with PullConsumer(one.namesrv, group, max_poll_messages=2) as consumer:
        consumer.assign(consumer.queues("orders"))
        assert pull(consumer, 2) == ["a", "b"]
        one.stop_broker("broker-a")
        (one.store_dir("broker-a") / "abort").touch()  # as if its machine had lost its power
        one.start_broker("broker-a")
        send(one, "e")
        assert pull(consumer, 3) == ["c", "d", "e"]


def test_who_waits_at_the_end_of_a_queue_is_told_nothing_where_it_still_ends(one: LocalCluster) -> None:
    """Of queues in which nothing came, most have lost nothing when their broker crashes, or another takes its place."""
    create_topic(one)
    send(one, *"ab")
    with PullConsumer(one.namesrv, start="latest") as consumer:
        consumer.assign(consumer.queues("orders"))
        assert consumer.poll(timeout_ms=0) == []
        one.stop_broker("broker-a")
        (one.store_dir("broker-a") / "abort").touch()  # as if its machine had lost its power
        one.start_broker("broker-a")
        assert consumer.poll(timeout_ms=1_500) == []
        send(one, "c")
        assert pull(consumer, 1) == ["c"]


@pytest.mark.parametrize("group", [GROUP, None])
@pytest.mark.parametrize("count", [2, 9])
def test_who_pulls_is_told_of_another_store(one: LocalCluster, group: str | None, count: int) -> None:
    """Its messages are all new to him, and none of them is consumed."""
    create_topic(one)
    send(one, *"abcde")
    with PullConsumer(one.namesrv, group) as consumer:
        (queue,) = consumer.queues("orders")
        consumer.assign([queue])
        pull(consumer, 5)
        replace_store(one)
        create_topic(one)
        send(one, *map(str, range(count)))
        if group:
            with pytest.raises(StoreReplaced, match="'broker-a' serves another store than before"):
                consumer.commit()
        with pytest.raises(OffsetMoved, match=r"Offset 5 of .* other messages now.*seek\(queue, 0\)"):
            pull(consumer, 1)
        consumer.seek(queue, 0)
        assert pull(consumer, count) == [str(number) for number in range(count)]


class Turns:
    """Whether a broker that is started says which store it serves: ours does, RocketMQ's does not know the question."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._ours = CapabilityHandlers.routes

    def of(self, whose: str) -> None:
        routes = self._ours if whose == "ours" else lambda _: {}
        self._monkeypatch.setattr(CapabilityHandlers, "routes", routes)


TURNS = pytest.mark.parametrize(("first", "then"), [("RocketMQ's", "ours"), ("ours", "RocketMQ's")])


@TURNS
@pytest.mark.parametrize("group", [GROUP, None])
def test_who_pulls_goes_on_where_rocketmqs_broker_and_ours_serve_a_store_in_turns(
    monkeypatch: pytest.MonkeyPatch, first: str, then: str, group: str | None
) -> None:
    """What he has read last is in its place, so all before it is."""
    turns = Turns(monkeypatch)
    turns.of(first)
    with cluster() as one:
        create_topic(one)
        send(one, *"abcd")
        with PullConsumer(one.namesrv, group, max_poll_messages=2) as consumer:
            consumer.assign(consumer.queues("orders"))
            assert pull(consumer, 2) == ["a", "b"]
            one.stop_broker("broker-a")
            turns.of(then)
            one.start_broker("broker-a")
            send(one, "e")
            assert pull(consumer, 3) == ["c", "d", "e"]


@TURNS
@pytest.mark.parametrize("leaves", [False, True])
def test_who_broadcasts_goes_on_where_rocketmqs_broker_and_ours_serve_a_store_in_turns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: str, then: str, leaves: bool
) -> None:
    """He consumed all of it once more. He may have left the queue meanwhile, too."""
    turns = Turns(monkeypatch)
    turns.of(first)
    with cluster() as one:
        create_topic(one)
        heard, config = Listener(), replace(QUICK, local_offset_store_dir=str(tmp_path))
        with PushConsumer(one.namesrv, GROUP, listener=heard, config=config, broadcasting=True) as consumer:
            consumer.subscribe("orders")
            send(one, *"abcde")
            heard.wait(5)
            one.stop_broker("broker-a")
            if leaves:
                consumer.unsubscribe("orders")
            turns.of(then)
            one.start_broker("broker-a")
            send(one, *"fg")
            consumer.subscribe("orders")
            assert sorted(heard.wait(7)[5:]) == ["f", "g"]


@TURNS
def test_a_store_that_was_replaced_as_well_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    """What was read last is not there: it is another store."""
    turns = Turns(monkeypatch)
    turns.of(first)
    with cluster() as one:
        create_topic(one)
        send(one, *"ab")
        with PullConsumer(one.namesrv) as consumer:
            (queue,) = consumer.queues("orders")
            consumer.assign([queue])
            pull(consumer, 2)
            turns.of(then)
            replace_store(one)
            create_topic(one)
            send(one, *"123")
            with pytest.raises(OffsetMoved, match=r"seek\(queue, 0\)"):
                pull(consumer, 1)


def pull(consumer: PullConsumer, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        found += [message.body.decode() for message in consumer.poll(timeout_ms=5_000)]
    return found
