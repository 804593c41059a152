"""A real cluster inside the test's own process: `with cluster(brokers=1) as mq: mq.namesrv`.

Name servers and brokers run as they do in production, sockets and files included, on an event loop in a daemon thread;
only the store lives in a temporary directory and every port is a free one. Each server is a task that is entered and
left by itself, so that one broker can be stopped while the others go on.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import structlog
import uvloop

from rmqspark.broker.broker import Broker
from rmqspark.broker.config import BrokerConfig
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import InvalidArgument, RequestTimeout
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.store.config import StoreConfig
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.testing.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from contextlib import AbstractAsyncContextManager

    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.route import ClusterInfo

# Small enough to be made in no time; where a gigabyte is free, a test may write.
TEST_STORE = StoreConfig(
    mapped_file_size_commit_log=64 << 20,
    max_hash_slot_num=100_000,
    max_index_num=400_000,
    min_free_bytes=256 << 20,
)
START_TIMEOUT_S = 60
_LOOK_AGAIN_MS = 5
_PORTS_BESIDE = (-2, 1)  # a broker answers there, too, and its slaves


_running: list[LocalCluster] = []  # those of this process whose block runs


class Server(Protocol):
    """What runs on the loop: listens while its `async with` block runs."""

    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int: ...


class LoopThread:
    """An event loop on a daemon thread, and the servers that run on it."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rmqspark test cluster", daemon=True)
        self._thread.start()

    def run(self, make: Callable[[], AbstractAsyncContextManager[Server]]) -> RunningServer:
        """Makes and starts a server; returns when it listens. Raises what its start raises."""
        running = RunningServer(self._loop)
        running.start(make)
        return running

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class RunningServer:
    """One server, entered and left by one task, as its TaskGroup demands."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stop = asyncio.Event()
        self._ended: Future[None]
        self.address = ""
        self.port = 0

    def start(self, make: Callable[[], AbstractAsyncContextManager[Server]]) -> None:
        listening = threading.Event()

        async def serve() -> None:
            async with make() as server:
                self.address, self.port = server.address, server.port
                listening.set()
                await self._stop.wait()

        self._ended = asyncio.run_coroutine_threadsafe(serve(), self._loop)
        self._ended.add_done_callback(lambda _: listening.set())
        if not listening.wait(START_TIMEOUT_S):
            raise RequestTimeout(f"A server did not start within {START_TIMEOUT_S} s.")
        if self._ended.done():
            self._ended.result()

    def stop(self) -> None:
        """Shuts down in order; raises what went wrong in the server's tasks."""
        if not self._ended.done():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._ended.result(START_TIMEOUT_S)


