"""Delayed messages, and messages that a consumer sends back: when they come, where, and how often."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.protocol.bodies.admin import DelayOffsetTable, SubscriptionGroupConfig
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData, LockBatchBody, Queue
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import DeleteSubscriptionGroupRequestHeader, TopicRequestHeader
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.protocol.records.record import HEAD_BYTES, encode_record
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

from .transaction_talk import all_of, eventually, send_half
from .waiting_talk import comes_after, restart_between, there

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Record
    from rmqspark.remoting.response import Response

pytestmark = pytest.mark.integration


async def send_back(client: Any, record: Record, level: int = 0, **fields: Any) -> Response:
    header = ConsumerSendMsgBackRequestHeader(record.physical_offset, "g", level, originTopic=record.topic, **fields)
    return await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)


async def sent_to_group_g(client: Any, bench: Any, **fields: Any) -> Record:
    """A message, and group g, which has read it."""
    await client.send("orders", b"work", {"TAGS": "TagA", "KEYS": "k1", "WAIT": "true"}, **fields)
    (record,) = bench.records(await client.pull("orders"))
    return record


def test_a_delayed_message_comes_when_its_time_has_come(on_broker) -> None:
    """Its sender hears of the queue it will be in; until then nobody reads it there, and a pull that waits is woken."""
    clock = ManualClock()

    async def talk(bench) -> None:
        parked, message = await comes_after(bench, clock, 10_000, {"DELAY": "3"}, (SCHEDULE_TOPIC, 2))
        wrapped = {"DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "2", "TAGS": "TagA", "UNIQ_KEY": "U1"}
        assert wrapped.items() <= parked.property_map().items()
        assert message.property_map() == parked.property_map()

    on_broker(talk, clock=clock)


@pytest.mark.parametrize(("level", "queue_id"), [("1", 0), ("18", 17), ("19", 17), ("99999999999", 17)])
def test_each_level_has_its_queue(on_broker, level: str, queue_id: int) -> None:
    """A level above the last is the last; the message says so from then on."""

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await client.send("orders", b"x", {"DELAY": level, "TIMER_DELAY_SEC": "5"})).code == 0
        (parked,) = await all_of(bench, client, SCHEDULE_TOPIC, queue_id)
        assert parked.property_map()["DELAY"] == str(queue_id + 1)
        assert "TIMER_DELAY_SEC" not in parked.property_map()

    on_broker(talk, clock=ManualClock())


def test_a_clock_that_is_put_back_makes_nobody_wait_longer(on_broker) -> None:
    """A time further away than the level's delay was told by another clock: the message comes at once, as in
    RocketMQ."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders", b"later", {"DELAY": "1"})
        clock.set_now_ms(clock.now_ms() - 3_600_000)
        await there(bench, client, "orders")

    on_broker(talk, clock=clock)


@pytest.mark.parametrize("table_is_kept", [True, False])
def test_what_was_delivered_is_not_delivered_again_after_a_restart(on_broker, table_is_kept: bool) -> None:
    """Nor is what waits forgotten. Without its table a broker finds both in its log."""
    sends = [(b"1", {"DELAY": "1"}), (b"2", {"DELAY": "2"})]
    forgotten = "" if table_is_kept else "delayOffset"
    assert restart_between(on_broker, ManualClock(), sends, (1, 4), forgotten) == [[b"1"], [b"1", b"2"]]


def test_a_start_that_fails_forgets_nothing_that_was_delivered(on_broker) -> None:
    """An address that nobody may listen on without saying so, as it often is: the start after it delivered all once
    more."""
    sends = [(b"1", {"DELAY": "1"}), (b"2", {"DELAY": "2"})]
    found = restart_between(on_broker, ManualClock(), sends, (1, 4), bind_address="0.0.0.0", broker_ip1="127.0.0.1")
    assert found == [[b"1"], [b"1", b"2"]]


