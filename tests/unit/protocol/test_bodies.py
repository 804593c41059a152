"""Bodies: what RocketMQ's clients, brokers and tools put into theirs."""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqspark.errors import BodyError
from rmqspark.model import MessageQueue
from rmqspark.protocol import bodies
from rmqspark.protocol.bodies.admin import (
    ConsumerOffsetTable,
    ConsumerStatusBody,
    ResetOffsetBody,
    TopicOffset,
    TopicStatsTable,
)
from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.bodies.client import (
    ConsumerData,
    HeartbeatData,
    LockBatchBody,
    LockBatchResponseBody,
    ProducerData,
    Queue,
    SubscriptionData,
)
from rmqspark.protocol.bodies.route import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    KVTable,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicRouteData,
)

FAMILIES = [
    importlib.import_module(f"{bodies.__name__}.{family.name}") for family in pkgutil.iter_modules(bodies.__path__)
]
BODIES = sorted(
    {
        kind
        for family in FAMILIES
        for kind in vars(family).values()
        if isinstance(kind, type) and issubclass(kind, Body) and kind is not Body
    },
    key=lambda kind: kind.__name__,
)

# what a stock client, broker or tool sends, what it means
SEEN: list[tuple[str, Body]] = [
    (
        '{"clientID":"10.0.0.5@1234#5678","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        '"consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING","subscriptionDataSet":'
        '[{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA","subVersion":7,'
        '"tagsSet":["TagA"],"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,'
        '"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}',
        HeartbeatData(
            clientID="10.0.0.5@1234#5678",
            producerDataSet=[ProducerData("PG")],
            consumerDataSet=[
                ConsumerData(
                    "CG",
                    subscriptionDataSet=[
                        SubscriptionData(topic="T", subString="TagA", tagsSet=["TagA"], codeSet=[2598919], subVersion=7)
                    ],
                )
            ],
        ),
    ),
    (
        '{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":1,"topic":"T"}],'
        '"onlyThisBroker":false}',
        LockBatchBody("g", "c", [Queue("T", "b", 1)]),
    ),
    ('{"lockOKMQSet":[{"brokerName":"b","queueId":1,"topic":"T"}]}', LockBatchResponseBody([Queue("T", "b", 1)])),
    (
        '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"ip:10911",1:"ip:10921"},"brokerName":"broker-a",'
        '"cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}',
        ClusterInfo(
            {"broker-a": BrokerData("DefaultCluster", "broker-a", {0: "ip:10911", 1: "ip:10921"})},
            {"DefaultCluster": ["broker-a"]},
        ),
    ),
    ('{"table":{"k":"v","ü":"\\n"}}', KVTable({"k": "v", "ü": "\n"})),
    ('{"topicList":["A","B"]}', TopicList(["A", "B"])),
    (
        '{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":9},"offsetTable":{"T@G":{0:250,1:251}}}',
        ConsumerOffsetTable({"T@G": {0: 250, 1: 251}}, DataVersion(3, 0, 9)),
    ),
    (
        '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":3,"maxOffset":2,'
        '"minOffset":1},{"brokerName":"b","queueId":1,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,'
        '"minOffset":0}},"topicPutTps":0.0}',
        TopicStatsTable({MessageQueue("T", "b", 0): TopicOffset(1, 2, 3), MessageQueue("T", "b", 1): TopicOffset()}),
    ),
    (
        '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:9}}',
        ResetOffsetBody({MessageQueue("T", "b", 0): 9}),
    ),
    ("{}", ConsumerStatusBody()),
]


@pytest.mark.parametrize(("text", "body"), SEEN, ids=[type(body).__name__ for _, body in SEEN])
def test_bodies_work_both_ways(text: str, body: Body) -> None:
    """What stock clients and tools send is understood, and what we send is what they would have."""
    assert type(body).decode(text.encode()) == body
    assert body.encode().decode() == text


def test_members_that_are_missing_or_null_have_their_defaults() -> None:
    """Bodies of older or sparser clients are complete to us."""
    assert TopicConfig.decode(b'{"topicName":"T","attributes":null}') == TopicConfig("T")
    assert HeartbeatData.decode(b'{"clientID":"c","consumerDataSet":null}') == HeartbeatData("c")
    assert TopicRouteData.decode(b"{}") == TopicRouteData()


def test_numbers_may_come_as_strings_and_members_may_be_unknown() -> None:
    """Clients that quote their numbers, or know members we do not, are understood."""
    assert DataVersion.decode(b'{"counter":"3","timestamp":4,"epoch":{"x":[]}}') == DataVersion(3, 0, 4)


