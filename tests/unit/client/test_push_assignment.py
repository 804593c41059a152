"""Whose queues are whose among push consumers, and where they begin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.client.pushing.assignment import View, change, is_settled, wanted
from rmqspark.client.pushing.config import PushConfig
from rmqspark.client.pushing.process_queue import Thresholds
from rmqspark.client.pushing.subscription import ConsumeFrom, Subscription
from rmqspark.errors import InvalidArgument, InvalidFilter, InvalidName
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import SubscriptionData
from rmqspark.protocol.milliseconds import CLOCKS_DIFFER_MS
from rmqspark.rebalance.strategies import Strategy

AVERAGELY = Strategy()


def queues(topic: str, count: int) -> list[MessageQueue]:
    return [MessageQueue(topic, "broker-a", number) for number in range(count)]


ORDERS = queues("orders", 4)


@given(
    counts=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 9)),
    members=st.sets(st.text("xyz@#1", min_size=1), min_size=1, max_size=5),
    name=st.sampled_from(["averagely", "circle", "consistent-hash"]),
)
def test_members_that_see_the_same_divide_everything(counts: dict[str, int], members: set[str], name: str) -> None:
    """Each queue of each topic is exactly one member's, whatever it held before."""
    views = {topic: View(queues(topic, count), members) for topic, count in counts.items()}
    everything = [queue for view in views.values() for queue in view.queues]
    shares = [wanted(views, everything[:index], member, Strategy(name)) for index, member in enumerate(sorted(members))]
    assert sorted(queue for share in shares for queue in share) == sorted(everything)
    assert all(is_settled(views, member, Strategy(name)) for member in members)


@pytest.mark.parametrize("view", [None, View(ORDERS, None), View(ORDERS, []), View(ORDERS, ["somebody-else"])])
def test_what_was_not_seen_changes_nothing(view: View | None) -> None:
    """A name server or broker that is away, or one that does not know this member yet, takes no queue from it."""
    held = [ORDERS[1], *queues("gone", 2)]
    assert wanted({"orders": view}, held, "me", AVERAGELY) == {ORDERS[1]}
    assert not is_settled({"orders": view}, "me", AVERAGELY)


def test_a_topic_without_queues_is_given_up() -> None:
    """Deleted, or closed for reading: that is known, not unknown."""
    view = {"orders": View([], None)}
    assert wanted(view, ORDERS, "me", AVERAGELY) == set()
    assert is_settled(view, "me", AVERAGELY)


def test_who_broadcasts_reads_all() -> None:
    """Whoever else is there."""
    assert wanted({"orders": View(ORDERS, None)}, [], "me", None) == set(ORDERS)


def test_what_changes() -> None:
    assert change([ORDERS[0], ORDERS[2]], {ORDERS[2], ORDERS[1]}) == ([ORDERS[0]], [ORDERS[1]])


@pytest.mark.parametrize(
    ("consume_from", "wire_name", "at_first", "later"),
    [
        ("latest", "CONSUME_FROM_LAST_OFFSET", "latest", 1_000_000 - CLOCKS_DIFFER_MS),
        ("earliest", "CONSUME_FROM_FIRST_OFFSET", "earliest", "earliest"),
        (5_000, "CONSUME_FROM_TIMESTAMP", 5_000, 5_000),
    ],
)
def test_where_a_new_group_begins(consume_from: str | int, wire_name: str, at_first: object, later: object) -> None:
    """As it says; but what is to be consumed again is never left out, nor what a queue got before it was noticed."""
    start = ConsumeFrom.parse(consume_from)
    retries = MessageQueue("%RETRY%billing", "broker-a", 0)
    assert start.wire_name == wire_name
    assert start.place(ORDERS[0], 1_000_000, is_later=False) == at_first
    assert start.place(ORDERS[0], 1_000_000, is_later=True) == later
    went_on = 900_000 if consume_from == "latest" else at_first
    assert start.place(ORDERS[0], 1_000_000, is_later=False, consumed_ms=900_000) == went_on
    assert start.place(retries, 1_000_000, is_later=False, consumed_ms=900_000) == "earliest"
    assert start.place(retries, 1_000_000, is_later=False) == "earliest"


@pytest.mark.parametrize("value", ["newest", -1, "2026-01-01", None, 1_700_000_000, 1_700_000_000_000_000])
def test_a_start_that_is_none(value: object) -> None:
    """Nor one in seconds, which as milliseconds is before all messages: the group would consume all there are."""
    with pytest.raises(InvalidArgument, match="consume_from"):
        ConsumeFrom.parse(value)


def test_what_brokers_hear_of_a_subscription() -> None:
    """Tags with their hash codes, as RocketMQ's clients send them; SQL92 as it is."""
    assert Subscription.to("orders", "b||a", None, 7).data() == SubscriptionData(
        "orders", "b||a", ["a", "b"], [97, 98], 7, "TAG"
    )
    assert Subscription.to("orders", " a\u3000", None, 7).data().subString == "a\u3000"
    assert Subscription.to("orders", " ", None, 7).data() == SubscriptionData("orders", "*", [], [], 7, "TAG")
    assert Subscription.to("orders", "*", "a > 1", 7).data() == SubscriptionData("orders", "a > 1", [], [], 7, "SQL92")


def test_subscriptions_that_are_none() -> None:
    for wrong, error in [(("a b", "*", None), InvalidName), (("a", "||", None), InvalidFilter)]:
        with pytest.raises(error):
            Subscription.to(*wrong, 7)
    with pytest.raises(InvalidArgument, match="exclude"):
        Subscription.to("a", "paid", "x > 1", 7)


def test_settings_have_rocketmqs_defaults() -> None:
    """Queues that are read in order have no bound of how far their messages lie apart."""
    assert PushConfig().thresholds(ordered=False) == Thresholds(1000, 100 << 20, 2000)
    assert PushConfig().thresholds(ordered=True).span > 1 << 30
    with pytest.raises(InvalidArgument, match="rebalance_interval"):
        PushConfig(rebalance_interval=60_000)
