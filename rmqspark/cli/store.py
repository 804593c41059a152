"""`rmq store`: the files of brokers, looked at without a broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.giving_up import told_or
from rmqspark.cli.terminal.options import Json, said_path
from rmqspark.cli.terminal.output import complain, print_facts, print_json, print_table, safe
from rmqspark.display import exact_time
from rmqspark.words import counted, os_error_story

if TYPE_CHECKING:
    from rmqspark.store.inspection.findings import StoreReport

app = VerbGroup(help="Files of brokers. Example: rmq store check rmq-store")
_BROKEN, _UNREADABLE = 1, 3


@app.callback()
def store() -> None:
    """Keeps `check` a verb of its own beside those to come."""


@app.command("check")
def check(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", parser=said_path, help="A store, or a folder of stores; also one that RocketMQ wrote."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Says what is in a store, and what is broken in it.

    Changes nothing, and may be used while a broker runs.

    Exit codes: 0 sound, 1 something is broken, 3 it cannot be read.

    Examples: rmq store check rmq-store | rmq store check /data/broker-a --json
    """
    try:
        reports = [_inspect(path) for path in _stores(directory)]
    except OSError as error:
        _give_up(os_error_story(error))
    with told_or(_UNREADABLE):
        _tell(reports, as_json=as_json)
    if any(report.is_broken for report in reports):
        raise typer.Exit(_BROKEN)


def _tell(reports: list[StoreReport], *, as_json: bool) -> None:
    if as_json:
        print_json({"broken": any(report.is_broken for report in reports), "stores": list(map(_as_object, reports))})
        return
    for report in reports:
        _print(report)


def _stores(directory: Path) -> list[Path]:
    """The directory itself, or those in it that are stores."""
    from rmqspark.store.inspection.store import stores_at

    if found := stores_at(directory):
        return found
    _give_up(f"{directory} is no store, and none of the directories in it is one.")


def _inspect(path: Path) -> StoreReport:
    from rmqspark.store.inspection.store import inspect_store, is_in_use
    from rmqspark.store.posix_files import PosixFileSystem

    files = PosixFileSystem(path)
    with _progress(str(path)) as on_progress:
        return inspect_store(files, str(path), is_open=is_in_use(files), on_progress=on_progress)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; nothing in a pipe or a log."""
    if not sys.stderr.isatty():
        yield lambda done, whole: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, whole: bar.update(task, completed=done, total=max(done, whole))


def _give_up(story: str) -> NoReturn:
    complain(f"Error: {story}")
    raise typer.Exit(_UNREADABLE)


def _as_object(report: StoreReport) -> dict[str, Any]:
    """Names as in the Spark columns; times in ms since 1970, -1 where there is none."""
    findings = report.findings
    plain = {name: value for name, value in asdict(report).items() if name != "findings"}
    return {
        **_camel(plain),
        "broken": report.is_broken,
        "counts": {str(kind): count for kind, count in findings.counts.items()},
        "findings": [
            {"kind": str(kind), "path": path, "offset": offset, "detail": detail, "broken": is_broken}
            for kind, path, offset, detail, is_broken in findings.kept
        ],
    }


def _camel(value: Any) -> Any:
    """The same with keys in camelCase; times lose their unit, which is ms in all JSON of ours."""
    if isinstance(value, dict):
        return {_camel_name(name): _camel(member) for name, member in value.items()}
    return [_camel(member) for member in value] if isinstance(value, list) else value


def _camel_name(name: str) -> str:
    first, *rest = name.removesuffix("_ms").removeprefix("is_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def _print(report: StoreReport) -> None:
    state = "in use: the tail may have moved while it was read" if report.is_open else "closed in order"
    if not report.is_open and not report.was_closed:
        state = "not closed in order: the next start of a broker recovers it"
    index_entries = counted(sum(file.entries for file in report.index), "entry", "entries")
    facts = {
        "store": report.path,
        "state": state,
        "written by": report.written_by,
        "identity": f"{report.store_id}, incarnation {report.incarnation}" if report.store_id else "none (RocketMQ's)",
        "log": f"{counted(report.segments, 'file')}, bytes {report.start:,} to {report.end:,}, "
        f"{counted(report.records, 'record')}, known to be on disk up to {report.watermark:,}",
        "stored": f"{_time(report.first_timestamp_ms)} to {_time(report.last_timestamp_ms)}",
        "in no queue": f"{counted(report.unqueued, 'record')}: half messages, and those of deleted topics",
        "index": f"{counted(len(report.index), 'file')}, {index_entries}",
        "tables": ", ".join(report.tables) or "none",
    }
    if report.cut_files:
        kept = f"{counted(report.cut_files, 'file')}, {report.cut_bytes:,} bytes"
        facts["cut off"] = f"{kept} that the master did not have, kept in cut/ for a while"
    print_facts(facts)
    print()
    rows = [
        (
            queue.topic,
            queue.queue_id,
            queue.min_offset,
            queue.max_offset,
            _time(queue.first_timestamp_ms),
            _time(queue.last_timestamp_ms),
        )
        for queue in report.queues
    ]
    print_table(("topic", "queue", "min offset", "max offset", "oldest", "newest"), rows, empty="No messages.")
    print()
    _print_findings(report)


def _print_findings(report: StoreReport) -> None:
    findings = report.findings
    for kind, path, offset, detail, is_broken in findings.kept:
        place = path if offset < 0 else f"{path} at byte {offset:,}"
        print(safe(f"{'BROKEN' if is_broken else 'note'}  {kind}  {place}: {detail}"))
    left_out = sum(findings.counts.values()) - len(findings.kept)
    if left_out:
        print(f"... and {left_out:,} more.")
    print("Broken." if report.is_broken else "Sound.")
    print()


def _time(timestamp_ms: int) -> str:
    return "-" if timestamp_ms < 0 else exact_time(timestamp_ms)
