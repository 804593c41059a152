"""A bench for sends: a broker's parts between a request and its answer, with one way through them open or another."""

from __future__ import annotations

import asyncio
import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.dead_letters import DeadLetters
from rmqspark.broker.delays.asked_delays import AskedDelays
from rmqspark.broker.handlers.sends import SendHandlers
from rmqspark.broker.metrics.counted import Counted
from rmqspark.broker.safekeeping.flusher import Flusher
from rmqspark.broker.safekeeping.safety import Safety
from rmqspark.broker.sending.appender import Appender
from rmqspark.broker.sending.intake import Intake
from rmqspark.broker.sending.new_topics import NewTopics
from rmqspark.broker.sending.receipts import Receipts
from rmqspark.broker.sending.send_tables import SendTables
from rmqspark.broker.sending.usual_sends import UsualSends
from rmqspark.broker.state.groups import SubscriptionGroups
from rmqspark.broker.state.locks import QueueLocks
from rmqspark.broker.state.topics import TopicTable
from rmqspark.broker.stats import BrokerStats
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import HeaderError, NotWritable
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.records.message_id import UniqueIds, pack_ipv4_host
from rmqspark.remoting.gathered import Gathered
from rmqspark.remoting.router import Router
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

from .store_content import content_of

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
    order: tuple[str, ...] = ()
    """What the header begins with, and what its fields begin with; as encoded here if nothing is said."""
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
        if self.order:
            frame = _reordered(frame, self.order)
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
        self.under_way = self.oneways = 0  # requests that wait
        self.closed = False
        self.reason = ""  # why it was closed
        self.received = b""
        self.beside: list[str] = []  # answers of its own that were delivered, and what would have ended it

    def send(self, buffers: Sequence[bytes]) -> None:
        self.received += b"".join(buffers)

    def deliver(self, response: object) -> None:
        self.beside.append(repr(response))

    def begin_oneway(self) -> None:
        self.oneways += 1

    def end_oneway(self) -> None:
        self.oneways -= 1

    def close(self, reason: str) -> None:
        self.closed, self.reason = True, reason

    def answer(self, responses: bytes, count: int) -> None:
        self.under_way -= count
        self.send([responses])


