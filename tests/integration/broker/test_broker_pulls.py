"""Messages go out: what a pull is answered, what it waits for, what wakes it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from rmqspark.broker.pulling.long_poll import ParkedPulls
from rmqspark.errors import ConnectionLost
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData, SubscriptionData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import ResetOffsetRequestHeader, TopicRequestHeader
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader
from rmqspark.protocol.headers.consume import (
    PullFlag,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.integration


def consumer_of(topic: str, *, group: str = "g", version: int = 1, expression: str = "*", **fields) -> HeartbeatData:
    subscription = SubscriptionData(topic, subString=expression, subVersion=version)
    return HeartbeatData("c1", [], [ConsumerData(group, subscriptionDataSet=[subscription], **fields)])


def bodies(bench, response) -> list[bytes]:
    return [record.body for record in bench.records(response)]


@pytest.mark.parametrize(
    ("offset", "fields", "code", "status", "next_offset"),
    [
        (0, {}, ResponseCode.SUCCESS, "FOUND", 3),
        (2, {}, ResponseCode.SUCCESS, "FOUND", 3),
        (3, {}, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 3),
        (4, {}, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 3),
        (-1, {}, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
        (0, {"subscription": "nothing"}, ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 3),
        (0, {"queueId": 1}, ResponseCode.PULL_NOT_FOUND, "NO_MATCHED_LOGIC_QUEUE", 0),
        (7, {"queueId": 1}, ResponseCode.PULL_OFFSET_MOVED, "NO_MATCHED_LOGIC_QUEUE", 0),
    ],
)
def test_a_pull_is_told_what_it_found_and_where_to_go_on(on_broker, offset, fields, code, status, next_offset) -> None:
    """Codes and status names are RocketMQ's, and the four numbers a client needs are always there."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for number in range(3):
            await client.send("orders", b"%d" % number)
        answer = await client.pull("orders", offset, **fields)
        assert (answer.code, answer.remark) == (code, status)
        assert answer.fields["nextBeginOffset"] == str(next_offset)
        assert {"suggestWhichBrokerId", "minOffset", "maxOffset"} <= answer.fields.keys()
        expected = [b"%d" % number for number in range(3)][max(0, offset) :]
        assert bodies(bench, answer) == (expected if code == 0 else [])

    on_broker(talk)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "unknown"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "writeonly"}, ResponseCode.NO_PERMISSION),
        ({"consumerGroup": "../x"}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": 4}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": -1}, ResponseCode.INVALID_PARAMETER),
        ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expressionType": "SQL92", "subscription": "a >"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"expressionType": "REGEX"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"sysFlag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
    ],
)
def test_pulls_that_cannot_be_are_refused(on_broker, fields, code) -> None:
    """In RocketMQ's order and with its codes."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.create_topic("writeonly", perm=2)
        header = bench.pull_header("orders", **{name: value for name, value in fields.items() if name != "topic"})
        if "topic" in fields:
            header = bench.pull_header(fields["topic"])
        assert (await client.ask(RequestCode.PULL_MESSAGE, header)).code == code

    on_broker(talk)


def test_a_group_must_exist_where_groups_are_not_made_by_use(on_broker) -> None:
    """26, which RocketMQ's clients know."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        assert (await client.pull("orders")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    on_broker(talk, auto_create_subscription_group=False)


def test_subscriptions_of_heartbeats_are_what_pulls_go_by(on_broker) -> None:
    """Unknown topic of the group 24, older than the pull's 25, else the tags of the heartbeat."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.create_topic("invoices")
        await client.send("orders", b"a", {"TAGS": "paid"})
        await client.send("orders", b"b", {"TAGS": "open"})
        await client.heartbeat(consumer_of("orders", version=5, expression="paid || shipped"))
        found = await client.pull("orders", sysFlag=0, subVersion=5)
        assert bodies(bench, found) == [b"a"]
        assert (await client.pull("orders", sysFlag=0, subVersion=6)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        assert (await client.pull("invoices", sysFlag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST

    on_broker(talk)


def test_a_pull_commits_once_what_it_carries(on_broker) -> None:
    """Bit 1 of sysFlag stores commitOffset for the group, which then is asked for it."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders")
        flags = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)
        await client.pull("orders", sysFlag=flags, commitOffset=1)
        asked = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetRequestHeader("g", "orders", 0))
        assert asked.fields["offset"] == "1"

    on_broker(talk)


