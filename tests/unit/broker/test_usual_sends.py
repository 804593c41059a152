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
from rmqspark.errors import FlushTimeout, HeaderError, NotWritable
from rmqspark.protocol.bodies import TopicConfig
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.command import encode_request
from rmqspark.protocol.headers import SendMessageRequestHeaderV2
from rmqspark.protocol.message_id import UniqueIds, pack_ipv4_host
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
    bent: tuple[tuple[bytes, int, int], ...] = ()
    """Words of the header, how far behind them another byte stands, and which."""

    def frame(self, opaque: int) -> bytes:
        header = SendMessageRequestHeaderV2(
            "p", self.topic, "TBW102", 4, self.queue_id, self.sys_flag, BORN_MS + opaque, self.flag
        )
        header.i, header.j, header.m = self.properties, self.reconsume_times, self.is_batch
        fields: Any = header.as_v1() if self.code == RequestCode.SEND_MESSAGE else header
        settings = {"serialize": self.serialize, "oneway": self.is_oneway}
        frame = bytearray(b"".join(encode_request(self.code, opaque, fields, self.body, **settings)))
        header_bytes = int.from_bytes(frame[5:8], "big")
        for words, distance, byte in self.bent:
            place = frame.find(words, 8) + len(words) + distance
            frame[8 + (place - 8) % header_bytes] = byte
        return bytes(frame)


class Client:
    """A connection that keeps what it is sent."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.peer = ("::1" if number == 2 else f"10.0.0.{number}", 4711)
        self.ipv4_host = pack_ipv4_host(*self.peer)
        self.under_way = 0
        self.closed = False
        self.received = b""

    def send(self, buffers: Sequence[bytes]) -> None:
        self.received += b"".join(buffers)

    def deliver(self, response: object) -> None:
        self.received += repr(response).encode()

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
        self.topics = topics
        topics.put(TopicConfig(topicName="orders", writeQueueNums=4), 0)
        topics.put(TopicConfig(topicName="many", topicFilterType="MULTI_TAG"), 0)
        topics.put(TopicConfig(topicName="%RETRY%g"), 0)
        groups = SubscriptionGroups(auto_create=True, max_groups=9, now_ms=0)
        receipts = Receipts(region_id="DefaultRegion", trace_on=True)
        receipts.set_store_host(HOST)
        ids, entropy = UniqueIds(b"abcd", 1, "127.0.0.1"), SystemEntropy(1)
        limit = {"max_body_bytes": store_config.max_message_size}
        intake = Intake(config, topics, groups, unique_ids=ids, clock=clock, entropy=entropy, **limit)
        usual = UsualSends(config, topics, appender, receipts, **limit, cut_every=1)
        halves: Any = None  # no message of a transaction is sent here
        publisher: Any = None  # no topic is made
        handlers = SendHandlers(intake, usual, appender, receipts, halves, topics, groups, publisher, clock)
        routes = handlers.routes()
        if not shorter:
            routes = {code: route._replace(take=None) for code, route in routes.items()}
        if not common:
            routes = {code: route._replace(handle=_refuse_all) for code, route in routes.items()}
        self._take_alike = usual.take_alike if shorter else None
        self._router = Router([routes], self._take_alike)
        self.clients = [Client(number) for number in range(3)]

    def close_decoding(self) -> None:
        """From now on nothing is taken that has to be decoded."""
        self._router = Router([], self._take_alike)

    async def turn(self, sends: Sequence[Send]) -> None:
        """All of them come in one turn of the loop."""
        for opaque, send in enumerate(sends, 10):
            frame = memoryview(bytearray(send.frame(opaque)))
            word = int.from_bytes(frame[4:8], "big")
            body_at = 8 + (word & 0xFFFFFF)
            client = self.clients[send.connection]
            try:
                assert self._router.receive(frame, word, 8, body_at, len(frame), client) is None
            except HeaderError as error:  # the connection would be closed
                client.received += repr(error).encode()
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


def alike(send: Send) -> list[Send]:
    """Sends that differ in what may vary: from the second on the header is only compared with the first."""
    return [send._replace(queue_id=n % 4, body=b"%d" % n, connection=n % 2) for n in range(3)]


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
    bent=st.just(()),
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
