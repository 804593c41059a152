"""`rmq send`: messages from arguments, lines of standard input, or a file."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rmqspark.cli.messages.files import lines, read_file
from rmqspark.cli.messages.places import naming
from rmqspark.cli.messages.sending import Addressed, send_all
from rmqspark.cli.terminal.options import IgnoreUnknown, Json, Namesrv
from rmqspark.cli.terminal.output import safe
from rmqspark.errors import InvalidArgument
from rmqspark.model import Message, SendReceipt
from rmqspark.options import duration_ms, integer
from rmqspark.protocol.names import MAX_DELAY_LEVEL, check_sendable

if TYPE_CHECKING:
    from collections.abc import Iterator

_LAST_QUEUE_ID = (1 << 31) - 1
_SHOWN = 10  # receipts of a long run; --json prints all


def send(
    topic: Annotated[str, typer.Argument(help="The topic; made by the broker if it creates topics by itself.")],
    bodies: Annotated[list[str] | None, typer.Argument(help="One message each. None: lines of standard input.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Messages from F.jsonl, F.csv or F.parquet: names as the Spark columns. A row without "
            "a body is one, as JSON."
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Tag of each message.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="Key of each message; may be given again.")] = None,
    property_: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="Property of each; may be given again.")
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN|LEVEL",
            help="Readers get it after so long, 3d at most: 90s, 15m, 2h. A number is one of RocketMQ's levels: "
            "1s 5s 10s 30s, 1m to 10m, 20m 30m 1h 2h (1 to 18).",
        ),
    ] = None,
    queue: Annotated[
        int | None, typer.Option(min=0, max=_LAST_QUEUE_ID, help="Send to this queue id instead of all in turn.")
    ] = None,
    shard: Annotated[str | None, typer.Option(help="Keep the order of all messages that share this word.")] = None,
    ignore_unknown: IgnoreUnknown = False,
    format_: Annotated[
        str | None, typer.Option("--format", help="How a line of standard input reads: '%k:%v'.")
    ] = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Sends messages and prints where they went.

    Examples: rmq send orders hello --tag paid | cat lines.txt | rmq send orders | rmq send orders --file orders.jsonl
    """
    if queue is not None and shard is not None:
        raise InvalidArgument("--queue and --shard exclude each other: a shard chooses its queue by itself.")
    check_sendable(topic)  # also where nothing is to be sent
    _check_bodies(bodies or [])
    properties, wait = _properties(property_ or []), _wait(delay)
    messages = (
        addressed._replace(
            message=_dressed(addressed.message, tag=tag, keys=key or [], properties=properties, wait=wait),
            queue=queue,
            shard=shard if shard is not None or queue is not None else addressed.shard,
        )
        for addressed in _messages(topic, bodies or [], file, format_, ignores_unknown=ignore_unknown)
    )
    sent = 0
    try:
        for receipt in send_all(messages, namesrv):
            sent += 1
            if as_json:
                print(json.dumps(_as_object(receipt)))
            elif sent <= _SHOWN:
                place = "waits for its time" if any(wait) else f"offset {receipt.queue_offset}"
                print(safe(f"{receipt.msg_id}  {receipt.queue}  {place}"))
    finally:  # also where a later one failed
        if sent > 1 and not as_json:
            print(f"{sent:,} messages sent to {topic}")
    if not sent and not as_json:
        print(f"Nothing to send to {topic}.")


def _check_bodies(bodies: list[str]) -> None:
    """Before any of them is sent."""
    if "" in bodies:
        which = f"Body {bodies.index('') + 1} of {len(bodies)}" if len(bodies) > 1 else "The body"
        raise InvalidArgument(f"{which} is empty; RocketMQ has no empty messages.", hint="Send at least one byte.")


def _messages(
    topic: str, bodies: list[str], file: Path | None, template: str | None, *, ignores_unknown: bool
) -> Iterator[Addressed]:
    """Each with the shard that a file names for it."""
    if bodies and file:
        raise InvalidArgument("Bodies as arguments and --file exclude each other.")
    if template and (bodies or file):
        raise InvalidArgument("--format reads standard input; it goes with neither bodies nor --file.")
    if file:
        for recorded in read_file(file, topic, ignores_unknown=ignores_unknown):
            yield Addressed(recorded.message, shard=recorded.shard, place=recorded.place)
    elif bodies:
        for body in bodies:
            yield Addressed(Message(topic, body.encode("utf-8", "surrogateescape")))
    else:
        yield from _from_stdin(topic, template)


def _from_stdin(topic: str, template: str | None) -> Iterator[Addressed]:
    from rmqspark.cli.messages.formats import compile_input

    if sys.stdin.isatty():
        print("One message a line; Ctrl-D ends.", file=sys.stderr)
    parse = compile_input(template) if template else None
    for place, line in lines(sys.stdin.buffer):
        if parse:
            with naming(place):
                message = parse(topic, line.decode("utf-8", "surrogateescape"))
            yield Addressed(message, place=place)
        elif line:
            yield Addressed(Message(topic, line), place=place)
        else:
            print(f"{place} is empty: left out, since RocketMQ has no empty messages.", file=sys.stderr)


def _properties(pairs: list[str]) -> dict[str, str]:
    properties = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not (name and separator):
            raise InvalidArgument(f"--property {pair!r} is not NAME=VALUE.")
        properties[name] = value
    return properties


class _Wait(NamedTuple):
    """How long each message waits: by a level, or so many milliseconds; 0 not at all."""

    level: int = 0
    span_ms: int = 0


def _wait(delay: str | None) -> _Wait:
    """Raises InvalidArgument for what is neither a level nor a span."""
    try:
        if delay is None or delay.isdigit():
            return _Wait(level=integer(0, MAX_DELAY_LEVEL)(delay or "0"))
        return _Wait(span_ms=duration_ms(delay))
    except ValueError as error:
        raise InvalidArgument(
            f"--delay {delay!r} is neither a level nor a time: {error}",
            hint="Use 90s, 15m or 2h, or a level, 1 to 18; 0 is at once.",
        ) from None


def _dressed(message: Message, *, tag: str | None, keys: list[str], properties: dict[str, str], wait: _Wait) -> Message:
    """What the command line says of every message, over what the message says of itself."""
    if not (tag or keys or properties or any(wait)):
        return message
    dressed = replace(
        message,
        tags=tag or message.tags,
        keys=keys or message.keys,
        properties={**message.properties, **properties},
    )
    return replace(dressed, delay_level=wait.level, delay_ms=wait.span_ms, deliver_time_ms=0) if any(wait) else dressed


def _as_object(receipt: SendReceipt) -> dict[str, Any]:
    return {
        "msgId": receipt.msg_id,
        "offsetMsgId": receipt.offset_msg_id,
        "topic": receipt.queue.topic,
        "brokerName": receipt.queue.broker_name,
        "queueId": receipt.queue.queue_id,
        "queueOffset": receipt.queue_offset,
        "status": receipt.status.value,
    }
