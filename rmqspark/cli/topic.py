"""`rmq topic`: list, create, update, describe, delete; schema, export, import and replay are in files of their own."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Namesrv, Yes, confirm
from rmqspark.cli.terminal.output import print_json, print_table, safe
from rmqspark.cli.terminal.silent import telling
from rmqspark.cli.topic_files import export, import_, replay
from rmqspark.cli.topic_schema import schema
from rmqspark.display import time_text
from rmqspark.errors import InvalidArgument
from rmqspark.words import counted

if TYPE_CHECKING:
    from rmqspark.client.administration.descriptions import TopicDescription

app = VerbGroup(help="Topics: what there is, how large, with which settings. Example: rmq topic create orders")

Topic = Annotated[str, typer.Argument(help="The topic's name.")]
Queues = Annotated[int | None, typer.Option(min=1, help="Queues on each broker, to read and to write.")]
ReadQueues = Annotated[int | None, typer.Option(min=1, help="Queues that are read, if not the same.")]
WriteQueues = Annotated[int | None, typer.Option(min=1, help="Queues that are written, if not the same.")]
Perm = Annotated[str | None, typer.Option(help="r, w or rw; or RocketMQ's number: 4, 2 or 6.")]


class TopicType(StrEnum):
    """RocketMQ's message.type of a topic."""

    NORMAL = "normal"
    FIFO = "fifo"
    DELAY = "delay"
    TRANSACTION = "transaction"
    MIXED = "mixed"


