"""Ranges of many queues in one request: each as if it had been read by itself."""

from __future__ import annotations

import pytest

from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig, SubscriptionGroupTable
from rmqspark.protocol.bulk.topic_ranges import FoundRanges, TopicRange, decode_found, encode_ranges
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import TopicRequestHeader
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader, TopicsReadRequestHeader
from rmqspark.protocol.headers.consume import GetMaxOffsetRequestHeader
from rmqspark.protocol.records.record_batch import RecordBatch

pytestmark = pytest.mark.integration

FIRST, OTHER = TopicRange("orders", 1, 0, 9), TopicRange("payments", 0, 1, 3)
MANY = 1 << 20


def request(asked: list[TopicRange], **fields: object) -> tuple[TopicsReadRequestHeader, bytes]:
    header = {"ranges": len(asked), "maxCount": MANY, "maxBytes": MANY}
    return TopicsReadRequestHeader(**(header | fields)), encode_ranges(asked)


async def filled(bench):
    """A connection; three orders in queue 1, three payments in queue 0, tags a and b in turn."""
    client = await bench.connect()
    for topic, queue_id in (("orders", 1), ("payments", 0)):
        await client.create_topic(topic)
        for number in range(3):
            await client.send(topic, f"{topic}{number}".encode(), {"TAGS": "ab"[number % 2]}, e=queue_id)
    return client


async def found(client, ranges: list[TopicRange], **fields: object) -> FoundRanges:
    answer = await client.ask(RequestCode.RMQ_TOPICS_READ, *request(ranges, **fields))
    assert answer.code == 0, answer.remark
    return decode_found(memoryview(answer.body), int(answer.fields["ranges"]), int(answer.fields["count"]))


def bodies(read: FoundRanges) -> list[bytes]:
    batch = RecordBatch.from_sizes(read.records, read.sizes)
    batch.check(check_crc=True)
    return batch.checked_bodies()


def test_each_range_brings_its_records(on_broker) -> None:
    """Those of the first, then those of the second; filtered by the tags' hash; within the limits."""

    async def talk(bench) -> None:
        client = await filled(bench)
        all_of_it = await found(client, [FIRST, OTHER, FIRST._replace(start=7)])
        assert all_of_it.counts.tolist() == [3, 2, 0]
        assert all_of_it.next_offsets.tolist() == [3, 3, 7]
        assert bodies(all_of_it) == [b"orders0", b"orders1", b"orders2", b"payments1", b"payments2"]
        tagged = await found(client, [FIRST, OTHER], tags="b")
        assert bodies(tagged) == [b"orders1", b"payments1"]
        assert tagged.next_offsets.tolist() == [3, 3]
        assert bodies(await found(client, [FIRST, OTHER], maxCount=4)) == bodies(all_of_it)[:4]
        assert bodies(await found(client, [OTHER, FIRST], maxCount=-1, maxBytes=-1)) == [b"payments1"]

    on_broker(talk)


def test_what_is_read_for_a_group_is_read_as_by_a_pull_of_it(on_broker) -> None:
    """The group is there afterwards; one that may not consume gets nothing, in one read or in many."""

    async def talk(bench) -> None:
        client = await filled(bench)
        one = {"topic": "orders", "queueId": 1, "queueOffset": 0, "endOffset": 9, "maxCount": MANY, "maxBytes": MANY}

        async def code_of_each_read(group: str) -> list[int]:
            many = await client.ask(RequestCode.RMQ_TOPICS_READ, *request([FIRST, OTHER], group=group))
            return [
                many.code,
                (await client.ask(RequestCode.RMQ_BULK_READ, BulkReadRequestHeader(**one, group=group))).code,
            ]

        assert await code_of_each_read("billing") == [0, 0]
        body = SubscriptionGroupConfig(groupName="billing", consumeEnable=False).encode()
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)).code == 0
        assert await code_of_each_read("billing") == [ResponseCode.NO_PERMISSION] * 2
        everything = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert "billing" in SubscriptionGroupTable.decode(everything.body).subscriptionGroupTable

    on_broker(talk)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (TopicRange("unknown", 0, 0, 9), ResponseCode.TOPIC_NOT_EXIST),
        (TopicRange("orders", 99, 0, 9), ResponseCode.INVALID_PARAMETER),
        (TopicRange("orders", -1, 0, 9), ResponseCode.INVALID_PARAMETER),
    ],
)
def test_what_is_wrong_with_one_range_is_said_when_it_comes_first(on_broker, wrong, code) -> None:
    """Those before it are answered, as they would be by themselves."""

    async def talk(bench) -> None:
        client = await filled(bench)
        read = await found(client, [OTHER, wrong, FIRST])
        assert (len(read.counts), bodies(read)) == (1, [b"payments1", b"payments2"])
        answer = await client.ask(RequestCode.RMQ_TOPICS_READ, *request([wrong, OTHER]))
        assert answer.code == code, answer.remark

    on_broker(talk)


def test_a_range_of_a_deleted_topic_is_not_read_from_the_next(on_broker) -> None:
    """Who says which topic of a name is meant is not given another's messages, which have the same offsets; neither
    together nor alone. Who does not say reads what is there."""

    async def talk(bench) -> None:
        client = await filled(bench)
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))).code == 0
        await client.create_topic("orders")
        await client.send("orders", b"another", e=1)
        told = await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader("orders", 1))
        deleted_ms = int(told.fields["topicDeleted"])
        for known_ms, code in ((0, 30002), (deleted_ms - 1, 30002), (deleted_ms, 0), (None, 0)):
            wanted = FIRST._replace(topic_deleted_ms=known_ms)
            alone = BulkReadRequestHeader("orders", 1, 0, 9, MANY, MANY, topicDeleted=known_ms)
            assert (await client.ask(RequestCode.RMQ_TOPICS_READ, *request([wanted, OTHER]))).code == code
            assert (await client.ask(RequestCode.RMQ_BULK_READ, alone)).code == code
            assert len(bodies(await found(client, [OTHER, wanted]))) == (3 if code == 0 else 2)

    on_broker(talk)


@pytest.mark.parametrize("fields", [{"ranges": 0}, {"ranges": 1}, {"ranges": 3}, {"ranges": 2**31 - 1}])
def test_a_body_that_is_none_is_refused(on_broker, fields) -> None:
    """And the connection goes on."""

    async def talk(bench) -> None:
        client = await filled(bench)
        answer = await client.ask(RequestCode.RMQ_TOPICS_READ, *request([FIRST, OTHER], **fields))
        assert answer.code != 0
        assert len(bodies(await found(client, [FIRST, OTHER]))) == 5

    on_broker(talk)


def test_an_answer_is_bounded_by_the_broker(on_broker) -> None:
    """Whatever is asked for, max_bulk_read_bytes holds; one message is let through."""

    async def talk(bench) -> None:
        client = await filled(bench)
        assert bodies(await found(client, [FIRST, OTHER])) == [b"orders0"]

    on_broker(talk, max_bulk_read_bytes=100)
