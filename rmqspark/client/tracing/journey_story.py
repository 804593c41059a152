"""A journey in words, in the order of time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.tracing.journey import StageKind, Track
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.client.tracing.journey import BatchReader, GroupReader, Journey, Place, Return, Stage, Writer
    from rmqspark.protocol.bodies.txn import InputRange, OutputRange

_RANGES = 4  # named of a batch; a topic may have hundreds of queues


class Event(NamedTuple):
    """Something that happened to the message; `at_ms` is None where nobody has kept when."""

    at_ms: int | None
    what: str
    story: str


def events(journey: Journey) -> list[Event]:
    """Everything that is known to have happened, oldest first; what has no time comes last."""
    told = [*_before(journey), *_there(journey), *_after(journey)]
    return sorted(told, key=lambda event: (event.at_ms is None, event.at_ms or 0))


def group_story(reader: GroupReader) -> str:
    """How a group stands to the message, in a sentence."""
    online = "" if reader.is_online else "; nobody is connected for it now"
    if reader.track is Track.CONSUME_BROADCASTING:
        return "each member keeps its own offsets: unknown"
    if reader.committed is None:
        return f"has committed no offset of this queue: unknown{online}"
    if not reader.is_past:
        return f"has not: it is at offset {reader.committed}{online}"
    if reader.track is Track.CONSUMED_BUT_FILTERED:
        return f"is beyond it, at offset {reader.committed}; its tag is none of those that it subscribes to{online}"
    return f"is beyond it, at offset {reader.committed}{online}"


def _before(journey: Journey) -> Iterator[Event]:
    yield Event(journey.message.born_timestamp_ms or None, "sent", f"by its producer, as {journey.message.msg_id}")
    if journey.first is not None:
        yield Event(journey.first.stored_ms, "first stored", f"{_at(journey.first)}: this is what was consumed first")
    for stage in journey.stages:
        yield Event(stage.place.stored_ms, _NAMES[stage.kind], _stage_story(stage))
    if journey.written_by is not None:
        yield Event(journey.written_by.decided_ms, "committed", _writer_story(journey.written_by))


_NAMES = {
    StageKind.HALF_MESSAGE: "half message",
    StageKind.HALF_BATCH: "half batch",
    StageKind.DELAY: "waits",
    StageKind.DELIVER_TIME: "waits",
}


def _stage_story(stage: Stage) -> str:
    where = (
        f"for {stage.real_topic}, at physical offset {stage.place.physical_offset} of {stage.place.queue.broker_name}"
    )
    match stage.kind:
        case StageKind.HALF_MESSAGE:
            return f"{where}: until producers of {stage.group} have decided transaction {stage.transaction_id}"
        case StageKind.HALF_BATCH:
            return f"{where}: until version {stage.version} of {stage.transaction_id} is decided"
        case StageKind.DELAY:
            return f"{where}: delay level {stage.level}{_due(stage.due_ms)}"
        case StageKind.DELIVER_TIME:
            return f"{where}: it is to be delivered at a time{_due(stage.due_ms)}"


def _due(due_ms: int | None) -> str:
    from rmqspark.display import time_text

    return "" if due_ms is None else f", {time_text(due_ms)}"


def _writer_story(writer: Writer) -> str:
    rows = "" if writer.rows is None else f": {counted(writer.rows, 'row')}"
    whose = _query(writer.query_id or "", writer.query_name) if writer.query_id else ""
    read = f", made of {_inputs(writer.inputs)}" if writer.inputs else ""
    by = f", decided by {writer.decided_by}" if writer.decided_by else ""
    return f"version {writer.version} of {writer.transactional_id}{whose}{rows}{read}{by}"


def _there(journey: Journey) -> Iterator[Event]:
    told = journey.returned
    if told is not None:
        yield Event(told.place.stored_ms, _return_name(told), f"{_return_story(told)}: the message asked for")
    elif journey.is_readable:
        yield Event(
            journey.place.stored_ms, "stored", f"{_at(journey.place)}, physical {journey.place.physical_offset}"
        )
    if journey.set_aside is not None:
        yield Event(
            journey.set_aside.stored_ms, "set aside", f"nobody decided its transaction: {_at(journey.set_aside)}"
        )
    for again in journey.duplicates:
        yield Event(again.stored_ms, "stored again", f"{_at(again)}: the same unique id, sent more than once")


def _after(journey: Journey) -> Iterator[Event]:
    for each in journey.returns:
        yield Event(each.place.stored_ms, _return_name(each), _return_story(each))
    for batch in journey.batches:
        yield Event(batch.decided_ms, "read", _batch_story(batch))


def _return_name(told: Return) -> str:
    return "dead letter" if told.is_dead else f"retry {told.times}"


def _return_story(told: Return) -> str:
    if told.is_dead:
        times = "once" if told.times == 1 else f"{told.times} times"
        return f"{told.group} has consumed it in vain, {times}: {_at(told.place)}"
    if told.is_waiting:
        return f"{told.group} gets it again{_due(told.due_ms) or ' when its time has come'}"
    return f"{told.group} could not consume it and got it again: {_at(told.place)}"


def _batch_story(batch: BatchReader) -> str:
    whose = _query(batch.query_id, batch.query_name).removeprefix(" of ") or "a batch of no query"
    read = f"offsets {batch.read.fromOffset} to {batch.read.toOffset - 1}"
    if batch.version is None:
        return f"{whose}, batch {batch.batch_id}: {read}; what it wrote is not recorded here"
    written = f"wrote {_outputs(batch.outputs)}" if batch.outputs else "wrote nothing that is recorded yet"
    return f"{whose}: {read}, in version {batch.version} of {batch.transactional_id}, which {written}"


def _query(query_id: str, name: str) -> str:
    if not query_id:
        return ""
    return f" of query {name} ({query_id})" if name else f" of query {query_id}"


def _inputs(ranges: Iterable[InputRange]) -> str:
    return _some([f"{r.topic}/{r.brokerName}/{r.queueId} {r.fromOffset} to {r.toOffset - 1}" for r in ranges])


def _outputs(ranges: Iterable[OutputRange]) -> str:
    told = []
    for each in ranges:
        if each.deleted is not None:
            told.append(f"{each.topic}: {counted(each.deleted, 'row')}, deleted with the topic")
        else:
            some = "" if each.rows is None else f" ({each.rows} of them)"
            told.append(f"{each.topic}/{each.brokerName}/{each.queueId} {each.fromOffset} to {each.toOffset - 1}{some}")
    return _some(told)


def _some(told: list[str]) -> str:
    more = f" and {len(told) - _RANGES} more" if len(told) > _RANGES else ""
    return ", ".join(told[:_RANGES]) + more


def _at(place: Place) -> str:
    return f"{place.queue}, offset {place.queue_offset}"
