"""`rmq message`: one message, by its id."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from rmqspark.cli.formats import as_object
from rmqspark.cli.options import Json, Namesrv
from rmqspark.cli.output import print_facts, print_json, safe

app = typer.Typer(
    help="Single messages. Example: rmq message get 7F0000010A3B18B4AAC25E0BE0F50007",
    no_args_is_help=True,
    rich_markup_mode=None,
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
        "born": _time(message.born_timestamp_ms),
        "stored": _time(message.store_timestamp_ms),
        "consumed again": f"{message.reconsume_times} times",
        "properties": ", ".join(f"{name}={value}" for name, value in message.properties.items()) or "-",
        "body": f"{len(message.body):,} bytes",
    }
    print_facts(facts)
    print()
    print(safe(message.body.decode("utf-8", "replace")))


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
