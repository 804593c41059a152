"""A broker: the order in which its parts start, and the same reversed (RocketMQ's BrokerController).

    store → tables → parts → delays → flusher, rounds → what the store holds of transactions → server → registration

One event loop owns all of it; only fsyncs and the writing of tables leave its thread. Which parts there are is in
`parts.py`, which requests they answer in `requests.py`, what they do by the clock in `rounds.py`.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Self

import structlog

from rmqspark.broker.given import Given
from rmqspark.broker.metrics.broker_metrics import BrokerMetrics
from rmqspark.broker.metrics.exporter import Exporter
from rmqspark.broker.parts import Parts
from rmqspark.broker.replica.replicating import MasterRole
from rmqspark.broker.requests import server_of
from rmqspark.broker.rounds import rounds
from rmqspark.broker.state.reconcile import reconcile
from rmqspark.broker.tables import BrokerTables
from rmqspark.broker.whereabouts import Whereabouts
from rmqspark.clock import SteadyClock
from rmqspark.store.message_store import MessageStore
from rmqspark.threads import Once

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.remoting.limits import Limits
    from rmqspark.store.appending.beside import Begin, Work
    from rmqspark.store.appending.warming import Ahead
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.files import FileSystem

log = structlog.get_logger("rmqspark.broker")


class Broker:
    """Serves while its `async with` block runs. `write_beside` is whose thread writes large pieces of the log while the
    loop does something else; without, a thread of its own.

    Raises StoreLocked, StoreError or DamagedFile for a store that cannot be used, PortInUse, and InvalidArgument for an
    address that is forbidden or that no client could reach.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        *,
        store_dir: str | os.PathLike[str],
        files: FileSystem,
        clock: Clock,
        entropy: Entropy,
        limits: Limits | None = None,
        write_beside: Begin | None = None,
    ) -> None:
        self._files = files
        self._write_beside = write_beside
        self._whereabouts = Whereabouts(config)
        self._given = Given(
            config,
            store_config,
            store_dir,
            files.within(store_dir),
            clock,
            SteadyClock(clock),
            entropy,
            limits,
            self._whereabouts,
        )

    @property
    def name(self) -> str:
        return self._given.config.broker_name

    @property
    def port(self) -> int:
        """The port clients connect to; it is open from the start of the block on."""
        return self._whereabouts.port

    @property
    def address(self) -> str:
        """host:port, as clients are given it."""
        return self._whereabouts.address

    @property
    def store(self) -> MessageStore:
        """To be looked at; there is one as soon as the broker listens."""
        return self._parts.store

    async def __aenter__(self) -> Self:
        """Closing the parts, here and in `__aexit__`, is not told of errors: they are the caller's, not the parts'."""
        self._running = AsyncExitStack()
        try:
            await self._start(self._running)
        except BaseException:  # Ctrl-C, a full disk, a port in use: what has started is stopped, and it rises
            await self._running.aclose()
            raise
        log.info("broker started", broker=self.name, address=self.address, store=str(self._given.store_dir))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.aclose()
        log.info("broker stopped", broker=self.name)

    async def _start(self, running: AsyncExitStack) -> None:
        """Starts part after part; `running` stops them in the reverse order."""
        given = self._given
        await self._whereabouts.look_up()
        store = self._open_store(running)
        tables = BrokerTables(given.config, given.files, given.clock)
        reconcile(given.config, store, tables, given.clock)
        await tables.save()
        running.push_async_callback(tables.save)
        self._parts = parts = Parts(given, store, tables)
        self._metrics = metrics = BrokerMetrics(given, parts)
        running.push_async_callback(parts.role.stop)
        if isinstance(parts.role, MasterRole):
            for waiting in (parts.delays, parts.timed):
                waiting.recover()  # first: what it notes when it finishes, also a start that fails, counts at the next
                running.callback(waiting.finish)
        server = server_of(given, parts, metrics)
        running.push_async_callback(parts.coordination.close)

        tasks = await running.enter_async_context(asyncio.TaskGroup())
        tasks.create_task(parts.flusher.run())
        running.callback(parts.flusher.close)
        for each in rounds(given, parts, metrics):
            running.callback(tasks.create_task(each).cancel)

        parts.set_store_host(self._whereabouts.store_host)
        if isinstance(parts.role, MasterRole):
            parts.resolver.recover()  # first: nothing may come between the messages of the half batch the log ends in
            parts.halves.recover()
        store.look_at_disk(given.clock.now_ms())  # the first round of the clock comes too late for the first message
        await running.enter_async_context(server)
        self._whereabouts.port = server.port
        parts.set_store_host(self._whereabouts.store_host)
        if isinstance(parts.role, MasterRole):
            await parts.role.listen(server.port)
        running.callback(parts.pulls.held.stop)
        if given.config.exports_metrics:
            await running.enter_async_context(_exporter_of(given.config, metrics))

        running.push_async_callback(parts.registrar.stop)
        await parts.registrar.start(tasks)

    def _open_store(self, running: AsyncExitStack) -> MessageStore:
        """With threads for what blocks."""
        given = self._given
        store = MessageStore.open(
            given.store_dir, given.store_config, files=self._files, clock=given.clock, entropy=given.entropy
        )
        running.callback(store.close)
        store.work_ahead(_begin)
        store.write_beside(self._write_beside or _a_thread(running))
        return store


def _a_thread(running: AsyncExitStack) -> Begin:
    """Where none can be had, what is to be written is when it is waited for."""
    writing = running.enter_context(ThreadPoolExecutor(1, thread_name_prefix="log"))

    def begin(work: Work) -> Work:
        once = Once(work)
        try:
            return writing.submit(once).result
        except RuntimeError:
            return once

    return begin


def _exporter_of(config: BrokerConfig, metrics: BrokerMetrics) -> Exporter:
    host = config.metrics_prom_exporter_host or config.bind_address
    return Exporter(metrics.text, host=host, port=config.metrics_prom_exporter_port, insecure=config.insecure)


def _begin(ahead: Ahead) -> Work:
    """Runs it in a thread. Where none can be had it is left out, unless somebody waits for it: what has just been
    appended is stored all the same."""
    once = Once(ahead.run)
    with suppress(RuntimeError):
        asyncio.get_running_loop().run_in_executor(None, once)
    return once
