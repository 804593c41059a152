"""`rmq doctor`: what this machine lacks to run the queue and Spark, and the command that mends it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmqspark.cli.machine.admin_libraries import check_installed
from rmqspark.cli.machine.java import LEAST, REMEDY, find_java
from rmqspark.cli.machine.probe import probe
from rmqspark.cli.terminal.options import Json, Namesrv
from rmqspark.cli.terminal.output import print_json, safe
from rmqspark.errors import MissingExtra
from rmqspark.remoting.address import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_FREE_BYTES_WANTED = 4 * 1024**3
_CONNECT_S = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `status` is ok, warning (some things will not work) or error (nothing will)."""

    subject: str
    status: str
    detail: str
    remedy: str = ""


def doctor(
    namesrv: Namesrv = None,
    store: Annotated[Path, typer.Option(help="Where the store is, or will be.")] = Path("rmq-store"),
    compile_pyspark: Annotated[
        bool, typer.Option("--compile-pyspark", help="First add compiled modules to Spark's pyspark.zip, once for all.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Says what is wrong here, and how to mend it.

    It looks at Python, Java, PySpark, what REST and console need, the interpreter of Spark's workers, disk, ports,
    servers and clock. Exit code 1 if anything is an error. Example: rmq doctor --json
    """
    if compile_pyspark:
        _compile_pyspark()
    findings = list(examine(namesrv, store))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        marks = {"ok": "ok     ", "warning": "warning", "error": "ERROR  "}
        for finding in findings:
            print(safe(f"{marks[finding.status]}  {finding.subject:<15} {finding.detail}"))
            if finding.remedy:
                print(safe(f"{'':26}-> {finding.remedy}"))
    raise typer.Exit(1 if any(finding.status == "error" for finding in findings) else 0)


# The least version that works, and the first that may not: those of the extra `spark` in pyproject.toml. PySpark 4.1
# has no `to_arrow_schema(timezone=…)`, PyArrow 18 no `concat_batches`.
FOR_SPARK: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    "pyspark": ((4, 2), (4, 3)),
    "pyarrow": ((19,), None),
    "pandas": ((2, 2), (3,)),
}


def examine(namesrv: str | None, store: Path) -> Iterator[Finding]:
    """All findings, one after the other."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _java,
        *(partial(_library, name, "spark", *bounds) for name, bounds in FOR_SPARK.items()),
        _console,
        _worker_interpreter,
        _pyspark_zip,
        lambda: _disk(store),
        lambda: _servers(namesrv),
        _clock,
    ]
    for check in checks:
        yield from check()


def _python() -> Iterator[Finding]:
    running = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", "ok" if sys.version_info >= (3, 11) else "error", f"{running} ({sys.executable})")


def _java() -> Iterator[Finding]:
    java = find_java()
    if java.good:
        yield Finding("Java", "ok", java.story)
    else:
        yield Finding("Java", "warning", f"{java.story}: the queue works, Spark needs {LEAST} or newer", REMEDY)


def _library(name: str, extra: str, least: tuple[int, ...], below: tuple[int, ...] | None) -> Iterator[Finding]:
    install = f"pip install 'rmqspark[{extra}]'"
    try:
        installed = version(name)
    except PackageNotFoundError:
        yield Finding(name, "warning", "not installed: the queue works, Spark does not", install)
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[:3])
    if numbers < least or (below and numbers >= below):
        wanted = f">={'.'.join(map(str, least))}" + (f",<{'.'.join(map(str, below))}" if below else "")
        yield Finding(name, "warning", f"{installed}, but {wanted} is known to work", install)
    else:
        yield Finding(name, "ok", installed)


def _console() -> Iterator[Finding]:
    """What `rmq up` would go on without, and say it among other things."""
    try:
        check_installed()
    except MissingExtra as missing:
        story = f"{missing.message.rstrip('.')}: the queue works, without REST and console"
        yield Finding("console", "warning", story, f"pip install 'rmqspark[{missing.extra}]'")
    else:
        yield Finding("console", "ok", "REST and console can be served")


def _worker_interpreter() -> Iterator[Finding]:
    """Spark starts Python workers with PYSPARK_PYTHON, else `python3` on PATH: not with this environment's."""
    if find_spec("pyspark") is None:
        return
    chosen = _python_of_workers()
    tried = probe([chosen, "-c", "import rmqspark, pyarrow, sys; print(sys.version_info[:2])"])
    last_line = tried.said.strip().splitlines()[-1:] or ["it says nothing"]
    remedy = f"export PYSPARK_PYTHON={sys.executable}"
    if not tried.succeeded:
        story = f"Spark's workers would run {chosen}, which cannot do their work: {last_line[0]}"
        yield Finding("PYSPARK_PYTHON", "warning", story, remedy)
    elif last_line[0] != str(tuple(sys.version_info[:2])):
        yield Finding("PYSPARK_PYTHON", "warning", f"{chosen} is another Python version than this one", remedy)
    else:
        yield Finding("PYSPARK_PYTHON", "ok", chosen)


def _python_of_workers() -> str:
    return os.environ.get("PYSPARK_PYTHON") or shutil.which("python3") or "python3"


def _pyspark_zip() -> Iterator[Finding]:
    from rmqspark.cli.machine.pyspark_zip import is_compiled, pyspark_zip

    file = pyspark_zip()
    if file is None:
        return
    if _is_passed_over(file):
        yield Finding("pyspark.zip", "ok", f"{file}, passed over for the package that it lies in, which is compiled")
    elif is_compiled(file):
        yield Finding("pyspark.zip", "ok", f"{file}, with compiled modules")
    else:
        story = f"{file}, without compiled modules: Spark's Python processes start more slowly"
        yield Finding("pyspark.zip", "ok", story, "rmq doctor --compile-pyspark")


def _is_passed_over(file: Path) -> bool:
    """Whether workers take the PySpark of this home from outside of the file (`rmqspark_start`)."""
    asked = "from importlib.util import find_spec; print(find_spec('pyspark').origin)"
    path = os.pathsep.join(filter(None, (str(file.absolute()), os.environ.get("PYTHONPATH"))))  # as Spark has it
    tried = probe([_python_of_workers(), "-c", asked], PYTHONPATH=path)
    origin = Path((tried.said.strip().splitlines() or [""])[-1])
    return tried.succeeded and origin.parent.is_dir() and origin.parent.samefile(file.parents[2])


def _compile_pyspark() -> None:
    from rmqspark.cli.machine.pyspark_zip import compile_modules, pyspark_zip
    from rmqspark.errors import NotFound

    file = pyspark_zip()
    if file is None:
        raise NotFound("There is no pyspark.zip here.", hint="pip install 'rmqspark[spark]', or set SPARK_HOME.")
    print(f"{compile_modules(file)} compiled modules were added to {file}.", file=sys.stderr)


def _disk(store: Path) -> Iterator[Finding]:
    place = store.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    detail = f"{free / 1024**3:.1f} GiB free at {place}"
    if not place.is_dir():
        yield Finding("disk", "error", f"{place} is not a directory", "Choose another place with: rmq up --store DIR")
    elif not os.access(place, os.W_OK):
        yield Finding("disk", "error", f"{place} is not writable", "Choose another place with: rmq up --store DIR")
    elif free < _FREE_BYTES_WANTED:
        yield Finding("disk", "warning", detail, "Free some space, or choose another place with: rmq up --store DIR")
    else:
        yield Finding("disk", "ok", detail)


def _servers(namesrv: str | None) -> Iterator[Finding]:
    from rmqspark.client.cluster.addresses import DEFAULT_NAMESRV, resolve_namesrv
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.errors import RmqError, Unreachable

    address = resolve_namesrv(namesrv)
    try:
        with ClusterClient(address, timeout_ms=2000) as cluster:
            brokers = sorted(cluster.cluster_info().brokerAddrTable)
    except RmqError as error:
        is_answer = not isinstance(error, Unreachable)
        if address != DEFAULT_NAMESRV or _is_taken(address):
            yield Finding("name server", "error", error.message, error.hint)
        yield _ports(address, answers=is_answer)
        return
    if brokers:
        yield Finding("name server", "ok", f"{address}, brokers: {', '.join(brokers)}")
    else:
        yield Finding("name server", "warning", f"{address} knows no broker", "Start one with: rmq broker")
    yield _ports(address, answers=True)


def _is_taken(address: str) -> bool:
    """Whether somebody listens there, whoever it is."""
    try:
        socket.create_connection(parse_address(address), _CONNECT_S).close()
    except OSError:
        return False
    return True


def _ports(address: str, *, answers: bool) -> Finding:
    """Those that `rmq up` takes. Where nothing answers, something else must not sit on them."""
    for port, flag in ((9876, "--namesrv-port"), (10911, "--broker-port"), (10909, "--broker-port")):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                if answers:
                    return Finding("ports", "ok", f"{port} is taken; a second queue here needs others")
                return Finding("ports", "warning", f"{port} is taken by something else", f"rmq up {flag} 0")
    if answers:
        return Finding("ports", "ok", "free")
    return Finding("ports", "ok", f"free; nothing is running at {address}", "Start a queue with: rmq up")


def _clock() -> Iterator[Finding]:
    from rmqspark.clock import SystemClock

    wall = SystemClock().now_ms()
    newest = max((path.stat().st_mtime for path in Path(__file__).parent.glob("*.py")), default=0.0)
    if wall < newest * 1000 - 86_400_000:
        yield Finding("clock", "error", "it is earlier than this program was installed", "Set the clock (NTP).")
    else:
        from datetime import UTC, datetime

        yield Finding("clock", "ok", datetime.fromtimestamp(wall / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))
