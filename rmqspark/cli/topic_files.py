"""`rmq topic export`, `import`, `replay`: a topic into a file, and back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmqspark.cli.messages.files import Recorded, read_file
from rmqspark.cli.messages.sending import Addressed, send_all
from rmqspark.cli.messages.writers import writing
from rmqspark.cli.terminal.options import IgnoreUnknown, Json, Namesrv, Yes, confirm, said_path
from rmqspark.cli.terminal.output import print_json
from rmqspark.cli.terminal.progress import counting
from rmqspark.client.browsing.in_time_order import in_time_order
from rmqspark.client.browsing.spans import spans
from rmqspark.client.moments import begin_and_end, time_span
from rmqspark.client.sending.outgoing import CopiedMessage
from rmqspark.clock import SystemClock
from rmqspark.display import utc
from rmqspark.errors import InvalidArgument
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.clock import Clock

RecordedFile = Annotated[
    Path, typer.Argument(parser=said_path, help="F.jsonl, F.csv or F.parquet, as rmq topic export writes it.")
]
Target = Annotated[str | None, typer.Option("--topic", help="Send to this topic instead of the one that a row names.")]
KeepQueues = Annotated[
    bool,
    typer.Option(
        "--keep-queues",
        help="Each to the queue id it had, without its sharding key; else by that key, or all queues in turn.",
    ),
]

After = Annotated[str | None, typer.Option("--from", help="Only what was stored then or later: a time (UTC), or -10m.")]
Before = Annotated[str | None, typer.Option("--to", help="Only what was stored before then.")]


def export(
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="F.jsonl or F.parquet.")],
    from_: Annotated[str | None, typer.Option("--from", help="Where to begin: a time (UTC), or -10m.")] = None,
    to: Annotated[str | None, typer.Option(help="Where to stop: the same. Default: the end.")] = None,
    tags: Annotated[str, typer.Option(help="Only these tags: 'paid || shipped'.")] = "*",
    yes: Yes = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Writes a topic's messages to a file, as they were stored.

    Examples: rmq topic export orders -o orders.parquet | rmq topic export orders -o last.jsonl --from -1h

    The columns are those of the Spark source, so Spark reads the file too; rmq topic import and rmq topic replay send
    it again. The file is there once all of it is written; Ctrl-C leaves none.
    """
    from rmqspark.client.pull_consumer import PullConsumer

    begin, end = begin_and_end(from_, to, SystemClock().now_ms())
    written = writing(output)
    if output.exists():
        confirm(f"Replace {output}?", yes=yes)
    count = 0
    with (
        PullConsumer(namesrv, tags=tags) as consumer,
        written as writer,
        counting(in_time_order(consumer, spans(consumer, topic, begin, end)), "exported") as messages,
    ):
        for message in messages:
            writer.write(message)
            count += 1
    if as_json:
        print_json({"topic": topic, "file": str(output), "messages": count})
    else:
        print(f"{counted(count, 'message')} of {topic} written to {output}")


def import_(
    file: RecordedFile,
    topic: Target = None,
    from_: After = None,
    to: Before = None,
    keep_queues: KeepQueues = False,
    ignore_unknown: IgnoreUnknown = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Sends the messages of a file, as fast as brokers take them.

    Examples: rmq topic import orders.parquet | rmq topic import orders.jsonl --topic orders-copy

    Body, tags, keys, properties, flag and sharding key are as they were; ids, offsets and times are new.
    """
    records = between(read_file(file, topic, ignores_unknown=ignore_unknown), from_, to)
    _send(records, file, keep_queues=keep_queues, namesrv=namesrv, as_json=as_json)


def replay(
    file: RecordedFile,
    speed: Annotated[float, typer.Option(help="How many times as fast as it was.")] = 1.0,
    topic: Target = None,
    from_: After = None,
    to: Before = None,
    keep_queues: KeepQueues = False,
    ignore_unknown: IgnoreUnknown = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Sends a file's messages at the pace they were stored at.

    Examples: rmq topic replay orders.parquet --speed 10 --topic orders-test | rmq topic replay orders.parquet
    --from 2026-01-31T12:00 --to 2026-01-31T13:00
    """
    if not 0 < speed < float("inf"):
        raise InvalidArgument(f"--speed is above 0, not {speed}.", hint="As fast as possible is: rmq topic import.")
    records = between(read_file(file, topic, ignores_unknown=ignore_unknown), from_, to)
    paced = at_pace(records, speed, SystemClock())
    _send(paced, file, keep_queues=keep_queues, namesrv=namesrv, as_json=as_json)


def between(records: Iterable[Recorded], from_: str | None, to: str | None) -> Iterator[Recorded]:
    """Those that were stored in [from_, to); all where neither is given. InvalidArgument where a row has no time."""
    if from_ is None and to is None:
        yield from records
        return
    span = time_span(from_, to, SystemClock().now_ms())
    for record in records:
        if _stored_ms(record, "Leave --from and --to out.") in span:
            yield record


def at_pace(records: Iterable[Recorded], speed: float, clock: Clock) -> Iterator[Recorded]:
    """Each message when its time has come; one whose time has passed, at once. InvalidArgument where it has none."""
    began_ms = clock.monotonic_ms()
    first_ms: int | None = None
    for record in records:
        stored_ms = _stored_ms(record, "Send it with rmq topic import.")
        first_ms = stored_ms if first_ms is None else first_ms
        due_ms = began_ms + round((stored_ms - first_ms) / speed)
        if (ahead_ms := due_ms - clock.monotonic_ms()) > 0:
            clock.sleep_ms(ahead_ms)
        yield record


def _stored_ms(record: Recorded, hint: str) -> int:
    stored_ms = record.store_timestamp_ms
    if stored_ms is None:
        raise InvalidArgument(f"{record.place} has no storeTimestamp.", hint=hint)
    if utc(stored_ms) is None:
        raise InvalidArgument(f"{record.place}: storeTimestamp {stored_ms} is no time in milliseconds.", hint=hint)
    return stored_ms


def _send(records: Iterable[Recorded], file: Path, *, keep_queues: bool, namesrv: str | None, as_json: bool) -> None:
    """Sends, and says how many are stored: also where one failed, or after Ctrl-C."""
    stored: Counter[str] = Counter()
    try:
        for receipt in send_all((_addressed(record, keep_queues) for record in records), namesrv):
            stored[receipt.queue.topic] += 1
    finally:
        if as_json:
            print_json({"file": str(file), "messages": stored.total(), "topics": dict(stored)})
        else:
            for topic, count in stored.items():
                print(f"{counted(count, 'message')} of {file} sent to {topic}")
            if not stored:
                print(f"No message of {file} was sent.")


def _addressed(record: Recorded, keep_queues: bool) -> Addressed:
    """To its queue id, else to the queue of its sharding key, whose messages so keep their order."""
    message = CopiedMessage.of(record.message)
    if keep_queues and record.queue_id is not None:
        return Addressed(message, queue=record.queue_id, place=record.place)
    return Addressed(message, shard=record.shard, place=record.place)
