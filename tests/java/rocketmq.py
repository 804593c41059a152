"""Apache RocketMQ's own programs, run as they are: fetched once by the Ivy that PySpark carries.

Each runs over a home directory of its own, so that it writes nothing elsewhere. They are started for tests, not for
load: one garbage collector thread, one compiler, no TLS unless a test says so, warnings alone in the log.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.remoting.access import OPEN, Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSION = "5.5.0"
PACKAGE = "org.apache.rocketmq"
_QUICK = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dtls.server.mode=disabled"]
OPENED = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
]
# The name RocketMQ's logback looks for first on the class path, where the home directory stands first.
_LOGGING = "rmq.logback-test.xml"
_WARNINGS_TO_FILE = f"""<configuration>
  <appender name="file" class="{PACKAGE}.logging.ch.qos.logback.core.FileAppender">
    <file>{{home}}/rocketmq.log</file>
    <encoder><pattern>%d %-5level %logger{{{{0}}}} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
"""


def java() -> str:
    """The Java to run, as Spark would choose it."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"


def pyspark_jar(name: str) -> Path:
    """One of the jars that PySpark brings, by the first part of its name."""
    import pyspark

    return next(Path(pyspark.__file__).parent.glob(f"jars/{name}-*.jar"))


def fetch_jars() -> Path:
    """The directory with RocketMQ's jars; downloads about 100 MB the first time."""
    return fetched(Path(__file__).with_name("ivy.xml"), f"rocketmq-{VERSION}") / "jars"


def fetched(
    description: Path,
    name: str,
    configurations: Sequence[str] = ("default",),
    layout: str = "jars/[artifact]-[revision](-[classifier]).[ext]",
) -> Path:
    """The cache directory with what an Ivy file describes; downloads it the first time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rmqspark" / name
    ivy, done = cache / "ivy", cache / ".complete"
    if not done.exists():
        command = [java(), "-jar", str(pyspark_jar("ivy")), "-ivy", str(description)]
        command += ["-confs", *configurations, "-warn", "-cache", str(ivy), "-retrieve", f"{cache}/{layout}"]
        subprocess.run(command, check=True, timeout=900, stdout=subprocess.DEVNULL)
        shutil.rmtree(ivy)  # the same jars once more
        done.touch()
    return cache


@dataclass(frozen=True)
class Running:
    """A program of RocketMQ in the background. `address` is where a server listens."""

    process: subprocess.Popen[str]
    output: Path
    address: str = ""

    def printed(self) -> str:
        return self.output.read_text()

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class RocketMQ:
    """Runs main classes of RocketMQ's jars over a home directory.

    `properties` are system properties of theirs, and `access` is how ours then speak to its servers.
    """

    jars: Path
    home: Path
    properties: Sequence[str] = ()
    access: Access = OPEN

    @property
    def class_path(self) -> str:
        logging = self.home / _LOGGING
        if not logging.exists():
            logging.write_text(_WARNINGS_TO_FILE.format(home=self.home))
        return f"{self.home}:{self.jars}/*"

    def options(self, heap: str) -> list[str]:
        """What every JVM is started with."""
        return [
            f"-Xmx{heap}",
            f"-Duser.home={self.home}",
            "-Drocketmq.client.logUseSlf4j=true",
            *_QUICK,
            *OPENED,
            *self.properties,
        ]

    def command(self, main: str, *arguments: str, heap: str) -> list[str]:
        return [java(), *self.options(heap), "-cp", self.class_path, f"{PACKAGE}.{main}", *arguments]

    def environment(self, namesrv: str) -> dict[str, str]:
        return {**os.environ, "ROCKETMQ_HOME": str(self.home), "NAMESRV_ADDR": namesrv}

    def run(self, main: str, *arguments: str, namesrv: str = "", timeout_s: float = 60) -> str:
        """Runs a main class to its end and returns what it printed."""
        done = subprocess.run(
            self.command(main, *arguments, heap="256m"),
            env=self.environment(namesrv),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    @contextmanager
    def running(self, main: str, *arguments: str, namesrv: str = "", heap: str = "256m") -> Iterator[Running]:
        """A main class in the background, ended in order afterwards."""
        output = self.home / f"{main}-{time.monotonic_ns()}.log"
        with output.open("w") as log:
            process = subprocess.Popen(
                self.command(main, *arguments, heap=heap),
                env=self.environment(namesrv),
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        try:
            yield Running(process, output)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @contextmanager
    def name_server(self) -> Iterator[str]:
        """A stock name server on a free port; gives its address."""
        port = free_port()
        settings = self.home / f"namesrv-{port}.conf"
        settings.write_text(f"listenPort={port}\n")
        with self.running("namesrv.NamesrvStartup", "-c", str(settings)) as server:
            wait_for(lambda: "boot success" in server.printed(), f"the stock name server starts: {server.output}")
            yield f"127.0.0.1:{port}"
            server.kill()  # it has nothing to save

    @contextmanager
    def broker(self, store: Path, namesrv: str, **settings: object) -> Iterator[Running]:
        """A stock broker over a store, registered; `settings` are its own, under its own names."""
        port = free_port()
        conf = self.home / f"broker-{port}.conf"
        conf.write_text(
            f"brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\nbrokerIP1=127.0.0.1\nlistenPort={port}\n"
            f"haListenPort={port + 1}\nnamesrvAddr={namesrv}\nstorePathRootDir={store}\n"
            f"storePathCommitLog={store}/commitlog\ndiskMaxUsedSpaceRatio=95\nenablePropertyFilter=true\n"
            "maxTransferBytesOnMessageInMemory=1048576\n"
            + "".join(f"{name}={value}\n" for name, value in settings.items())
        )
        with self.running("broker.BrokerStartup", "-c", str(conf), heap="1g") as server:
            address = f"127.0.0.1:{port}"
            with ClusterClient(namesrv, access=self.access) as client:
                wait_for(lambda: address in _masters(client), f"the stock broker registers: {server.output}")
            yield replace(server, address=address)


def _masters(client: ClusterClient) -> list[str]:
    return [
        address for broker in client.cluster_info().brokerAddrTable.values() for address in broker.brokerAddrs.values()
    ]


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    """Polls a condition until it holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s in vain until {what}"
        time.sleep(0.1)


def free_port() -> int:
    """A port whose neighbours are free too: a broker takes port - 2 and port + 1 as well."""
    while True:
        with ExitStack() as probes:
            first = probes.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                for neighbour in (port - 2, port + 1):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", neighbour))
            except OSError:
                continue
            return port
