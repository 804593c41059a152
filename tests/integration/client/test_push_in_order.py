"""Push consumers that read in order: one message of a queue at a time, by one member."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rmqspark import Message, MessageQueue, Producer, PushConsumer, ReceivedMessage
from rmqspark.protocol.names import dead_letter_topic

from .push_talk import QUICK, Listener, committed, fail, of_topic, read, send, wait_until

if TYPE_CHECKING:
    from rmqspark.testing import LocalCluster

    pass

pytestmark = pytest.mark.integration


def test_in_order_a_message_that_fails_holds_up_its_queue(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """Until it succeeds, and no other queue; never are two messages of a queue consumed at once."""
    at_work: Counter[MessageQueue] = Counter()
    together: list[ReceivedMessage] = []

    def act(message: ReceivedMessage) -> None:
        at_work[message.queue] += 1
        if at_work[message.queue] > 1:
            together.append(message)
        at_work[message.queue] -= 1
        if message.body == b"4" and message.reconsume_times < 3:
            fail(message)

    heard = Listener(act)
    with PushConsumer(mq.namesrv, "orderly", listener=heard, ordered=True, config=QUICK) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 40)
        heard.wait(43)
    by_queue = [[message.body for message in heard.messages if message.queue.queue_id == n] for n in range(4)]
    assert by_queue[0] == [b"0", *[b"4"] * 4, *[b"%d" % n for n in range(8, 40, 4)]]
    assert by_queue[1:] == [[b"%d" % n for n in range(queue, 40, 4)] for queue in range(1, 4)]
    assert together == []
    assert set(committed(mq.namesrv, "orderly", topic).values()) == {10}


def test_in_order_a_message_that_fails_too_often_is_a_dead_letter(
    mq: LocalCluster, topic: str, producer: Producer
) -> None:
    """And its queue goes on."""
    heard = Listener(lambda message: fail(message) if message.tags == "bad" else None)
    with PushConsumer(
        mq.namesrv, "hopeless", listener=heard, ordered=True, max_reconsume_times=2, config=QUICK
    ) as consumer:
        consumer.subscribe(topic)
        sent = producer.send(Message(topic, b"bad" * 2000, tags="bad"), queue=0)
        producer.send(Message(topic, b"good"), queue=0)
        heard.wait(4)
        (dead,) = read(mq.namesrv, dead_letter_topic("hopeless"), 1)
    assert [message.body for message in heard.messages][-1] == b"good"
    assert (dead.body, dead.tags, dead.msg_id) == (b"bad" * 2000, "bad", sent.msg_id)
    assert dead.properties["RETRY_TOPIC"] == topic


def test_in_order_a_queue_is_handed_over_between_two_messages(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """Who has to give it up finishes what it is at, and who gets it waits for that: no message of a queue before the
    one before it is consumed, not even when members come and go."""
    consumed: dict[int, list[int]] = {n: [] for n in range(4)}
    overlaps: list[str] = []
    at_work: set[MessageQueue] = set()
    pause = threading.Event()

    def act(message: ReceivedMessage) -> None:
        if message.queue in at_work:
            overlaps.append(message.body.decode())
        at_work.add(message.queue)
        pause.wait(0.005)
        at_work.discard(message.queue)
        consumed[message.queue.queue_id].append(message.queue_offset)

    heard = Listener(act)
    with PushConsumer(mq.namesrv, "handed-over", listener=heard, ordered=True, config=QUICK) as stays:
        stays.subscribe(topic)
        for round_ in range(3):
            with PushConsumer(mq.namesrv, "handed-over", listener=heard, ordered=True, config=QUICK) as comes:
                send(producer, topic, 80, first=80 * round_)
                comes.subscribe(topic)
                wait_until(lambda comes=comes: len(of_topic(comes, topic)) == 2, "it has its share")
                send(producer, topic, 40, first=1000 + 40 * round_)
        wait_until(lambda: sum(map(len, consumed.values())) >= 360, "all are consumed")
    assert overlaps == []
    assert all(offsets == list(range(90)) for offsets in consumed.values())
