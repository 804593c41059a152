"""Whether what the brokers recorded of a query's batches adds up: nothing read twice or not at all, all of it written.

Pure: batches in, findings out. Within one queue the batches of a transactional id must have read neighbouring ranges,
each where the last one ended, and every row that was committed must have an offset of its own.

What was read is known as far as the source told it, and from the first range of each queue on: where a query was to
start nobody records but its checkpoint. Other sources than ours tell nothing: then only what was written
is looked at (`tells_inputs`). A queue of a shared group may have been another query's in between: a later lease begins
where that one ended. Where the epoch of a topic rises, its queues are read from elsewhere because somebody wanted that,
or give their old numbers to other messages: nothing is missing or twice across, and it is told as a reset. Of versions
that the user numbers a whole one may be missing, because foreachBatch wrote nothing: that is told, and is no gap. Of a
stream's it is one, and told beside it: the query has written them at least once, or elsewhere, or not at all. A stream
that was given another transactional id goes on under that where it ended under the one before.

What was written to a topic that has been deleted since went with it, and the next one of its name gives the same
offsets again: so where two batches say that they wrote at one, the broker is asked when that was (`DeletedMs`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqspark.message_queue import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqspark.protocol.bodies.txn import AuditedBatch, InputRange, OutputRange

    DeletedMs = Callable[[MessageQueue], int]
    """When a topic of the queue's name was last deleted on its broker; 0 where it never was, as far as is known."""


_SHOWN = 3  # versions of those that were not written
_BY_A_RESET = "its group was set there, its topic was made anew, or its broker lost the end of its store"


class Kind(StrEnum):
    GAP = "gap"
    DUPLICATE = "duplicate"
    RESET = "reset"
    UNWRITTEN = "nothing written"


_NO_FAULTS = {Kind.RESET, Kind.UNWRITTEN}


@dataclass(frozen=True, slots=True)
class Finding:
    """Messages that were skipped or used twice, at one version: `story` says where. No fault, if by a reset or because
    a version in between was not written."""

    kind: Kind
    transactional_id: str
    version: int
    messages: int
    story: str


def _never(queue: MessageQueue) -> int:
    del queue
    return 0


def findings(batches: Sequence[AuditedBatch], deleted_ms: DeletedMs = _never) -> list[Finding]:
    """What is wrong with `batches` (of any transactional ids, versions ascending in each); empty if nothing is."""
    return [finding for finding in _all(batches, deleted_ms) if finding.kind not in _NO_FAULTS]


def resets(batches: Sequence[AuditedBatch]) -> list[Finding]:
    """Where queues were read from elsewhere because the group was set there, their topic was made anew, or their broker
    lost messages that had been read."""
    return [finding for finding in _all(batches) if finding.kind is Kind.RESET]


def unwritten(batches: Sequence[AuditedBatch]) -> list[Finding]:
    """Where messages were read in versions that foreachBatch has not written under this id, each with the version that
    read on after them."""
    return [finding for finding in _all(batches) if finding.kind is Kind.UNWRITTEN]


def _all(batches: Sequence[AuditedBatch], deleted_ms: DeletedMs = _never) -> list[Finding]:
    found = [finding for own in _by_id(batches) for finding in (*_inputs(own), *_outputs(own, deleted_ms))]
    found += [finding for own in _by_stream(batches) for finding in _across_ids(own)]
    return sorted(found, key=lambda finding: (finding.transactional_id, finding.version))


def _by_id(batches: Sequence[AuditedBatch]) -> Iterator[list[AuditedBatch]]:
    for transactional_id in dict.fromkeys(batch.transactionalId for batch in batches):
        yield [batch for batch in batches if batch.transactionalId == transactional_id]


def _by_stream(batches: Sequence[AuditedBatch]) -> Iterator[list[AuditedBatch]]:
    """Those that a streaming query's own sink has written, in the order of its batches."""
    streams: defaultdict[str, list[AuditedBatch]] = defaultdict(list)
    for batch in batches:
        if batch.queryId and not batch.ownVersion:
            streams[batch.queryId].append(batch)
    for own in streams.values():
        yield sorted(own, key=lambda batch: (batch.version, batch.decidedAtMs))


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
    for batch in batches:
        passed_over: Counter[str] = Counter()
        for read in batch.inputs:
            source = read.group, MessageQueue(read.topic, read.brokerName, read.queueId)
            before = reached.get(source, _Reached.by(batch, read, read.fromOffset))
            if _begins_anew(before.epoch, read.topicEpoch):
                yield from _reset(batch, source[1], before.offset, read.fromOffset)
                before = before._replace(offset=read.fromOffset)
            elif read.fromOffset < before.offset:
                yield from _step(batch, "Input", source[1], before.offset, read.fromOffset)
            elif read.fromOffset > before.offset and read.lease == before.lease:
                between = [other for other in batches if before.version < other.version < batch.version]
                silent = [other.version for other in between if other.rows and not other.inputs]
                unwritten = "" if silent else _unwritten(batch, before.version, between)
                if unwritten and batch.ownVersion:
                    passed_over[unwritten] += read.fromOffset - before.offset
                else:
                    why = _of_silent(silent) if silent else unwritten and f"; {unwritten.lower()} not written here"
                    yield from _step(batch, "Input", source[1], before.offset, read.fromOffset, why)
            reached[source] = _Reached.by(batch, read, max(before.offset, read.toOffset))
        for unwritten, messages in passed_over.items():
            story = f"{unwritten} not written here (foreachBatch); messages read in between: {messages}."
            yield Finding(Kind.UNWRITTEN, batch.transactionalId, batch.version, messages, story)