def test_a_broker_tells_how_far_its_levels_are(on_broker) -> None:
    """GET_ALL_DELAY_OFFSET, in RocketMQ's form, once it is on disk."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders", b"1", {"DELAY": "1"})
        clock.advance(seconds=1)
        await there(bench, client, "orders")

        async def is_told() -> bool:
            answer = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET)
            return DelayOffsetTable.decode(answer.body).offsetTable == {1: 1}

        await eventually(is_told)

    on_broker(talk, clock=clock)


def test_a_full_disk_is_no_reason_to_wait(on_broker) -> None:
    """What waits keeps the log's files from going: it is delivered although sends are refused, and then they can go."""
    clock, files = ManualClock(), MemoryFileSystem(budget_bytes=1 << 30)

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders", b"late", {"DELAY": "1"})
        usage = bench.broker._parts.store.disk_usage()
        files.set_budget(usage.total_bytes - usage.free_bytes + (1 << 20))

        async def is_full() -> bool:
            bench.broker._parts.store.look_at_disk(clock.now_ms())
            return (await client.send("others")).code == ResponseCode.SERVICE_NOT_AVAILABLE

        await eventually(is_full)
        clock.advance(seconds=1)
        (record,) = await there(bench, client, "orders")
        assert record.body == b"late"
        assert await is_full()

    on_broker(talk, clock=clock, files=files, store={"min_free_bytes": 2 << 20})


def test_messages_of_a_topic_that_went_are_not_delivered(on_broker) -> None:
    """Not to the next topic of its name either; those behind them come."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.create_topic("others")
        await client.send("orders", b"of the first", {"DELAY": "1"})
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        await client.create_topic("orders")
        await client.send("others", b"last", {"DELAY": "1"})
        clock.advance(seconds=1)
        await there(bench, client, "others")
        assert await all_of(bench, client, "orders") == []

    on_broker(talk, clock=clock)


def test_a_message_sent_back_comes_again_after_a_while(on_broker) -> None:
    """For its group alone, after 10 s, then after 30; it says where it came from and how often it was consumed."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        record = await sent_to_group_g(client, bench)
        assert (await send_back(client, record)).code == 0
        assert await all_of(bench, client, "%RETRY%g") == []
        clock.advance(seconds=10)
        (again,) = await there(bench, client, "%RETRY%g")
        origin = {
            "RETRY_TOPIC": "orders",
            "ORIGIN_MESSAGE_ID": offset_msg_id(record.store_host, record.physical_offset),
            "WAIT": "false",
            "DELAY": "3",
            "TAGS": "TagA",
            "KEYS": "k1",
        }
        assert origin.items() <= again.property_map().items()
        assert (again.body, again.reconsume_times) == (b"work", 1)
        assert (again.born_timestamp_ms, again.born_host) == (record.born_timestamp_ms, record.born_host)

        assert (await send_back(client, again)).code == 0
        clock.advance(seconds=29)
        await asyncio.sleep(0.25)  # rounds in which nothing may come
        clock.advance(seconds=1)
        third = (await there(bench, client, "%RETRY%g", count=2))[1]
        assert origin | {"DELAY": "4"} == {name: third.property_map()[name] for name in origin}
        assert third.reconsume_times == 2

    on_broker(talk, clock=clock)


@pytest.mark.parametrize(
    ("level", "fields", "version"),
    [(-1, {}, 479), (0, {"maxReconsumeTimes": 0}, 479), (3, {"maxReconsumeTimes": 0}, 479)],
)
def test_a_message_consumed_in_vain_often_enough_is_a_dead_letter(on_broker, level, fields, version) -> None:
    """At once, and as it was; its group's dead letter topic has one queue, which anybody may read."""

    async def talk(bench) -> None:
        client = await bench.connect()
        record = await sent_to_group_g(client, bench)
        assert (await send_back(client, record, level, **fields)).code == 0
        (dead,) = await all_of(bench, client, "%DLQ%g")
        assert (dead.body, dead.reconsume_times, dead.property_map()["RETRY_TOPIC"]) == (b"work", 1, "orders")
        assert dead.property_map()["DELAY"] == "0"
        assert await all_of(bench, client, SCHEDULE_TOPIC, 2) == []

    on_broker(talk, clock=ManualClock())


