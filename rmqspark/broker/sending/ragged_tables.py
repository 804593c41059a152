"""Sends of several lengths by the hundred, as a turn of the loop brings them for many topics.

`send_tables.py` does the same for those that are as long as each other, at less cost. Here reading is in columns
(`ragged_sheets.py`), and so is what is stored of a record's head; answers are filled in one by one.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS
from rmqspark.broker.sending.at_most import MOST_SHEETS, AtMost
from rmqspark.broker.sending.ragged_sheets import RAGGED, RaggedSheet, can_be_read, in_order
from rmqspark.broker.sending.send_values import HEADER_AT
from rmqspark.errors import RmqError
from rmqspark.protocol.buffers.spans import Spans
from rmqspark.protocol.commands.command import JSON
from rmqspark.remoting.gathered import answer_each, close_unanswered, hosts_of, without_frames

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqspark.broker.metrics.rpc_latency import RpcLatency
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.sending.receipts import Receipts
    from rmqspark.broker.sending.send_stencils import SendStencil
    from rmqspark.broker.sending.usual_sends import UsualSends
    from rmqspark.remoting.gathered import Gathered
    from rmqspark.store.appending.single_tables import StoredTable
    from rmqspark.store.appending.targets import Targets

_MOST_ASKED: Final = 8  # connections: what the first send of one calls for may not be known yet


class _Stored(NamedTuple):
    """Sends that are in the log, and what answers need of them."""

    requests: Sequence[Gathered]
    unique_keys: list[bytes]
    opaques: list[bytes]
    targets: Targets
    target_of: NDArray[np.intp]
    places: StoredTable


class RaggedTables:
    """Takes sends together. Implements the half of `remoting.gathered.TakesTogether` that is for several lengths."""

    def __init__(
        self, usual: UsualSends, appender: Appender, receipts: Receipts, latency: RpcLatency, most_skipped: int
    ) -> None:
        """After turns that could not be taken more and more are not tried, up to so many."""
        self._usual = usual
        self._appender = appender
        self._receipts = receipts
        self._latency = latency
        self._by_shape: AtMost[tuple[object, ...], RaggedSheet] = AtMost(MOST_SHEETS)
        self._by_stencil: AtMost[object, RaggedSheet] = AtMost(MOST_SHEETS)  # the same ones: many stencils, one shape
        self._most_skipped = most_skipped
        self._skips = self._left_to_skip = 0

    def take_together(self, requests: Sequence[Gathered]) -> bool:
        """Takes all these sends, in this order, and answers them; or none of them. Raises MemoryError; then nobody can
        say what is stored, and the server ends their connections."""
        if self._left_to_skip:
            self._left_to_skip -= 1
            return False
        sheet = next(filter(None, map(self._sheet, requests[:_MOST_ASKED])), None)
        if sheet is None:
            return False
        began_ms = self._latency.now_ms()
        try:
            stored = self._store(requests, sheet)
        except RmqError:  # nothing is stored: each is told by the way it goes now
            return False
        if stored is None:
            self._skips = self._left_to_skip = min(2 * self._skips + 1, self._most_skipped)
            return False
        self._skips = 0
        waits = sheet.constant.waits_for_flush
        if waits and self._appender.keeps_waiting:
            stored = stored._replace(requests=without_frames(requests))
        self._appender.when_safe(self._appender.end_offset, partial(self._answer, stored, began_ms), waits=waits)
        return True

    def _store(self, requests: Sequence[Gathered], sheet: RaggedSheet) -> _Stored | None:
        hosts = hosts_of(requests)
        if hosts is None:
            return None
        raw = b"".join([gathered.frames for gathered in requests])
        sizes = np.array(list(chain.from_iterable([gathered.sizes for gathered in requests])))
        sends = sheet.read(raw, Spans(np.cumsum(sizes) - sizes, sizes))
        if sends is None or int(sends.bodies.lengths.max()) > self._usual.max_body_bytes:
            return None
        numbers = self._usual.numbers(sends.names, sheet.split_name)
        if numbers is None:
            return None
        table = sheet.table(sends, self._usual.targets, numbers, hosts)
        places = self._appender.append_table(table, have_shards=sheet.constant.has_shard)
        if places is None:
            return None
        return _Stored(requests, sends.unique_keys, sends.opaques, table.targets, table.target_of, places)

    def _sheet(self, first: Gathered) -> RaggedSheet | None:
        """The sheet that the first of these sends calls for."""
        word = int.from_bytes(first.frames[4:8], "big")
        stencil = self._usual.stencil_for(memoryview(first.frames), word, HEADER_AT) if word >> 24 == JSON else None
        if stencil is None:
            return None
        sheet = self._by_stencil.get(stencil.unpack_from)
        if sheet is None and can_be_read(stencil):
            shape = stencil.between, *_fixed(stencil)
            sheet = self._by_shape.get(shape) or self._by_shape.keep(shape, RaggedSheet(stencil))
            self._by_stencil.keep(stencil.unpack_from, sheet)
        return sheet

    def _answer(self, stored: _Stored, began_ms: int, error: RmqError | None) -> None:
        """Tells all of them where their messages are; `error` says in what their safety falls short."""
        try:
            queue_ids = stored.targets.rows(stored.target_of)["queue_id"].tolist()
            answers = self._receipts.each(JSON, queue_ids, stored.unique_keys, stored.opaques, stored.places, error)
            answer_each(stored.requests, answers)
        except MemoryError:
            close_unanswered(stored.requests)
        with IF_MEMORY_ALLOWS:
            self._latency.sends_answered(len(stored.opaques), began_ms, error)


def _fixed(stencil: SendStencil) -> Iterator[object]:
    """Of all values the name, and of those that are as long in all sends how long they are."""
    for name in in_order(stencil):
        start, stop = stencil.places[name]
        yield name, name in RAGGED or stop - start