def _across_ids(batches: Sequence[AuditedBatch]) -> Iterator[Finding]:
    """What lies between batches of one stream under different ids."""
    last: dict[tuple[str, MessageQueue], tuple[str, _Reached]] = {}
    for batch in batches:
        for read in batch.inputs:
            source = read.group, MessageQueue(read.topic, read.brokerName, read.queueId)
            transactional_id, before = last.get(source, ("", _Reached.by(batch, read, read.fromOffset)))
            is_next = (before.lease, before.epoch) == (read.lease, read.topicEpoch)
            if is_next and transactional_id not in ("", batch.transactionalId):
                yield from _step(batch, "Input", source[1], before.offset, read.fromOffset)
            last[source] = batch.transactionalId, _Reached.by(batch, read, max(before.offset, read.toOffset))


def _unwritten(batch: AuditedBatch, after: int, between: Iterable[AuditedBatch]) -> str:
    """The versions from `after` to that of `batch` that are not in `between`, in words; "" if all are. Users number
    theirs as they like, so there may be very many."""
    written = {other.version for other in between}
    missing = [*islice((version for version in range(after + 1, batch.version) if version not in written), _SHOWN + 1)]
    shown = ", ".join(map(str, missing[:_SHOWN])) + (" …" if len(missing) > _SHOWN else "")
    return f"Versions {shown} were" if len(missing) > 1 else f"Version {shown} was" if missing else ""


def _begins_anew(before: int | None, now: int | None) -> bool:
    """Readers of before told no epochs. A lower one is a checkpoint that was restored: that reads again."""
    return before is not None and now is not None and now > before


def _reset(batch: AuditedBatch, queue: MessageQueue, expected: int, begins: int) -> Iterator[Finding]:
    if begins != expected:
        story = f"Input {queue} was read on from offset {begins} instead of {expected}: {_BY_A_RESET}."
        yield Finding(Kind.RESET, batch.transactionalId, batch.version, abs(begins - expected), story)


def _of_silent(versions: Sequence[int]) -> str:
    """Of those in between that have written rows, and have not said what they read."""
    return f" that said what it read; version {', '.join(map(str, versions))} did not"


def _step(
    batch: AuditedBatch, side: str, queue: MessageQueue, expected: int, begins: int, why: str = ""
) -> Iterator[Finding]:
    """`why`: what is known of a gap, to follow on "is in no batch"."""
    if begins == expected:
        return
    kind, story = (Kind.GAP, f"is in no batch{why}") if begins > expected else (Kind.DUPLICATE, "is in two batches")
    first, end = sorted((expected, begins))
    where = f"{side} {queue}, offsets {first} to {end - 1}, {story}."
    yield Finding(kind, batch.transactionalId, batch.version, end - first, where)


class _Written(NamedTuple):
    batch: AuditedBatch
    first: int
    end: int


def _outputs(batches: Sequence[AuditedBatch], deleted_ms: DeletedMs) -> Iterator[Finding]:
    written: defaultdict[MessageQueue, list[_Written]] = defaultdict(list)
    for batch in batches:
        yield from _rows(batch)
        for out in batch.outputs:
            if out.deleted is not None:
                continue
            queue = MessageQueue(out.topic, out.brokerName, out.queueId)
            written[queue].append(_Written(batch, out.fromOffset, out.toOffset))
    for queue, pieces in written.items():
        if any(_overlaps(queue, pieces)):
            since_ms = deleted_ms(queue)
            yield from _overlaps(queue, [piece for piece in pieces if piece.batch.decidedAtMs >= since_ms])


def _overlaps(queue: MessageQueue, pieces: Iterable[_Written]) -> Iterator[Finding]:
    """Others may write to the topic too, so gaps mean nothing here."""
    reached = 0
    for piece in sorted(pieces, key=lambda piece: piece.first):
        if piece.first < reached:
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
