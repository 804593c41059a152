"""One pipelined connection per address, shared by everything a client does there."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from rmqspark.errors import AlreadyClosed
from rmqspark.remoting.blocking import BlockingConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.protocol.command import Command
    from rmqspark.remoting.reply import Reply

OnBrokerRequest: TypeAlias = "Callable[[str, Command, memoryview], Reply | None]"
"""Handles what the server at an address asks; as `remoting.blocking.OnRequest` otherwise."""


@dataclass(slots=True)
class _Slot:
    """The connection of one address. Its lock is held while connecting, so that a slow address delays only itself."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: BlockingConnection | None = None


class Connections:
    """Opens a connection when an address is first used, and again after it was lost. Safe to share between threads."""

    def __init__(self, connect_timeout_ms: int, on_request: OnBrokerRequest | None = None) -> None:
        """`on_request` is called, on a thread of the connection's own, with what a server asks of this client."""
        self._connect_timeout_ms = connect_timeout_ms
        self._on_request = on_request
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}
        self._closed = False

    def to(self, address: str) -> BlockingConnection:
        """A live connection to `address`; Unreachable if there is nobody."""
        slot = self._slots.get(address) or self._new_slot(address)
        connection = slot.connection
        if connection is not None and not connection.closed:
            return connection
        with slot.lock:
            if slot.connection is None or slot.connection.closed:
                slot.connection = self._open(address)
            return slot.connection

    def close(self) -> None:
        with self._lock:
            self._closed = True
            slots, self._slots = self._slots, {}
        for slot in slots.values():
            with slot.lock:
                if slot.connection is not None:
                    slot.connection.close()

    def _new_slot(self, address: str) -> _Slot:
        with self._lock:
            if self._closed:
                raise AlreadyClosed("This client was closed.", hint="Make a new one.")
            return self._slots.setdefault(address, _Slot())

    def _open(self, address: str) -> BlockingConnection:
        if self._closed:
            raise AlreadyClosed("This client was closed.", hint="Make a new one.")
        on_request = partial(self._on_request, address) if self._on_request is not None else None
        return BlockingConnection(address, connect_timeout_ms=self._connect_timeout_ms, on_request=on_request)