def test_a_pull_is_answered_where_its_offset_finds_no_room(on_broker) -> None:
    """What it commits is by the way, as in RocketMQ: a broker with as many offsets as it may have goes on serving."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders")
        bench.take_no_more_offsets()
        commits = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)
        assert (await client.pull("orders", sysFlag=commits, commitOffset=1)).code == ResponseCode.SUCCESS
        commit = UpdateConsumerOffsetRequestHeader("g", "orders", 0, 1)
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SYSTEM_BUSY

    on_broker(talk)


def test_a_reader_that_is_ahead_of_its_queue_goes_on_where_its_group_is(on_broker) -> None:
    """A crash took the end of the log, and what the queue has had since then nobody has consumed: RocketMQ sends the
    reader behind all that, and believes what it says it has consumed."""
    commits = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)
    query = QueryConsumerOffsetRequestHeader("g", "orders", 0)

    async def talk(bench) -> None:
        client = await bench.connect()
        for _ in range(5):
            await client.send("orders")
        await client.pull("orders", 2, sysFlag=commits, commitOffset=2)
        bench.lose_an_end()
        for ahead, committed in ((9, 8), (9, 4)):
            moved = await client.pull("orders", ahead, sysFlag=commits, commitOffset=committed)
            assert (moved.code, moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "2")
            assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields["offset"] == "2"

    on_broker(talk)


def test_a_reader_that_is_ahead_of_a_queue_that_has_lost_nothing_goes_on_at_its_end(on_broker) -> None:
    """As RocketMQ has it, and what it commits is believed."""
    commits = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)

    async def talk(bench) -> None:
        client = await bench.connect()
        for _ in range(5):
            await client.send("orders")
        await client.pull("orders", 2, sysFlag=commits, commitOffset=2)
        moved = await client.pull("orders", 9, sysFlag=commits, commitOffset=8)
        assert (moved.code, moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "5")
        header = QueryConsumerOffsetRequestHeader("g", "orders", 0)
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)).fields["offset"] == "8"

    on_broker(talk)


def test_a_reader_of_a_topic_that_was_deleted_begins_with_the_next_of_its_name(on_broker) -> None:
    """It was busy meanwhile, and is ahead of a queue of which its group has consumed nothing. What it pulls says when
    that was, so that one which is not ahead can tell, too."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for _ in range(5):
            await client.send("orders")
        assert "topicDeleted" not in (await client.pull("orders", 5)).fields
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        for _ in range(3):
            await client.send("orders")
        moved = await client.pull("orders", 5)
        assert (moved.code, moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")
        deleted_ms = str(bench.broker.store.deletions.deleted_ms("orders"))
        assert {moved.fields["topicDeleted"], (await client.pull("orders")).fields["topicDeleted"]} == {deleted_ms}

    on_broker(talk)


@pytest.mark.parametrize(
    ("fields", "settings", "count"),
    [
        ({"maxMsgNums": 2}, {}, 2),
        ({"maxMsgNums": 0}, {}, 1),
        ({"maxMsgBytes": 1}, {}, 1),
        ({"maxMsgBytes": 2500}, {}, 2),
        ({}, {"max_transfer_count_on_message_in_memory": 3}, 3),
        ({}, {"max_transfer_bytes_on_message_in_memory": 2500}, 2),
        ({}, {}, 10),
    ],
)
def test_an_answer_has_bounds_but_at_least_one_message(on_broker, fields, settings, count) -> None:
    """What the client asks for and what the broker allows both count."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for _ in range(10):
            await client.send("orders", bytes(1000))
        assert len(bench.records(await client.pull("orders", **fields))) == count

    on_broker(talk, **settings)


def test_a_waiting_pull_is_answered_by_the_next_message(on_broker) -> None:
    """At once, and by 361 as by 11; other requests of the connection are not held up."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        header = bench.pull_header("orders", wait_ms=60_000)
        waiting = [
            asyncio.ensure_future(client.ask(code, header))
            for code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
        ]
        await client.settle()
        assert not any(pull.done() for pull in waiting)
        await client.send("orders", b"now")
        for answer in await asyncio.gather(*waiting):
            assert (answer.code, bodies(bench, answer)) == (0, [b"now"])

    on_broker(talk)


def test_a_pull_that_does_not_say_so_does_not_wait(on_broker) -> None:
    """Whatever it says of how long it would; and one that may wait does not where there is something."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders", b"there")
        answer = await client.pull("orders", 1, suspendTimeoutMillis=3_600_000)
        assert (answer.code, answer.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")
        assert bodies(bench, await client.pull("orders", 0, wait_ms=3_600_000)) == [b"there"]
        assert (await client.pull("orders", 0, subscription="nothing", wait_ms=3_600_000)).code == (
            ResponseCode.PULL_RETRY_IMMEDIATELY
        )

    on_broker(talk)


def test_a_waiting_pull_is_woken_only_by_the_tags_it_wants(on_broker) -> None:
    """Other tags leave it waiting; the first that fits answers it, with what lies between skipped."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        pull = asyncio.ensure_future(client.pull("orders", subscription="paid", wait_ms=60_000))
        await client.settle()
        await client.send("orders", b"a", {"TAGS": "open"})
        await client.settle()
        assert not pull.done()
        await client.send("orders", b"b", {"TAGS": "paid"})
        answer = await pull
        assert bodies(bench, answer) == [b"b"]
        assert answer.fields["nextBeginOffset"] == "2"

    on_broker(talk)


def test_a_pull_that_waited_long_enough_is_told_that_nothing_came(on_broker) -> None:
    """With long polling off it waits for the short time, and is found by the next scan."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        answer = await client.pull("orders", wait_ms=60_000)
        assert answer.code == ResponseCode.PULL_NOT_FOUND

    on_broker(talk, long_polling_enable=False, short_polling_time_mills=1)


def test_a_broker_holds_only_so_many_pulls(on_broker) -> None:
    """The one too many hears that the broker is busy, which clients take as a reason to try again."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        held = asyncio.ensure_future(client.pull("orders", wait_ms=60_000))
        await client.settle()
        assert (await client.pull("orders", wait_ms=60_000)).code == ResponseCode.SYSTEM_BUSY
        await client.send("orders")
        assert (await held).code == 0

    on_broker(talk, max_parked_pulls=1)


@pytest.mark.parametrize("field", ["subscription", "expressionType", "bname"])
def test_pulls_with_long_texts_take_more_of_the_room(on_broker, field: str) -> None:
    """Whatever is said in a header waits in memory with its pull, be it of use or not."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        heartbeat = ConsumerData("g", subscriptionDataSet=[SubscriptionData(topic="orders")])
        await client.heartbeat(HeartbeatData("c1", [], [heartbeat]))
        header = {"sysFlag": int(PullFlag.SUSPEND), field: "x" * 30_000}
        assert (await client.pull("orders", wait_ms=60_000, **header)).code == ResponseCode.SYSTEM_BUSY

    on_broker(talk, max_parked_pulls=50)


@pytest.mark.faults
def test_a_read_that_the_disk_fails_at_is_one_answer(on_broker) -> None:
    """It says what is wrong, in a code that clients try again after: nothing is taken for damaged, or passed over."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders", b"1")
        waiting = asyncio.ensure_future(client.pull("orders", 1, wait_ms=60_000))
        await client.settle()
        files.fail_next("pread")
        failed = await client.pull("orders")
        assert bodies(bench, await client.pull("orders")) == [b"1"]
        files.fail_next("pread")
        await client.send("orders", b"2")
        woken = await waiting
        assert bodies(bench, await client.pull("orders")) == [b"1", b"2"]
        files.fail_next("pread")
        bulk = RequestCode.RMQ_BULK_READ, BulkReadRequestHeader("orders", 0, 0, 2, maxCount=9, maxBytes=1 << 20)
        in_bulk = await client.ask(*bulk)
        assert (await client.ask(*bulk)).code == ResponseCode.SUCCESS
        for answer in (failed, woken, in_bulk):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "planned by the test" in answer.remark

    on_broker(talk, files=files)


