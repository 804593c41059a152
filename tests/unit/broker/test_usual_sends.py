"""Sends that are usual go a shorter way, at the end of which lies what the common way would have put there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker.appender import Appender
from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.flusher import Flusher
from rmqspark.broker.groups import SubscriptionGroups
from rmqspark.broker.handlers.sends import SendHandlers
from rmqspark.broker.intake import Intake
from rmqspark.broker.receipts import Receipts
from rmqspark.broker.stats import BrokerStats
from rmqspark.broker.topics import TopicTable
from rmqspark.broker.usual_sends import UsualSends
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import FlushTimeout, NotWritable
from rmqspark.protocol.bodies import TopicConfig
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.command import encode_request, split_frame
from rmqspark.protocol.headers import SendMessageRequestHeaderV2
from rmqspark.protocol.message_id import UniqueIds
from rmqspark.remoting.router import Router
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqspark.store.dispatcher import Readable

HOST = bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])
BORN_MS = 1_700_000_000_000


class Send(NamedTuple):
    """A request, and how it travels."""

    topic: str = "orders"
    queue_id: int = 0
    properties: str | None = "UNIQ_KEY\x01A1B2\x02WAIT\x01true\x02"
    body: bytes = b"paid"
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int | None = 0
    is_batch: bool = False
    connection: int = 0
    code: RequestCode = RequestCode.SEND_MESSAGE_V2
    serialize: str = "JSON"
    is_oneway: bool = False

    def frame(self, opaque: int) -> bytes:
        header = SendMessageRequestHeaderV2(
            "p", self.topic, "TBW102", 4, self.queue_id, self.sys_flag, BORN_MS + opaque, self.flag
        )
        header.i, header.j, header.m = self.properties, self.reconsume_times, self.is_batch
        fields: Any = header.as_v1() if self.code == RequestCode.SEND_MESSAGE else header
        settings = {"serialize": self.serialize, "oneway": self.is_oneway}
        return b"".join(encode_request(self.code, opaque, fields, self.body, **settings))


class Client:
    """A connection that keeps what it is sent."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.peer = ("::1" if number == 2 else f"10.0.0.{number}", 4711)
        self.under_way = 0
        self.closed = False
        self.received = b""

    def send(self, buffers: Sequence[bytes]) -> None:
        self.received += b"".join(buffers)

    def answer(self, responses: bytes, count: int) -> None:
        self.under_way -= count
        self.send([responses])


