"""Sends of several lengths by the hundred, as a turn of the loop brings them for many topics.

`send_tables.py` does the same for those that are as long as each other, at less cost, and answers these, too. Reading
is in columns (`ragged_sheets.py`), and so is what is stored of a record's head; answers are filled in one by one.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.broker.sending.at_most import MOST_SHEETS, AtMost
from rmqspark.broker.sending.ragged_sheets import RAGGED, RaggedSheet, can_be_read, in_order
from rmqspark.broker.sending.send_values import HEADER_AT
from rmqspark.protocol.buffers.spans import Spans
from rmqspark.protocol.commands.command import JSON
from rmqspark.remoting.gathered import answer_each, hosts_of, without_frames

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.sending.receipts import Receipts
    from rmqspark.broker.sending.send_stencils import SendStencil
    from rmqspark.broker.sending.usual_sends import UsualSends
    from rmqspark.errors import RmqError
    from rmqspark.remoting.gathered import Gathered
    from rmqspark.store.appending.single_tables import StoredTable
    from rmqspark.store.appending.targets import Targets

_MOST_ASKED: Final = 8  # connections: what the first send of one calls for may not be known yet


class StoredRagged(NamedTuple):
    """Sends that are in the log, and what answers need of them; as `send_tables.StoredAlike`."""

    requests: Sequence[Gathered]
    waits_for_flush: bool
    unique_keys: list[bytes]
    opaques: list[bytes]
    targets: Targets
    target_of: NDArray[np.intp]
    places: StoredTable

    @property
    def total(self) -> int:
        return len(self.opaques)

    def without_bodies(self) -> StoredRagged:
        return self._replace(requests=without_frames(self.requests))

    def answer(self, receipts: Receipts, error: RmqError | None) -> None:
        queue_ids = self.targets.rows(self.target_of)["queue_id"].tolist()
        answers = receipts.each(JSON, queue_ids, self.unique_keys, self.opaques, self.places, error)
        answer_each(self.requests, answers)


class RaggedTables:
    """Stores sends together that are not as long as each other."""

    def __init__(self, usual: UsualSends, appender: Appender, most_skipped: int) -> None:
        """After turns that could not be taken more and more are not tried, up to so many."""
        self._usual = usual
        self._appender = appender
        self._by_shape: AtMost[tuple[object, ...], RaggedSheet] = AtMost(MOST_SHEETS)
        self._by_stencil: AtMost[object, RaggedSheet] = AtMost(MOST_SHEETS)  # the same ones: many stencils, one shape
        self._most_skipped = most_skipped
        self._skips = self._left_to_skip = 0

    def store(self, requests: Sequence[Gathered]) -> StoredRagged | None:
        """Stores all these sends; None, with none stored, where that is not possible or not tried. Raises what the
        store refuses them with."""
        if self._left_to_skip:
            self._left_to_skip -= 1
            return None
        sheet = next(filter(None, map(self._sheet, requests[:_MOST_ASKED])), None)
        if sheet is None:
            return None
        stored = self._store(requests, sheet)
        self._skips = 0 if stored is not None else min(2 * self._skips + 1, self._most_skipped)
        self._left_to_skip = self._skips
        return stored

    def _store(self, requests: Sequence[Gathered], sheet: RaggedSheet) -> StoredRagged | None:
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
        answered = sends.unique_keys, sends.opaques, table.targets, table.target_of, places
        return StoredRagged(requests, sheet.constant.waits_for_flush, *answered)

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


def _fixed(stencil: SendStencil) -> Iterator[object]:
    """Of all values the name, and of those that are as long in all sends how long they are."""
    for name in in_order(stencil):
        start, stop = stencil.places[name]
        yield name, name in RAGGED or stop - start
