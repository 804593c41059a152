"""A broker and a name server that know who asks: real sockets, signed frames, files in memory."""

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
from rmqspark.protocol.bodies.access_control import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.access_control import AclRequestHeader, UserRequestHeader
from rmqspark.protocol.headers.admin import CreateTopicRequestHeader
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.remoting.access import Access, Credentials
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.store.config import StoreConfig
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from rmqspark.remoting.access import Tls
    from rmqspark.remoting.response import Response

PATIENCE_MS = 60_000
SMALL_STORE = {"mapped_file_size_commit_log": 16 << 20, "max_hash_slot_num": 1000, "max_index_num": 4000}
ROOT, INNER = Credentials("root", "root-secret"), Credentials("inner", "inner-secret")
GUARDED = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": f'{{"username":"{ROOT.access_key}","password":"{ROOT.secret_key}"}}',
    "inner_client_authentication_credentials": (
        f'{{"accessKey":"{INNER.access_key}","secretKey":"{INNER.secret_key}"}}'
    ),
}


class Talk:
    """One connection, in somebody's name or in nobody's."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection

    async def ask(self, code: int, header: Any = None, body: Any = b"") -> Response:
        return await self.connection.call(code, header, body, timeout_ms=PATIENCE_MS)

    async def done(self, code: int, header: Any = None, body: Any = b"") -> Response:
        """The answer, which is success."""
        answer = await self.ask(code, header, body)
        assert answer.code == 0, answer.remark
        return answer

    async def create_user(self, user: Credentials, kind: str = "Normal") -> None:
        header = UserRequestHeader(user.access_key)
        await self.done(RequestCode.AUTH_CREATE_USER, header, UserInfo(user.secret_key, None, kind).encode())

    async def allow(self, user: Credentials, **rights: str) -> None:
        """`Topic:orders` is written `Topic_orders`, `Topic:*` is `Topic`; what may be done of it as `Pub,Sub`."""
        entries = [
            PolicyEntryInfo(actions.split(","), "Allow", key.replace("_", ":", 1) if "_" in key else f"{key}:*")
            for key, actions in rights.items()
        ]
        subject = f"User:{user.access_key}"
        body = AclInfo([PolicyInfo(entries)], subject).encode()
        await self.done(RequestCode.AUTH_CREATE_ACL, AclRequestHeader(subject), body)

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        header = CreateTopicRequestHeader(topic, "TBW102", queues, queues, 6, "SINGLE_TAG")
        await self.done(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def send(self, topic: str, body: bytes = b"hello", **fields: Any) -> Response:
        properties = encode_properties(fields.pop("properties", {})).decode()
        header = {"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": properties}
        return await self.ask(RequestCode.SEND_MESSAGE_V2, SendMessageRequestHeaderV2(**header | fields), body)


class Guarded:
    """A running broker, registered with a running name server. `root` speaks to the broker as its super user."""

    root: Talk
    root_user = ROOT

    def __init__(self, broker: Broker, namesrv: NameServer, stack: AsyncExitStack, tls: Tls | None) -> None:
        self._tls = tls
        self.broker = broker
        self.namesrv = namesrv
        self._stack = stack

    async def talk(self, user: Credentials | None, address: str = "") -> Talk:
        access = Access(user, self._tls)
        connection = await AsyncConnection.open(address or self.broker.address, access=access)
        self._stack.push_async_callback(connection.close)
        return Talk(connection)

    async def made(self, user: Credentials, **rights: str) -> Talk:
        """A new user of the broker with these rights."""
        await self.root.create_user(user)
        if rights:
            await self.root.allow(user, **rights)
        return await self.talk(user)


@asynccontextmanager
async def running(
    files: MemoryFileSystem, names: MemoryFileSystem | None, tls: Tls | None, settings: dict[str, Any]
) -> AsyncIterator[Guarded]:
    auth = {name: value for name, value in settings.items() if hasattr(NamesrvConfig, name)}
    async with AsyncExitStack() as stack:
        namesrv = NameServer(NamesrvConfig(**{"listen_port": 0} | auth), clock=SystemClock(), files=names)
        await stack.enter_async_context(namesrv)
        broker = Broker(
            BrokerConfig(**{"listen_port": 0, "namesrv_addr": namesrv.address} | settings),
            StoreConfig(**SMALL_STORE),
            store_dir="store",
            files=files,
            clock=SystemClock(),
            entropy=SystemEntropy(),
        )
        await stack.enter_async_context(broker)
        guarded = Guarded(broker, namesrv, stack, tls)
        guarded.root = await guarded.talk(ROOT)
        yield guarded


@pytest.fixture
def guarded() -> Callable[..., Any]:
    """Runs `talk(guarded)` beside a broker and a name server: `guarded(talk, files=..., **settings)`."""

    def run(
        talk: Callable[[Guarded], Awaitable[Any]],
        *,
        files: MemoryFileSystem | None = None,
        names: MemoryFileSystem | None = None,
        tls: Tls | None = None,
        **settings: Any,
    ) -> Any:
        async def main() -> Any:
            async with running(files or MemoryFileSystem(), names, tls, GUARDED | settings) as cluster:
                return await talk(cluster)

        return asyncio.run(main())

    return run
