"""Sends that are usual go a shorter way, at the end of which lies what the common way would have put there."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rmqspark.errors import FlushTimeout, InvalidName, NotWritable, RmqError
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.draft import Draft

from .sends_bench import PROPERTIES, USUAL, Bench, Send, alike

ANY = st.builds(
    Send,
    order=st.just(()),
    topic=st.sampled_from(["orders", "many", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "broker.host"]),
    queue_id=st.integers(0, 40),
    properties=PROPERTIES,
    body=st.binary(max_size=3) | st.binary(min_size=195, max_size=205),
    sys_flag=st.sampled_from([0, 0, 1, 4]),
    connection=st.integers(0, 2),
    serialize=st.sampled_from(["JSON", "JSON", "ROCKETMQ"]),
    is_oneway=st.booleans(),
    is_batch=st.sampled_from([False, False, True]),
    bent=st.just(()),
)
TURNS = st.lists(st.lists(USUAL | USUAL | USUAL | ANY, min_size=1, max_size=6), min_size=1, max_size=4)


@pytest.mark.parametrize("log_bytes", [1 << 20, 1 << 11], ids=["roomy", "cramped"])
@given(turns=TURNS)
def test_both_ways_of_a_send_end_alike(turns: list[list[Send]], log_bytes: int) -> None:
    """Whatever is sent, together with whatever else: the same bytes in log, queues and index, the same answers and
    counts, also where a file of the log ends in the middle of a turn."""

    async def talk() -> None:
        shorter, common = (Bench(shorter=shorter, log_bytes=log_bytes) for shorter in (True, False))
        for turn in turns:
            await shorter.turn(turn)
            await common.turn(turn)
        assert shorter.outcome() == common.outcome()

    asyncio.run(talk())


BENDS = st.lists(
    st.tuples(
        st.sampled_from([b"", b'"opaque":', b'"g":"', b"\x00\x01g", b'"e":"', b"UNIQ_KEY", b"KEYS", b'Timestamp":"']),
        st.integers(0, 12) | st.integers(0, 400),
        st.sampled_from([*b'"\\\x00\x01\x02,:{}_-+ .05aZ', 0x7F, 0x80, 0xFF]) | st.integers(0, 255),
    ),
    min_size=1,
    max_size=2,
).map(tuple)


AHEAD_OF_VALUES = [
    *(b'"opaque":', b'"b":"', b'"topic":"', b'"e":"', b'"queueId":"', b'"g":"', b'"bornTimestamp":"'),
    *(b"\x01b\0\0\0\x06", b"topic\0\0\0\x06", b"\x01e\0\0\0\x01", b"queueId\0\0\0\x01"),
    *(b"\x01g\0\0\0\x0d", b"bornTimestamp\0\0\0\x0d"),
    *(b"\x02UNIQ_KEY\x01", b"\\u0002UNIQ_KEY\\u0001", b"KEYS\x01", b'"KEYS\\u0001'),
]


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE])
@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
def test_a_value_of_another_kind_ends_as_on_the_common_way(code: RequestCode, serialize: str) -> None:
    """A number with a letter, a string with what ends it, is told what it would be told if it came first."""
    send = Send(code=code, serialize=serialize, properties="KEYS\x01k 17\x02UNIQ_KEY\x01A1B2\x02WAIT\x01true\x02")
    bends = [
        ((words, distance, byte),)
        for words in AHEAD_OF_VALUES
        if words in send.frame(10)
        for distance in (0, 1)
        for byte in b'"\\\x00\x01\x02,:{}_-+ .05aZ\x7f\x80\xff'
    ]
    assert len(bends) > 100

    async def talk() -> None:
        shorter, common = (Bench(shorter=shorter) for shorter in (True, False))
        for bent in bends:
            for bench in (shorter, common):
                await bench.turn([send, send._replace(bent=bent)])
        assert shorter.outcome() == common.outcome()

    asyncio.run(talk())


@given(send=USUAL, bends=st.lists(BENDS, min_size=1, max_size=8))
def test_a_header_that_is_bent_ends_as_on_the_common_way(
    send: Send, bends: list[tuple[tuple[bytes, int, int], ...]]
) -> None:
    """Whatever bytes stand in the header of a send that is otherwise like those before it, also where values stand
    that may vary: what is made of it does not hang on what was taken before."""
    turns = [alike(send), [send._replace(bent=bent) for bent in bends], alike(send)]

    async def talk() -> None:
        shorter, common = (Bench(shorter=shorter) for shorter in (True, False))
        for turn in turns:
            await shorter.turn(turn)
            await common.turn(turn)
        assert shorter.outcome() == common.outcome()

    asyncio.run(talk())


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE])
@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
def test_what_stock_clients_send_takes_the_shorter_way(code: RequestCode, serialize: str) -> None:
    """The common way, which is closed here, never sees it."""
    send = Send(code=code, serialize=serialize)

    async def talk() -> None:
        bench = Bench(shorter=True, common=False)
        await bench.turn([send, send._replace(properties="KEYS\x01k\x02UNIQ_KEY\x01A1\x02TAGS\x01t\x02")])
        assert bench.stats.totals().puts == 2

    asyncio.run(talk())


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE])
@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize(
    "properties", ["UNIQ_KEY\x01A1\x02WAIT\x01true\x02", "KEYS\x01k 1\x02UNIQ_KEY\x01A1\x02TAGS\x01t"]
)
def test_sends_like_one_before_are_not_decoded(code: RequestCode, serialize: str, properties: str) -> None:
    """One of a client's sends tells how to read the others, as long as no topic changes."""
    send = Send(code=code, serialize=serialize, properties=properties)

    async def talk() -> None:
        bench = Bench(shorter=True, common=False)
        await bench.turn([send])
        bench.close_decoding()
        await bench.turn(alike(send))
        assert bench.stats.totals().puts == 4
        bench.topics.put(TopicConfig(topicName="orders", writeQueueNums=1), 0)
        await bench.turn([send])
        assert bench.stats.totals().puts == 4

    asyncio.run(talk())