class Bench:
    """A broker's sends, from the request to the files and to the answer, with both ways open or one of them closed."""

    def __init__(
        self,
        *,
        shorter: bool,
        common: bool = True,
        log_bytes: int = 1 << 20,
        flush: str = "ASYNC_FLUSH",
        skipping: int = 0,
        max_body_bytes: int = 200,
    ) -> None:
        clock, config = ManualClock(), BrokerConfig()
        store_config = StoreConfig(
            mapped_file_size_commit_log=log_bytes,
            mapped_file_size_consume_queue=400,
            max_hash_slot_num=50,
            max_index_num=200,
            flush_disk_type=flush,
            max_message_size=max_body_bytes,
        )
        self.files = MemoryFileSystem(clock=clock)
        self.store = MessageStore.open(
            "store", store_config, files=self.files, clock=clock, entropy=SystemEntropy(1), store_host=HOST
        )
        self.woken: list[tuple[object, ...]] = []
        self.store.on_readable = self._wake
        self.counted = Counted(config, self.store, clock)
        self.flusher, self.stats = Flusher(self.store, store_config), BrokerStats(now_ms=0)
        safety = Safety(self.flusher, sync_flush=flush == "SYNC_FLUSH")
        self.appender = appender = Appender(self.store, safety, self.stats, self.counted)
        topics = TopicTable(max_topics=9, now_ms=0)
        self.topics = topics
        topics.put(TopicConfig(topicName="orders", writeQueueNums=4), 0)
        topics.put(TopicConfig(topicName="refund", writeQueueNums=4), 0)
        topics.add_system_topics([TopicConfig(topicName="broker.host")], 0)
        topics.put(TopicConfig(topicName="many", topicFilterType="MULTI_TAG"), 0)
        topics.put(TopicConfig(topicName="%RETRY%g"), 0)
        groups = SubscriptionGroups(auto_create=True, max_groups=9, now_ms=0)
        receipts = Receipts(region_id="DefaultRegion", trace_on=True)
        receipts.set_store_host(HOST)
        ids, entropy = UniqueIds(b"abcd", 1, "127.0.0.1"), SystemEntropy(1)
        limit = {"max_body_bytes": store_config.max_message_size}
        delays = AskedDelays(config, clock, levels=18, require_room=lambda: None)
        intake = Intake(config, topics, groups, delays, unique_ids=ids, clock=clock, entropy=entropy, **limit)
        self.usual = usual = UsualSends(config, topics, appender, receipts, **limit, cut_every=1)
        halves: Any = None  # no message of a transaction is sent here
        publisher: Any = None  # no topic is made
        dead = DeadLetters(groups, QueueLocks(lease_ms=60_000), self.counted.dead_letters, clock)
        new_topics = NewTopics(topics, groups, publisher, clock)
        handlers = SendHandlers(intake, usual, appender, receipts, halves, dead, new_topics)
        routes = handlers.routes()
        if not shorter:
            routes = {code: route._replace(take=None) for code, route in routes.items()}
        if not common:
            routes = {code: route._replace(handle=_refuse_all) for code, route in routes.items()}
        self.tables = SendTables(usual, appender, receipts, self.counted.latency, cut_every=1, most_skipped=skipping)
        self.taken_together = 0
        self._take_alike = usual.take_alike if shorter else None
        self._router = Router([routes], self._take_alike)
        self.clients = [Client(number) for number in range(3)]

    def close_decoding(self) -> None:
        """From now on nothing is taken that has to be decoded."""
        self._router = Router([], self._take_alike)

    async def turn(self, sends: Sequence[Send]) -> None:
        """All of them come in one turn of the loop, and are handled one by one."""
        for opaque, send in enumerate(sends, 10):
            self._receive(send.frame(opaque), self.clients[send.connection])
        await asyncio.sleep(0)

    async def turn_together(self, sends: Sequence[Send]) -> None:
        """The same, and those are handled together that follow each other and are alike."""
        arrivals = [(send.frame(opaque), self.clients[send.connection]) for opaque, send in enumerate(sends, 10)]
        for _, frames in groupby(arrivals, lambda arrival: (arrival[0][:8], len(arrival[0]))):
            self._together(list(frames))
        await asyncio.sleep(0)

    async def turn_mixed(self, sends: Sequence[Send]) -> None:
        """The same, and all are handled together, however long they are."""
        self._together([(send.frame(opaque), self.clients[send.connection]) for opaque, send in enumerate(sends, 10)])
        await asyncio.sleep(0)

    def _together(self, arrivals: Sequence[tuple[bytes, Any]]) -> None:
        requests = [gathered(list(of_client)) for _, of_client in groupby(arrivals, lambda arrival: arrival[1].id)]
        for read in requests:
            read.connection.under_way += len(read.sizes)
        are_wanted = all(int.from_bytes(frame[4:8], "big") in self.tables.words for frame, _ in arrivals)
        if are_wanted and self.tables.take_together(requests):
            self.taken_together += len(arrivals)
            return
        for read in requests:
            read.connection.under_way -= len(read.sizes)
        for frame, client in arrivals:
            self._receive(frame, client)

    def _receive(self, frame: bytes, client: Any) -> None:
        view = memoryview(bytearray(frame))
        word = int.from_bytes(frame[4:8], "big")
        try:
            assert self._router.receive(view, word, 8, 8 + (word & 0xFFFFFF), len(frame), client) is None
        except HeaderError as error:
            client.beside.append(repr(error))

    def content(self) -> dict[str, bytes]:
        """Log, queues and index, byte for byte."""
        return content_of(self.store, self.files.within("store"))

    def outcome(self) -> tuple[object, ...]:
        """What there is to tell two benches apart by: answers, files, counts, and word to the pulls that wait."""
        answers = [(client.received, client.beside, client.under_way) for client in self.clients]
        return answers, self.content(), (self.stats.totals(), self.shards()), self.woken

    def shards(self) -> dict[str, tuple[int, list[int]]]:
        """What was told of messages with sharding keys, by topic."""
        arrived = self.counted.arrivals.by_type()
        return {each.topic: (each.sizes.total, each.sizes.counts) for each in arrived if each.message_type == "fifo"}

    def _wake(self, readable: Iterable[Readable]) -> None:
        self.woken += [(topic, queue_id, end, list(tags_codes)) for topic, queue_id, end, tags_codes in readable]


def gathered(arrivals: Sequence[tuple[bytes, Any]]) -> Gathered:
    """What one connection brought, as the server gathers it."""
    frames = [frame for frame, _ in arrivals]
    shapes = {(int.from_bytes(frame[4:8], "big"), len(frame)) for frame in frames}
    shape = shapes.pop() if len(shapes) == 1 else (0, 0)
    return Gathered(*shape, [len(frame) for frame in frames], b"".join(frames), arrivals[0][1])


def alike(send: Send) -> list[Send]:
    """Sends that differ in what may vary: from the second on the header is only compared with the first."""
    return [send._replace(queue_id=n % 4, body=b"%d" % n, connection=n % 2) for n in range(3)]


def _reordered(frame: bytearray, order: Sequence[str]) -> bytearray:
    """The same request in JSON, its header written by somebody who puts other things first."""
    body_at = 8 + int.from_bytes(frame[5:8], "big")
    said = json.loads(frame[8:body_at])
    for names in (said, said["extFields"]):
        first = {name: names.pop(name) for name in order if name in names}
        rest = names.copy()
        names.clear()
        names |= first | rest
    header = json.dumps(said, separators=(",", ":")).encode()
    assert len(header) == body_at - 8
    return frame[:8] + header + frame[body_at:]


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
        "UNIQ_KEY\x01A8\x02__SHARDINGKEY\x01customer-7\x02",
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
    order=st.just(()),
    bent=st.just(()),
)
