"""How push consumers end: closed, closed by their own listeners, or with listeners that do not end."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqspark import Message, Producer, PushConsumer
from rmqspark.errors import AlreadyClosed, Unreachable

from .push_talk import PATIENCE_S, QUICK, Listener, committed, send

if TYPE_CHECKING:
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("rmqspark-")}


def test_no_thread_is_left(mq: LocalCluster, topic: str) -> None:
    """Of one that was started, of one that was not, and of one that could not be; closing again is no mistake."""
    before = threads()
    with PushConsumer(mq.namesrv, "threads", listener=print) as consumer:
        consumer.subscribe(topic)
        assert len(threads() - before) == 22
    consumer.close()
    assert threads() <= before  # where those of another test may still have been ending
    with pytest.raises(AlreadyClosed):
        consumer.subscribe(topic)
    PushConsumer(mq.namesrv, "threads", listener=print).close()
    wrong = PushConsumer("127.0.0.1:1", "threads", listener=print)
    wrong.subscribe(topic)
    with pytest.raises(Unreachable):
        wrong.start()
    assert threads() <= before


def test_a_listener_may_close_its_consumer(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """It does not wait for itself, and the message it is at is consumed."""
    heard = Listener(lambda message: consumer.close())
    with PushConsumer(mq.namesrv, "closing", listener=heard) as consumer:
        consumer.subscribe(topic)
        sent = producer.send(Message(topic, b"the last"), queue=0)
        heard.wait(1)
    assert committed(mq.namesrv, "closing", topic)[sent.queue] == 1


def test_closing_waits_for_listeners_at_work_but_not_for_ever(
    mq: LocalCluster, topic: str, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    """What one has finished in time is consumed; what not comes again."""
    in_time, never = threading.Event(), threading.Event()
    heard = Listener(lambda message: in_time.wait(0.2) if message.body == b"0" else never.wait(PATIENCE_S))
    config = replace(QUICK, await_termination_millis_when_shutdown=1_000)
    with PushConsumer(mq.namesrv, "waits", listener=heard, config=config) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 2)
        heard.wait(2)
    assert list(committed(mq.namesrv, "waits", topic).values()) == [1, 0, 0, 0]
    assert "1 call of the listener did not end" in caplog.text
    never.set()