@app.command("list")
def list_topics(
    system: Annotated[bool, typer.Option("--system", help="Also RocketMQ's own.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Lists the topics. Example: rmq topic list --json"""
    from rmqspark.client.admin import AdminClient

    with telling() as silence, AdminClient(namesrv) as admin:
        topics = admin.describe_topics(admin.topics(system=system), on_silent=silence)
    if as_json:
        print_json([_summary(topic) for topic in topics])
        return
    columns = ("topic", "type", "brokers", "queues", "perm", "messages")
    rows = [
        (each.name, each.message_type, each.broker_count, each.queue_count, each.perm, each.message_count)
        for each in topics
    ]
    print_table(columns, rows, empty="No topics yet. Make one with: rmq topic create orders")


@app.command("create")
def create(
    topic: Topic,
    queues: Annotated[int, typer.Option(min=1, help="Queues on each broker, to read and to write.")] = 8,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Annotated[str, typer.Option(help="r, w or rw; or RocketMQ's number: 4, 2 or 6.")] = "rw",
    type_: Annotated[
        TopicType, typer.Option("--type", case_sensitive=False, help="What the topic is for.")
    ] = TopicType.NORMAL,
    broker: Annotated[
        list[str] | None,
        typer.Option("--broker", help="Only on this one, which others may have it without; may be repeated."),
    ] = None,
    exist_ok: Annotated[
        bool, typer.Option("--exist-ok", help="One that is there already is left as it is, and no error.")
    ] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Creates a topic on every broker. Examples: rmq topic create orders --queues 8 | rmq topic create t --exist-ok"""
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        admin.create_topic(
            topic,
            queues,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=perm,
            message_type=type_.value,
            brokers=broker or None,
            exist_ok=exist_ok,
        )
        created = admin.topic(topic)
    _tell(created, "is there" if exist_ok else "created", as_json=as_json)


@app.command("update")
def update(
    topic: Topic,
    queues: Queues = None,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Perm = None,
    type_: Annotated[
        TopicType | None, typer.Option("--type", case_sensitive=False, help="What the topic is for.")
    ] = None,
    yes: Yes = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Changes what is given. Example: rmq topic update orders --queues 16

    Asks before it takes away queues that hold messages.
    """
    if all(given is None for given in (queues, read_queues, write_queues, perm, type_)):
        hint = "Give --queues, --read-queues, --write-queues, --perm or --type."
        raise InvalidArgument("Nothing to change.", hint=hint)
    from rmqspark.client.admin import AdminClient

    readable = read_queues if read_queues is not None else queues
    with AdminClient(namesrv) as admin:
        if readable is not None and (hidden := _messages_beyond(admin.topic(topic), readable)):
            confirm(f"Take away queues of topic {topic} that hold {counted(hidden, 'message')}?", yes=yes)
        admin.update_topic(
            topic,
            queues,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=perm,
            message_type=None if type_ is None else type_.value,
        )
        updated = admin.topic(topic)
    _tell(updated, "updated", as_json=as_json)


@app.command("describe")
def describe(topic: Topic, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Shows a topic's settings and its queues' offsets. Example: rmq topic describe orders"""
    from rmqspark.client.admin import AdminClient

    with telling() as silence, AdminClient(namesrv) as admin:
        described = admin.topic(topic, on_silent=silence)
    if as_json:
        print_json(_document(described))
        return
    types = (described.message_type or "unknown").upper()
    print(safe(f"{described.name} ({types}): {_where(described)}, {_message_count(described)}\n"))
    rows = [
        (
            q.queue.broker_name,
            q.queue.queue_id,
            q.min_offset,
            q.max_offset,
            q.max_offset - q.min_offset,
            time_text(q.last_stored_ms),
        )
        for q in described.queues
    ]
    print_table(("broker", "queue", "min offset", "max offset", "messages", "last stored"), rows, empty="No queues.")


@app.command("delete")
def delete(topic: Topic, yes: Yes = False, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Deletes a topic with all its messages. Example: rmq topic delete orders"""
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        count = admin.topic(topic).message_count or 0
        confirm(f"Delete topic {topic} with {counted(count, 'message')}?", yes=yes)
        admin.delete_topic(topic)
    if as_json:
        print_json({"topic": topic, "done": True, "messages": count})
    else:
        print(f"Topic {topic} deleted.")


app.command("schema")(schema)
app.command("export")(export)
app.command("import")(import_)
app.command("replay")(replay)


def _tell(topic: TopicDescription, done: str, *, as_json: bool) -> None:
    """What has become of a topic; in JSON as `rmq topic describe` has it."""
    if as_json:
        print_json(_document(topic))
    else:
        print(safe(f"Topic {topic.name} {done}: {_where(topic)}"))


def _messages_beyond(topic: TopicDescription, queues: int) -> int:
    """Messages that nobody could read any more if each broker had so few queues."""
    return sum(q.max_offset - q.min_offset for q in topic.queues if q.queue.queue_id >= queues)


def _message_count(topic: TopicDescription) -> str:
    silent = f"; unknown on {', '.join(sorted(topic.silent))}" if topic.silent else ""
    return counted(topic.message_count or 0, "message") + silent


def _summary(topic: TopicDescription) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "type": topic.message_type,
        "brokers": topic.broker_count,
        "queues": topic.queue_count,
        "perm": topic.perm,
        "messages": topic.message_count,
        "silent": topic.silent,
    }


def _document(topic: TopicDescription) -> dict[str, Any]:
    return {
        **_summary(topic),
        "brokers": [
            {
                "brokerName": broker.broker_name,
                "readQueues": broker.read_queues,
                "writeQueues": broker.write_queues,
                "perm": broker.perm,
                "attributes": broker.attributes,
            }
            for broker in topic.brokers
        ],
        "queues": [
            {
                "brokerName": queue.queue.broker_name,
                "queueId": queue.queue.queue_id,
                "minOffset": queue.min_offset,
                "maxOffset": queue.max_offset,
                "lastStored": queue.last_stored_ms or None,
            }
            for queue in topic.queues
        ],
    }


def _where(topic: TopicDescription) -> str:
    parts = []
    for broker in topic.brokers:
        one = broker.read_queues == broker.write_queues
        queues = f"{broker.read_queues}" if one else f"{broker.read_queues} read, {broker.write_queues} write"
        noun = "queue" if queues == "1" else "queues"
        parts.append(f"{queues} {noun} ({broker.perm}) on {broker.broker_name}")
    return ", ".join(parts)
