"""Transactions with parts of RocketMQ: its producer on our broker, our producer on its broker, one store for both."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from ours import Up, name_server, read, up
from rocketmq import PACKAGE, wait_for
from stored import raw_records, without_places

from rmqspark.client.admin import AdminClient
from rmqspark.client.transaction_producer import TransactionProducer
from rmqspark.model import Message, TransactionState
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jvm import Jvm
    from rocketmq import RocketMQ

    from rmqspark.model import PreparedMessage, ReceivedMessage

pytestmark = [pytest.mark.java, pytest.mark.integration]

GROUP = "java-transactions"
# RocketMQ asks twice, and delivers twice, where it asks more often than it writes op records, every three seconds.
STOCK_QUICK = {"transactionTimeOut": 1000, "transactionCheckInterval": 5000}


@contextmanager
def quick_up(directory: Path, **settings: int) -> Iterator[Up]:
    """Our broker, asking after a second, and every second."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"time_out": 1000, "check_interval": 1000, **settings}.items():
            patch.setenv(f"RMQ_TRANSACTION_{name.upper()}", str(value))
        with up(directory) as running:
            yield running


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Our broker, quick."""
    with quick_up(tmp_path_factory.mktemp("shop"), check_max=5) as running:
        yield running


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name server of ours, with which stock brokers register."""
    with name_server(tmp_path_factory.mktemp("names")) as address:
        yield address


class JavaListener:
    """A TransactionListener of RocketMQ's that does what the body of a message says: `execute/check`."""

    def __init__(self, jvm: Jvm) -> None:
        self._states = jvm.rocketmq.client.producer.LocalTransactionState
        self.checked: list[Any] = []

    def executeLocalTransaction(self, message: Any, arg: Any) -> Any:
        del arg
        return getattr(self._states, bytes(message.getBody()).decode().split("/")[0])

    def checkLocalTransaction(self, message: Any) -> Any:
        self.checked.append(message)
        return getattr(self._states, bytes(message.getBody()).decode().split("/")[1])

    class Java:
        implements = (f"{PACKAGE}.client.producer.TransactionListener",)


@contextmanager
def java_producer(jvm: Jvm, namesrv: str, group: str = GROUP) -> Iterator[tuple[Any, JavaListener]]:
    producer, listener = jvm.rocketmq.client.producer.TransactionMQProducer(group), JavaListener(jvm)
    producer.setTransactionListener(listener)
    with jvm.started(producer, namesrv):
        yield producer, listener


def send(jvm: Jvm, producer: Any, topic: str, body: str) -> Any:
    message = jvm.rocketmq.common.message.Message(topic, "TagA", "k1", 7, body.encode(), True)
    return producer.sendMessageInTransaction(message, None)


class Decided:
    """A listener of ours that does what the body of a message says: `execute/check`."""

    def __init__(self) -> None:
        self.checked: list[ReceivedMessage] = []

    def execute(self, message: PreparedMessage, arg: Any) -> TransactionState:
        return TransactionState[message.body.decode().split("/")[0]]

    def check(self, message: ReceivedMessage) -> TransactionState:
        self.checked.append(message)
        return TransactionState[message.body.decode().split("/")[1]]


def create_topic(namesrv: str, topic: str) -> None:
    with AdminClient(namesrv) as admin:
        admin.create_topic(topic, queues=1)


def bodies(namesrv: str, topic: str) -> list[bytes]:
    return [message.body for message in read(namesrv, topic)]


