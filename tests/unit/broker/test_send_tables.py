"""Sends that come by the hundred are read, stored and answered as tables, and end as if each had come alone."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqspark.broker.sending.receipt_sheets import ReceiptSheet
from rmqspark.broker.sending.receipts import Receipts
from rmqspark.errors import FlushTimeout, NotWritable
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.records.batch import BatchElement, encode_batch

from .sends_bench import USUAL, Bench, Send

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .sends_bench import Client

FORMS = [
    "UNIQ_KEY\x01%s\x02WAIT\x01true\x02",
    "TAGS\x01red\x02UNIQ_KEY\x01%s",
    "KEYS\x01%s\x02UNIQ_KEY\x01%s\x02WAIT\x01false\x02",
    "UNIQ_KEY\x01%s\x02TAGS\x0150%% b%%b\x02KEYS\x01%s\x02",
    "UNIQ_KEY\x01%s\x02__SHARDINGKEY\x01customer-7\x02",
]


def many(
    send: Send, count: int, *, queues: int = 4, clients: int = 2, topics: Sequence[str] = ("orders",)
) -> list[Send]:
    """Sends like this one, of several clients, each with ids of its own; all to its queue if `queues` is 0."""
    form = send.properties or ""
    ids = form.count("%s")
    return [
        send._replace(
            topic=topics[n * n % len(topics)],
            queue_id=n * 7 % queues if queues else send.queue_id,
            properties=form % ((f"{n:04X}Z",) * ids),
            body=bytes([n % 256]) * max(1, len(send.body)),
            connection=n * clients // count,
        )
        for n in range(count)
    ]


def outcome(bench: Bench) -> tuple[object, ...]:
    """What there is to tell two benches apart by. Readers may hear of a turn in one piece or in several."""
    answers, content, totals, _ = bench.outcome()
    heard: dict[object, list[object]] = defaultdict(list)
    ends: dict[object, object] = {}
    for topic, queue_id, end, tags_codes in bench.woken:
        heard[topic, queue_id] += tags_codes  # type: ignore[arg-type]
        ends[topic, queue_id] = end
    return answers, content, totals, heard, ends


def in_any_order(bench: Bench) -> list[object]:
    """What each client was answered, what came of its other frames, and what it still waits for."""
    return [(sorted(answers_to(client)), client.beside, client.under_way) for client in bench.clients]


def answers_to(client: Client) -> Iterator[bytes]:
    """The frames it received."""
    rest = client.received
    while rest:
        end = 4 + int.from_bytes(rest[:4], "big")
        yield rest[:end]
        rest = rest[end:]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE])
@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_table_of_sends_ends_as_they_would_one_by_one(
    form: str, code: RequestCode, serialize: str, flush: str
) -> None:
    """The same bytes in log, queues and index, the same answers in the same order, the same counts."""
    send = Send(properties=form, code=code, serialize=serialize, flag=7, reconsume_times=2)

    async def talk() -> None:
        together, alone = (Bench(shorter=True, flush=flush) for _ in range(2))
        for bench in (together, alone):
            bench.flusher.when_flushed = lambda _, done: done(None)
        for count, topics in ((1, ["orders"]), (40, ["orders", "refund"]), (3, ["refund"]), (90, ["orders"])):
            for bench in (together, alone):
                await bench.turn(many(send, 1, topics=["refund"]))
            await together.turn_together(many(send, count, topics=topics))
            await alone.turn(many(send, count, topics=topics))
        for bench in (together, alone):
            bench.store.checkpoint()  # whereupon they may be read, and are entered into the index
        assert together.taken_together == 133
        assert outcome(together) == outcome(alone)

    asyncio.run(talk())


LENGTHS = ["orders", "t", "a" * 127, "refund", "%RETRY%g"]


def ragged(
    send: Send, count: int, *, clients: int = 2, topics: Sequence[str] = LENGTHS, most_body: int = 9
) -> list[Send]:
    """The same for topics with names of several lengths, queues written with one digit and two, and all kinds of
    bodies."""
    sends = many(send, count, clients=clients, topics=topics, queues=16)
    return [sent._replace(body=b"b" * (1 + n * n % most_body)) for n, sent in enumerate(sends)]


def put_topics(bench: Bench) -> None:
    for topic in LENGTHS:
        bench.topics.put(TopicConfig(topicName=topic, writeQueueNums=16), 0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_table_of_several_lengths_ends_as_its_sends_would_one_by_one(
    form: str, code: RequestCode, flush: str
) -> None:
    """Topics, queue ids, opaques and bodies of several lengths in one turn come to the same bytes everywhere."""
    send, topics = Send(properties=form, code=code, flag=7, reconsume_times=2), LENGTHS[:4]

    async def talk() -> None:
        together, alone = (Bench(shorter=True, flush=flush) for _ in range(2))
        for bench in (together, alone):
            put_topics(bench)
            bench.flusher.when_flushed = lambda _, done: done(None)
            for _ in range(2):  # so that each length of header is known
                await bench.turn(ragged(send, 120, topics=topics))
        for count in (40, 120, 7):
            await together.turn_mixed(ragged(send, count, topics=topics))
            await alone.turn(ragged(send, count, topics=topics))
        for bench in (together, alone):
            bench.store.checkpoint()  # whereupon they may be read, and are entered into the index
        assert together.taken_together == 167
        assert outcome(together) == outcome(alone)

    asyncio.run(talk())


@pytest.mark.parametrize("order", [("opaque",), ("opaque", "e", "b"), ("e", "b"), ("g", "b", "e"), ("i", "e", "b")])
@pytest.mark.parametrize("form", FORMS)
def test_headers_may_be_written_in_another_order(form: str, order: tuple[str, ...]) -> None:
    """As clients in other languages do; topic and queue id need only stand side by side."""
    taken, outcomes = asyncio.run(_together_and_alone(Send(properties=form, order=order)))
    assert taken == 120
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("order", [("b", "g", "e"), ("e", "i", "b"), ("opaque", "b", "i")])
def test_where_topic_and_queue_stand_apart_each_is_read_alone(order: tuple[str, ...]) -> None:
    """Nobody is known to write them so."""
    taken, outcomes = asyncio.run(_together_and_alone(Send(properties=FORMS[0], order=order)))
    assert taken == 0
    assert outcomes[0] == outcomes[1]


async def _together_and_alone(send: Send) -> tuple[int, list[object]]:
    """How many of 120 sends of several lengths are taken together, and what comes of them then and otherwise."""
    together, alone = (Bench(shorter=True) for _ in range(2))
    sends = ragged(send, 120, topics=LENGTHS[:4])
    for bench in (together, alone):
        put_topics(bench)
        for _ in range(2):  # so that each length of header is known
            await bench.turn(sends)
    await together.turn_mixed(sends)
    await alone.turn(sends)
    for bench in (together, alone):
        bench.store.checkpoint()
    return together.taken_together, [outcome(bench) for bench in (together, alone)]


def twisted(sends: list[Send], place: int, words: bytes, distance: int, byte: int) -> list[Send]:
    place %= len(sends)
    return [*sends[:place], sends[place]._replace(bent=((words, distance, byte),)), *sends[place + 1 :]]


GROUPS = st.builds(
    many,
    USUAL.flatmap(lambda send: st.sampled_from(FORMS).map(lambda form: send._replace(properties=form))),
    st.integers(1, 30),
    queues=st.sampled_from([1, 3, 4, 5]),
    clients=st.sampled_from([1, 2, 3]),
    topics=st.sampled_from([("orders",), ("orders", "refund"), ("orders", "refund", "no one"), ("SELF_T",)]),
)
BENT = st.builds(
    twisted,
    GROUPS,
    st.integers(0, 29),
    st.sampled_from([b"", b'"opaque":', b'"g":"', b"\x00\x01g", b'"e":"', b"UNIQ_KEY", b"KEYS", b'"b":"', b"topic"]),
    st.integers(0, 12) | st.integers(0, 400),
    st.sampled_from([*b'"\\\x00\x01\x02,:{}_-+ .059aZ', 0x7F, 0x80, 0xFF]),
)
TURNS = st.lists(
    st.lists(GROUPS | BENT, min_size=1, max_size=3).map(lambda groups: [send for group in groups for send in group]),
    max_size=4,
)


KNOWN = many(Send(properties=FORMS[0]), 3)
REFUSED_AT_ONCE = many(Send(properties=FORMS[0]), 3, topics=["no_one_here"])


RAGGED = st.builds(
    ragged,
    st.sampled_from(FORMS).map(lambda form: Send(properties=form)),
    st.integers(1, 30),
    clients=st.sampled_from([1, 2, 3]),
    topics=st.sampled_from([LENGTHS[:4], LENGTHS[:2], LENGTHS, [*LENGTHS[:3], "no one"]]),
    most_body=st.sampled_from([1, 9, 250]),
)
BENT_RAGGED = st.builds(
    twisted,
    RAGGED,
    st.integers(0, 29),
    st.sampled_from([b"", b'"opaque":', b'"g":"', b'"e":"', b"UNIQ_KEY", b"KEYS", b'"b":"', b"topic"]),
    st.integers(0, 12) | st.integers(0, 400),
    st.sampled_from([*b'"\\\x00\x01\x02,:{}_-+ .059aZ', 0x7F, 0x80, 0xFF]),
)


@pytest.mark.parametrize("log_bytes", [1 << 20, 1 << 12], ids=["roomy", "cramped"])
@given(turns=st.lists(RAGGED | BENT_RAGGED | GROUPS | BENT, max_size=5))
def test_whatever_comes_together_at_several_lengths_ends_as_it_would_alone(
    turns: list[list[Send]], log_bytes: int
) -> None:
    """Bent ones, queues that are not there and bodies that are too long among them."""

    async def talk() -> None:
        together, alone = (Bench(shorter=True, log_bytes=log_bytes) for _ in range(2))
        for bench in (together, alone):
            put_topics(bench)
        for turn in turns:
            for bench in (together, alone):
                await bench.turn(turn)
            await together.turn_mixed(turn)
            await alone.turn(turn)
        assert in_any_order(together) == in_any_order(alone)
        assert outcome(together)[1:] == outcome(alone)[1:]

    asyncio.run(talk())


@pytest.mark.parametrize("log_bytes", [1 << 20, 1 << 12], ids=["roomy", "cramped"])
@given(turns=TURNS)
@example(turns=[KNOWN, KNOWN + REFUSED_AT_ONCE])
def test_whatever_comes_together_ends_as_it_would_alone(turns: list[list[Send]], log_bytes: int) -> None:
    """Also where one of many is bent anywhere in its header, goes to a queue that is not there or comes from a client
    without an IPv4 address, and where a file of the log ends among them. What is refused at once may be answered ahead
    of what is stored, or behind it."""

    async def talk() -> None:
        together, alone = (Bench(shorter=True, log_bytes=log_bytes) for _ in range(2))
        for turn in turns:
            await together.turn_together(turn)
            await alone.turn(turn)
        assert in_any_order(together) == in_any_order(alone)
        assert outcome(together)[1:] == outcome(alone)[1:]

    asyncio.run(talk())


def test_sends_to_topics_that_change_are_not_taken_by_old_knowledge() -> None:
    """A topic that has lost its queues is asked for anew."""

    sends = many(Send(properties=FORMS[0]), 40)

    async def talk() -> None:
        together, alone = (Bench(shorter=True) for _ in range(2))
        for queues in (4, 1, 3):
            for bench in (together, alone):
                bench.topics.put(TopicConfig(topicName="orders", writeQueueNums=queues), 0)
            await together.turn_together(sends)
            await alone.turn(sends)
        assert outcome(together) == outcome(alone)
        assert together.taken_together == 0

    asyncio.run(talk())


def test_topic_and_queue_are_told_apart() -> None:
    """Queue 12 of `t` is not queue 2 of `t1`, though both are written t12."""
    sends = [Send(topic, queue_id, FORMS[0]) for topic, queue_id in (("t1", 2), ("t", 12), ("t1", 2), ("t", 12))]

    async def talk() -> None:
        together, alone = (Bench(shorter=True) for _ in range(2))
        for bench in (together, alone):
            for topic in ("t", "t1"):
                bench.topics.put(TopicConfig(topicName=topic, writeQueueNums=16), 0)
        for send in sends:
            await together.turn_together(many(send, 5, topics=[send.topic], queues=0))
            await alone.turn(many(send, 5, topics=[send.topic], queues=0))
        assert together.taken_together == 10
        assert outcome(together) == outcome(alone)

    asyncio.run(talk())


@pytest.mark.parametrize("error", [None, FlushTimeout("late"), NotWritable("no disk")])
@pytest.mark.parametrize("together", ["turn_together", "turn_mixed"])
def test_those_who_wait_for_the_disk_hear_of_it_when_it_is_done(
    together: str, error: FlushTimeout | NotWritable | None
) -> None:
    """SYNC_FLUSH: a table is answered after its flush, and all of it hears what went wrong with it."""
    send = Send(properties=FORMS[0])
    sends = many(send, 40) if together == "turn_together" else ragged(send, 40, topics=LENGTHS[:4])

    async def talk() -> None:
        received = []
        for name in (together, "turn"):
            bench = Bench(shorter=True, flush="SYNC_FLUSH")
            put_topics(bench)
            await bench.turn(sends)
            bench.flusher.close()
            flushes: list[Any] = []
            bench.flusher.when_flushed = lambda end, done, flushes=flushes: flushes.append((end, done))
            before = [len(client.received) for client in bench.clients]
            await getattr(bench, name)(sends)
            assert [len(client.received) for client in bench.clients] == before
            ((end, done),) = flushes
            assert end == bench.store.end_offset
            done(error)
            received.append([(client.received, client.under_way) for client in bench.clients])
            assert bench.taken_together == (40 if name == together else 0)
        assert received[0] == received[1]

    asyncio.run(talk())


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("together", ["turn", "turn_together", "turn_mixed"])
def test_a_disk_that_stalls_keeps_no_messages_in_memory(together: str, *, is_batch: bool) -> None:
    """SYNC_FLUSH: what is kept until the answer is what the answer says, not the message: that is in the log."""
    body = bytes(20_000)
    if is_batch:
        body = encode_batch([BatchElement(body)])
    send = Send(properties=FORMS[0], body=body, is_batch=is_batch)
    sends = many(send, 40) if together != "turn_mixed" else ragged(send, 40, topics=LENGTHS[:4])
    sends = [each._replace(body=body) for each in sends]

    async def talk() -> None:
        bench = Bench(shorter=True, flush="SYNC_FLUSH", log_bytes=1 << 22, max_body_bytes=30_000)
        put_topics(bench)
        flushes: list[Any] = []
        bench.flusher.when_flushed = lambda end, done: flushes.append(done)
        await bench.turn(sends)
        flushes.clear()
        tracemalloc.start()
        try:
            await getattr(bench, together)(sends)
            assert bench.taken_together == (0 if together == "turn" or is_batch else 40)
            waiting_bytes, _ = tracemalloc.get_traced_memory()
            assert flushes
            flushes.clear()
            left_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert waiting_bytes - left_bytes < 100_000

    asyncio.run(talk())


async def taught(**settings: Any) -> Bench:
    """A bench that knows sends of the first form."""
    bench = Bench(shorter=True, **settings)
    await bench.turn(many(Send(properties=FORMS[0]), 1))
    return bench


def test_a_disk_that_takes_nothing_refuses_each_by_name() -> None:
    """Nobody is told that a message is stored which is not."""

    async def talk() -> None:
        bench = await taught()
        for _ in range(2):  # the table, and then one by one
            bench.files.fail_next("pwrite")
        puts = bench.stats.totals().puts
        await bench.turn_together(many(Send(properties=FORMS[0]), 40))
        told = codes_of(bench)[1:]
        assert len(told) == 40
        assert told.count(0) == bench.stats.totals().puts - puts
        assert any(told)

    asyncio.run(talk())


def test_where_nobody_can_say_what_is_stored_the_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that runs out in the middle: it ends the connections, and no send is tried again here."""

    async def talk() -> None:
        bench = await taught()
        monkeypatch.setattr(bench.store.writer, "append_table", no_memory)
        with pytest.raises(MemoryError):
            await bench.turn_together(many(Send(properties=FORMS[0]), 40))
        assert codes_of(bench) == [0]

    asyncio.run(talk())


