"""Sends by the hundred, as they come in a turn of the loop from many connections: read, stored and answered as tables.

What `UsualSends` does for one after the other is done here for all in columns, where a stencil fits them all; sends of
several lengths are stored by `ragged_tables.py`. Otherwise they are refused, and it does it. A test holds the two
against each other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS
from rmqspark.broker.sending.at_most import MOST_SHEETS, AtMost
from rmqspark.broker.sending.ragged_tables import RaggedTables
from rmqspark.broker.sending.send_sheets import SendSheet
from rmqspark.broker.sending.send_values import HEADER_AT, numbers_of, texts_of
from rmqspark.errors import RmqError
from rmqspark.protocol.records.properties import Property
from rmqspark.remoting.gathered import answer_alike, answer_each, are_alike, close_unanswered, hosts_of, without_frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.broker.metrics.rpc_latency import RpcLatency
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.sending.ragged_tables import StoredRagged
    from rmqspark.broker.sending.receipts import Receipts
    from rmqspark.broker.sending.usual_sends import UsualSends
    from rmqspark.protocol.buffers.spans import Bytes
    from rmqspark.remoting.gathered import Gathered
    from rmqspark.store.appending.single_tables import StoredTable


class StoredAlike(NamedTuple):
    """Sends that are in the log, and the frames they came in, a row each."""

    requests: Sequence[Gathered]
    sheet: SendSheet
    frames: NDArray[np.uint8]
    places: StoredTable

    @property
    def total(self) -> int:
        return len(self.frames)

    @property
    def waits_for_flush(self) -> bool:
        return self.sheet.constant.waits_for_flush

    def without_bodies(self) -> StoredAlike:
        """What answers need of them."""
        heads = self.frames[:, : self.sheet.body_at].copy()
        return self._replace(requests=without_frames(self.requests), frames=heads)

    def answer(self, receipts: Receipts, error: RmqError | None) -> None:
        """Tells all of them where their messages are; `error` says in what their safety falls short."""
        answers = None if error is not None else self._filled(receipts)
        if answers is None:
            answer_each(self.requests, self._each(receipts, error))
        else:
            answer_alike(self.requests, answers, len(answers) // len(self.frames))

    def _filled(self, receipts: Receipts) -> bytes | None:
        """All answers, back to back and as long as each other; None where they are not."""
        _, sheet, frames, (queue_offsets, physical_offsets) = self
        lowest, highest = int(queue_offsets.min()), int(queue_offsets.max())
        if len(str(lowest)) != len(str(highest)):
            return None
        frame, at = frames[0], sheet.places
        queue_id, unique_key, opaque = (frame[at[name]].tobytes() for name in ("queue_id", Property.UNIQ_KEY, "opaque"))
        receipt = receipts.sheet(int(frame[4]), queue_id, lowest, unique_key, opaque)
        if receipt is None:
            return None
        return receipt.fill(
            physical_offsets,
            queue_offsets,
            frames[:, at["queue_id"]],
            frames[:, at[Property.UNIQ_KEY]],
            frames[:, at["opaque"]],
        )

    def _each(self, receipts: Receipts, error: RmqError | None) -> list[bytes]:
        """The answers where they are not as long as each other."""
        frames, at = self.frames, self.sheet.places
        return receipts.each(
            int(frames[0, 4]),
            numbers_of(frames[:, at["queue_id"]]).tolist(),
            texts_of(frames[:, at[Property.UNIQ_KEY]]),
            texts_of(frames[:, at["opaque"]]),
            self.places,
            error,
        )


class SendTables:
    """Takes sends together. Implements `remoting.gathered.TakesTogether`."""

    def __init__(
        self,
        usual: UsualSends,
        appender: Appender,
        receipts: Receipts,
        latency: RpcLatency,
        *,
        cut_every: int = 8,
        most_skipped: int = 63,
    ) -> None:
        """A sheet is cut once in so many turns that lack one: where lengths take turns, it would be cut in vain."""
        self._usual = usual
        self._appender = appender
        self._receipts = receipts
        self._sheets: AtMost[tuple[object, ...], SendSheet] = AtMost(MOST_SHEETS)
        self._cut_every = cut_every
        self._without = 0
        self._latency = latency
        self._ragged = RaggedTables(usual, appender, most_skipped)
        self.words = usual.words

    def take_together(self, requests: Sequence[Gathered]) -> bool:
        """Takes all these sends, in this order, and answers them; or none of them. Raises MemoryError; then nobody can
        say what is stored, and the server ends their connections."""
        began_ms = self._latency.now_ms()
        try:
            stored = self._store(requests)
        except RmqError:  # nothing is stored: each is told by the way it goes now
            return False
        if stored is None:
            return False
        waits = stored.waits_for_flush
        if waits and self._appender.keeps_waiting:
            stored = stored.without_bodies()
        self._appender.when_safe(self._appender.end_offset, partial(self._answer, stored, began_ms), waits=waits)
        return True

    def _answer(self, stored: StoredAlike | StoredRagged, began_ms: int, error: RmqError | None) -> None:
        try:
            stored.answer(self._receipts, error)
        except MemoryError:
            close_unanswered(stored.requests)
        with IF_MEMORY_ALLOWS:
            self._latency.sends_answered(stored.total, began_ms, error)

    def _store(self, requests: Sequence[Gathered]) -> StoredAlike | StoredRagged | None:
        """Stores all of them; None, with none stored, where that is not possible."""
        if are_alike(requests) and (stored := self._store_alike(requests)) is not None:
            return stored
        return self._ragged.store(requests)

    def _store_alike(self, requests: Sequence[Gathered]) -> StoredAlike | None:
        frame_bytes = requests[0].frame_bytes
        frames = np.frombuffer(b"".join([alike.frames for alike in requests]), np.uint8).reshape(-1, frame_bytes)
        sheet = self._sheet(requests[0], frames[0])
        hosts = hosts_of(requests)
        if sheet is None or hosts is None or not sheet.fits(frames):
            return None
        target_of = self._usual.numbers(sheet.names(frames), sheet.split_name)
        if target_of is None:
            return None
        table = sheet.table(frames, self._usual.targets, np.array(target_of), hosts)
        places = self._appender.append_table(table, have_shards=sheet.constant.has_shard)
        return None if places is None else StoredAlike(requests, sheet, frames, places)

    def _sheet(self, first: Gathered, frame: Bytes) -> SendSheet | None:
        """The sheet that the first send calls for."""
        stencil = self._usual.stencil_for(memoryview(first.frames), first.word, HEADER_AT)
        body_at = HEADER_AT + (first.word & 0xFFFFFF)
        if stencil is None or not 0 < first.frame_bytes - body_at <= self._usual.max_body_bytes:
            return None
        key = stencil.unpack_from, first.frame_bytes
        sheet = self._sheets.get(key)
        if sheet is None:
            self._without += 1
            if self._without % self._cut_every:
                return None
            sheet = self._sheets.keep(key, SendSheet.of(stencil, frame, body_at))
        return sheet