class LocalCluster:
    """Name servers and brokers. `namesrv` and `brokers` (name → address) are what clients need."""

    def __init__(
        self, directory: Path, broker_config: BrokerConfig, store_config: StoreConfig, clock: Clock, namesrvs: int = 1
    ) -> None:
        self.directory = directory
        self._broker_config = broker_config
        self._store_config = store_config
        self._clock = clock
        self._loop = LoopThread()
        self._kept = ExitStack()  # ports of servers that are stopped, for when they are started again
        self._brokers: dict[str, RunningServer] = {}
        self._ports: dict[str, int] = {}
        self._name_servers: dict[int, RunningServer] = {}
        self._name_server_ports = [self._kept.enter_context(reserved_port()) for _ in range(namesrvs)]
        for number in range(namesrvs):
            self.start_name_server(number)

    @property
    def namesrv(self) -> str:
        """For `namesrv=` of every client, and Spark's option: all name servers, those that are stopped too."""
        return ";".join(f"127.0.0.1:{port}" for port in self._name_server_ports)

    @property
    def brokers(self) -> dict[str, str]:
        """Addresses of the brokers that run now, by name; of slaves by name and id: `broker-a-1`."""
        return {name: broker.address for name, broker in self._brokers.items()}

    def store_dir(self, name: str = "broker-a") -> Path:
        """Where the broker of that name keeps its files."""
        return self.directory / name

    def start_name_server(self, number: int) -> str:
        """Starts the name server of that number, from 0 on, or starts it again, empty, on its port; returns its
        address. The brokers register with it by themselves, a moment later."""
        if number in self._name_servers:
            raise InvalidArgument(f"Name server {number} runs already.")
        config = NamesrvConfig(listen_port=self._name_server_ports[number], **self._broker_config.tls_server_settings)
        server = self._loop.run(lambda: NameServer(config, clock=self._clock))
        self._name_servers[number] = server
        return server.address

    def stop_name_server(self, number: int) -> None:
        """Shuts the name server of that number down. Clients go on with the others, or with what they know."""
        self._name_servers.pop(number).stop()

    def start_broker(self, name: str) -> str:
        """Starts a broker, or starts it again with its store and port; returns its address, once it is registered."""
        return self._start(name, replace(self._broker_config, broker_name=name))

    def _start(self, name: str, config: BrokerConfig) -> str:
        if name in self._brokers:
            raise InvalidArgument(f"Broker {name!r} runs already.")
        if name not in self._ports:
            self._ports[name] = self._kept.enter_context(reserved_port(*_PORTS_BESIDE))
        config = replace(config, namesrv_addr=self.namesrv, listen_port=self._ports[name])
        broker = self._loop.run(
            lambda: Broker(
                config,
                self._store_config,
                store_dir=self.store_dir(name),
                files=PosixFileSystem(),
                clock=self._clock,
                entropy=SystemEntropy(),
            )
        )
        self._brokers[name] = broker
        self._wait_until_registered(config)
        return broker.address

    def start_slave(self, name: str = "broker-a", broker_id: int = 1) -> str:
        """Starts a slave of the broker of that name, or starts it again with its store and port; returns its address,
        once it is registered. It has a store of its own, `store_dir("broker-a-1")`."""
        slave = f"{name}-{broker_id}"
        who = {"broker_name": name, "broker_role": "SLAVE", "broker_id": broker_id, "namesrv_addr": self.namesrv}
        config = replace(self._broker_config, **who)  # type: ignore[arg-type]
        return self._start(slave, config)

    def stop_slave(self, name: str = "broker-a", broker_id: int = 1) -> None:
        """Shuts a slave down in order. Its store stays, for `start_slave`."""
        self._brokers.pop(f"{name}-{broker_id}").stop()

    def stop_broker(self, name: str) -> None:
        """Shuts a broker down in order. Its store stays, for `start_broker`."""
        self._brokers.pop(name).stop()

    def close(self) -> None:
        """Stops everything, brokers first."""
        with self._kept, ExitStack() as closing:
            closing.callback(self._loop.close)
            for number in list(self._name_servers):
                closing.callback(self.stop_name_server, number)
            for name in list(self._brokers):
                closing.callback(self.stop_broker, name)

    def _wait_until_registered(self, config: BrokerConfig) -> None:
        """With all name servers that run."""
        clock = SystemClock()
        deadline_ms = clock.monotonic_ms() + 1000 * START_TIMEOUT_S
        for server in self._name_servers.values():
            self._wait_until_known(config, server.address, clock, deadline_ms)

    @staticmethod
    def _wait_until_known(config: BrokerConfig, namesrv: str, clock: Clock, deadline_ms: int) -> None:
        with ClusterClient(namesrv) as client:
            while not _is_known(client.cluster_info(), config):
                if clock.monotonic_ms() > deadline_ms:
                    raise RequestTimeout(f"Broker {config.broker_name!r} did not register within {START_TIMEOUT_S} s.")
                clock.sleep_ms(_LOOK_AGAIN_MS)


def _is_known(info: ClusterInfo, config: BrokerConfig) -> bool:
    broker = info.brokerAddrTable.get(config.broker_name)
    return broker is not None and config.broker_id in broker.brokerAddrs


@contextmanager
def cluster(
    brokers: int = 1,
    namesrvs: int = 1,
    *,
    broker_config: BrokerConfig | None = None,
    store_config: StoreConfig = TEST_STORE,
    clock: Clock | None = None,
) -> Iterator[LocalCluster]:
    """A cluster of `brokers` brokers named broker-a, broker-b, …, and `namesrvs` name servers that all of them register
    with: up while the block runs, gone with all it stored.

    `broker_config` is what all of them get beside their name and addresses; name servers have its certificate.
    """
    _log_to_standard_error()
    with tempfile.TemporaryDirectory(prefix="rmqspark-", ignore_cleanup_errors=True) as directory, ExitStack() as stack:
        local = LocalCluster(
            Path(directory), broker_config or BrokerConfig(), store_config, clock or SystemClock(), namesrvs
        )
        stack.callback(local.close)
        for number in range(brokers):
            local.start_broker(f"broker-{chr(ord('a') + number)}")
        _running.append(local)
        stack.callback(_running.remove, local)
        yield local


def namesrv_of_this_process() -> str | None:
    """Of the one `cluster()` whose block runs; None if there is none. Raises InvalidArgument for one of several."""
    if len(_running) > 1:
        raise InvalidArgument(
            "Several clusters run in this process.", hint="Say which one is meant: namesrv=mq.namesrv."
        )
    return _running[0].namesrv if _running else None


def _log_to_standard_error() -> None:
    """Unless the program says where logs go, other than by structlog's default: its output is its own."""
    # `is_configured` is true once logs were captured, too; then they go to standard output again.
    if isinstance(structlog.get_config()["logger_factory"], structlog.PrintLoggerFactory):
        structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))  # that of each moment
