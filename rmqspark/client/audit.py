"""Whether what the brokers recorded of a query's batches adds up: nothing read twice or not at all, all of it written.

Pure: batches in, findings out. Within one queue the batches of a transactional id must have read neighbouring ranges,
each where the last one ended, and every row that was committed must have an offset of its own.

What was read is known as far as the source told it. Other sources than ours tell nothing: then only what was written
is looked at (`tells_inputs`). A queue of a shared group may have been another query's in between: a later lease begins
where that one ended. Where the epoch of a topic rises, its queues are read from elsewhere because somebody wanted that,
or give their old numbers to other messages: nothing is missing or twice across, and it is told as a reset.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqspark.message_queue import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqspark.protocol.bodies_txn import AuditedBatch, InputRange, OutputRange


_BY_A_RESET = "its group was set there, its topic was made anew, or its broker lost the end of its store"


class Kind(StrEnum):
    GAP = "gap"
    DUPLICATE = "duplicate"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class Finding:
    """Messages that were skipped or used twice, at one version: `story` says where. No fault, if by a reset."""

    kind: Kind
    transactional_id: str
    version: int
    messages: int
    story: str


def findings(batches: Sequence[AuditedBatch]) -> list[Finding]:
    """What is wrong with `batches` (of any transactional ids, versions ascending in each); empty if nothing is."""
    found = [finding for own in _by_id(batches) for finding in (*_inputs(own), *_outputs(own))]
    return [finding for finding in _sorted(found) if finding.kind is not Kind.RESET]


def resets(batches: Sequence[AuditedBatch]) -> list[Finding]:
    """Where queues were read from elsewhere because the group was set there, their topic was made anew, or their broker
    lost messages that had been read."""
    found = [finding for own in _by_id(batches) for finding in _inputs(own)]
    return [finding for finding in _sorted(found) if finding.kind is Kind.RESET]


def _by_id(batches: Sequence[AuditedBatch]) -> Iterator[list[AuditedBatch]]:
    for transactional_id in dict.fromkeys(batch.transactionalId for batch in batches):
        yield [batch for batch in batches if batch.transactionalId == transactional_id]


def _sorted(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: (finding.transactional_id, finding.version))


def messages_in(ranges: Iterable[InputRange]) -> int:
    """How many offsets the ranges cover."""
    return sum(one.toOffset - one.fromOffset for one in ranges)


def rows_in(out: OutputRange) -> int:
    """How many of a range's messages are the batch's: others may have written to the queue in between."""
    return out.toOffset - out.fromOffset if out.rows is None else out.rows


def tells_inputs(batches: Iterable[AuditedBatch]) -> bool:
    """Whether any of the batches has said what it read."""
    return any(batch.inputs for batch in batches)


class _Reached(NamedTuple):
    """How far a queue was read, by which version, under which lease of a shared group and which epoch of its topic."""

    offset: int
    version: int
    lease: int | None
    epoch: int | None

    @classmethod
    def by(cls, batch: AuditedBatch, read: InputRange, offset: int) -> Self:
        return cls(offset, batch.version, read.lease, read.topicEpoch)


def _inputs(batches: Sequence[AuditedBatch]) -> Iterator[Finding]:
    reached: dict[tuple[str, MessageQueue], _Reached] = {}
    silent = [batch.version for batch in batches if batch.rows and not batch.inputs]
    for batch in batches:
        for read in batch.inputs:
            source = read.group, MessageQueue(read.topic, read.brokerName, read.queueId)
            before = reached.get(source, _Reached.by(batch, read, read.fromOffset))
            if _begins_anew(before.epoch, read.topicEpoch):
                yield from _reset(batch, source[1], before.offset, read.fromOffset)
                before = before._replace(offset=read.fromOffset)
            elif read.fromOffset < before.offset or read.lease == before.lease:
                between = [version for version in silent if before.version < version < batch.version]
                yield from _step(batch, "Input", source[1], before.offset, read.fromOffset, between)
            reached[source] = _Reached.by(batch, read, max(before.offset, read.toOffset))


def _begins_anew(before: int | None, now: int | None) -> bool:
    """Readers of before told no epochs. A lower one is a checkpoint that was restored: that reads again."""
    return before is not None and now is not None and now > before


def _reset(batch: AuditedBatch, queue: MessageQueue, expected: int, begins: int) -> Iterator[Finding]:
    if begins != expected:
        story = f"Input {queue} was read on from offset {begins} instead of {expected}: {_BY_A_RESET}."
        yield Finding(Kind.RESET, batch.transactionalId, batch.version, abs(begins - expected), story)


def _step(
    batch: AuditedBatch, side: str, queue: MessageQueue, expected: int, begins: int, silent: Sequence[int] = ()
) -> Iterator[Finding]:
    """`silent` are the versions in between that have written rows, and have not said what they read."""
    if begins == expected:
        return
    kind, story = (Kind.GAP, "is in no batch") if begins > expected else (Kind.DUPLICATE, "is in two batches")
    if silent and kind is Kind.GAP:
        story += f" that said what it read; version {', '.join(map(str, silent))} did not"
    first, end = sorted((expected, begins))
    where = f"{side} {queue}, offsets {first} to {end - 1}, {story}."
    yield Finding(kind, batch.transactionalId, batch.version, end - first, where)


class _Written(NamedTuple):
    batch: AuditedBatch
    first: int
    end: int


def _outputs(batches: Sequence[AuditedBatch]) -> Iterator[Finding]:
    written: defaultdict[MessageQueue, list[_Written]] = defaultdict(list)
    for batch in batches:
        yield from _rows(batch)
        for out in batch.outputs:
            if out.deleted is not None:
                continue
            queue = MessageQueue(out.topic, out.brokerName, out.queueId)
            written[queue].append(_Written(batch, out.fromOffset, out.toOffset))
    for queue, pieces in written.items():
        reached = 0
        for piece in sorted(pieces, key=lambda piece: piece.first):
            if piece.first < reached:  # others may write to the topic too, so gaps mean nothing here
                yield from _step(piece.batch, "Output", queue, reached, piece.first)
            reached = max(reached, piece.end)


def _rows(batch: AuditedBatch) -> Iterator[Finding]:
    """A batch that is not readable everywhere yet has no outputs there yet; that is no fault. Nor is it that rows went
    with a topic that somebody deleted."""
    there = sum(map(rows_in, batch.outputs))
    expected = batch.rows - sum(out.deleted or 0 for out in batch.outputs)
    if batch.completed and there != expected:
        kind = Kind.GAP if there < expected else Kind.DUPLICATE
        deleted = f", {batch.rows - expected} went with their topic" if expected < batch.rows else ""
        story = f"{batch.rows} rows were committed{deleted}, {there} are in the topics."
        yield Finding(kind, batch.transactionalId, batch.version, abs(expected - there), story)