def test_javas_transactions_on_our_broker(shop: Up, jvm: Jvm) -> None:
    """Committed: delivered once, with all that Java gave it. Rolled back: never. Not known yet: asked for, then so."""
    create_topic(shop.namesrv, "java-shop")
    with java_producer(jvm, shop.namesrv) as (producer, listener):
        done = send(jvm, producer, "java-shop", "COMMIT_MESSAGE/none")
        send(jvm, producer, "java-shop", "ROLLBACK_MESSAGE/none")
        wait_for(lambda: bodies(shop.namesrv, "java-shop") == [b"COMMIT_MESSAGE/none"], "what was committed is there")
        (message,) = read(shop.namesrv, "java-shop")
        assert (message.msg_id, message.tags, message.keys, message.flag) == (done.getMsgId(), "TagA", ["k1"], 7)

        late = send(jvm, producer, "java-shop", "UNKNOW/COMMIT_MESSAGE")
        dropped = send(jvm, producer, "java-shop", "UNKNOW/ROLLBACK_MESSAGE")
        wait_for(lambda: len(bodies(shop.namesrv, "java-shop")) == 2, "the check-back has committed")
        wait_for(lambda: len(listener.checked) >= 2, "both were asked for")
        asked = {question.getTransactionId(): question for question in listener.checked}
        assert asked.keys() == {late.getTransactionId(), dropped.getTransactionId()}
        assert asked[late.getTransactionId()].getTopic() == "java-shop"
        assert asked[late.getTransactionId()].getProperty("TRANSACTION_CHECK_TIMES") == "1"
        with java_producer(jvm, shop.namesrv) as (_, heir):
            send(jvm, producer, "java-shop", "COMMIT_MESSAGE/none")
            wait_for(lambda: len(bodies(shop.namesrv, "java-shop")) == 3, "the last is there")
            assert heir.checked == []
    assert [body.split(b"/")[0] for body in bodies(shop.namesrv, "java-shop")] == [
        b"COMMIT_MESSAGE", b"UNKNOW", b"COMMIT_MESSAGE",
    ]  # fmt: skip


def test_rocketmqs_tool_resumes_what_was_set_aside(shop: Up, jvm: Jvm) -> None:
    """Nobody knew for five questions; an operator has RocketMQ's admin client resume it, and now the producer knows."""
    create_topic(shop.namesrv, "aside")
    with java_producer(jvm, shop.namesrv, "undecided") as (producer, listener):
        send(jvm, producer, "aside", "UNKNOW/UNKNOW")
        wait_for(lambda: len(listener.checked) >= 5, "it was asked for")
        wait_for(lambda: read_if_there(shop.namesrv, CHECK_MAX_TIME_TOPIC), "it was set aside")
        (aside,) = read(shop.namesrv, CHECK_MAX_TIME_TOPIC)
        assert aside.properties["REAL_TOPIC"] == "aside"
        listener.checkLocalTransaction = lambda message: listener._states.COMMIT_MESSAGE
        with jvm.admin(shop.namesrv) as admin:
            assert admin.resumeCheckHalfMessage(CHECK_MAX_TIME_TOPIC, aside.offset_msg_id)
        wait_for(lambda: bodies(shop.namesrv, "aside") == [b"UNKNOW/UNKNOW"], "it was committed after all")


def read_if_there(namesrv: str, topic: str) -> list[ReceivedMessage]:
    with AdminClient(namesrv) as admin:
        return read(namesrv, topic) if topic in admin.topics(system=True) else []


@pytest.mark.parametrize("client", ["java", "ours"])
def test_both_brokers_write_the_same_of_a_transaction(
    client: str, rocketmq: RocketMQ, jvm: Jvm, names: str, tmp_path: Path
) -> None:
    """Half message, op record and message are the same bytes in both logs, but for times, places, hosts and ids."""
    topic = f"same-transaction-by-{client}"
    written = []
    with quick_up(tmp_path / "ours") as ours:
        written.append(written_by(client, jvm, ours.namesrv, ours.store, topic))
    with rocketmq.broker(tmp_path / "stock", names) as stock:
        written.append(written_by(client, jvm, names, tmp_path / "stock", topic))
        stock.kill()
    assert written[0] == written[1]


def written_by(client: str, jvm: Jvm, namesrv: str, store: Path, topic: str) -> list[Any]:
    """What a broker has of a committed and a rolled back message, in the three queues."""
    create_topic(namesrv, topic)

    def marks() -> int:
        return len(raw_records(store, OP_HALF_TOPIC))

    if client == "java":
        with java_producer(jvm, namesrv) as (producer, _):
            for number, decision in enumerate(("COMMIT_MESSAGE", "ROLLBACK_MESSAGE"), 1):
                send(jvm, producer, topic, f"{decision}/none")
                wait_for(lambda number=number: marks() == number, "the op record is there")  # RocketMQ gathers them
    else:
        with TransactionProducer(namesrv, GROUP, listener=Decided()) as producer:
            for number, decision in enumerate(("COMMIT", "ROLLBACK"), 1):
                producer.send(Message(topic, f"{decision}/none".encode(), "TagA", ["k1"], {"a": "b"}, flag=7))
                wait_for(lambda number=number: marks() == number, "the op record is there")
    halves, messages = raw_records(store, HALF_TOPIC), raw_records(store, topic)
    assert (len(halves), len(messages)) == (2, 1)
    assert decode_record(messages[0][0]).prepared_transaction_offset == decode_record(halves[0][0]).physical_offset
    return [without_places(*raw) for raw in (*halves, *messages, *raw_records(store, OP_HALF_TOPIC))]