@pytest.mark.parametrize("error", [None, FlushTimeout("late"), NotWritable("no disk")])
def test_a_sender_that_waits_for_the_disk_hears_the_same(error: FlushTimeout | NotWritable | None) -> None:
    """SYNC_FLUSH: nobody who waits is answered before the flush, and then as the common way answers; who does not
    wait is answered at once."""
    waiting, hurried = Send(connection=0), Send(connection=1, properties="UNIQ_KEY\x01A1\x02WAIT\x01false\x02")

    async def talk() -> None:
        benches = [Bench(shorter=shorter, flush="SYNC_FLUSH") for shorter in (True, False)]
        for bench in benches:
            flushes: list[Any] = []
            bench.flusher.when_flushed = lambda end, done, flushes=flushes: flushes.append((end, done))
            await bench.turn([waiting, hurried, waiting])
            assert not bench.clients[0].received
            assert bench.clients[1].received
            ((end, done),) = flushes
            assert end == bench.store.end_offset
            done(error)
        assert benches[0].outcome() == benches[1].outcome()

    asyncio.run(talk())


@pytest.mark.parametrize("shorter", [True, False])
@pytest.mark.parametrize("is_batch", [False, True])
def test_a_topic_that_cannot_be_stored_is_refused_to_its_sender_alone(*, shorter: bool, is_batch: bool) -> None:
    """A broker has a topic of its own name, which may be that of a host; what others send in the same turn is taken."""
    stray = Send(topic="broker.host", connection=1, is_batch=is_batch)

    async def talk() -> None:
        bench = Bench(shorter=shorter)
        for _ in range(2):
            await bench.turn([Send(), stray, Send()])
        assert bench.stats.totals().puts == 4
        assert bench.clients[1].received.count(b'"code":29') == 2

    asyncio.run(talk())


class Told(NamedTuple):
    """A message on its way, and what its sender heard."""

    draft: Draft
    heard: list[object]
    waits_for_flush: bool = True
    has_shard: bool = False

    @property
    def topic(self) -> str:
        return self.draft.topic

    def let_go(self) -> None: ...

    def finish(self, queue_offset: int, physical_offset: int, error: RmqError | None) -> None:
        self.heard.append(queue_offset)

    def refuse(self, error: RmqError) -> None:
        self.heard.append(type(error))


def test_a_message_that_has_no_place_in_the_store_is_refused_alone() -> None:
    """Whatever let it through: the others of its turn have nothing to do with it."""

    async def talk() -> None:
        bench, heard = Bench(shorter=True), list[object]()
        for topic in ("orders", "broker.host", "orders"):
            bench.appender.submit(Told(Draft(topic, 0, encode_record(topic=topic, body=b"x")), heard))
        await asyncio.sleep(0)
        assert heard == [0, InvalidName, 1]

    asyncio.run(talk())


@pytest.mark.parametrize("is_decoded", [True, False])
def test_a_send_that_there_is_no_memory_for_is_not_under_way(*, is_decoded: bool) -> None:
    """It is refused at once, and its connection may send as many others as before."""

    def without_memory(sending: object) -> None:
        raise MemoryError("planned by the test")

    async def talk() -> None:
        bench = Bench(shorter=True)
        if not is_decoded:
            await bench.turn([Send()])
            bench.close_decoding()
        bench.usual._submit = without_memory
        with capture_logs():
            await bench.turn([Send()])
        assert b"planned by the test" in bench.clients[0].received
        assert bench.clients[0].under_way == 0

    asyncio.run(talk())


def test_a_store_that_takes_nothing_says_so_to_all() -> None:
    """A full disk refuses every send of the turn, by name."""

    async def talk() -> None:
        benches = [Bench(shorter=shorter) for shorter in (True, False)]
        for bench in benches:
            bench.files.fail_next("pwrite")
            await bench.turn([Send(), Send(connection=1)])
            await bench.turn([Send()])
        assert benches[0].outcome() == benches[1].outcome()
        assert benches[0].stats.failed_puts == 2

    asyncio.run(talk())
