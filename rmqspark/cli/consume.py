"""`rmq consume`: reads a topic and prints it."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from rmqspark.cli.messages.formats import as_object, compile_format
from rmqspark.cli.terminal.options import Json, Namesrv
from rmqspark.cli.terminal.output import json_text, safe
from rmqspark.cli.terminal.streams import hold_no_text_back
from rmqspark.client.browsing.spans import readable_queues, resolve
from rmqspark.client.moments import (
    EARLIEST,
    LATEST,
    Position,
    backwards,
    parse_moment,
    parse_offset_words,
)
from rmqspark.clock import SystemClock
from rmqspark.errors import InvalidArgument, RmqError
from rmqspark.model import MessageQueue, ReceivedMessage
from rmqspark.protocol.milliseconds import CLOCKS_DIFFER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rmqspark.client.pull_consumer import PullConsumer

_FOLLOW_POLL_MS = 1_000
_POLL_MS = 100  # positions also move where nothing matches the tags, without a message to wake us
_STORED = "stored"  # kcat's word for where a group has come


def consume(
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    from_: Annotated[
        str | None, typer.Option("--from", help="earliest, latest, a time (UTC), or -10m. Default: earliest.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="Where to stop: a time or relative, like --from.")] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            "--offset",
            "-o",
            help="In each queue: 42, -5 (its last five), +5, 5:10, start, end, stored, @-1h, @t1..t2.",
        ),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many messages.")] = None,
    tags: Annotated[str, typer.Option(help="Only these tags: 'paid || shipped'.")] = "*",
    sql: Annotated[
        str | None, typer.Option(help='Only what this SQL92 condition over properties accepts: "price > 10".')
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Go on where this group stopped, unless --from or --offset says otherwise, and commit."),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help=r"%t %p %o %k %v %d %h %{tags} %{msgId}, with \n.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on at the end of the topic.")] = False,
    raw: Annotated[bool, typer.Option(help="Bodies as they are, also control characters on a terminal.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Prints a topic's messages, one body a line, up to its end.

    Examples: rmq consume orders | rmq consume orders -n 5 --json | rmq consume orders --from -10m -f
    """
    write = _writer(as_json=as_json, template=format_, raw=raw)
    begin, end = asked_range(from_, to, offset, group=group, follow=follow)
    from rmqspark.client.pull_consumer import PullConsumer

    if group is not None:
        _check_output()
    with PullConsumer(namesrv, group=group, tags=tags, sql=sql) as consumer:
        done = commit_to(consumer, follow=follow) if group is not None else flush
        resume = group is not None and begin is None
        batches = read(consumer, topic, begin or EARLIEST, end, follow=follow, resume=resume)
        print_all(batches, write, done, count)


def print_all(
    batches: Iterable[Batch], write: Callable[[ReceivedMessage], None], done: Callable[[Batch], None], count: int | None
) -> None:
    """Prints messages, `count` at most; `done` hears of each batch that is out, the last one cut to what is: also where
    Ctrl-C ends it, as it does with --follow."""
    hold_no_text_back()
    printed = 0
    for batch in batches:
        shown, written = batch if count is None else batch.first(count - printed), 0
        try:
            for message in shown.messages:
                write(message)
                written += 1
        except KeyboardInterrupt:
            if _is_taken_at_once():
                with suppress(RmqError):
                    done(shown.first(written))
            raise
        done(shown)
        printed += written
        if printed == count:
            return


def _is_taken_at_once() -> bool:
    """Whether what is written goes into a file or onto a terminal. A pipe may be full, and nobody read it any more."""
    mode = os.fstat(sys.stdout.fileno()).st_mode
    return not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


def flush(_: Batch) -> None:
    """Whoever reads our output with --follow has each message at once."""
    sys.stdout.flush()


def commit_to(consumer: PullConsumer, *, follow: bool = False) -> Callable[[Batch], None]:
    """For the group, consumed is what was written out: after a crash it may be printed again, never left out.

    Who follows a topic outlives a restart of its broker: what could not be committed is, with the next batch.
    """
    committed: dict[MessageQueue, int] = {}

    def commit(batch: Batch) -> None:
        sys.stdout.flush()
        if moved := dict(batch.positions.items() - committed.items()):
            try:
                consumer.commit(moved)
            except RmqError as error:
                if not (follow and error.retriable):
                    raise
                return
            committed.update(moved)

    return commit


def _check_output() -> None:
    """`>&-`: what nobody could see would be committed as printed. `>/dev/null` says that nobody wants to."""
    if sys.stdout.name == os.devnull:  # which rmq opened in its place
        raise InvalidArgument(
            "Standard output is closed: a group commits what is printed.", hint="To skip messages: >/dev/null."
        )


