"""The same request to a stock broker and to ours: the same code, fields and body.

What they answer differently on purpose, docs/wire-format.md and the handlers say; it is not asked here.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from rocketmq import wait_for

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.protocol import fastjson
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.records.properties import Property, decode_properties, encode_properties
from rmqspark.protocol.records.record import decode_record
from rmqspark.remoting.blocking import BlockingConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ours import Up

    from rmqspark.remoting.response import Response

pytestmark = [pytest.mark.java, pytest.mark.integration]
TOPIC, EMPTY, UNREADABLE, GROUP, MEMBERS = "answers", "answers-empty", "answers-shut", "answering", "answering-online"
FOREVER = 1 << 62
VOLATILE = {"offsetDelta", "indexLastUpdateTimestamp", "indexLastUpdatePhyoffset", "msgId", "transactionId"}
PLACES_AND_TIMES = {
    "lastTimestamp",
    "consumeTps",
    "clientAddr",
    "topicPutTps",
    "lastUpdateTimestamp",
    "brokerAddr",
    "physicOffset",
}
DRAWN = (Property.UNIQ_KEY, Property.ORIGIN_MESSAGE_ID)


class Asked(NamedTuple):
    code: int
    fields: dict[str, Any]
    body: bytes = b""

    def __str__(self) -> str:
        told = ",".join(f"{name}={value}" for name, value in self.fields.items())
        return f"{self.code}:{told}{self.body.decode()}"[:80]


class Both:
    """A connection to each."""

    def __init__(self, stock: str, ours: str) -> None:
        self.stock, self.ours = BlockingConnection(stock), BlockingConnection(ours)

    def ask(self, asked: Asked) -> tuple[Response, Response]:
        fields = {
            name: json.dumps(value) if isinstance(value, bool) else str(value) for name, value in asked.fields.items()
        }
        return tuple(  # type: ignore[return-value]
            each.call(asked.code, None, asked.body, timeout_ms=10_000, extra=fields) for each in (self.stock, self.ours)
        )

    def close(self) -> None:
        self.stock.close()
        self.ours.close()


def without_drawn(record: Any) -> tuple[Any, ...]:
    properties = decode_properties(record.properties)
    told = {name: value for name, value in properties.items() if name not in DRAWN}
    return (
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.sys_flag,
        record.reconsume_times,
        bytes(record.body),
        told,
    )


def meaning(answer: Response) -> Any:
    """What of a body depends on neither place nor time."""
    body, records, at = bytes(answer.body), [], 0
    if body[4:8] in (b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab"):
        while at < len(body):
            record = decode_record(body, at)
            records.append(without_drawn(record))
            at += record.size
        return records
    return _settled(fastjson.loads(body)) if body else None


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _settled(each) for name, each in value.items() if name not in PLACES_AND_TIMES}
    return [_settled(each) for each in value] if isinstance(value, list) else value


def topic_fields(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
    } | fields


def send(number: int, tags: str) -> Asked:
    properties = encode_properties(
        {"TAGS": tags, "KEYS": f"k{number} all", "UNIQ_KEY": f"{number:032X}", "n": str(number)}
    )
    header = SendMessageRequestHeaderV2("pg", TOPIC, "TBW102", 4, 0, 0, 1_700_000_000_000, 0, properties.decode())
    fields = {name: getattr(header, name) for name in header.__struct_fields__}
    sent = {name: value for name, value in fields.items() if value is not None}
    return Asked(RequestCode.SEND_MESSAGE_V2, sent, b"m%d" % number)


def group(name: str, **fields: Any) -> Asked:
    return Asked(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps({"groupName": name, **fields}).encode()
    )


def heartbeat(*topics: str) -> Asked:
    subscriptions = [
        {"topic": topic, "subString": "*", "subVersion": 100, "tagsSet": [], "codeSet": [], "expressionType": "TAG"}
        for topic in topics
    ]
    consumer = {
        "groupName": MEMBERS,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": subscriptions,
    }
    body = {"clientID": "c", "producerDataSet": [{"groupName": "my.app"}], "consumerDataSet": [consumer]}
    return Asked(RequestCode.HEART_BEAT, {}, json.dumps(body).encode())


@pytest.fixture(scope="module")
def both(ours: Up, stock: str) -> Iterator[Both]:
    """The two brokers, each with ten messages, a group, and one whose member is online."""
    with ClusterClient(stock) as client:
        (broker,) = client.cluster_info().brokerAddrTable.values()
    with closing(Both(broker.brokerAddrs[0], ours.broker)) as both:
        made = (topic_fields(TOPIC), topic_fields(EMPTY), topic_fields(UNREADABLE, perm=2))
        beginning = [Asked(RequestCode.UPDATE_AND_CREATE_TOPIC, fields) for fields in made]
        beginning += [send(number, "abc"[number % 3]) for number in range(10)]
        beginning += [group(GROUP, retryMaxTimes=3), group(MEMBERS), heartbeat(TOPIC, "no.topic")]
        for asked in beginning:
            assert [answer.code for answer in both.ask(asked)] == [0, 0], asked
        wait_for(lambda: both.ask(query("all"))[0].code == 0, "the stock broker has written its index")
        yield both


def pull(offset: int = 0, **fields: Any) -> Asked:
    usual = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
        "subscription": "*",
    }
    return Asked(RequestCode.PULL_MESSAGE, usual | fields)


def query(key: str, **fields: Any) -> Asked:
    usual = {"topic": TOPIC, "key": key, "maxNum": 32, "beginTimestamp": 0, "endTimestamp": FOREVER}
    return Asked(RequestCode.QUERY_MESSAGE, usual | fields)


def asked_of(code: RequestCode, **fields: Any) -> Asked:
    return Asked(code, fields)


def entries(index: int, count: int, **fields: Any) -> Asked:
    return Asked(RequestCode.QUERY_CONSUME_QUEUE, {**QUEUE, "index": index, "count": count} | fields)


QUEUE = {"topic": TOPIC, "queueId": 0}
READS = [
    *(pull(offset) for offset in (-1, 0, 5, 9, 10, 11, 1 << 40)),
    *(pull(maxMsgNums=most) for most in (0, 1, 3)),
    *(pull(subscription=wanted) for wanted in ("", "a", "a || b", "a|b", "nothing", "||a", "*||a")),
    *(pull(subscription=wanted, expressionType="SQL92") for wanted in ("n > 5", "n between 2 and 4", "n is null")),
    *(pull(queueId=queue_id) for queue_id in (-1, 2)),
    *(pull(consumerGroup=MEMBERS, sysFlag=0, subVersion=version) for version in (0, 100, 101)),
    pull(consumerGroup=MEMBERS, sysFlag=0, topic=EMPTY),
    pull(consumerGroup="never-seen", sysFlag=0),
    pull(topic="nothing"),
    *(query(key) for key in ("all", "k3", "nothing", "ALL", "a")),
    *(query(key, indexType="T") for key in ("a", "c", "all", "nothing")),
    query("a", indexType="T", maxNum=2),
    *(query("all", maxNum=most) for most in (0, 1, 3)),
    query(f"{3:032X}", _UNIQUE_KEY_QUERY=True, maxNum=1),
    query("all", endTimestamp=0),
    *(asked_of(code, **QUEUE) for code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET)),
    *(asked_of(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=7) for topic in (TOPIC, EMPTY, "nothing")),
    *(
        asked_of(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=at, boundaryType=boundary, **QUEUE)
        for at in (-1, 0, FOREVER)
        for boundary in ("LOWER", "UPPER")
    ),
    asked_of(RequestCode.GET_EARLIEST_MSG_STORETIME, topic=EMPTY, queueId=0),
    *(
        asked_of(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup=name, setZeroIfNotFound=zero, **QUEUE)
        for name in (GROUP, "never-heard-of")
        for zero in (True, False)
    ),
    asked_of(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup=GROUP, topic=EMPTY, queueId=0),
    asked_of(RequestCode.GET_CONSUME_STATS, consumerGroup=MEMBERS, topicList=f"{TOPIC};{EMPTY};nothing"),
    asked_of(RequestCode.GET_CONSUME_STATS, consumerGroup=MEMBERS, topic=EMPTY),
    asked_of(RequestCode.GET_TOPIC_STATS_INFO, topic=TOPIC),
    asked_of(RequestCode.GET_TOPIC_STATS_INFO, topic="nothing"),
    asked_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=MEMBERS),
    asked_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="nobody"),
    asked_of(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="nobody"),
    asked_of(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="my.app"),
    asked_of(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, group="nobody", topic=TOPIC),
    *(asked_of(RequestCode.VIEW_BROKER_STATS_DATA, statsName="TOPIC_PUT_NUMS", statsKey=key) for key in (EMPTY, "no")),
    asked_of(RequestCode.VIEW_BROKER_STATS_DATA, statsName="NO_SUCH", statsKey=TOPIC),
    asked_of(RequestCode.DELETE_EXPIRED_COMMITLOG),
    asked_of(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE),
    asked_of(RequestCode.CLEAN_UNUSED_TOPIC),
    *(entries(index, count) for index, count in ((0, 1), (-1, 1), (7, 32), (10, 1), (0, 0), (0, -1), (1 << 40, 1))),
    *(entries(0, 1, consumerGroup=name) for name in (MEMBERS, "nobody")),
    entries(0, 1, topic="nothing"),
]


@pytest.mark.parametrize("asked", READS, ids=str)
def test_what_is_read(both: Both, asked: Asked) -> None:
    """By offset, filter, key, tags and time, of topics and groups that are there and that are not."""
    same(both, asked)


def same(both: Both, asked: Asked) -> None:
    theirs, ours = both.ask(asked)
    told = [{name: value for name, value in each.fields.items() if name not in VOLATILE} for each in (theirs, ours)]
    assert (ours.code, told[1]) == (theirs.code, told[0]), (theirs.remark, ours.remark)
    assert meaning(ours) == meaning(theirs)


@pytest.mark.parametrize("is_order", [False, True])
def test_how_far_all_groups_are(both: Both, is_order: bool) -> None:
    """But for what is in flight, which is below 0 there, as RocketMQ forgets to say what was pulled."""
    ordered = "answers-in-order"
    both.ask(Asked(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(ordered, order=True)))
    for topic in (TOPIC, ordered):
        commit = {"consumerGroup": "answering-stats", "topic": topic, "queueId": 0, "commitOffset": 0}
        both.ask(group("answering-stats"))
        assert [each.code for each in both.ask(Asked(RequestCode.UPDATE_CONSUMER_OFFSET, commit))] == [0, 0]
    told = []
    for answer in both.ask(asked_of(RequestCode.GET_BROKER_CONSUME_STATS, isOrder=is_order)):
        assert answer.code == 0
        stats = _settled(fastjson.loads(answer.body))
        assert stats["totalDiff"] >= (0 if is_order else 10)
        (of_group,) = [each["answering-stats"] for each in stats["consumeStatsList"] if "answering-stats" in each]
        offsets = [queue for of_topic in of_group for queue in of_topic["offsetTable"].items()]
        told.append({queue: offset | {"pullOffset": 0} for queue, offset in offsets})
    theirs, ours = told
    assert ours == theirs
    assert {queue.topic for queue in ours} == ({ordered} if is_order else {TOPIC, ordered})


def test_from_when_messages_are_and_how_long_they_wait(both: Both) -> None:
    """Which times there are, and which are the same; of what was committed, as RocketMQ tells nothing of the rest."""
    topic = "answers-time-span"
    both.ask(Asked(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic)))
    both.ask(group("answering-time-span"))
    for number in range(2):
        both.ask(send(number, "a")._replace(fields=send(number, "a").fields | {"b": topic}))
    for committed in range(3):
        commit = {"consumerGroup": "answering-time-span", "topic": topic, "commitOffset": committed}
        for queue_id in (0, 1):
            both.ask(Asked(RequestCode.UPDATE_CONSUMER_OFFSET, commit | {"queueId": queue_id}))
        told = []
        for answer in both.ask(asked_of(RequestCode.QUERY_CONSUME_TIME_SPAN, topic=topic, group="answering-time-span")):
            assert answer.code == 0
            for span in fastjson.loads(answer.body)["consumeTimeSpanSet"]:
                first, last, consumed = (span[f"{name}TimeStamp"] for name in ("min", "max", "consume"))
                which = first > 0, last > 0, consumed == first, consumed == last, span["delayTime"] > 0
                told.append((span["messageQueue"], which))
        assert len(told) == 4
        assert told[2:] == told[:2]
    same(both, asked_of(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="nothing", group=GROUP))


@pytest.mark.parametrize(("topic", "offline"), [(TOPIC, True), (TOPIC, False), (EMPTY, False), ("nothing", True)])
def test_a_group_that_takes_over_where_another_one_is(both: Both, topic: str, offline: bool) -> None:
    """In a topic that it reads, does not, that has no messages, or is not there."""
    source, target = "answering-source", f"answering-{topic}-{offline}"
    for name in (source, target):
        both.ask(group(name))
    commit = {"consumerGroup": source, "topic": TOPIC, "queueId": 0, "commitOffset": 7}
    both.ask(Asked(RequestCode.UPDATE_CONSUMER_OFFSET, commit))
    cloned = {"srcGroup": source, "destGroup": target, "topic": topic, "offline": offline}
    same(both, Asked(RequestCode.CLONE_GROUP_OFFSET, cloned))
    asked = asked_of(RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup=target, setZeroIfNotFound=False, **QUEUE)
    same(both, asked)
    assert both.ask(asked)[0].fields.get("offset") == ("7" if topic == TOPIC else None)


def test_what_went_in_and_out(both: Both) -> None:
    """Within the minute, and how much each time."""
    topic = "answers-counted"
    both.ask(Asked(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(topic)))
    for number in range(3):
        both.ask(send(number, "a")._replace(fields=send(number, "a").fields | {"b": topic}))
    for most in (2, 1):
        both.ask(pull(topic=topic, maxMsgNums=most))

    def told_alike(name: str, key: str) -> bool:
        asked = asked_of(RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key)
        items = [json.loads(bytes(answer.body))["statsMinute"] if answer.body else {} for answer in both.ask(asked)]
        theirs, ours = [(item.get("sum", 0), item.get("avgpt")) for item in items]
        return bool(theirs[0]) and theirs == ours

    for name, key in (
        ("TOPIC_PUT_NUMS", topic),
        ("TOPIC_PUT_SIZE", topic),
        ("GROUP_GET_NUMS", f"{topic}@{GROUP}"),
        ("GROUP_GET_SIZE", f"{topic}@{GROUP}"),
    ):
        wait_for(lambda name=name, key=key: told_alike(name, key), f"both have counted {name}", timeout_s=30)


def test_a_group_that_is_online_without_subscriptions(both: Both) -> None:
    """Is told of with all that it has consumed."""
    name = "answering-silent"
    consumer = {"groupName": name, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    body = {"clientID": "silent", "producerDataSet": [], "consumerDataSet": [consumer | {"subscriptionDataSet": []}]}
    both.ask(group(name))
    for asked in (
        Asked(RequestCode.UPDATE_CONSUMER_OFFSET, {"consumerGroup": name, "commitOffset": 3} | QUEUE),
        Asked(RequestCode.HEART_BEAT, {}, json.dumps(body).encode()),
        asked_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=name),
    ):
        assert [answer.code for answer in both.ask(asked)] == [0, 0]
    asked = asked_of(RequestCode.GET_CONSUME_STATS, consumerGroup=name)
    same(both, asked)
    assert len(meaning(both.ask(asked)[0])["offsetTable"]) == 2


def test_a_group_as_operators_change_it(both: Both) -> None:
    """Attributes as changes, retry policies, what it is forbidden to read; each with what is there afterwards."""
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000, "max": 60000, "multiplier": 3}}
    forbid = {"group": MEMBERS, "topic": TOPIC}
    for change in (
        group("changed", groupRetryPolicy=policy, retryMaxTimes=3),
        group("changed", groupRetryPolicy={"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2]}}),
        group("changed", attributes={"+priority.factor": "50"}),
        group("changed", attributes={}),
        group("changed", attributes={"+priority.factor": "101"}),
        group("changed", attributes={"-priority.factor": "", "+lite.sub.model": "Shared"}),
        group("changed", attributes={"+no.such": "1"}),
        group(
            "changed", subscriptionDataSet=[{"topic": "x", "expressionType": "TAG", "expression": "a", "version": 1}]
        ),
        Asked(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, forbid | {"readable": False}),
        Asked(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, forbid),
    ):
        same(both, change)
        same(both, asked_of(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, group="changed"))
    refused = both.ask(pull(consumerGroup=MEMBERS, sysFlag=0, subVersion=100))
    assert [answer.code for answer in refused] == [16, 16]
    same(both, pull(consumerGroup=MEMBERS, sysFlag=4))
    same(both, Asked(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, forbid | {"readable": True}))
    same(both, pull(consumerGroup=MEMBERS, sysFlag=0, subVersion=100))


@pytest.mark.parametrize(
    "fields",
    [
        *(
            topic_fields(name)
            for name in ("a b", "a.b", "", "x" * 127, "x" * 128, "TBW102", "%RETRY%g", "%DLQ%g", "-", "a|b")
        ),
        *(
            topic_fields("made", attributes=changes)
            for changes in (
                "+message.type=FIFO",
                "+message.type=fifo",
                "+reserve.time=-1",
                "+reserve.time=-2",
                "-message.type",
                "+a=b",
                "+message.type=MIXED",
            )
        ),
        topic_fields("made", perm=4, order=True),
    ],
    ids=lambda fields: f"{fields['topic'][:20]}{fields.get('attributes', '')}",
)
def test_a_topic_as_operators_make_it(both: Both, fields: dict[str, Any]) -> None:
    """Or are refused to; with what is there afterwards."""
    same(both, Asked(RequestCode.UPDATE_AND_CREATE_TOPIC, fields))
    same(both, asked_of(RequestCode.GET_TOPIC_CONFIG, topic=fields["topic"]))
    both.ask(asked_of(RequestCode.DELETE_TOPIC_IN_BROKER, topic="made"))


def test_a_group_that_was_deleted_sends_back(both: Both) -> None:
    """It is there again, and its retry topic has the message once its time has come."""
    for again in (1, 2):
        back = {"offset": 0, "group": "sends-back", "delayLevel": 1, "originTopic": TOPIC, "maxReconsumeTimes": 16}
        found = [decode_record(bytes(answer.body)).physical_offset for answer in both.ask(pull(0, maxMsgNums=1))]
        answers = [
            each.call(
                RequestCode.CONSUMER_SEND_MSG_BACK, None, timeout_ms=10_000, extra={k: str(v) for k, v in told.items()}
            )
            for each, told in zip((both.stock, both.ours), [back | {"offset": offset} for offset in found], strict=True)
        ]
        assert [answer.code for answer in answers] == [0, 0]
        retries = pull(0, topic="%RETRY%sends-back")
        wait_for(
            lambda again=again, retries=retries: (
                [len(meaning(each) or ()) for each in both.ask(retries)] == [again, again]
            ),
            "both have sent it to the retry topic",
        )
        same(both, retries)
        same(both, asked_of(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="sends-back"))