def test_defaults_are_not_shared() -> None:
    """Filling one table does not fill the next."""
    TopicConfigTable().topicConfigTable["T"] = TopicConfig("T")
    TopicConfigTable().dataVersion.counter += 1
    assert TopicConfigTable() == TopicConfigTable({}, DataVersion())


def test_a_version_moves_with_every_change() -> None:
    """Name servers see that a table has changed, even within a millisecond."""
    first = DataVersion(timestamp=5)
    assert first.next(5) == DataVersion(1, 0, 5) != first


@pytest.mark.parametrize(
    ("kind", "data", "complaint"),
    [
        (TopicList, b"", "TopicList: the body is empty"),
        (TopicList, b"{", "TopicList: JSON"),
        (TopicList, b'{"topicList":7}', r"TopicList: .*topicList"),
        (TopicList, b"[]", "TopicList"),
        (TopicConfig, b'{"perm":4294967296}', "TopicConfig: .*perm"),
        (TopicConfig, b'{"perm":"all"}', "TopicConfig: .*perm"),
        (ResetOffsetBody, b'{"offsetTable":{"T":1}}', "ResetOffsetBody: .*offsetTable"),
        (ConsumerOffsetTable, b'{"offsetTable":{"T@G":{"x":1}}}', "ConsumerOffsetTable"),
        (TopicConfigTable, b'{"topicQueueMappingInfoMap":' + b'{"a":' * 5000, "64 deep"),
    ],
)
def test_a_wrong_body_is_named(kind: type[Body], data: bytes, complaint: str) -> None:
    """Who sends a body that is not what its request promises is told what is wrong with it."""
    with pytest.raises(BodyError, match=complaint):
        kind.decode(data)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def strategy_for(kind: Any) -> st.SearchStrategy[Any]:
    """Any value a member of that type may have."""
    if isinstance(kind, msgspec.inspect.StructType):
        return st.builds(kind.cls, **{field.name: strategy_for(field.type) for field in kind.fields})
    if isinstance(kind, msgspec.inspect.NamedTupleType):
        return st.builds(kind.cls, **{field.name: strategy_for(field.type) for field in kind.fields})
    if isinstance(kind, msgspec.inspect.UnionType):
        return st.one_of([strategy_for(option) for option in kind.types])
    if isinstance(kind, msgspec.inspect.DictType):
        return st.dictionaries(strategy_for(kind.key_type), strategy_for(kind.value_type), max_size=2)
    if isinstance(kind, msgspec.inspect.TupleType):
        return st.tuples(*map(strategy_for, kind.item_types))
    if isinstance(kind, msgspec.inspect.ListType):
        return st.lists(strategy_for(kind.item_type), max_size=2)
    if isinstance(kind, msgspec.inspect.IntType):
        return st.integers(kind.ge if kind.ge is not None else 0, kind.le if kind.le is not None else 1000)
    if isinstance(kind, msgspec.inspect.FloatType):
        return st.floats(allow_nan=False, allow_infinity=False)
    if isinstance(kind, msgspec.inspect.BoolType):
        return st.booleans()
    if isinstance(kind, msgspec.inspect.NoneType):
        return st.none()
    return texts


@cache  # to make one takes longer than to draw from it
def any_body(kind: type[Body]) -> st.SearchStrategy[Body]:
    built: st.SearchStrategy[Body] = strategy_for(msgspec.inspect.type_info(kind))
    return built


@pytest.mark.property
@pytest.mark.parametrize("kind", BODIES)
@settings(max_examples=15)
@given(data=st.data(), standard=st.booleans())
def test_every_body_makes_the_round_trip(kind: type[Body], data: st.DataObject, standard: bool) -> None:
    """Whatever a body says, it still says on the other side, in either dialect."""
    body = data.draw(any_body(kind))
    assert kind.decode(body.encode(standard=standard)) == body


@pytest.mark.property
@pytest.mark.parametrize("kind", BODIES)
@settings(max_examples=15)
@given(data=st.data())
def test_any_bytes_are_a_body_or_an_error(kind: type[Body], data: st.DataObject) -> None:
    """A body that was cut, spoilt or made up is decoded or refused, in one way."""
    real = bytearray(data.draw(any_body(kind)).encode())
    real[data.draw(st.integers(0, len(real) - 1))] = data.draw(st.integers(0, 255))
    for damaged in (
        bytes(real),
        bytes(real[: data.draw(st.integers(0, len(real)))]),
        data.draw(st.binary(max_size=40)),
    ):
        with suppress(BodyError):
            kind.decode(damaged)
