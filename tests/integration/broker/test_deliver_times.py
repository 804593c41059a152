"""Messages that ask for a time to be delivered at: when they come, where, and that they come once."""

from __future__ import annotations

import asyncio

import pytest

from rmqspark.broker.delays import timed_messages
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import TopicRequestHeader
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.testing.manual_clock import ManualClock

from .transaction_talk import all_of, eventually
from .waiting_talk import comes_after, restart_between, there

pytestmark = pytest.mark.integration


def in_ms(clock: ManualClock, ms: int) -> dict[str, str]:
    return {"TIMER_DELIVER_MS": str(clock.now_ms() + ms)}


def test_a_message_comes_in_the_second_it_asks_for(on_broker) -> None:
    """Not before; its sender hears of the queue it will be in, and a pull that waits there is woken."""
    clock = ManualClock()

    async def talk(bench) -> None:
        clock.set_now_ms(1_700_000_000_000)
        parked, message = await comes_after(bench, clock, 5_000, in_ms(clock, 5_000), (TIMER_TOPIC, 0))
        assert message.property_map() == parked.property_map() | {"TIMER_DEQUEUE_MS": str(clock.now_ms())}

    on_broker(talk, clock=clock)


def test_messages_come_by_their_time_not_in_the_order_they_were_sent(on_broker) -> None:
    """Also many of one second, and those that are due at once."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        for number, seconds in enumerate([9, 3, 6, 3, 0]):
            await client.send("orders", b"%d" % number, in_ms(clock, seconds * 1000))
        for _ in range(10):
            clock.advance(seconds=1)
            await asyncio.sleep(0.15)  # each in a round of its own
        found = await there(bench, client, "orders", count=5)
        assert [record.body for record in found] == [b"4", b"1", b"3", b"2", b"0"]

    on_broker(talk, clock=clock)


@pytest.mark.parametrize("note_is_kept", [True, False])
def test_what_was_delivered_is_not_delivered_again_after_a_restart(on_broker, note_is_kept: bool) -> None:
    """Nor is what waits forgotten. Without its notes a broker finds both in its log."""
    clock = ManualClock()
    sends = [(b"second", in_ms(clock, 9_000)), (b"first", in_ms(clock, 1_000))]
    found = restart_between(on_broker, clock, sends, (2, 8), "" if note_is_kept else "timer")
    assert found == [[b"first"], [b"first", b"second"]]


def test_a_start_that_fails_forgets_nothing_that_was_delivered(on_broker) -> None:
    """An address that nobody may listen on without saying so, as it often is: the start after it delivered all once
    more."""
    clock = ManualClock()
    sends = [(b"second", in_ms(clock, 9_000)), (b"first", in_ms(clock, 1_000))]
    found = restart_between(on_broker, clock, sends, (2, 8), bind_address="0.0.0.0", broker_ip1="127.0.0.1")
    assert found == [[b"first"], [b"first", b"second"]]


@pytest.mark.parametrize("name", ["U1", "orders+U1"])
def test_a_message_can_be_recalled_until_it_comes(on_broker, name: str) -> None:
    """By one with its key, or topic and key, that has the same time, as RocketMQ's brokers write it; others of that
    time come."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        time = in_ms(clock, 5_000)
        await client.send("orders", b"recalled", time | {"UNIQ_KEY": "U1"})
        await client.send("orders", b"wanted", time | {"UNIQ_KEY": "U2"})
        recall = time | {"UNIQ_KEY": "U1", "TIMER_DEL_UNIQKEY": name}
        assert (await client.send("orders", b"0", recall)).code == 0
        clock.advance(seconds=7)
        assert [record.body for record in await there(bench, client, "orders")] == [b"wanted"]

    on_broker(talk, clock=clock)


def test_messages_of_a_topic_that_went_are_not_delivered(on_broker) -> None:
    """Not to the next topic of its name either; those behind them come."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.create_topic("others")
        await client.send("orders", b"of the first", in_ms(clock, 1_000))
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        await client.create_topic("orders")
        await client.send("others", b"last", in_ms(clock, 1_000))
        clock.advance(seconds=2)
        await there(bench, client, "others")
        assert await all_of(bench, client, "orders") == []

    on_broker(talk, clock=clock)


def test_no_more_wait_than_fit_into_memory(on_broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those too many are refused, also while others are only just sent; there is room when these have come."""
    clock = ManualClock()
    monkeypatch.setattr(timed_messages, "MOST_WAITING", 2)

    async def talk(bench) -> None:
        client = await bench.connect()

        async def send() -> int:
            return (await client.send("orders", b"x", in_ms(clock, 5_000))).code

        assert [await send(), await send(), await send()] == [0, 0, ResponseCode.SYSTEM_BUSY]
        assert (await client.send("orders", b"at once")).code == 0
        clock.advance(seconds=7)
        await there(bench, client, "orders", count=3)

        async def has_room() -> bool:
            return await send() == 0

        await eventually(has_room)

    on_broker(talk, clock=clock)


def test_the_timer_topic_takes_nothing_from_outside(on_broker) -> None:
    """What waits there is the broker's to say."""

    async def talk(bench) -> None:
        client = await bench.connect()
        answer = await client.send(TIMER_TOPIC, b"x", {"TIMER_OUT_MS": "1", "REAL_TOPIC": "orders", "REAL_QID": "0"})
        assert answer.code == ResponseCode.NO_PERMISSION

    on_broker(talk)
