"""Messages that wait for their time are recalled by their receipt's handle: what is stored, and what is refused."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from rmqspark.broker.delays import timed_messages
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.produce import RecallMessageRequestHeader
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.protocol.recall_handle import RecallHandle
from rmqspark.testing.manual_clock import ManualClock

from .test_delays import there
from .test_deliver_times import in_ms
from .transaction_talk import all_of, eventually

pytestmark = pytest.mark.integration

NOW_MS = 1_700_000_000_400


async def recall(client, handle: str, topic: str = "orders", group: str | None = "PG"):
    return await client.ask(RequestCode.RECALL_MESSAGE, RecallMessageRequestHeader(topic, handle, group))


def clock_at(now_ms: int = NOW_MS) -> ManualClock:
    clock = ManualClock()
    clock.set_now_ms(now_ms)
    return clock


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_is_recalled_by_its_handle_does_not_come(on_broker, flush: str) -> None:
    """What is due in the same second does; the topic may be new, and the flush waited for."""
    clock = clock_at()

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await client.send("orders", b"recalled", in_ms(clock, 5_000) | {"UNIQ_KEY": "U1"})
        await client.send("orders", b"wanted", in_ms(clock, 5_000) | {"UNIQ_KEY": "U2"})
        handle = sent.fields["recallHandle"]
        assert RecallHandle.decode(handle) == ("orders", "broker-a", "1700000005001", "U1")
        answer = await recall(client, handle)
        assert (answer.code, answer.fields) == (0, {"msgId": "U1", "MSG_REGION": "DefaultRegion"})
        clock.advance(seconds=7)
        assert [record.body for record in await there(bench, client, "orders")] == [b"wanted"]

    on_broker(talk, clock=clock, store={"flush_disk_type": flush})


def test_a_recall_is_stored_as_rocketmq_stores_it(on_broker) -> None:
    """A record of the timer topic, with the time that the message waits for; its properties stand in Java's order."""
    clock = clock_at()

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await client.send("orders", b"later", in_ms(clock, 5_000) | {"UNIQ_KEY": "U1"}, e=3)
        await recall(client, sent.fields["recallHandle"])
        _, found = await all_of(bench, client, TIMER_TOPIC)
        assert (found.body, found.queue_id, found.flag, found.sys_flag) == (b"0", 0, 0, 0)
        assert found.born_timestamp_ms == NOW_MS
        assert found.properties == (
            b"TIMER_DEL_UNIQKEY\x01U1\x02REAL_TOPIC\x01orders\x02BORN_TIMESTAMP\x011700000000400\x02TRACE_CONTEXT\x01\x02"
            b"TIMER_DELIVER_MS\x011700000005001\x02UNIQ_KEY\x01U1\x02PGROUP\x01PG\x02TAGS\x01_RECALL_TAG_\x02"
            b"TIMER_OUT_MS\x011700000005000\x02REAL_QID\x010\x02"
        )

    on_broker(talk, clock=clock)


def test_only_what_waits_for_a_time_has_a_handle(on_broker) -> None:
    """Not what is delivered at once, waits for a level, or is for a group's next try."""
    clock = clock_at()
    properties = [{}, in_ms(clock, -1), {"DELAY": "3"}, in_ms(clock, 5_000) | {"DELAY": "3"}]

    async def talk(bench) -> None:
        client = await bench.connect()
        answers = [await client.send("orders", b"x", each) for each in properties]
        await client.pull("orders", consumerGroup="g")  # so that there is such a group
        answers.append(await client.send("%RETRY%g", b"x", in_ms(clock, 5_000)))
        assert [(answer.code, "recallHandle" in answer.fields) for answer in answers] == [(0, False)] * 5
        assert "recallHandle" in (await client.send("orders", b"x", {"TIMER_DELAY_SEC": "9"})).fields

    on_broker(talk, clock=clock)


V1 = "v1 orders broker-a 1700000005001 U1"
REFUSED = {
    "no handle": ("orders", "", "recall handle is invalid"),
    "no Base64": ("orders", "?" + encoded(V1), "recall handle is invalid"),
    "cut short": ("orders", encoded(V1)[:-5], "recall handle is invalid"),
    "of another version": ("orders", encoded(V1.replace("v1", "v2")), "recall handle is invalid"),
    "without an id": ("orders", encoded("v1 orders broker-a 1700000005001 "), "recall handle is invalid"),
    "of another topic": ("others", encoded(V1), "recall failed, topic not match"),
    "of another broker": ("orders", encoded(V1.replace("-a", "-b")), "recall failed, broker service not available"),
    "due": ("orders", encoded(V1.replace("1700000005001", str(NOW_MS))), "recall failed, timestamp invalid"),
    "too far": (
        "orders",
        encoded(V1.replace("1700000005001", str(NOW_MS + 259_200_000))),
        "recall failed, timestamp invalid",
    ),
    "without a time": ("orders", encoded(V1.replace("1700000005001", "soon")), "recall failed, timestamp invalid"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_recalls_nothing_is_refused_in_rocketmqs_words(on_broker, case: str) -> None:
    """And nothing is stored."""
    topic, handle, words = REFUSED[case]

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.create_topic("others")
        answer = await recall(client, handle, topic)
        assert (answer.code, answer.remark) == (ResponseCode.ILLEGAL_OPERATION, words)
        assert answer.fields == {"MSG_REGION": "DefaultRegion"}
        assert await all_of(bench, client, TIMER_TOPIC) == []

    on_broker(talk, clock=clock_at())


def test_a_handle_of_no_topic_here_is_refused(on_broker) -> None:
    """Before the handle is looked at."""

    async def talk(bench) -> None:
        client = await bench.connect()
        answer = await recall(client, "?")
        assert (answer.code, answer.remark) == (
            ResponseCode.TOPIC_NOT_EXIST,
            "recall failed, the topic[orders] not exist",
        )

    on_broker(talk, clock=clock_at())


def test_a_broker_may_have_it_that_nothing_is_recalled(on_broker) -> None:
    """As RocketMQ's brokers have it unless told otherwise: no handle is given, and none taken."""
    clock = clock_at()

    async def talk(bench) -> None:
        client = await bench.connect()
        assert "recallHandle" not in (await client.send("orders", b"x", in_ms(clock, 5_000))).fields
        answer = await recall(client, encoded(V1))
        assert (answer.code, answer.remark) == (
            ResponseCode.NO_PERMISSION,
            "recall failed, operation is forbidden",
        )

    on_broker(talk, clock=clock, recall_message_enable=False)


def test_no_recall_waits_beyond_what_fits_into_memory(on_broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender hears that it failed, and why."""
    clock = clock_at()
    monkeypatch.setattr(timed_messages, "MOST_WAITING", 1)

    async def talk(bench) -> None:
        client = await bench.connect()
        handle = (await client.send("orders", b"x", in_ms(clock, 5_000))).fields["recallHandle"]

        async def is_full() -> bool:
            answer = await recall(client, handle)
            return answer.code == ResponseCode.SYSTEM_ERROR and "wait to be delivered" in answer.remark

        await eventually(is_full)

    on_broker(talk, clock=clock)