def test_our_transactions_on_a_stock_broker(rocketmq: RocketMQ, names: str, tmp_path: Path) -> None:
    """Our producer and listener do the same on RocketMQ's broker: commit, roll back, answer the question."""
    with rocketmq.broker(tmp_path / "store", names, **STOCK_QUICK) as stock:
        create_topic(names, "our-shop")
        listener = Decided()
        with TransactionProducer(names, "our-transactions", listener=listener) as producer:
            for body in (b"COMMIT/none", b"ROLLBACK/none", b"UNKNOWN/COMMIT", b"UNKNOWN/ROLLBACK"):
                assert producer.send(Message("our-shop", body)).state.name == body.split(b"/")[0].decode()
            wait_for(lambda: len(bodies(names, "our-shop")) >= 2, "the check-back has committed")
            wait_for(lambda: {m.body for m in listener.checked} >= {b"UNKNOWN/ROLLBACK"}, "the other was asked for")
        assert bodies(names, "our-shop") == [b"COMMIT/none", b"UNKNOWN/COMMIT"]
        assert {message.topic for message in listener.checked} == {"our-shop"}
        stock.kill()


def open_some(namesrv: str, topic: str) -> None:
    """A committed, a rolled back and an undecided transaction, and one more committed behind it."""
    create_topic(namesrv, topic)
    with TransactionProducer(namesrv, "handed-over", listener=Decided()) as producer:
        for body in (b"COMMIT/none", b"ROLLBACK/none", b"UNKNOWN/UNKNOWN", b"COMMIT/last"):
            producer.send(Message(topic, body))


class Heir(Decided):
    """Rolls back what was to be rolled back, and commits whatever else it is asked for."""

    def check(self, message: ReceivedMessage) -> TransactionState:
        self.checked.append(message)
        return TransactionState.ROLLBACK if message.body.startswith(b"ROLLBACK") else TransactionState.COMMIT


def assert_taken_over(namesrv: str, topic: str) -> None:
    heir = Heir()
    with TransactionProducer(namesrv, "handed-over", listener=heir):
        wait_for(lambda: len(bodies(namesrv, topic)) >= 3, "the check-back has committed")
        assert bodies(namesrv, topic) == [b"COMMIT/none", b"COMMIT/last", b"UNKNOWN/UNKNOWN"]
        asked = {message.body for message in heir.checked}
        assert b"UNKNOWN/UNKNOWN" in asked
        assert asked <= {b"UNKNOWN/UNKNOWN", b"ROLLBACK/none"}  # a killed RocketMQ may not have noted the rollback


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_rocketmq_goes_on_with_our_transactions(end: str, rocketmq: RocketMQ, names: str, tmp_path: Path) -> None:
    """What we left open a stock broker asks for, and nothing else; ours then knows that it ended."""
    with quick_up(tmp_path, time_out=600_000) as ours:
        open_some(ours.namesrv, "handed")
        if end == "killed":
            ours.kill()
    with rocketmq.broker(ours.store, names, **STOCK_QUICK) as stock:
        assert_taken_over(names, "handed")
        if end == "killed":
            stock.kill()  # within three seconds of the commit: its op record may be missing
    with quick_up(tmp_path) as again:
        listener = Heir()
        with TransactionProducer(again.namesrv, "handed-over", listener=listener) as producer:
            producer.send(Message("handed", b"UNKNOWN/COMMIT"))
            wait_for(lambda: listener.checked, "the next transaction is asked for")
            wait_for(lambda: len(bodies(again.namesrv, "handed")) == 4, "and committed")
            assert {message.body for message in listener.checked} == {b"UNKNOWN/COMMIT"}


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_we_go_on_with_rocketmqs_transactions(end: str, rocketmq: RocketMQ, names: str, tmp_path: Path) -> None:
    """The other way round: also when RocketMQ died before it wrote what had ended, nothing is delivered twice."""
    with rocketmq.broker(tmp_path / "broker-a", names) as stock:
        open_some(names, "taken")
        wait_for(lambda: len(bodies(names, "taken")) == 2, "both were committed")
        if end == "killed":
            stock.kill()
    with quick_up(tmp_path) as ours:
        assert_taken_over(ours.namesrv, "taken")
