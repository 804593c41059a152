"""Tells every name server which topics this broker has: at start, every half minute, and when topics change.

A name server takes the end of a connection for the end of its broker, so the connection is kept, and when it breaks the
broker registers anew at once. Each name server has a link of its own; one that is down delays nobody else.
RocketMQ: BrokerOuterAPI, BrokerController.registerBrokerAll; spec: requests, section 3, semantics, section 1. Unlike
RocketMQ we always register all topics: with one alone, a name server that forgot us would refuse. And we say that they
are all: a name server of ours that was not told of a deletion forgets the topic then.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from rmqspark.errors import NoPermission, RequestTimeout, RmqError, Unreachable
from rmqspark.protocol.bodies.register import register_crc32
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.cluster import (
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnregisterBrokerRequestHeader,
)
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.connection import AsyncConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.protocol.bodies.route import RegisterBrokerBody
    from rmqspark.remoting.access import Access

log = structlog.get_logger("rmqspark.broker")

_CONNECT_TIMEOUT_MS: Final = 3_000
_UNREGISTER_TIMEOUT_MS: Final = 1_000
_FIRST_RETRY: Final = 0.5  # seconds after a registration that failed
_LAST_RETRY: Final = 1.0  # and after many, to one that is away: back, it knows no topic until its brokers have noticed
_PUBLISHING: Final = 1.0  # seconds that a change of topics may wait for name servers


class BrokerIdentity(NamedTuple):
    """Under what a broker is registered. `address` is what clients are told."""

    broker_name: str
    broker_id: int
    cluster_name: str
    address: str
    ha_address: str


def next_retry(pause: float, period: float, *, is_away: bool) -> float:
    """Seconds to wait after one more registration that failed: doubled, up to the period; up to one second where nobody
    was there to be told, which costs nothing. One that refuses has a list of all topics to read each time."""
    return min(2 * pause, period, _LAST_RETRY if is_away else period)


def is_away(error: Exception) -> bool:
    """Whether a registration failed since nobody was there, and not since it was refused."""
    return isinstance(error, (Unreachable, RequestTimeout)) and error.retriable


class Registrar:
    """Keeps the links to all name servers. `identify` and `describe` say what to register when it comes to that;
    `on_registered`, where it is set, hears what each answers."""

    def __init__(
        self,
        addresses: Sequence[str],
        identify: Callable[[], BrokerIdentity],
        describe: Callable[[], RegisterBrokerBody],
        *,
        period_ms: int,
        timeout_ms: int,
        access: Access = OPEN,
    ) -> None:
        self.on_registered: Callable[[RegisterBrokerResponseHeader], None] | None = None
        self._links = [
            _Link(address, identify, describe, self._answered, period_ms, timeout_ms, access) for address in addresses
        ]

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Tries every name server once, then goes on in the background; returns when all tries are over."""
        async with asyncio.TaskGroup() as tries:
            for link in self._links:
                tries.create_task(link.register())
        for link in self._links:
            link.task = tasks.create_task(link.run())

    async def stop(self) -> None:
        """Unregisters wherever that is possible at once."""
        async with asyncio.TaskGroup() as goodbyes:
            for link in self._links:
                goodbyes.create_task(link.stop())

    def _answered(self, answer: RegisterBrokerResponseHeader) -> None:
        if self.on_registered is not None:
            self.on_registered(answer)

    def hurry(self) -> None:
        """Registers again in the next turn of the loop; calls of one turn share it."""
        for link in self._links:
            link.wanted += 1
            link.wake.set()

    async def registered(self) -> None:
        """Registers; returns when the name servers that can be reached know, or after a moment."""
        self.hurry()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PUBLISHING):
                for link in self._links:
                    await link.has_registered(link.wanted)


