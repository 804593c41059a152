"""What operators are told: transactional ids and their state in words; decided batches, what went in and out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.txn import AuditedBatch, AuditedBatches, TxnState, TxnStates
from rmqspark.txn.coordinator.decisions import audited
from rmqspark.txn.coordinator.events import Finished, decode_event

if TYPE_CHECKING:
    from typing import Self

    from rmqspark.txn.coordinator.events import Pending, Transaction
    from rmqspark.txn.coordinator.ledger import Ledger
    from rmqspark.txn.coordinator.ledger_queue import LedgerQueue
    from rmqspark.txn.coordinator.rollout import Rollout
    from rmqspark.txn.coordinator.uptime import Uptime

MAX_LIMIT: Final = 1_000
_MOST_SCANNED: Final = 10_000  # events for one answer: the loop has other work
_PAGE_BYTES: Final = 4 << 20  # after which an answer ends: with one more batch it still fits a frame
_IS_FINISHED: Final = b'"event":"finished"'
_CURSOR: Final = re.compile(r"([0-9]{1,19})(?: ([0-9]{1,19}) (\S{1,255}))?")


class _Cursor(NamedTuple):
    """Where a listing goes on: at this event of the ledger's topic, then behind this unfinished version."""

    queue_offset: int = 0
    transactional_id: str = ""
    version: int = -1

    def __str__(self) -> str:
        return f"{self.queue_offset} {self.version} {self.transactional_id}" if self.transactional_id else str(self[0])

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Raises InvalidArgument for what is none."""
        if text is None:
            return cls()
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise InvalidArgument(f"{text[:20]!r} is no cursor.")
        queue_offset, version, transactional_id = found.groups()
        return cls(int(queue_offset), transactional_id or "", int(version or -1))


class _Page:
    """Batches of one answer, and whether there is room for one more."""

    def __init__(self, limit: int) -> None:
        self.batches: list[AuditedBatch] = []
        self._limit = limit
        self._left_bytes = _PAGE_BYTES

    @property
    def is_full(self) -> bool:
        return len(self.batches) >= self._limit or self._left_bytes <= 0

    def add(self, batch: AuditedBatch, size_bytes: int) -> None:
        self.batches.append(batch)
        self._left_bytes -= size_bytes


class Reports:
    """Answers TXN_LIST and TXN_AUDIT on the broker `coordinator`."""

    def __init__(self, coordinator: str, ledger: Ledger, queue: LedgerQueue, rollout: Rollout, uptime: Uptime) -> None:
        self._coordinator = coordinator
        self._ledger = ledger
        self._queue = queue
        self._rollout = rollout
        self._uptime = uptime

    def states(self, transactional_id: str | None, limit: int, cursor: str | None) -> TxnStates:
        """States by id, from the one after `cursor` on."""
        wanted = sorted(
            txn.transactional_id
            for txn in self._ledger
            if transactional_id in (None, txn.transactional_id) and txn.transactional_id > (cursor or "")
        )
        page = wanted[: _limit(limit)]
        states = [self._state(self._ledger.require(name)) for name in page]
        return TxnStates(states, page[-1] if page and len(page) < len(wanted) else None)

    def batches(
        self, transactional_id: str | None, query_id: str | None, limit: int, cursor: str | None
    ) -> AuditedBatches:
        """Decided batches from the ledger's topic, oldest first; what is not finished yet comes last.

        A page may be short, or empty, and have a cursor all the same. After a power loss of this broker a batch may
        come twice; the later one counts. Raises InvalidArgument for a cursor that is none.
        """
        at, page = _Cursor.parse(cursor), _Page(_limit(limit))
        names = [name.encode() for name in (transactional_id, query_id) if name]
        next_offset = at.queue_offset
        for scanned, (queue_offset, _, body) in enumerate(self._queue.scan(next_offset)):
            if scanned == _MOST_SCANNED or page.is_full:
                return AuditedBatches(page.batches, str(_Cursor(queue_offset)))
            next_offset = queue_offset + 1
            if _IS_FINISHED in body and all(name in body for name in names):
                event = decode_event(body)
                if isinstance(event, Finished) and _is_wanted(event.batch, transactional_id, query_id):
                    page.add(event.batch, len(body))
        told = at._replace(queue_offset=next_offset)
        for txn, pending in self._pending_behind(at):
            if page.is_full:
                return AuditedBatches(page.batches, str(told))
            batch = self._unfinished(txn, pending)
            if _is_wanted(batch, transactional_id, query_id):
                page.add(batch, len(batch.encode(standard=True)))
            told = _Cursor(next_offset, txn.transactional_id, pending.version)
        return AuditedBatches(page.batches)

    def _pending_behind(self, at: _Cursor) -> list[tuple[Transaction, Pending]]:
        pending = ((txn, each) for txn in self._ledger for each in txn.pending)
        behind = [(txn, each) for txn, each in pending if (txn.transactional_id, each.version) > at[1:]]
        return sorted(behind, key=lambda both: (both[0].transactional_id, both[1].version))

    def _unfinished(self, txn: Transaction, pending: Pending) -> AuditedBatch:
        return audited(txn, pending, self._rollout.outputs(txn, pending), completed=not pending.brokers_left())

    def _state(self, txn: Transaction) -> TxnState:
        newest = txn.pending[-1] if txn.pending else None
        decision = newest.decision if newest else txn.last_decision
        if txn.open_version > txn.last_version:  # the newest one is not decided
            decision = None
        is_closed = txn.epoch <= txn.closed_epoch
        return TxnState(
            transactionalId=txn.transactional_id,
            queryId=txn.query_id,
            coordinator=self._coordinator,
            epoch=txn.epoch,
            version=max(txn.open_version, txn.last_version),
            lastVersion=txn.last_version,
            state=self._in_words(txn),
            ageMs=self._uptime.now_ms() - txn.heard_ms,
            brokers=sorted(decision.participants) if decision else [],
            rows=decision.rows if decision else 0,
            bytes=decision.bytes if decision else 0,
            decidedBy=txn.closed_by if is_closed else txn.decided_by,
            decidedAtMs=txn.closed_at_ms if is_closed else txn.decided_at_ms,
            manual=txn.manual,
        )

    def _in_words(self, txn: Transaction) -> str:
        unreadable = sorted(self._rollout.unreadable(txn))
        waiting = f", readable everywhere but on {', '.join(unreadable)}" if unreadable else ""
        if txn.is_open:
            return f"version {txn.open_version} is being written{waiting}"
        if txn.open_version > txn.last_version:
            return f"version {txn.open_version} was given up by {txn.closed_by}{waiting}"
        if txn.last_version < 0:
            return "nothing written yet"
        return f"version {txn.last_version} is committed{waiting}"


def _limit(limit: int) -> int:
    return max(1, min(limit, MAX_LIMIT))


def _is_wanted(batch: AuditedBatch, transactional_id: str | None, query_id: str | None) -> bool:
    return (not transactional_id or batch.transactionalId == transactional_id) and (
        not query_id or batch.queryId == query_id
    )
