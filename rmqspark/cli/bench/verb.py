"""`rmq bench`: what to measure, where, and how it is told."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.servers.open_files import raise_limit
from rmqspark.cli.terminal.options import Json, OwnNamesrv
from rmqspark.cli.terminal.output import print_json, print_table, safe
from rmqspark.errors import InvalidArgument, Unreachable
from rmqspark.remoting.access import OPEN
from rmqspark.words import counted

if TYPE_CHECKING:
    from rmqspark.cli.bench.figures import StageFigures
    from rmqspark.cli.bench.stages import Bench, Plan
    from rmqspark.model import MessageQueue
    from rmqspark.remoting.access import Access

_STAGES = ("producer", "consumer", "end-to-end")
_SMALLEST_BODY = 8  # holds the time a message was sent
_MOST_BODY = 4 << 20
_BACKLOG, _BACKLOG_BYTES = 1_000_000, 1 << 30
_REACHED = 0.9  # of a rate; what is under way at the end was not counted
_STEADY_S = 0.5  # a shorter stage says little about the next


def bench(
    stage: Annotated[
        list[str] | None, typer.Option(help="producer, consumer or end-to-end; may be given again. Default: all.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each stage takes.")] = 5.0,
    count: Annotated[int | None, typer.Option(min=1, help="Messages of each stage, instead of --seconds.")] = None,
    size: Annotated[int, typer.Option(min=_SMALLEST_BODY, max=_MOST_BODY, help="Bytes of a body.")] = 128,
    connections: Annotated[int, typer.Option(min=1, max=4096, help="Connections that send.")] = 64,
    depth: Annotated[int, typer.Option(min=1, max=1024, help="Sends under way on each connection.")] = 1,
    batch: Annotated[int, typer.Option(min=1, max=4096, help="Messages in each send.")] = 1,
    backlog: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Messages that are there to be read. Default: as many as --count, else a million, or 1 GiB of bodies.",
        ),
    ] = None,
    rate: Annotated[int, typer.Option(min=1, max=100_000, help="Messages a second from end to end.")] = 500,
    topic: Annotated[
        str | None, typer.Option(help="A topic that exists and stays; the default is one made for it and deleted.")
    ] = None,
    queues: Annotated[int, typer.Option(min=1, max=1024, help="Queues of the topic on each broker.")] = 8,
    own: Annotated[bool, typer.Option("--own", help="Servers of its own, also where others run.")] = False,
    brokers: Annotated[int, typer.Option(min=1, max=26, help="Brokers of its own servers.")] = 1,
    flush_disk_type: Annotated[str | None, typer.Option(help="ASYNC_FLUSH or SYNC_FLUSH, for its own servers.")] = None,
    namesrv: OwnNamesrv = None,
    as_json: Json = False,
) -> None:
    """Measures sends, reads, and the way from end to end.

    Against the servers that run, or, where none do, against its own: started for it on free ports, their files in a
    temporary directory. Ctrl-C gives the figures so far. The load comes from one process on this machine: its time on
    a processor for each message is told beside the server's. It signs and encrypts as every verb does, which costs that
    process much of its time; its own servers it asks without.

    Examples: rmq bench | rmq bench --connections 64 --depth 4 --stage producer | rmq bench --own --batch 32 --json
    """
    from rmqspark.cli.bench.stages import Plan
    from rmqspark.client.cluster.access import access_of_environment

    wanted = _stages(stage or [])
    raise_limit()  # each connection is an open file
    plan = Plan(seconds, count, size, connections, depth, batch, rate)
    with _stop_flag() as stopped, ExitStack() as servers:
        where = None if own else _running(namesrv)
        is_own = where is None
        access = OPEN if is_own else access_of_environment()
        if where is None:
            words = ("--brokers", str(brokers), *(("--flush-disk-type", flush_disk_type) if flush_disk_type else ()))
            where = _start_own(servers, words)
        elif brokers > 1 or flush_disk_type:
            raise InvalidArgument("--brokers and --flush-disk-type are for servers of its own.", hint="Say --own.")
        with _bench(where, access, topic, queues, plan, stopped) as measuring:
            figures = _measure(measuring, wanted, backlog or count or _backlog(size), stopped, quiet=as_json)
            told = {**_surroundings(where, measuring, plan, is_own=is_own), "stages": [f.as_object() for f in figures]}
            print_json(told) if as_json else _print(figures)
    if stopped:
        raise typer.Exit(130)


def _backlog(body_bytes: int) -> int:
    """So many messages that reading them takes a while, and no disk is filled by them."""
    return min(_BACKLOG, _BACKLOG_BYTES // body_bytes)


def _stages(named: list[str]) -> list[str]:
    for name in named:
        if name not in _STAGES:
            raise InvalidArgument(f"--stage {name!r} is none of {', '.join(_STAGES)}.")
    return [name for name in _STAGES if not named or name in named]


@contextmanager
def _stop_flag() -> Iterator[list[int]]:
    """A list that is empty until Ctrl-C; the second one interrupts in earnest."""
    stopped: list[int] = []

    def stop(number: int, frame: object) -> None:
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def _running(namesrv: str | None) -> str | None:
    """The name server of the servers that run. None if nobody said where and there is none at the usual place."""
    from rmqspark.client.cluster.addresses import VARIABLES, resolve_namesrv
    from rmqspark.client.cluster.cluster_client import ClusterClient

    address = resolve_namesrv(namesrv)
    try:
        with ClusterClient(address) as client:
            client.cluster_info()
    except Unreachable:
        if namesrv is not None or any(os.environ.get(name) for name in VARIABLES):
            raise
        return None
    return address


def _start_own(servers: ExitStack, words: tuple[str, ...]) -> str:
    from rmqspark.cli.up.own_queue import own_queue

    directory = servers.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-", ignore_cleanup_errors=True))
    return servers.enter_context(own_queue(Path(directory) / "store", *words))


@contextmanager
def _bench(
    namesrv: str, access: Access, topic: str | None, queues: int, plan: Plan, stopped: list[int]
) -> Iterator[Bench]:
    """The bench over the topic, which is deleted afterwards if it was made for this."""
    from rmqspark.cli.bench.stages import Bench
    from rmqspark.client.admin import AdminClient
    from rmqspark.clock import SystemClock
    from rmqspark.entropy import SystemEntropy

    name = topic or f"rmq-bench-{SystemEntropy().token(4).hex()}"
    with AdminClient(namesrv, access=access) as admin:
        if topic is None:
            admin.create_topic(name, queues)
        try:
            addresses = {broker.name: broker.addresses[min(broker.addresses)] for broker in admin.brokers()}
            queues_of = admin.queues(name), _writable(namesrv, access, name)
            yield Bench(namesrv, addresses, *queues_of, plan, SystemClock(), lambda: bool(stopped), access)
        finally:
            if topic is None:
                admin.delete_topic(name)


def _writable(namesrv: str, access: Access, topic: str) -> list[MessageQueue]:
    from rmqspark.client.cluster.cluster_client import ClusterClient

    with ClusterClient(namesrv, access=access) as cluster:
        return cluster.publish_queues(topic)


def _measure(
    measuring: Bench, stages: list[str], backlog: int, stopped: list[int], *, quiet: bool
) -> list[StageFigures]:
    """Stage after stage, until Ctrl-C. Reading needs something to read: what is missing of it is sent before."""
    runs = {"producer": measuring.produce, "consumer": measuring.consume, "end-to-end": measuring.end_to_end}
    figures: list[StageFigures] = []
    for stage in stages:
        if stage == "consumer" and not stopped:
            _say("Sending what is to be read ...", quiet=quiet)
            measuring.fill(backlog)
        if stopped:
            break
        _say(f"Measuring: {stage} ...", quiet=quiet)
        figures.append(runs[stage]())
    return figures


def _say(text: str, *, quiet: bool) -> None:
    if not quiet and sys.stderr.isatty():
        print(text, file=sys.stderr)


def _print(figures: list[StageFigures]) -> None:
    """A stage in each column, so that it fits a terminal."""
    names = (
        "messages",
        "a second",
        "MB/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "longest us",
        "server CPU us",
        "own CPU us",
    )
    cells = zip(*map(_cells, figures), strict=True)
    rows = [(name, *row) for name, row in zip(names, cells, strict=False)]
    print_table(("", *(figure.stage for figure in figures)), rows, empty="Nothing was measured.")
    for figure in figures:
        _print_notes(figure)
    print(
        "Times are of a send, of a poll that gave messages, and of a message from when it was due to be sent to its "
        "poll; CPU is per message."
    )


def _print_notes(figure: StageFigures) -> None:
    """What the figures alone do not tell."""
    if figure.errors:
        print(safe(f"Refused: {counted(figure.errors, 'send')}, one with: {figure.refusal}"))
    if figure.stage == "consumer" and figure.seconds < _STEADY_S:
        print(f"All was read after {figure.seconds:.2f} s: a larger --backlog tells more about a steady rate.")
    rate = figure.settings.get("rate", 0)
    if figure.seconds >= _STEADY_S and figure.rate < _REACHED * rate:
        print(f"--rate {rate} is more than one sender comes to, which waits for each send: times include its delay.")


def _cells(figure: StageFigures) -> tuple[str, ...]:
    return (
        f"{figure.messages:,}",
        f"{figure.rate:,.0f}",
        f"{figure.rate * figure.body_bytes / 1e6:.1f}",
        *_latency_cells(figure),
        _microseconds(figure.server_cpu_us),
        _microseconds(figure.generator_cpu_us),
    )


def _latency_cells(figure: StageFigures) -> tuple[str, ...]:
    if figure.latencies is None:
        return ("-",) * 4
    percentiles = figure.latencies.percentiles
    times = (percentiles["p50"], percentiles["p99"], percentiles["p99.9"], figure.latencies.longest)
    return tuple(f"{time:,.0f}" for time in times)


def _microseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _surroundings(namesrv: str, measuring: Bench, plan: Plan, *, is_own: bool) -> dict[str, Any]:
    return {
        "namesrv": namesrv,
        "own": is_own,
        "serverPids": measuring.server_pids,
        "bodyBytes": plan.body_bytes,
        "cores": os.cpu_count(),
    }