def asked_range(
    from_: str | None, to: str | None, offset: list[str] | None, *, group: str | None = None, follow: bool = False
) -> tuple[Position | None, Position | None]:
    """Where to begin and end; None where that is not said, or is where the group has come. InvalidArgument for what
    contradicts itself."""
    if offset and (from_ or to):
        raise InvalidArgument("--offset says where to begin and end; it excludes --from and --to.")
    if offset == [_STORED]:
        if group is None:
            hint = "rmq consume TOPIC --group billing goes on there."
            raise InvalidArgument("--offset stored is where a group has come, and no group is named.", hint=hint)
        return None, None
    now_ms = SystemClock().now_ms()
    begin: Position | None
    if offset:
        begin, end = parse_offset_words(offset, now_ms=now_ms)
    else:
        begin = parse_moment(from_, now_ms=now_ms, option="--from") if from_ else None
        end = parse_moment(to, now_ms=now_ms, option="--to") if to else None
    if follow and end is not None:
        raise InvalidArgument("--follow never stops; it excludes an end.")
    if begin is not None and end is not None and end.is_before(begin):
        raise backwards(f"--offset {' '.join(offset)}" if offset else f"--from {from_} --to {to}")
    return begin, end


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages read together, and where each queue stands after them."""

    messages: list[ReceivedMessage]
    positions: dict[MessageQueue, int]

    def first(self, count: int) -> Batch:
        """The first messages alone; a queue none of them came from does not move."""
        if len(self.messages) <= count:
            return self
        kept = self.messages[:count]
        return Batch(kept, {message.queue: message.queue_offset + 1 for message in kept})


def read(
    consumer: PullConsumer, topic: str, begin: Position, end: Position | None, *, follow: bool, resume: bool
) -> Iterator[Batch]:
    """Messages of all queues between two positions; without `follow`, up to the end that each queue has now, with
    it of queues that the topic gets, too.

    With `resume` a queue begins where the consumer's group has committed, if it has.
    """
    began = Position(timestamp_ms=SystemClock().now_ms() - CLOCKS_DIFFER_MS)
    queues = readable_queues(consumer, topic)
    ends = {queue: resolve(consumer, queue, end) if end else consumer.max_offset(queue) for queue in queues}
    consumer.assign(queues)
    for queue in queues:
        _seek(consumer, queue, begin, resume=resume)
    yield Batch([], {queue: consumer.position(queue) for queue in queues})
    remaining = queues
    while remaining := [queue for queue in remaining if follow or consumer.position(queue) < ends[queue]]:
        if follow:
            remaining += _joining(consumer, topic, remaining, began if _is_by_the_end(begin) else begin, resume=resume)
        consumer.assign(remaining)
        messages = _following(consumer) if follow else consumer.poll(_POLL_MS)
        positions = {queue: consumer.position(queue) for queue in remaining}
        if not follow:
            messages = [message for message in messages if message.queue_offset < ends[message.queue]]
            positions = {queue: min(position, ends[queue]) for queue, position in positions.items()}
        yield Batch(messages, positions)


def _seek(consumer: PullConsumer, queue: MessageQueue, begin: Position, *, resume: bool) -> None:
    committed = consumer.committed(queue) if resume else None
    consumer.seek(queue, resolve(consumer, queue, begin if committed is None else Position(offset=committed)))


def _is_by_the_end(begin: Position) -> bool:
    """Whether it goes by where a queue ends now: of one that comes later something has come before that."""
    return begin == LATEST or (begin.offset is not None and begin.offset < 0)


def _joining(
    consumer: PullConsumer, topic: str, known: list[MessageQueue], begin: Position, *, resume: bool
) -> list[MessageQueue]:
    """The queues that there are by now besides, each at its beginning; none where nobody says so, for now."""
    try:
        fresh = sorted(set(consumer.queues(topic)).difference(known))
        if fresh:
            consumer.assign([*known, *fresh])
        for queue in fresh:
            _seek(consumer, queue, begin, resume=resume)
    except RmqError:
        return []
    return fresh


def _following(consumer: PullConsumer) -> list[ReceivedMessage]:
    """Goes on where a broker is away for a while: the consumer says so, and tries again every second."""
    try:
        return consumer.poll(_FOLLOW_POLL_MS)
    except RmqError as error:
        if not error.retriable:
            raise
        return []


def _writer(*, as_json: bool, template: str | None, raw: bool) -> Callable[[ReceivedMessage], None]:
    if as_json and template:
        raise InvalidArgument("--json and --format exclude each other.")
    if as_json:
        return lambda message: print(json_text(as_object(message)))
    if template:
        shape = compile_format(template)
        return lambda message: _print(shape(message), end="", raw=raw)
    if raw or not sys.stdout.isatty():
        return lambda message: _write_bytes(message.body + b"\n")
    return lambda message: _print(message.body.decode("utf-8", "replace"), end="\n", raw=False)


def _print(text: str, *, end: str, raw: bool) -> None:
    sys.stdout.write((text if raw or not sys.stdout.isatty() else safe(_readable(text))) + end)


def _readable(text: str) -> str:
    """Without the bytes that are no text: a terminal may obey them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _write_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
