"""Who a store is: its id, how many times what readers had seen may have been taken back, and which opening it is in.

In `rmqspark.json` at the root of the store, a file RocketMQ does not know and leaves alone:

    {"storeId": "<32 hex characters>", "incarnation": 1, "opening": "<16 hex characters>"}

Offsets that a reader remembers are offsets of this store in this incarnation. A store that is made anew in the same
place has another id; a recovery that cut the log where readers may have been raises the incarnation (reliability, G5).

A copy of a store has its id and incarnation, and once both have been written to, their offsets mean different messages.
The opening tells them apart: it is drawn anew each time that a store is opened, so what two openings have written since
they parted stands under two words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from rmqspark.protocol.learned import learned
from rmqspark.store.json_table import JsonTable

if TYPE_CHECKING:
    from rmqspark.entropy import Entropy
    from rmqspark.store.files import FileSystem

PATH = "rmqspark.json"
FIRST_INCARNATION = 1
_ID_BYTES = 16
_OPENING_BYTES = 8
_ID = re.compile(f"[0-9a-f]{{{2 * _ID_BYTES}}}")


class _Stored(msgspec.Struct, rename="camel"):
    store_id: str
    incarnation: int
    opening: str = ""  # of a store that no version has opened which draws one


class StoreIdentity:
    """The identity of one store. `warning` is not empty if it had to be read from its copy."""

    def __init__(self, table: JsonTable, stored: _Stored, drawn: str) -> None:
        self._table = table
        self._stored = stored
        self._drawn = drawn

    @classmethod
    def open(cls, files: FileSystem, entropy: Entropy) -> StoreIdentity:
        """Reads it; draws a new one, durably, where there is none. Raises DamagedFile."""
        table = JsonTable(files, PATH)
        stored = table.load(parse)
        known = stored or _Stored(entropy.token(_ID_BYTES).hex(), FIRST_INCARNATION)
        identity = cls(table, known, entropy.token(_OPENING_BYTES).hex())
        if stored is None:
            identity.begin_opening()
        return identity

    @property
    def store_id(self) -> str:
        return self._stored.store_id

    @property
    def incarnation(self) -> int:
        return self._stored.incarnation

    @property
    def opening(self) -> str:
        """The last one that began."""
        return self._stored.opening

    @property
    def warning(self) -> str:
        return self._table.warning

    def begin_opening(self) -> None:
        """To be called before anything is appended; durable when this returns."""
        if self._stored.opening != self._drawn:
            self._save(_Stored(self.store_id, self.incarnation, self._drawn))
            self._stored.opening = self._drawn

    def raise_incarnation(self, by: int = 1) -> None:
        """The next incarnation, or one further on; durable when this returns."""
        self._stored.incarnation += by
        self._save(self._stored)

    def adopt(self, store_id: str, incarnation: int) -> None:
        """Becomes that of the store which this one is a copy of; durable when this returns. Raises ValueError for what
        no store can have."""
        adopted = parse(msgspec.json.encode(_Stored(store_id, incarnation, self._stored.opening)).decode())
        if self._stored != adopted:
            self._save(adopted)
            self._stored = adopted  # no sooner: where the disk refuses it, it is not done, and asked for again

    def _save(self, stored: _Stored) -> None:
        self._table.save(msgspec.json.encode(stored).decode())


def parse(text: str) -> _Stored:
    """What an identity file says. ValueError for what no store can have."""
    stored = msgspec.json.decode(text, type=learned(_Stored))
    if not _ID.fullmatch(stored.store_id) or stored.incarnation < 1:
        raise ValueError(f"no store has the id {stored.store_id!r} in incarnation {stored.incarnation}")
    return stored
