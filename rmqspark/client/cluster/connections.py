"""One pipelined connection per address, shared by everything a client does there."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from rmqspark.client.cluster.futures import at_hand
from rmqspark.errors import AlreadyClosed, Unreachable
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.blocking import BlockingConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.protocol.commands.command import Command
    from rmqspark.remoting.access import Access
    from rmqspark.remoting.peer_requests import Answer

_PATIENCE_S = 1.0  # with those who are served before; a server that takes nothing may keep them for longer
_MANY: Final = 1_000  # addresses: above, those where nobody is any more are let go

_here = threading.local()

OnBrokerRequest: TypeAlias = "Callable[[str, Command, memoryview], Answer]"
"""Handles what the server at an address asks; as `remoting.peer_requests.OnRequest` otherwise."""


class _Slot:
    """The connection of one address, or those who wait for it, in the order in which they came.

    It is made on a thread of its own: so a slow address delays only those who wait for it, each for as long as it
    likes, and they share what becomes of it.
    """

    def __init__(self, connect: Callable[[], BlockingConnection], address: str) -> None:
        self._connect = connect
        self._address = address
        self._waiting: deque[Future[BlockingConnection]] = deque()
        self._connecting_pid = 0  # of the process whose thread is at it: a fork does not copy threads
        self._serving: int | None = None  # the thread that tells those who wait what has become of it
        self._connection: BlockingConnection | None = None
        self._closed = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a process that is forked: another thread may have had the lock, and is not there to let go of it."""
        self._changed = threading.Condition(threading.Lock())

    @property
    def live(self) -> BlockingConnection | None:
        connection = self._connection
        return None if connection is None or connection.closed else connection

    @property
    def is_used(self) -> bool:
        """Whether there is a connection, or one is being made."""
        return self.live is not None or self._connecting_pid == os.getpid()

    def soon(self) -> Future[BlockingConnection]:
        """It, when it is there, behind those who came before. While they are served, this waits for a moment: who comes
        faster than others are served would make them ever more, until nobody was served in time."""
        with self._changed:
            self._changed.wait_for(self._serves_nobody_else, _PATIENCE_S)
            if (live := self.live) is not None:
                return at_hand(live)
            if self._closed:
                raise _closed()
            if self._connecting_pid != os.getpid():
                self._waiting.clear()
                name = f"rmqspark connects to {self._address}"
                self._serving = None
                threading.Thread(target=self._make, name=name, daemon=True).start()
                self._connecting_pid = os.getpid()
            future: Future[BlockingConnection] = Future()
            future.set_running_or_notify_cancel()
            self._waiting.append(future)
            return future

    def _serves_nobody_else(self) -> bool:
        """Whoever is served may ask again: he is waited for."""
        is_served = self._serving in (None, threading.get_ident())
        return is_served or self._closed or self._connecting_pid != os.getpid()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            waiting, self._waiting = self._waiting, deque()
            connection = self._connection
        for future in waiting:
            future.set_exception(_closed())
        if connection is not None:
            connection.close()

    def _make(self) -> None:
        _here.serves = True
        connection, failure = None, None
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 - it belongs to those who wait, for ever if they were not told
            failure = error
        with self._changed:
            self._serving = threading.get_ident()
        while (future := self._next(connection)) is not None:
            if connection is not None:
                future.set_result(connection)
            else:
                future.set_exception(failure)

    def _next(self, connection: BlockingConnection | None) -> Future[BlockingConnection] | None:
        """Who has waited longest. While somebody waits the connection is nobody else's, so that none overtakes him."""
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._connection, self._connecting_pid, self._serving = connection, 0, None
            self._changed.notify_all()
            closed = self._closed
        if closed and connection is not None:
            connection.close()
        return None


class Connections:
    """Opens a connection when an address is first used, and again after it was lost. Safe to share between threads."""

    def __init__(
        self, connect_timeout_ms: int, on_request: OnBrokerRequest | None = None, access: Access = OPEN
    ) -> None:
        """`on_request` is called, on a thread of the connection's own, with what a server asks of this client."""
        self._connect_timeout_ms = connect_timeout_ms
        self._on_request = on_request
        self._access = access
        self._slots: dict[str, _Slot] = {}
        self._tidy_at = _MANY
        self._closed = False
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a process that is forked: its connections are its parent's, which they know, and so are its locks."""
        self._lock = threading.Lock()
        for slot in self._slots.values():
            slot.begin_anew()

    def to(self, address: str, timeout_ms: int | None = None) -> BlockingConnection:
        """A live connection to `address`; Unreachable if there is nobody, or none in time."""
        slot = self._slot(address)
        try:
            return slot.live or slot.soon().result(None if timeout_ms is None else timeout_ms / 1000)
        except TimeoutError:
            raise Unreachable(f"Nothing answers at {address} within {timeout_ms} ms.", address=address) from None

    def soon(self, address: str) -> BlockingConnection | Future[BlockingConnection]:
        """The same without waiting for it: the connection, or the future of the one that is being made."""
        slot = self._slot(address)
        return slot.live or slot.soon()

    def close(self) -> None:
        """What waits for a connection fails with AlreadyClosed."""
        with self._lock:
            self._closed = True
            slots, self._slots = self._slots, {}
        for slot in slots.values():
            slot.close()

    def _slot(self, address: str) -> _Slot:
        return self._slots.get(address) or self._new_slot(address)

    def _new_slot(self, address: str) -> _Slot:
        with self._lock:
            if self._closed:
                raise _closed()
            if len(self._slots) >= self._tidy_at:
                self._tidy()
            return self._slots.setdefault(address, _Slot(partial(self._open, address), address))

    def _tidy(self) -> None:
        """Brokers move, and whoever registers some may invent addresses. What is used at this very moment lives on by
        itself, until its server ends it."""
        self._slots = {address: slot for address, slot in self._slots.items() if slot.is_used}
        self._tidy_at = 2 * len(self._slots) + _MANY

    def _open(self, address: str) -> BlockingConnection:
        on_request = partial(self._on_request, address) if self._on_request is not None else None
        return BlockingConnection(
            address, connect_timeout_ms=self._connect_timeout_ms, on_request=on_request, access=self._access
        )


def serves_here() -> bool:
    """Whether this thread hands out connections. What it waits for may be behind what it does just now."""
    return getattr(_here, "serves", False)


def _closed() -> AlreadyClosed:
    return AlreadyClosed("This client was closed.", hint="Make a new one.")