class Bench:
    """A broker's sends, from the request to the files and to the answer, with both ways open or one of them closed."""

    def __init__(
        self, *, shorter: bool, common: bool = True, log_bytes: int = 1 << 20, flush: str = "ASYNC_FLUSH"
    ) -> None:
        clock, config = ManualClock(), BrokerConfig()
        store_config = StoreConfig(
            mapped_file_size_commit_log=log_bytes,
            mapped_file_size_consume_queue=400,
            max_hash_slot_num=50,
            max_index_num=200,
            flush_disk_type=flush,
            max_message_size=200,
        )
        self.files = MemoryFileSystem(clock=clock)
        self.store = MessageStore.open(
            "store", store_config, files=self.files, clock=clock, entropy=SystemEntropy(1), store_host=HOST
        )
        self.woken: list[tuple[object, ...]] = []
        self.store.on_readable = self._wake
        self.flusher, self.stats = Flusher(self.store, store_config), BrokerStats(now_ms=0)
        appender = Appender(self.store, self.flusher, self.stats, sync_flush=flush == "SYNC_FLUSH")
        topics = TopicTable(max_topics=9, now_ms=0)
        topics.put(TopicConfig(topicName="orders", writeQueueNums=4), 0)
        topics.put(TopicConfig(topicName="many", topicFilterType="MULTI_TAG"), 0)
        topics.put(TopicConfig(topicName="%RETRY%g"), 0)
        groups = SubscriptionGroups(auto_create=True, max_groups=9, now_ms=0)
        receipts = Receipts(region_id="DefaultRegion", trace_on=True)
        receipts.set_store_host(HOST)
        ids, entropy = UniqueIds(b"abcd", 1, "127.0.0.1"), SystemEntropy(1)
        limit = {"max_body_bytes": store_config.max_message_size}
        intake = Intake(config, topics, groups, unique_ids=ids, clock=clock, entropy=entropy, **limit)
        usual = UsualSends(config, topics, appender, receipts, **limit)
        halves: Any = None  # no message of a transaction is sent here
        publisher: Any = None  # no topic is made
        handlers = SendHandlers(intake, usual, appender, receipts, halves, topics, groups, publisher, clock)
        routes = handlers.routes()
        if not shorter:
            routes = {code: route._replace(take=None) for code, route in routes.items()}
        if not common:
            routes = {code: route._replace(handle=_refuse_all) for code, route in routes.items()}
        self._router = Router([routes])
        self.clients = [Client(number) for number in range(3)]

    async def turn(self, sends: Sequence[Send]) -> None:
        """All of them come in one turn of the loop."""
        for opaque, send in enumerate(sends):
            raw = split_frame(memoryview(bytearray(send.frame(opaque)))[4:])
            assert self._router.dispatch(raw, self.clients[send.connection]) is None
        await asyncio.sleep(0)

    def content(self) -> dict[str, bytes]:
        """Log, queues and index, byte for byte."""
        self.store.checkpoint()
        files, found = self.files.within("store"), {}
        directories = [name for name in ("commitlog", "consumequeue", "index") if files.exists(name)]
        for directory in directories:
            for name in files.listdir(directory):
                path = f"{directory}/{name}"
                if files.is_directory(path):
                    directories.append(path)
                else:
                    found[path] = files.open(path, read_only=True).pread(1 << 20, 0)
        return found

    def outcome(self) -> tuple[object, ...]:
        """What there is to tell two benches apart by: answers, files, counts, and word to the pulls that wait."""
        answers = [(client.received, client.under_way) for client in self.clients]
        return answers, self.content(), self.stats.totals(), self.woken

    def _wake(self, readable: Iterable[Readable]) -> None:
        self.woken += [(topic, queue_id, end, list(tags_codes)) for topic, queue_id, end, tags_codes in readable]


def _refuse_all(request: object) -> None:
    raise NotWritable("this way is closed")


PROPERTIES = st.sampled_from(
    [
        "UNIQ_KEY\x01A1B2\x02WAIT\x01true\x02",
        "TAGS\x01red\x02UNIQ_KEY\x01C3D4",
        "KEYS\x01k1 k2\x02UNIQ_KEY\x01E5F6\x02WAIT\x01false\x02",
        "KEYS\x01k3\x02UNIQ_KEY\x01E5F7\x02TAGS\x01blue\x02",
        'UNIQ_KEY\x01in "quotes"\x02',
        "UNIQ_KEY\x01A1\x02DELAY\x013\x02",
        "UNIQ_KEY\x01A1\x02CLUSTER\x01other\x02",
        "WAIT\x01true\x02",
        "ü\x01ä\x02UNIQ_KEY\x01A7\x02",
        "",
        None,
    ]
)
USUAL = st.builds(
    Send,
    queue_id=st.integers(0, 3),
    properties=PROPERTIES,
    body=st.binary(min_size=1, max_size=60),
    flag=st.integers(-(2**31), 2**31 - 1),
    reconsume_times=st.none() | st.integers(0, 3),
    connection=st.integers(0, 1),
    code=st.sampled_from([RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE]),
    serialize=st.sampled_from(["JSON", "ROCKETMQ"]),
)
ANY = st.builds(
    Send,
    topic=st.sampled_from(["orders", "many", "%RETRY%g", "SCHEDULE_TOPIC_XXXX"]),
    queue_id=st.integers(0, 40),
    properties=PROPERTIES,
    body=st.binary(max_size=3) | st.binary(min_size=195, max_size=205),
    sys_flag=st.sampled_from([0, 0, 1, 4]),
    connection=st.integers(0, 2),
    serialize=st.sampled_from(["JSON", "JSON", "ROCKETMQ"]),
    is_oneway=st.booleans(),
    is_batch=st.sampled_from([False, False, True]),
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