def test_messages_that_are_stored_without_memory_for_the_answers_end_their_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sender learns that it does not know, and sends again."""

    async def talk() -> None:
        bench = await taught()
        monkeypatch.setattr(ReceiptSheet, "fill", no_memory)
        await bench.turn_together(many(Send(properties=FORMS[0]), 20))
        assert [client.closed for client in bench.clients] == [True, True, False]
        assert bench.taken_together == 20
        assert bench.stats.totals().puts == 21

    asyncio.run(talk())


def test_the_same_of_several_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are answered one by one, and end their connections all the same."""
    sends = ragged(Send(properties=FORMS[0]), 20, topics=LENGTHS[:4])

    async def talk() -> None:
        bench = Bench(shorter=True)
        put_topics(bench)
        await bench.turn(sends)
        monkeypatch.setattr(Receipts, "each", no_memory)
        await bench.turn_mixed(sends)
        assert [client.closed for client in bench.clients] == [True, True, False]
        assert bench.taken_together == 20
        assert bench.stats.totals().puts == 40

    asyncio.run(talk())


def test_turns_that_cannot_be_taken_are_tried_less_and_less() -> None:
    """A try costs something: after one in vain the next turns go one by one, and one that succeeds ends that."""
    known, strangers = (ragged(Send(properties=FORMS[0]), 20, topics=topics) for topics in (LENGTHS[:4], ["no one"]))

    async def talk() -> list[int]:
        bench, taken = Bench(shorter=True, skipping=3), []
        put_topics(bench)
        await bench.turn(known)
        for sends in (strangers, known, strangers, known, known, known, known, known):
            before = bench.taken_together
            await bench.turn_mixed(sends)
            taken.append(bench.taken_together - before)
        return taken

    assert asyncio.run(talk()) == [0, 0, 0, 0, 0, 0, 20, 20]


def no_memory(*_: object) -> None:
    raise MemoryError


def codes_of(bench: Bench) -> Sequence[int]:
    """What the clients were told."""
    frames = [frame for client in bench.clients for frame in answers_to(client)]
    return [decode_command(split_frame(frame[4:])).code for frame in frames]