def test_a_group_says_how_often_its_messages_come_again(on_broker) -> None:
    """retryMaxTimes where the consumer names no number; retryQueueNums 0 drops what is sent back, as RocketMQ does."""

    async def talk(bench) -> None:
        client = await bench.connect()
        record = await sent_to_group_g(client, bench)
        for config in ({"retryMaxTimes": 0}, {"retryQueueNums": 0, "retryMaxTimes": 0}):
            body = SubscriptionGroupConfig(groupName="g", **config).encode()
            await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
            assert (await send_back(client, record)).code == 0
            assert len(await all_of(bench, client, "%DLQ%g")) == 1

    on_broker(talk, clock=ManualClock())


def test_a_limit_that_was_lowered_since_is_none_for_what_is_sent_back(on_broker) -> None:
    """Refused, it would be tried again for ever, and its queue never be consumed beyond it."""
    files = MemoryFileSystem()

    async def fill(bench) -> None:
        client = await bench.connect()
        await client.send("orders", bytes(100_000))
        assert len(bench.records(await client.pull("orders"))) == 1

    async def talk(bench) -> None:
        client = await bench.connect()
        (record,) = bench.records(await client.pull("orders"))
        assert (await send_back(client, record, -1)).code == 0
        (letter,) = await all_of(bench, client, "%DLQ%g")
        assert letter.body == record.body

    on_broker(fill, files=files)
    on_broker(talk, files=files, store={"max_message_size": 1_000})


def test_what_is_sent_back_comes_to_a_queue_that_consumers_read(on_broker) -> None:
    """The group was given more queues for retries than its retry topic has, which stays as it was made."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        record = await sent_to_group_g(client, bench)
        assert (await send_back(client, record, 1)).code == 0
        more = SubscriptionGroupConfig(groupName="g", retryQueueNums=64)
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, more.encode())).code == 0
        for _ in range(3):
            assert (await send_back(client, record, 1)).code == 0
        parked = await all_of(bench, client, SCHEDULE_TOPIC, 0)
        assert [each.property_map()["REAL_QID"] for each in parked] == ["0"] * 4
        clock.advance(seconds=1)
        assert len(await there(bench, client, "%RETRY%g", count=4)) == 4

    on_broker(talk, clock=clock)


def test_a_group_that_wants_retries_after_all_gets_queues_for_them(on_broker) -> None:
    """Its retry topic was made while it wanted none, and has none."""

    async def talk(bench) -> None:
        client = await bench.connect()
        record = await sent_to_group_g(client, bench)
        for queues in (0, 1):
            body = SubscriptionGroupConfig(groupName="g", retryQueueNums=queues).encode()
            assert (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)).code == 0
            await client.heartbeat(HeartbeatData("c1", [], [ConsumerData("g")]))
            assert (await send_back(client, record, 1)).code == 0
            found = await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader("%RETRY%g"))
            config = TopicConfig.decode(found.body)
            assert (config.readQueueNums, config.writeQueueNums) == (queues, queues)
        assert len(await all_of(bench, client, SCHEDULE_TOPIC, 0)) == 1

    on_broker(talk, clock=ManualClock())


@pytest.mark.parametrize(("auto_create", "code"), [(True, 0), (False, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)])
def test_a_group_that_was_deleted_loses_no_message_that_it_failed(on_broker, auto_create: bool, code: int) -> None:
    """Observed of RocketMQ 5.5.0: it is made again by what its members send back, as by what they pull."""

    async def talk(bench) -> None:
        client = await bench.connect()
        body = SubscriptionGroupConfig(groupName="g").encode()
        assert (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)).code == 0
        record = await sent_to_group_g(client, bench)
        for again in (lambda: send_back(client, record, 1), lambda: client.send("%RETRY%g", j=1)):
            deletion = DeleteSubscriptionGroupRequestHeader("g")
            assert (await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, deletion)).code == 0
            assert (await again()).code == code

    on_broker(talk, clock=ManualClock(), auto_create_subscription_group=auto_create)


@pytest.mark.parametrize("offset", [-1, 3, 1 << 40])
def test_only_messages_can_be_sent_back(on_broker, offset: int) -> None:
    """The answer is RocketMQ's."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await sent_to_group_g(client, bench)
        header = ConsumerSendMsgBackRequestHeader(offset, "g", 0)
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")

    on_broker(talk)


