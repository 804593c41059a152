"""`rmq message journey`: the way of one message, as a story in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.messages.formats import as_object
from rmqspark.cli.terminal.options import Json, Namesrv
from rmqspark.cli.terminal.output import print_facts, print_json, print_table, safe
from rmqspark.display import exact_time

if TYPE_CHECKING:
    from rmqspark.client.tracing.journey import BatchReader, GroupReader, Journey, Place, Return, Stage, Writer


def journey(
    msg_id: Annotated[str, typer.Argument(help="The sender's unique id, or the broker's offset id.")],
    topic: Annotated[str | None, typer.Option(help="Where to look for a unique id; otherwise in all topics.")] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Tells where a message came from and who has read it.

    That is: the transaction or delay before it was stored, each group and each batch of a Spark query that read it,
    retries and dead letters, and of what an exactly-once batch wrote, what that batch had read. What cannot be known is
    said to be unknown, with why.

    Example: rmq message journey 7F0000010A3B18B4AAC25E0BE0F50007 --topic orders
    """
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        told = admin.journey(msg_id, topic)
    if as_json:
        print_json(_document(told))
    else:
        _show(told)


def _show(told: Journey) -> None:
    from rmqspark.client.tracing.journey_story import events, group_story

    message = told.message
    state = "" if told.is_readable else f": not readable, it waits for topic {told.topic}"
    print_facts(
        {
            "message id": message.msg_id,
            "offset id": message.offset_msg_id,
            "where": f"{told.place.queue}, offset {told.place.queue_offset}{state}",
            "tags": message.tags or "-",
            "keys": " ".join(message.keys) or "-",
        }
    )
    print()
    rows = [(_time(event.at_ms), event.what, event.story) for event in events(told)]
    print_table(("time (UTC)", "what", "how"), rows, empty="Nothing is known of it.")
    print()
    groups = [(each.group, each.track.value, group_story(each)) for each in told.groups]
    none = "No group has read from its queue, or subscribes to it." if told.is_readable else "Nobody can read it yet."
    print_table(("group", "track", "has read it"), groups, empty=none)
    if told.unknown:
        print()
    for gap in told.unknown:
        print(safe(f"Unknown: {gap.what}: {gap.why}"))


def _time(at_ms: int | None) -> str:
    return "unknown" if at_ms is None else exact_time(at_ms, " ").removesuffix("+00:00")


def _document(told: Journey) -> dict[str, Any]:
    from rmqspark.client.tracing.journey_story import events

    return {
        "message": {**as_object(told.message), "offsetMsgId": told.message.offset_msg_id},
        "place": _place(told.place),
        "topic": told.topic,
        "isReadable": told.is_readable,
        "stages": [_stage(each) for each in told.stages],
        "returned": _return(told.returned) if told.returned else None,
        "first": _place(told.first) if told.first else None,
        "duplicates": [_place(each) for each in told.duplicates],
        "returns": [_return(each) for each in told.returns],
        "setAside": _place(told.set_aside) if told.set_aside else None,
        "groups": [_group(each) for each in told.groups],
        "batches": [_batch(each) for each in told.batches],
        "writtenBy": _writer(told.written_by) if told.written_by else None,
        "unknown": [{"what": gap.what, "why": gap.why} for gap in told.unknown],
        "events": [{"at": each.at_ms, "what": each.what, "story": each.story} for each in events(told)],
    }


def _place(place: Place) -> dict[str, Any]:
    return {
        "topic": place.queue.topic,
        "brokerName": place.queue.broker_name,
        "queueId": place.queue.queue_id,
        "queueOffset": place.queue_offset,
        "physicalOffset": place.physical_offset,
        "offsetMsgId": place.offset_msg_id,
        "storeTimestamp": place.stored_ms,
    }


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "kind": stage.kind.value,
        "place": _place(stage.place),
        "realTopic": stage.real_topic,
        "due": stage.due_ms,
        "level": stage.level,
        "producerGroup": stage.group or None,
        "transactionId": stage.transaction_id or None,
        "version": stage.version,
    }


def _return(told: Return) -> dict[str, Any]:
    return {
        "group": told.group,
        "isDeadLetter": told.is_dead,
        "times": told.times,
        "place": _place(told.place),
        "firstMsgId": told.first_msg_id,
        "isWaiting": told.is_waiting,
        "due": told.due_ms,
    }


def _group(reader: GroupReader) -> dict[str, Any]:
    return {
        "group": reader.group,
        "track": reader.track.value,
        "committed": reader.committed,
        "isPast": reader.is_past,
        "isOnline": reader.is_online,
    }


def _batch(batch: BatchReader) -> dict[str, Any]:
    from msgspec import to_builtins

    return {
        "queryId": batch.query_id,
        "queryName": batch.query_name or None,
        "batchId": batch.batch_id,
        "transactionalId": batch.transactional_id,
        "version": batch.version,
        "decidedAt": batch.decided_ms,
        "read": to_builtins(batch.read),
        "outputs": to_builtins(batch.outputs) if batch.version is not None else None,
    }


def _writer(writer: Writer) -> dict[str, Any]:
    from msgspec import to_builtins

    return {
        "transactionalId": writer.transactional_id,
        "version": writer.version,
        "queryId": writer.query_id,
        "queryName": writer.query_name or None,
        "decidedAt": writer.decided_ms,
        "decidedBy": writer.decided_by or None,
        "rows": writer.rows,
        "inputs": to_builtins(writer.inputs),
    }
