"""`rmq consume`: reads a topic and prints it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rmqspark.cli.formats import as_object, compile_format
from rmqspark.cli.moments import EARLIEST, Position, parse_moment, parse_offsets
from rmqspark.cli.options import Json, Namesrv
from rmqspark.cli.output import safe
from rmqspark.clock import SystemClock
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.client.pull_consumer import PullConsumer
    from rmqspark.model import MessageQueue, ReceivedMessage

_POLL_MS = 1000


def consume(
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    from_: Annotated[
        str | None, typer.Option("--from", help="earliest, latest, a time, or relative: -10m. Default: earliest.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="Where to stop: a time or relative, like --from.")] = None,
    offset: Annotated[
        str | None, typer.Option("--offset", "-o", help="42, -5 (the last five), 5:10, start, end, @-1h, @t1..t2.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many messages.")] = None,
    tags: Annotated[str, typer.Option(help="Only these tags: 'paid || shipped'.")] = "*",
    group: Annotated[str | None, typer.Option(help="Go on where this group stopped, and commit what was read.")] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help=r"%t %p %o %k %v %d %h %{tags} %{msgId}, with \n.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on at the end of the topic.")] = False,
    raw: Annotated[bool, typer.Option(help="Bodies as they are, also control characters on a terminal.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Prints the messages of a topic, one body a line, and stops at its end.

    Examples: rmq consume orders | rmq consume orders -n 5 --json | rmq consume orders --from -10m -f
    """
    write = _writer(as_json=as_json, template=format_, raw=raw)
    begin, end = _range(from_, to, offset, follow=follow)
    from rmqspark.client.pull_consumer import PullConsumer

    with PullConsumer(namesrv, group=group, tags=tags) as consumer:
        printed = 0
        try:
            for message in _read(consumer, topic, begin, end, follow=follow, resume=group is not None):
                write(message)
                printed += 1
                if printed == count:
                    break
        finally:
            sys.stdout.flush()
            if group is not None:
                consumer.commit()


def _range(
    from_: str | None, to: str | None, offset: str | None, *, follow: bool
) -> tuple[Position | None, Position | None]:
    if offset and (from_ or to):
        raise InvalidArgument("--offset says where to begin and end; it excludes --from and --to.")
    now_ms = SystemClock().now_ms()
    begin: Position | None
    if offset:
        begin, end = parse_offsets(offset, now_ms=now_ms)
    else:
        begin = parse_moment(from_, now_ms=now_ms, option="--from") if from_ else None
        end = parse_moment(to, now_ms=now_ms, option="--to") if to else None
    if follow and end is not None:
        raise InvalidArgument("--follow never stops; it excludes an end.")
    return begin, end


def _read(
    consumer: PullConsumer,
    topic: str,
    begin: Position | None,
    end: Position | None,
    *,
    follow: bool,
    resume: bool,
) -> Iterator[ReceivedMessage]:
    """Messages of all queues between two positions; without `follow`, up to the end that each queue has now."""
    queues = consumer.queues(topic)
    ends = {queue: _resolve(consumer, queue, end) if end else consumer.max_offset(queue) for queue in queues}
    open_queues = []
    consumer.assign(queues)
    for queue in queues:
        committed = consumer.committed(queue) if resume and begin is None else None
        start = committed if committed is not None else _resolve(consumer, queue, begin or EARLIEST)
        consumer.seek(queue, start)
        if follow or start < ends[queue]:
            open_queues.append(queue)
    remaining = set(open_queues)
    consumer.assign(open_queues)
    while remaining:
        for message in consumer.poll(timeout_ms=_POLL_MS):
            if follow or message.queue_offset < ends[message.queue]:
                yield message
        if not follow:
            remaining = {queue for queue in remaining if consumer.position(queue) < ends[queue]}


def _resolve(consumer: PullConsumer, queue: MessageQueue, position: Position) -> int:
    first, last = consumer.min_offset(queue), consumer.max_offset(queue)
    if position.name == "earliest":
        return first
    if position.name == "latest":
        return last
    if position.timestamp_ms is not None:
        return consumer.offset_by_time(queue, position.timestamp_ms)
    offset = position.offset or 0
    return min(last, max(first, offset if offset >= 0 else last + offset))


def _writer(*, as_json: bool, template: str | None, raw: bool) -> Callable[[ReceivedMessage], None]:
    if as_json and template:
        raise InvalidArgument("--json and --format exclude each other.")
    if as_json:
        return lambda message: print(json.dumps(as_object(message), ensure_ascii=False))
    if template:
        shape = compile_format(template)
        return lambda message: _print(shape(message), end="", raw=raw)
    if raw or not sys.stdout.isatty():
        return lambda message: _write_bytes(message.body + b"\n")
    return lambda message: _print(message.body.decode("utf-8", "replace"), end="\n", raw=False)


def _print(text: str, *, end: str, raw: bool) -> None:
    sys.stdout.write((text if raw else safe(text)) + end)


def _write_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
