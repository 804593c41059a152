"""A broker on one event loop with the test that talks to it: real sockets and frames, files in memory."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.broker.broker import Broker
from rmqspark.broker.config import BrokerConfig
from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import CreateTopicRequestHeader
from rmqspark.protocol.headers.consume import HeartbeatRequestHeader, PullFlag, PullMessageRequestHeader
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import Record, decode_record
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.store.config import StoreConfig
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    import msgspec

    from rmqspark.protocol.bodies.client import HeartbeatData
    from rmqspark.remoting.limits import Limits
    from rmqspark.remoting.response import Response

PATIENCE_MS = 60_000
SMALL_STORE = {"mapped_file_size_commit_log": 16 << 20, "max_hash_slot_num": 1000, "max_index_num": 4000}


class Talk:
    """One connection to a broker, and the requests tests make most."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection

    async def ask(self, code: int, header: msgspec.Struct | None = None, body: Any = b"") -> Response:
        return await self.connection.call(code, header, body, timeout_ms=PATIENCE_MS)

    async def create_topic(self, topic: str, queues: int = 4, **fields: Any) -> Response:
        header = CreateTopicRequestHeader(
            **{
                "topic": topic,
                "defaultTopic": "TBW102",
                "readQueueNums": queues,
                "writeQueueNums": queues,
                "perm": 6,
                "topicFilterType": "SINGLE_TAG",
                **fields,
            }
        )
        return await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def send(
        self, topic: str, body: bytes = b"hello", properties: Mapping[str, str] | None = None, **fields: Any
    ) -> Response:
        return await self.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic, properties, **fields), body)

    async def pull(self, topic: str, offset: int = 0, **fields: Any) -> Response:
        return await self.ask(RequestCode.PULL_MESSAGE, pull_header(topic, offset, **fields))

    async def heartbeat(self, data: HeartbeatData) -> Response:
        return await self.ask(RequestCode.HEART_BEAT, HeartbeatRequestHeader(), data.encode())

    async def settle(self) -> None:
        """Returns when the broker has handled everything sent before: requests of a connection are taken in order."""
        await self.ask(RequestCode.RMQ_CAPABILITIES)


def send_header(topic: str, properties: Mapping[str, str] | None = None, **fields: Any) -> SendMessageRequestHeaderV2:
    """A send to queue 0; fields by their letters."""
    encoded = encode_properties(properties or {}).decode()
    return SendMessageRequestHeaderV2(
        **{"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1_700_000_000_000, "h": 0}
        | {"i": encoded, "j": 0, "k": False, "m": False}
        | fields
    )


def pull_header(topic: str, offset: int = 0, *, wait_ms: int | None = None, **fields: Any) -> PullMessageRequestHeader:
    """A pull of queue 0 that brings its own subscription, `*`; `wait_ms` allows the broker to hold it."""
    flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms is not None else 0)
    return PullMessageRequestHeader(
        **{
            "consumerGroup": "g",
            "topic": topic,
            "queueId": 0,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": int(flags),
            "commitOffset": 0,
            "suspendTimeoutMillis": wait_ms or 0,
            "subVersion": 0,
            "subscription": "*",
        }
        | fields
    )


class Bench:
    """A running broker and what a test needs around it."""

    send_header = staticmethod(send_header)
    pull_header = staticmethod(pull_header)

    def __init__(self, broker: Broker, namesrv: NameServer | None, stack: AsyncExitStack) -> None:
        self.broker = broker
        self.namesrv = namesrv
        self._stack = stack

    def lose_an_end(self) -> None:
        """What a recovery notes that had to cut off the end of the log."""
        self.broker.store._storeys.identity.raise_incarnation()

    def take_no_more_offsets(self) -> None:
        """As where groups have committed as many as a broker may have."""
        self.broker._parts.tables.offsets._most = 0

    async def connect(self, address: str = "") -> Talk:
        connection = await AsyncConnection.open(address or self.broker.address)
        self._stack.push_async_callback(connection.close)
        return Talk(connection)

    @staticmethod
    def records(response: Response) -> list[Record]:
        """The messages of a pull or query, checksums verified."""
        records, at = [], 0
        while at < len(response.body):
            records.append(decode_record(response.body, at))
            at += records[-1].size
        return records


@asynccontextmanager
async def running(
    files: MemoryFileSystem,
    store: Mapping[str, Any],
    *,
    namesrv: bool,
    clock: Any,
    limits: Limits | None,
    settings: Mapping[str, Any],
) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        names = None
        if namesrv:
            names = await stack.enter_async_context(NameServer(NamesrvConfig(listen_port=0), clock=SystemClock()))
            settings = {"namesrv_addr": names.address, **settings}
        broker = Broker(
            BrokerConfig(**{"listen_port": 0, **settings}),
            StoreConfig(**{**SMALL_STORE, **store}),
            store_dir="store",
            files=files,
            clock=clock or SystemClock(),
            entropy=SystemEntropy(),
            limits=limits,
        )
        await stack.enter_async_context(broker)
        yield Bench(broker, names, stack)


@pytest.fixture
def on_broker() -> Callable[..., Any]:
    """Runs `talk(bench)` beside a broker: `on_broker(talk, files=..., store={...}, namesrv=True, **settings)`."""

    def run(
        talk: Callable[[Bench], Awaitable[Any]],
        *,
        files: MemoryFileSystem | None = None,
        store: Mapping[str, Any] | None = None,
        namesrv: bool = False,
        clock: Any = None,
        limits: Limits | None = None,
        **settings: Any,
    ) -> Any:
        async def main() -> Any:
            async with running(
                files or MemoryFileSystem(),
                store or {},
                namesrv=namesrv,
                clock=clock,
                limits=limits,
                settings=settings,
            ) as bench:
                return await talk(bench)

        return asyncio.run(main())

    return run