def test_a_deletion_answers_the_pulls_that_wait_at_the_topic(on_broker) -> None:
    """They hear that it is gone, and nothing of the next topic of the name; other topics' pulls wait on."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for topic in ("orders", "bills"):
            await client.create_topic(topic)
        gone, staying = (asyncio.ensure_future(client.pull(each, wait_ms=60_000)) for each in ("orders", "bills"))
        await client.settle()
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        await client.create_topic("orders")
        await client.send("orders", b"of the next one")
        assert (await gone).code == ResponseCode.TOPIC_NOT_EXIST
        assert not staying.done()
        await client.send("bills", b"kept")
        assert bodies(bench, await staying) == [b"kept"]

    on_broker(talk)


def test_stopping_answers_the_pulls_that_wait(on_broker) -> None:
    """No client is left to time out by a broker that goes away in order."""

    async def talk(bench) -> asyncio.Future:
        client = await bench.connect()
        await client.create_topic("orders")
        pull = asyncio.ensure_future(client.pull("orders", wait_ms=60_000))
        await client.settle()
        await bench.broker.__aexit__(None, None, None)
        assert (await pull).code == ResponseCode.PULL_NOT_FOUND

    on_broker(talk)


def test_no_answer_is_longer_than_a_frame_that_clients_take(on_broker) -> None:
    """Whatever the settings allow; else the consumer would lose its connection over each pull, and never come on."""

    async def talk(bench) -> None:
        client = await bench.connect()
        body = bytes(4 << 20)
        for _ in range(5):
            assert (await client.send("orders", body)).code == 0
        first = await client.pull("orders")
        assert (first.code, first.fields["nextBeginOffset"]) == (0, "3")
        header = BulkReadRequestHeader("orders", 0, 0, 5, maxCount=100, maxBytes=1 << 30)
        bulk = await client.ask(RequestCode.RMQ_BULK_READ, header)
        assert (bulk.code, bulk.fields["count"]) == (0, "3")

    most = {"max_transfer_bytes_on_message_in_memory": 1 << 30, "max_bulk_read_bytes": 1 << 30}
    on_broker(talk, store={"mapped_file_size_commit_log": 64 << 20}, **most)


async def asks_and_waits(consumer) -> asyncio.Future:
    """A pull at the end of the queue, held by the broker."""
    held = asyncio.ensure_future(consumer.pull("orders", 3, wait_ms=60_000))
    await asyncio.sleep(0)  # it is under way
    await consumer.settle()
    return held


async def reset_to_1(client):
    """An operator does, for the group of the pulls here."""
    header = ResetOffsetRequestHeader("orders", "g", timestamp=0, isForce=True, queueId=0, offset=1)
    answer = await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    assert answer.code == 0
    return answer


async def is_told_of_the_reset(client) -> None:
    moved = await client.pull("orders", 3)
    assert (moved.code, moved.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert moved.fields["nextBeginOffset"] == "1"


def test_a_reset_is_told_to_the_next_pull_and_to_no_other(on_broker) -> None:
    """21 with the new offset; the commit of one who does not know yet is ignored."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for _ in range(3):
            await client.send("orders")
        await client.pull("orders")
        reset = await reset_to_1(client)
        assert bytes(reset.body) == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:1}}'
        await is_told_of_the_reset(client)
        assert (await client.pull("orders", 1)).code == 0

    on_broker(talk)


