"""Which queue a message goes to."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.client.sending.selection import RoundRobin, Target, queue_for_shard
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import InvalidArgument, InvalidQueue, NoPermission
from rmqspark.model import MessageQueue

QUEUES = tuple(MessageQueue("t", broker, queue_id) for broker in ("a", "b") for queue_id in range(3))


def test_queues_are_taken_in_turn() -> None:
    """Sixty messages put ten into each of six queues."""
    round_robin = RoundRobin(SystemEntropy("seed"))
    assert Counter(round_robin.pick("t", QUEUES) for _ in range(60)) == dict.fromkeys(QUEUES, 10)


def test_two_topics_sent_to_by_turns_are_both_spread_evenly() -> None:
    """Each topic has its own turn, so alternating between two does not leave out every other queue."""
    round_robin = RoundRobin(SystemEntropy("seed"))
    others = [queue._replace(topic="u") for queue in QUEUES]
    picked = Counter(
        round_robin.pick(topic, queues) for _ in range(12) for topic, queues in (("t", QUEUES), ("u", others))
    )
    assert set(picked.values()) == {2}


def test_turns_of_topics_that_come_and_go_take_no_more_and_more_memory() -> None:
    """A producer that lives long may have sent to very many."""
    round_robin = RoundRobin(SystemEntropy("seed"))
    for number in range(25_000):
        round_robin.pick(f"run{number}", QUEUES)
    assert len(round_robin._turns) <= 10_000


def test_producers_begin_at_different_queues() -> None:
    """Many short-lived producers do not all send their first message to the same queue."""
    assert len({RoundRobin(SystemEntropy(seed)).pick("t", QUEUES) for seed in range(50)}) == len(QUEUES)


@pytest.mark.parametrize(
    ("shard", "queue"),
    [
        ("", 0),  # hash 0
        ("a", 97 % 6),
        ("order", 106006350 % 6),
        ("订单", 1129459 % 6),
        ("polygenelubricants", 2**31 % 6),  # hash -2**31: Java's remainder is negative, its absolute value is taken
    ],
)
def test_a_shard_goes_where_java_producers_send_it(shard: str, queue: int) -> None:
    """A key is in the same queue whether Python or RocketMQ's SelectMessageQueueByHash sent it."""
    assert queue_for_shard(shard, QUEUES) == QUEUES[queue]
    assert Target(shard=shard).choose("t", QUEUES) == QUEUES[queue]


@given(st.text(), st.integers(1, 40))
def test_every_shard_has_one_queue(shard: str, count: int) -> None:
    """Any string is a shard, and it always finds the same queue."""
    queues = [MessageQueue("t", "a", queue_id) for queue_id in range(count)]
    assert queue_for_shard(shard, queues) == queue_for_shard(shard, queues)


def test_a_queue_is_chosen_by_id_or_in_full() -> None:
    """queue=2 is queue 2; where several brokers have one, the broker has to be named."""
    assert Target(2).choose("t", QUEUES[:3]) == QUEUES[2]
    assert Target(QUEUES[4]).choose("t", QUEUES) == QUEUES[4]
    with pytest.raises(InvalidQueue, match=r"MessageQueue\('t', 'a', 2\)"):
        Target(2).choose("t", QUEUES)


@pytest.mark.parametrize(
    "target", [Target(3), Target(-1), Target(MessageQueue("t", "c", 0)), Target(MessageQueue("u", "a", 0))]
)
def test_a_queue_that_is_not_there_is_refused(target: Target) -> None:
    """A queue outside the topic is an error, not a message somewhere else."""
    with pytest.raises(InvalidQueue):
        target.choose("t", QUEUES)


def test_queue_and_shard_exclude_each_other() -> None:
    """Asking for a queue and a shard at once is a contradiction."""
    with pytest.raises(InvalidArgument, match="exclude"):
        Target(0, "s").choose("t", QUEUES)


def test_a_topic_nobody_may_write_says_so() -> None:
    """A topic without writable queues is reported as that."""
    for choose in (lambda: RoundRobin(SystemEntropy(1)).pick("t", ()), lambda: Target(shard="s").choose("t", ())):
        with pytest.raises(NoPermission, match="'t'"):
            choose()
