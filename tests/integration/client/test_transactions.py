"""Transactional producers against the real broker."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain, repeat
from queue import Queue
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import (
    AdminClient,
    Message,
    PreparedMessage,
    PullConsumer,
    ReceivedMessage,
    SendReceipt,
    TransactionProducer,
    TransactionState,
)
from rmqspark.broker.config import BrokerConfig
from rmqspark.client.sending.delivery import Delivery
from rmqspark.errors import AlreadyClosed, InvalidMessage, InvalidName, TransactionError
from rmqspark.model import SendStatus
from rmqspark.testing import LocalCluster, cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
PATIENCE_S = 60


class Listener:
    """Says what it is told to say, and notes what it was asked."""

    def __init__(self, executed: Any = COMMIT, checked: Any = COMMIT) -> None:
        self._executed, self._checked = executed, checked
        self.executed: list[tuple[PreparedMessage, Any]] = []
        self.checked: Queue[ReceivedMessage] = Queue()

    def execute(self, message: PreparedMessage, arg: Any) -> TransactionState:
        self.executed.append((message, arg))
        return self._said(self._executed)

    def check(self, message: ReceivedMessage) -> TransactionState:
        self.checked.put(message)
        return self._said(self._checked)

    @staticmethod
    def _said(what: Any) -> Any:
        return what() if isinstance(what, Callable) else what


@pytest.fixture(scope="module")
def quick() -> Iterator[LocalCluster]:
    """A cluster that asks after a fifth of a second, every fifth, and as long as anything here may take."""
    config = BrokerConfig(transaction_time_out=200, transaction_check_interval=200, transaction_check_max=10_000)
    with cluster(brokers=1, broker_config=config) as local:
        yield local


def bodies(namesrv: str, topic: str, count: int) -> list[bytes]:
    """The first messages of a topic, sorted; waits for that many."""
    with PullConsumer(namesrv) as consumer:
        consumer.assign(consumer.queues(topic))
        found: list[bytes] = []
        while len(found) < count:
            found += [message.body for message in consumer.poll(timeout_ms=1000)]
    return sorted(found)


def test_committed_messages_arrive_and_others_do_not(mq: LocalCluster, topic: str) -> None:
    """When `send` returns, a committed message can be read; the listener saw it under the id of its receipt."""
    listener = Listener()
    with TransactionProducer(mq.namesrv, "shop", listener=listener) as producer:
        done = producer.send(Message(topic, b"paid", tags="t", keys=["k"], properties={"a": "b"}), arg=7, queue=2)
        listener._executed = ROLLBACK
        refused = producer.send(Message(topic, b"refused"))
    assert (done.state, refused.state) == (COMMIT, ROLLBACK)
    (message, arg), _ = listener.executed
    assert (message.body, message.msg_id, arg) == (b"paid", done.receipt.msg_id, 7)
    with PullConsumer(mq.namesrv) as consumer:
        queues = consumer.queues(topic)
        assert [consumer.max_offset(queue) for queue in queues] == [0, 0, 1, 0]
        consumer.assign(queues)
        (arrived,) = consumer.poll(timeout_ms=1000 * PATIENCE_S)
    assert (arrived.body, arrived.tags, arrived.keys, arrived.msg_id) == (b"paid", "t", ["k"], done.receipt.msg_id)
    assert arrived.properties["a"] == "b"


def test_large_bodies_are_compressed_like_any(mq: LocalCluster, topic: str) -> None:
    """On their way through half topic and back."""
    with TransactionProducer(mq.namesrv, "shop", listener=Listener()) as producer:
        producer.send(Message(topic, b"large" * 100_000))
    assert bodies(mq.namesrv, topic, 1) == [b"large" * 100_000]


def fail() -> TransactionState:
    raise RuntimeError("the database is away")


@pytest.mark.parametrize("said", [UNKNOWN, fail, None, "commit"])
def test_what_the_listener_does_not_know_the_broker_asks_for(
    quick: LocalCluster, said: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the listener fails, or says what makes no sense: that is logged, and what it answers then counts."""
    listener = Listener(executed=said)
    topic = f"asked-{getattr(said, '__name__', said)}".replace(".", "-")
    with TransactionProducer(quick.namesrv, "shop", listener=listener) as producer, caplog.at_level(logging.ERROR):
        sent = producer.send(Message(topic, b"late"))
        assert sent.state is UNKNOWN
        asked = listener.checked.get(timeout=PATIENCE_S)
        assert (asked.topic, asked.body, asked.msg_id) == (topic, b"late", sent.receipt.msg_id)
        assert bodies(quick.namesrv, topic, 1) == [b"late"]
    assert bool(caplog.records) == (said is not UNKNOWN)