def test_a_half_message_cannot_be_read_by_sending_it_back(on_broker) -> None:
    """Nobody sees it before it is committed; RocketMQ shows it to whoever asks so."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await sent_to_group_g(client, bench)
        await send_half(client)
        (half,) = await all_of(bench, client, "RMQ_SYS_TRANS_HALF_TOPIC")
        assert (await send_back(client, half, -1)).code == ResponseCode.SYSTEM_ERROR
        assert await all_of(bench, client, "%DLQ%g") == []

    on_broker(talk)


def test_what_the_body_of_a_message_holds_cannot_be_sent_back(on_broker) -> None:
    """It may look like a record, and say that it is in its place; it is in no queue."""

    async def talk(bench) -> None:
        client = await bench.connect()
        last = await sent_to_group_g(client, bench)
        place = last.physical_offset + last.size + HEAD_BYTES
        forged = encode_record(topic="orders", body=b"forged", properties=b"", queue_offset=1, physical_offset=place)
        await client.send("orders", bytes(forged))
        header = ConsumerSendMsgBackRequestHeader(place, "g", -1)
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code == ResponseCode.SYSTEM_ERROR
        assert await all_of(bench, client, "%DLQ%g") == []

    on_broker(talk)


def test_a_send_to_the_retry_topic_becomes_a_dead_letter_in_the_end(on_broker) -> None:
    """Consumers send so themselves where they cannot send back: with a delay, and with how often it has been."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await sent_to_group_g(client, bench)
        properties = {"RETRY_TOPIC": "orders", "DELAY": "3"}
        assert (await client.send("%RETRY%g", b"16th", properties, j=16)).code == 0
        assert (await client.send("%RETRY%g", b"not yet", properties, j=0, l=0)).code == 0
        assert (await client.send("%RETRY%g", b"17th", properties, j=17)).code == 0
        assert (await client.send("%RETRY%g", b"second", properties, j=2, l=1)).code == 0
        assert (await client.send("%RETRY%g", b"first", properties, j=0, l=-1)).code == 0
        clock.advance(seconds=10)
        again = await there(bench, client, "%RETRY%g", count=2)
        assert [record.body for record in again] == [b"16th", b"not yet"]
        dead = await all_of(bench, client, "%DLQ%g")
        assert [(record.body, record.property_map()["DELAY"]) for record in dead] == [
            (b"17th", "-1"),
            (b"second", "-1"),
            (b"first", "-1"),
        ]

    on_broker(talk, clock=clock)