def test_a_reset_is_not_told_to_a_consumer_that_has_gone(on_broker) -> None:
    """Its pull is still held when a message comes. Told there, the reset would be over, and the next commit of one who
    comes back with its old place undo it."""

    async def talk(bench) -> None:
        gone, client = await bench.connect(), await bench.connect()
        for _ in range(3):
            await client.send("orders")
        held = await asks_and_waits(gone)
        await gone.connection.close()
        with pytest.raises(ConnectionLost):
            await held
        while bench.broker._metrics.connections() > 1:
            await client.settle()
        await reset_to_1(client)
        await client.send("orders")
        await client.settle()  # whoever it woke has been run
        await is_told_of_the_reset(client)

    on_broker(talk)


def test_a_reset_is_not_told_to_a_consumer_that_has_lost_the_queue(on_broker) -> None:
    """The pull of who had it before is still held; its answer is looked at by nobody. So a held pull is told to ask
    once more, and who does so is told of the reset."""

    async def talk(bench) -> None:
        before, now = await bench.connect(), await bench.connect()
        for _ in range(3):
            await now.send("orders")
        held = await asks_and_waits(before)
        assert (await now.pull("orders", 2)).code == 0
        await reset_to_1(now)
        await now.send("orders")
        answer = await held
        assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "3")
        await is_told_of_the_reset(now)

    on_broker(talk)


