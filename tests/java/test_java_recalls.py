"""Timed messages recalled with parts of RocketMQ: its clients and ours, on its broker and on ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from ours import read, up
from rocketmq import wait_for
from stored import raw_records, without_places

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.clock import SystemClock
from rmqspark.model import Message
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.produce import RecallMessageRequestHeader
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.protocol.recall_handle import RecallHandle
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jvm import Jvm
    from rocketmq import RocketMQ
    from stored import Stored

pytestmark = [pytest.mark.java, pytest.mark.integration]

GROUP = "recalling"
OF_TIME = (Property.TIMER_DELIVER_MS, Property.TIMER_OUT_MS, Property.BORN_TIMESTAMP)


class Cluster(NamedTuple):
    """A name server, and the store of its broker."""

    namesrv: str
    store: Path


@pytest.fixture(scope="module")
def theirs(rocketmq: RocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A stock broker that is told to recall messages."""
    store = tmp_path_factory.mktemp("recalling") / "store"
    with (
        rocketmq.name_server() as namesrv,
        rocketmq.broker(store, namesrv, recallMessageEnable="true") as broker,
    ):
        yield Cluster(namesrv, store)
        broker.kill()


@pytest.fixture(scope="module")
def both(theirs: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """Ours, with a timer topic of its own as the other's is, and theirs."""
    with up(tmp_path_factory.mktemp("ours")) as running:
        yield Cluster(running.namesrv, running.store), theirs


def make_topic(both: tuple[Cluster, Cluster], topic: str) -> None:
    for cluster in both:
        with AdminClient(cluster.namesrv) as admin:
            admin.create_topic(topic, queues=1)


def recalled_by_java(jvm: Jvm, namesrv: str, topic: str, time_ms: int) -> tuple[str, str, str]:
    """Sends one message that is recalled and one that is not: the handle, the id, and the id that recalling gives."""
    with jvm.producer(namesrv, GROUP) as producer:
        sent: list[Any] = []
        for body in (b"recalled", b"wanted"):
            message = jvm.rocketmq.common.message.Message(topic, body)
            message.setDeliverTimeMs(time_ms)
            sent.append(producer.send(message))
        handle = str(sent[0].getRecallHandle())
        return handle, str(sent[0].getMsgId()), str(producer.recallMessage(topic, handle))


def recalled_by_ours(jvm: Jvm, namesrv: str, topic: str, time_ms: int) -> tuple[str, str, str]:
    """The same."""
    del jvm
    with Producer(namesrv, GROUP) as producer:
        receipt = producer.send(Message(topic, b"recalled", deliver_time_ms=time_ms))
        producer.send(Message(topic, b"wanted", deliver_time_ms=time_ms))
        return receipt.recall_handle, receipt.msg_id, producer.recall(topic, receipt.recall_handle)


def recalls_of(store: Path, topic: str) -> list[tuple[Stored, list[bytes]]]:
    """What recalls messages of a topic, but for times, and its properties in their order."""
    found = []
    for raw, tags_code in raw_records(store, TIMER_TOPIC):
        properties = decode_record(raw).property_map()
        if properties[Property.REAL_TOPIC] == topic and Property.TIMER_DEL_UNIQKEY in properties:
            assert properties[Property.TIMER_DEL_UNIQKEY] == properties[Property.UNIQ_KEY]
            names = [pair.partition(b"\x01")[0] for pair in decode_record(raw).properties.split(b"\x02")]
            found.append((without_times(without_places(raw, tags_code)), names))
    return found


def without_times(stored: Stored) -> Stored:
    properties = {
        name: f"{len(value)} digits" if name in OF_TIME else value for name, value in stored.properties.items()
    }
    del properties[Property.TIMER_DEL_UNIQKEY]
    return stored._replace(properties=properties)


@pytest.mark.parametrize("recalled_by", [recalled_by_java, recalled_by_ours])
def test_both_brokers_recall_alike(both: tuple[Cluster, Cluster], jvm: Jvm, recalled_by: Any) -> None:
    """For either client: the handle says the same, what is stored is the same to the byte but for times, places and
    ids, and what was recalled does not come."""
    topic = recalled_by.__name__
    make_topic(both, topic)
    time_ms = SystemClock().now_ms() + 5_000
    handles = []
    for cluster in both:
        handle, msg_id, recalled_id = recalled_by(jvm, cluster.namesrv, topic, time_ms)
        assert recalled_id == msg_id
        read_handle = RecallHandle.decode(handle)
        assert (read_handle.msg_id, read_handle.encode()) == (msg_id, handle)
        handles.append(read_handle._replace(msg_id=""))
    assert handles[0] == handles[1]
    for cluster in both:
        wait_for(lambda cluster=cluster: read(cluster.namesrv, topic), "the one that is wanted has come")
        assert [message.body for message in read(cluster.namesrv, topic)] == [b"wanted"]
    mine, theirs = (recalls_of(cluster.store, topic) for cluster in both)
    assert len(mine) == 1
    assert mine == theirs


def test_both_brokers_refuse_in_the_same_words(both: tuple[Cluster, Cluster], stock: str) -> None:
    """Whatever is wrong with a recall; and a stock broker that is not told to recall refuses as ours does then."""
    make_topic(both, "refusals")
    now_ms = SystemClock().now_ms()
    good = RecallHandle("refusals", "broker-a", str(now_ms + 60_000), "U1")
    asked = [
        ("refusals", good.encode()),
        ("refusals", ""),
        ("refusals", "?"),
        ("refusals", good.encode()[:-4]),
        ("refusals", good._replace(msg_id="").encode()),
        ("refusals", good._replace(topic="others").encode()),
        ("refusals", good._replace(broker_name="broker-b").encode()),
        ("refusals", good._replace(time_ms=str(now_ms)).encode()),
        ("refusals", good._replace(time_ms=str(now_ms + 259_300_000)).encode()),
        ("refusals", good._replace(time_ms="soon").encode()),
        ("not-there", good.encode()),
    ]
    mine, theirs = ([told(cluster.namesrv, *each) for each in asked] for cluster in both)
    assert mine == theirs
    assert {code for code, _, _ in mine} == {0, 17, 604}
    code, remark, fields = told(stock, "refusals", good.encode())
    assert (code, remark, fields) == (16, "recall failed, operation is forbidden", {"MSG_REGION": "DefaultRegion"})


def told(namesrv: str, topic: str, handle: str) -> tuple[int, str | None, dict[str, str]]:
    with ClusterClient(namesrv) as client:
        header = RecallMessageRequestHeader(topic, handle, GROUP)
        answer = client.broker("broker-a").submit(RequestCode.RECALL_MESSAGE, header, timeout_ms=10_000).result()
    return answer.code, answer.remark if answer.code else None, answer.fields  # RocketMQ's success has one, too