def test_what_a_consumer_in_order_gives_up_is_a_dead_letter(on_broker) -> None:
    """While a member of the group owns a queue, what is sent to its retry topic is given up, but for what does not say
    how often it was consumed, nor how often it may be: an operator sends it again."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await sent_to_group_g(client, bench)
        lock = LockBatchBody("g", "c1", [Queue("orders", bench.broker.name, 0)]).encode()
        await client.ask(RequestCode.LOCK_BATCH_MQ, None, lock)
        assert (await client.send("%RETRY%g", b"in order", {"RETRY_TOPIC": "orders"}, j=1)).code == 0
        assert (await client.send("%RETRY%g", b"once", {"RETRY_TOPIC": "orders"}, j=0, l=0)).code == 0
        assert [dead.body for dead in await all_of(bench, client, "%DLQ%g")] == [b"in order", b"once"]
        assert (await client.send("%RETRY%g", b"sent again", {"RETRY_TOPIC": "orders"}, j=0)).code == 0
        (again,) = await all_of(bench, client, "%RETRY%g")
        assert again.body == b"sent again"

    on_broker(talk)


def test_dead_letters_are_counted_that_are_stored(on_broker) -> None:
    """Not those that are refused: who consumes in order sends them again every second."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await sent_to_group_g(client, bench)
        refused = await client.send("%RETRY%g", b"", {"RETRY_TOPIC": "orders"}, j=1, l=0)
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        counted = bench.broker._parts.counted.dead_letters
        assert counted.items() == []
        for _ in range(2):
            assert (await client.send("%RETRY%g", b"x", {"RETRY_TOPIC": "orders"}, j=1, l=0)).code == 0
        assert counted.items() == [(("g", "%RETRY%g"), [2])]

    on_broker(talk)


def test_what_was_committed_once_is_a_dead_letter_like_any_other(on_broker) -> None:
    """Consumers that give a message up send it with all its properties, older ones with those of its half, too."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await sent_to_group_g(client, bench)
        committed = {"TRAN_MSG": "true", "PGROUP": "PG", "RETRY_TOPIC": "orders", "DELAY": "3"}
        assert (await client.send("%RETRY%g", b"once", committed, j=1, l=0)).code == 0
        assert [dead.body for dead in await all_of(bench, client, "%DLQ%g")] == [b"once"]

    on_broker(talk)


def test_a_message_is_sent_back_once_where_no_slave_is_there_to_have_it(on_broker) -> None:
    """Its consumer is told that it is stored, as by RocketMQ: told of an error, it would send the message besides, and
    each of the two twice the next time it fails."""

    async def talk(bench) -> None:
        client = await bench.connect()
        record = await sent_to_group_g(client, bench)
        assert (await send_back(client, record)).code == 0

    on_broker(talk, broker_role="SYNC_MASTER")


def test_a_send_back_under_sync_flush_is_on_disk_when_it_is_answered(on_broker) -> None:
    """A power loss after the answer loses neither the message nor its topic."""
    clock, files = ManualClock(), MemoryFileSystem()
    sync = {"flush_disk_type": "SYNC_FLUSH"}

    async def before(bench) -> None:
        client = await bench.connect()
        record = await sent_to_group_g(client, bench)
        assert (await send_back(client, record)).code == 0
        files.crash()

    async def after(bench) -> None:
        client = await bench.connect()
        clock.advance(seconds=10)
        (again,) = await there(bench, client, "%RETRY%g")
        assert again.body == b"work"

    with pytest.raises(BaseException):  # noqa: B017, PT011 - the machine went away under the broker
        on_broker(before, clock=clock, files=files, store=sync)
    on_broker(after, clock=clock, files=files, store=sync)


@pytest.mark.parametrize("unique_key", ["C0A8010A1F9018B4AAC25E0BE0F50007", None])
def test_another_message_is_not_given_back_in_the_place_of_one_that_is_lost(on_broker, unique_key: str | None) -> None:
    """A consumer may have it from before its broker lost the end of its log, or came back with another store; who sends
    from then on gets the same places. It hears that there is no such message, and sends its own."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders", b"work", {"UNIQ_KEY": unique_key} if unique_key else {})
        (record,) = bench.records(await client.pull("orders"))
        own_id = unique_key or offset_msg_id(record.store_host, record.physical_offset)
        lost = await send_back(client, record, originMsgId="C0A8010A1F9018B4AAC25E0BE0F50008")
        assert (lost.code, lost.remark) == (1, f"look message by offset failed, {record.physical_offset}")
        for own in (own_id, own_id.lower(), "", None):
            assert (await send_back(client, record, originMsgId=own)).code == 0

    on_broker(talk)