def test_a_check_that_fails_is_repeated(quick: LocalCluster) -> None:
    """Until the listener finds out."""
    answers = chain([fail, lambda: UNKNOWN], repeat(lambda: COMMIT))
    listener = Listener(executed=UNKNOWN, checked=lambda: next(answers)())
    with TransactionProducer(quick.namesrv, "shop", listener=listener) as producer:
        producer.send(Message("repeated", b"x"))
        assert bodies(quick.namesrv, "repeated", 1) == [b"x"]
    assert listener.checked.qsize() >= 3  # once more, where a fifth of a second goes by before the third answer counts


def test_whoever_comes_next_is_asked(quick: LocalCluster) -> None:
    """A process that died leaves its transactions to the next of its group, which need not send anything."""
    first = Listener(executed=UNKNOWN, checked=UNKNOWN)
    with TransactionProducer(quick.namesrv, "heirs", listener=first) as producer:
        sent = producer.send(Message("inherited", b"x"))
    second = Listener()
    with TransactionProducer(quick.namesrv, "heirs", listener=second):
        assert second.checked.get(timeout=PATIENCE_S).msg_id == sent.receipt.msg_id
        assert bodies(quick.namesrv, "inherited", 1) == [b"x"]


def test_a_process_that_was_forked_is_asked_too(quick: LocalCluster) -> None:
    """As a daemon is, whose parent has ended: it has threads of its own that tell the brokers, and that answer."""
    first = Listener(executed=UNKNOWN, checked=UNKNOWN)
    producer = TransactionProducer(quick.namesrv, "forks", listener=first)
    producer.send(Message("forked", b"the parent's"))
    first.checked.get(timeout=PATIENCE_S)  # so its threads were there
    if (child := os.fork()) == 0:
        with suppress(BaseException):
            producer._checks.listener = listener = Listener(executed=UNKNOWN)
            producer.send(Message("forked", b"the child's"))
            listener.checked.get(timeout=PATIENCE_S)
            while bodies(quick.namesrv, "forked", 2) != [b"the child's", b"the parent's"]:
                pass
            os._exit(0)
        os._exit(1)
    producer.close()
    assert os.waitpid(child, 0)[1] == 0


def test_a_producer_that_is_closed_while_its_listener_works(quick: LocalCluster) -> None:
    """What was executed is what `send` says; the broker, which could not be told, asks who comes next."""

    def closed_meanwhile() -> TransactionState:
        producer.close()
        return COMMIT

    with TransactionProducer(quick.namesrv, "closed", listener=Listener(executed=closed_meanwhile)) as producer:
        assert producer.send(Message("closed", b"1")).state is COMMIT
    with TransactionProducer(quick.namesrv, "closed", listener=Listener()):
        assert bodies(quick.namesrv, "closed", 1) == [b"1"]


