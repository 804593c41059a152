"""`rmq message`: one message by its id, or those with a key, at an offset, of a time."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from rmqspark.cli.consume import asked_range
from rmqspark.cli.journey import journey
from rmqspark.cli.messages.formats import as_object
from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Namesrv
from rmqspark.cli.terminal.output import print_facts, print_json, print_table, safe
from rmqspark.client.browsing.in_time_order import in_time_order
from rmqspark.client.browsing.spans import spans
from rmqspark.client.moments import EARLIEST, LATEST, time_span
from rmqspark.clock import SystemClock
from rmqspark.display import exact_time, time_text
from rmqspark.errors import InvalidArgument
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.client.moments import Position
    from rmqspark.client.pull_consumer import PullConsumer
    from rmqspark.model import ReceivedMessage

_FOUND = 64  # RocketMQ's tools ask for that many
_MOST_FOUND = 10_000
_GLIMPSE_CHARS = 60
_QUEUES_NAMED = 16


app = VerbGroup(
    help="Single messages: by id, key, offset or time. Example: rmq message get 7F0000010A3B18B4AAC25E0BE0F50007"
)


@app.command("get")
def get(
    msg_id: Annotated[str, typer.Argument(help="The sender's unique id, or the broker's offset id.")],
    topic: Annotated[str | None, typer.Option(help="Where to look for a unique id; otherwise in all topics.")] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Shows a message by either of its ids. Example: rmq message get 7F0000010A3B18B4AAC25E0BE0F50007"""
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        message = admin.message(msg_id, topic)
    if as_json:
        print_json({**as_object(message), "offsetMsgId": message.offset_msg_id})
        return
    facts = {
        "topic": message.topic,
        "queue": f"{message.queue.broker_name}/{message.queue.queue_id}, offset {message.queue_offset}",
        "message id": message.msg_id,
        "offset id": message.offset_msg_id,
        "tags": message.tags or "-",
        "keys": " ".join(message.keys) or "-",
        "born": exact_time(message.born_timestamp_ms),
        "stored": exact_time(message.store_timestamp_ms),
        "consumed again": counted(message.reconsume_times, "time"),
        "properties": ", ".join(f"{name}={value}" for name, value in message.properties.items()) or "-",
        "body": counted(len(message.body), "byte"),
    }
    print_facts(facts)
    print()
    print(safe(message.body.decode("utf-8", "replace")))


@app.command("query")
def query(
    topic: Annotated[str, typer.Argument(help="The topic to look in.")],
    key: Annotated[str | None, typer.Option(help="One of the keys that the messages were sent with.")] = None,
    offset: Annotated[
        list[str] | None, typer.Option("--offset", "-o", help="By their offsets in each queue: 5:10, 42, -5, @-1h.")
    ] = None,
    from_: Annotated[str | None, typer.Option("--from", help="Stored then or later: a time (UTC), or -10m.")] = None,
    to: Annotated[str | None, typer.Option(help="Stored before then: a time (UTC), or -10m.")] = None,
    count: Annotated[
        int,
        typer.Option("--count", "-n", min=1, max=_MOST_FOUND, help="At most so many: with --key the newest."),
    ] = _FOUND,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Lists messages by key, offset or time, oldest first.

    Examples: rmq message query orders --key 42 | rmq message query orders -o 5:10 | rmq message query orders
    --from -10m
    """
    if key is not None:
        found = _with_key(namesrv, topic, key, offset, time_span(from_, to, SystemClock().now_ms()), count)
        none = f"No message with key {key} is in topic {topic}. Expired messages are gone."
    else:
        found, none = _within(namesrv, topic, asked_range(from_, to, offset), count)
    if as_json:
        print_json([{**as_object(message), "offsetMsgId": message.offset_msg_id} for message in found])
        return
    rows = [
        (
            message.msg_id,
            str(message.queue),
            str(message.queue_offset),
            time_text(message.store_timestamp_ms),
            message.tags or "-",
            _glimpse(message.body),
        )
        for message in found
    ]
    columns = ("message id", "queue", "offset", "stored", "tags", "body")
    print_table(columns, rows, empty=none)


app.command("journey")(journey)


def _with_key(
    namesrv: str | None, topic: str, key: str, offset: list[str] | None, span: range, count: int
) -> Sequence[ReceivedMessage]:
    from rmqspark.client.admin import AdminClient

    if offset:
        raise InvalidArgument("--key finds messages wherever they are; it excludes --offset.")
    with AdminClient(namesrv) as admin:
        return admin.query(topic, key, begin_ms=span.start, end_ms=span.stop - 1, max_count=count)


def _within(
    namesrv: str | None, topic: str, wanted: tuple[Position | None, Position | None], count: int
) -> tuple[Sequence[ReceivedMessage], str]:
    """What is there, and what to say where that is nothing."""
    from rmqspark.client.pull_consumer import PullConsumer

    begin, end = wanted
    if begin is None and end is None:
        hint = f"--key 42, --offset 5:10 or --from -10m. All there are: rmq consume {topic}."
        raise InvalidArgument("It is not said which messages to look for.", hint=hint)
    with PullConsumer(namesrv) as consumer:
        there = spans(consumer, topic, begin or EARLIEST, end or LATEST)
        found = list(islice(in_time_order(consumer, there), count))
        return found, "" if found else f"No such message is in topic {topic}. {_what_there_is(consumer, topic)}"


def _what_there_is(consumer: PullConsumer, topic: str) -> str:
    """The offsets of each queue; of one with very many, the first ones'."""
    held = [(queue, consumer.min_offset(queue), consumer.max_offset(queue)) for queue in consumer.queues(topic)]
    filled = [
        f"{queue.broker_name}/{queue.queue_id} {begin}" + (f" to {end - 1}" if end - begin > 1 else "")
        for queue, begin, end in held
        if begin < end
    ]
    if not filled:
        return "It is empty."
    rest = f" and those of {counted(len(filled) - _QUEUES_NAMED, 'more queue')}" if len(filled) > _QUEUES_NAMED else ""
    return f"There are offsets: {', '.join(filled[:_QUEUES_NAMED])}{rest}."


def _glimpse(body: bytes) -> str:
    """The beginning of a body, in one line."""
    text = " ".join(body[: 4 * _GLIMPSE_CHARS].decode("utf-8", "replace").split())
    return text if len(text) <= _GLIMPSE_CHARS and len(body) <= 4 * _GLIMPSE_CHARS else f"{text[:_GLIMPSE_CHARS]} ..."