def test_thousands_that_are_woken_do_not_hold_others_up(on_broker) -> None:
    """When a message wakes very many waiting pulls, somebody else's request is answered in between."""

    async def talk(bench) -> None:
        waiting, sender, other = [await bench.connect() for _ in range(3)]
        await sender.create_topic("t", queues=1)
        header = bench.pull_header("t", wait_ms=60_000)
        pulls = [asyncio.ensure_future(waiting.ask(RequestCode.PULL_MESSAGE, header)) for _ in range(1_000)]
        await asyncio.sleep(0)  # all are under way
        await waiting.settle()
        answered: list[object] = []
        for pull in pulls:
            pull.add_done_callback(answered.append)
        await sender.send("t")
        await other.settle()
        before_other = len(answered)
        assert {answer.code for answer in await asyncio.gather(*pulls)} == {ResponseCode.SUCCESS}
        assert before_other < 900

    on_broker(talk)


def test_thousands_that_have_waited_long_enough_are_in_no_hurry(on_broker, monkeypatch) -> None:
    """Every few seconds those who wait for other tags are told how far they may skip: a few at a time, without a look
    at their queue, and whoever asks meanwhile hardly notices."""
    reads: Counter[str] = Counter()
    read = MessageStore.read
    monkeypatch.setattr(
        MessageStore, "read", lambda it, topic, *at, **most: reads.update([topic]) or read(it, topic, *at, **most)
    )

    async def talk(bench) -> None:
        waiting, sender, other = [await bench.connect() for _ in range(3)]
        await sender.create_topic("t", queues=1)
        header = bench.pull_header("t", wait_ms=60_000, subscription="rare")
        pulls = [asyncio.ensure_future(waiting.ask(RequestCode.PULL_MESSAGE, header)) for _ in range(1_000)]
        await asyncio.sleep(0)  # all are under way
        await waiting.settle()
        answered: list[object] = []
        for pull in pulls:
            pull.add_done_callback(answered.append)
        await sender.send("t", properties={"TAGS": "usual"})
        assert reads["t"] == 1_000  # each has found that there is nothing yet
        bench.broker._parts.pulls.held.scan()
        await other.settle()
        before_other = len(answered)
        answers = await asyncio.gather(*pulls)
        assert {answer.code for answer in answers} == {ResponseCode.PULL_RETRY_IMMEDIATELY}
        assert {answer.fields["nextBeginOffset"] for answer in answers} == {"1"}
        assert before_other < 200
        assert reads["t"] == 1_000

    on_broker(talk)


def test_who_is_sent_on_misses_nothing(on_broker) -> None:
    """A message that comes while a pull is told how far it may skip lies behind that, and the next pull has it."""

    async def talk(bench) -> None:
        waiting, sender = [await bench.connect() for _ in range(2)]
        await sender.create_topic("t", queues=1)
        header = bench.pull_header("t", wait_ms=60_000, subscription="rare")
        pulls = [asyncio.ensure_future(waiting.ask(RequestCode.PULL_MESSAGE, header)) for _ in range(200)]
        await asyncio.sleep(0)  # all are under way
        await waiting.settle()
        await sender.send("t", properties={"TAGS": "usual"})
        bench.broker._parts.pulls.held.scan()
        await sender.send("t", b"wanted", properties={"TAGS": "rare"})
        assert not all(pull.done() for pull in pulls)
        assert {answer.fields["nextBeginOffset"] for answer in await asyncio.gather(*pulls)} == {"1"}
        assert bodies(bench, await sender.pull("t", 1, subscription="rare")) == [b"wanted"]

    on_broker(talk)


def test_who_could_not_be_told_of_a_message_is_not_sent_on_over_it(on_broker, monkeypatch) -> None:
    """For want of memory those who wait were not held against it: the scan makes up for that first."""
    arrived, refusals = ParkedPulls.arrived, [MemoryError()]

    def without_memory(parked, *arrival):
        if refusals:
            raise refusals.pop()
        return arrived(parked, *arrival)

    monkeypatch.setattr(ParkedPulls, "arrived", without_memory)

    async def talk(bench) -> None:
        waiting, sender = [await bench.connect() for _ in range(2)]
        await sender.create_topic("t", queues=1)
        pull = asyncio.ensure_future(waiting.pull("t", wait_ms=60_000, subscription="rare"))
        await waiting.settle()
        assert (await sender.send("t", b"wanted", properties={"TAGS": "rare"})).code == ResponseCode.SYSTEM_ERROR
        bench.broker._parts.pulls.held.scan()
        assert bodies(bench, await pull) == [b"wanted"]

    on_broker(talk)