def test_the_broker_has_another_word_already(quick: LocalCluster) -> None:
    """Whoever executes so long that the check decided is told so, instead of believing in a commit."""
    asked = threading.Event()

    class Slow(Listener):
        def execute(self, message: PreparedMessage, arg: Any) -> TransactionState:
            assert asked.wait(PATIENCE_S)
            settled.wait(PATIENCE_S)
            return COMMIT

        def check(self, message: ReceivedMessage) -> TransactionState:
            asked.set()
            return ROLLBACK

    settled = threading.Event()
    with TransactionProducer(quick.namesrv, "slow", listener=Slow()) as producer, AdminClient(quick.namesrv) as admin:
        marks = admin.queues("RMQ_SYS_TRANS_OP_HALF_TOPIC")[0]
        failures: Queue[BaseException] = Queue()

        def send() -> None:
            try:
                producer.send(Message("slow", b"x"))
            except TransactionError as error:
                failures.put(error)

        with PullConsumer(quick.namesrv) as consumer:
            before = consumer.max_offset(marks)
            sender = threading.Thread(target=send)
            sender.start()
            while consumer.max_offset(marks) == before:
                asked.wait(PATIENCE_S)
            settled.set()
            sender.join()
    assert "rolled back already" in str(failures.get_nowait())


def test_a_half_message_that_is_not_safe_is_rolled_back(
    mq: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the broker could not keep its promise in time nothing is executed."""
    deliver = Delivery.deliver

    def late(*args: Any, **options: Any) -> list[SendReceipt]:
        return [replace(receipt, status=SendStatus.FLUSH_DISK_TIMEOUT) for receipt in deliver(*args, **options)]

    monkeypatch.setattr(Delivery, "deliver", late)
    listener = Listener()
    with TransactionProducer(mq.namesrv, "shop", listener=listener) as producer:
        assert producer.send(Message(topic, b"x")).state is ROLLBACK
    assert listener.executed == []


def test_what_no_transaction_takes(mq: LocalCluster, topic: str) -> None:
    """Delays, a producer without a group, one that was closed; closing twice is no mistake."""
    with pytest.raises(InvalidName):
        TransactionProducer(mq.namesrv, listener=Listener())
    with TransactionProducer(mq.namesrv, "shop", listener=Listener()) as producer:
        with pytest.raises(InvalidMessage):
            producer.send(Message(topic, b"x", delay_level=3))
        producer.close()
        with pytest.raises(AlreadyClosed):
            producer.send(Message(topic, b"x"))


def test_threads_share_a_producer(mq: LocalCluster, topic: str) -> None:
    """A hundred transactions of four threads, every other one rolled back."""

    class ByBody(Listener):
        def execute(self, message: PreparedMessage, arg: Any) -> TransactionState:
            return COMMIT if int(message.body) % 2 else ROLLBACK

    with TransactionProducer(mq.namesrv, "shop", listener=ByBody()) as producer:

        def send(first: int) -> None:
            for number in range(first, 100, 4):
                producer.send(Message(topic, b"%d" % number))

        threads = [threading.Thread(target=send, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert bodies(mq.namesrv, topic, 50) == sorted(b"%d" % number for number in range(1, 100, 2))


@pytest.mark.parametrize("executed", [COMMIT, ROLLBACK, UNKNOWN])
@pytest.mark.parametrize("others", [0, 1])
def test_a_message_that_is_lost_while_its_transaction_is_executed_is_told_of(
    executed: TransactionState, others: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its broker comes back with another store, or has lost the end of its own: nobody will ask about it. What was
    carried out has no message then; what was not needs none."""
    with cluster() as mq, AdminClient(mq.namesrv) as admin:
        admin.create_topic("orders", queues=1)

        def lose() -> TransactionState:
            mq.stop_broker("broker-a")
            shutil.rmtree(mq.store_dir("broker-a"))
            mq.start_broker("broker-a")
            admin.create_topic("orders", queues=1)
            with TransactionProducer(mq.namesrv, "others", listener=Listener(UNKNOWN)) as another:
                for _ in range(others):
                    another.send(Message("orders", b"mine"))
            return executed

        with TransactionProducer(mq.namesrv, "mine", listener=Listener(lose)) as producer:
            if executed is COMMIT:
                with pytest.raises(TransactionError, match=r"'broker-a' has no half message .* more.*Send it again"):
                    producer.send(Message("orders", b"mine"))
            else:
                assert producer.send(Message("orders", b"mine")).state is executed
    assert "will ask" not in caplog.text