class _Link:
    """The way to one name server."""

    def __init__(
        self,
        address: str,
        identify: Callable[[], BrokerIdentity],
        describe: Callable[[], RegisterBrokerBody],
        answered: Callable[[RegisterBrokerResponseHeader], None],
        period_ms: int,
        timeout_ms: int,
        access: Access,
    ) -> None:
        self.wanted = 0  # registrations asked for so far
        self.wake = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._address = address
        self._identify = identify
        self._describe = describe
        self._answered = answered
        self._period = period_ms / 1000
        self._timeout_ms = timeout_ms
        self._access = access
        self._connection: AsyncConnection | None = None
        self._is_up: bool | None = None  # None: not tried yet
        self._is_away = False  # when it was tried last
        self._trouble = ""  # what the log has heard
        self._done = 0  # of those wanted, how many are carried out
        self._progress = asyncio.Condition()

    async def run(self) -> None:
        retry = _FIRST_RETRY
        while True:
            await self._rest(self._period if self._is_up else retry)
            retry = _FIRST_RETRY if self._is_up else next_retry(retry, self._period, is_away=self._is_away)
            await self.register()

    async def register(self) -> None:
        """One try; its outcome goes to the log where it differs from the last one's."""
        wanted = self.wanted
        try:
            await self._call_register()
        except (RmqError, MemoryError) as error:
            await self._hang_up()
            if (trouble := _reason(error)) != self._trouble:  # who was away and is back may refuse
                log.warning("not registered, trying on", namesrv=self._address, reason=trouble)
            self._trouble = trouble
            self._is_up = False
            self._is_away = is_away(error)
        else:
            if not self._is_up:
                log.info("registered", namesrv=self._address, broker=self._identify().broker_name)
            self._trouble = ""
            self._is_up = True
        async with self._progress:
            self._done = wanted
            self._progress.notify_all()

    async def has_registered(self, wanted: int) -> None:
        """Returns when the registrations asked for so far were tried."""
        async with self._progress:
            await self._progress.wait_for(lambda: self._done >= wanted or not self._is_up)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
        connection = self._connection
        if connection is None or connection.closed:
            return
        identity = self._identify()
        header = UnregisterBrokerRequestHeader(
            brokerName=identity.broker_name,
            brokerAddr=identity.address,
            clusterName=identity.cluster_name,
            brokerId=identity.broker_id,
        )
        with suppress(RmqError):
            await connection.call(RequestCode.UNREGISTER_BROKER, header, timeout_ms=_UNREGISTER_TIMEOUT_MS)
        await connection.close()

    async def _rest(self, pause: float) -> None:
        """Until somebody is in a hurry, the connection breaks, or the time is over."""
        breaking = asyncio.create_task(self._connection.wait_closed()) if self._connection else None
        if breaking is not None:
            breaking.add_done_callback(self._connection_ended)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.wake.wait()
        finally:
            if breaking is not None:
                breaking.cancel()
        self.wake.clear()

    def _connection_ended(self, breaking: asyncio.Task[None]) -> None:
        if not breaking.cancelled():  # cancelled: it was this that ended the watch, not the connection
            self.wake.set()

    async def _hang_up(self) -> None:
        """Whoever failed once is called anew; nobody waits for the end of a connection that has ended."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            await connection.close()

    async def _call_register(self) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = await AsyncConnection.open(
                self._address, timeout_ms=_CONNECT_TIMEOUT_MS, access=self._access
            )
        # Only now: of 20,000 topics this holds everybody up for a tenth of a second.
        identity, body = self._identify(), self._describe().encode()
        header = RegisterBrokerRequestHeader(
            brokerName=identity.broker_name,
            brokerAddr=identity.address,
            clusterName=identity.cluster_name,
            haServerAddr=identity.ha_address,
            brokerId=identity.broker_id,
            enableActingMaster=False,
            compressed=False,
            bodyCrc32=register_crc32(body),
            allTopics=True,
        )
        response = await self._connection.call(RequestCode.REGISTER_BROKER, header, body, timeout_ms=self._timeout_ms)
        self._answered(response.raise_for_code().header(RegisterBrokerResponseHeader))


def _reason(error: RmqError | MemoryError) -> str:
    """What is told to clients about their keys is not for brokers."""
    if isinstance(error, NoPermission):
        return f"{error.message} A broker signs with innerClientAuthenticationCredentials."
    return str(error) or type(error).__name__
