"""Apache RocketMQ's own programs, run as they are: fetched once by the Ivy that PySpark carries."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "5.5.0"
_OPENED = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
]


def java() -> str:
    """The Java to run, as Spark would choose it."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"


def fetch_jars() -> Path:
    """The directory with RocketMQ's jars; downloads about 100 MB the first time."""
    import pyspark

    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rmqspark" / f"rocketmq-{VERSION}"
    done = cache / ".complete"
    if not done.exists():
        description = Path(__file__).with_name("ivy.xml")
        command = [java(), "-jar", str(ivy), "-ivy", str(description), "-confs", "default", "-warn"]
        command += [
            "-cache",
            str(cache / "ivy"),
            "-retrieve",
            f"{cache}/jars/[artifact]-[revision](-[classifier]).[ext]",
        ]
        subprocess.run(command, check=True, timeout=900, stdout=subprocess.DEVNULL)
        done.touch()
    return cache / "jars"


@dataclass(frozen=True)
class RocketMQ:
    """Runs main classes of RocketMQ's jars with a home of its own, so that it writes nothing elsewhere."""

    jars: Path
    home: Path

    def command(self, main: str, *arguments: str, heap: str = "256m") -> list[str]:
        options = [f"-Xmx{heap}", f"-Duser.home={self.home}", "-Drocketmq.client.logUseSlf4j=true", *_OPENED]
        return [java(), *options, "-cp", f"{self.jars}/*", main, *arguments]

    def run(self, main: str, *arguments: str, timeout_s: float = 60) -> str:
        """Runs to the end and returns what it printed, logback's own lines left out."""
        done = subprocess.run(
            self.command(main, *arguments),
            env={**os.environ, "ROCKETMQ_HOME": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return "\n".join(line for line in done.stdout.splitlines() if "|-" not in line)

    def mqadmin(self, verb: str, *arguments: str) -> str:
        return self.run("org.apache.rocketmq.tools.command.MQAdminStartup", verb, *arguments)

    @contextmanager
    def running(self, main: str, *arguments: str, heap: str = "512m") -> Iterator[Path]:
        """A program in the background; gives the file that its output goes to and ends it afterwards."""
        output = self.home / f"{main.rsplit('.', 1)[-1]}.log"
        with output.open("w") as log:
            process = subprocess.Popen(
                self.command(main, *arguments, heap=heap),
                env={**os.environ, "ROCKETMQ_HOME": str(self.home)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield output
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def stock_cluster(rocketmq: RocketMQ, store: Path) -> Iterator[str]:
    """A stock name server and broker over a store directory, on free ports; gives the name server's address."""
    names, broker = free_port(), free_port()
    (rocketmq.home / "namesrv.conf").write_text(f"listenPort={names}\n")
    (rocketmq.home / "broker.conf").write_text(
        f"brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\nbrokerIP1=127.0.0.1\nlistenPort={broker}\n"
        f"namesrvAddr=127.0.0.1:{names}\nstorePathRootDir={store}\nstorePathCommitLog={store}/commitlog\n"
        "diskMaxUsedSpaceRatio=95\nenablePropertyFilter=true\nmaxTransferBytesOnMessageInMemory=1048576\n"
    )
    packages = "org.apache.rocketmq."
    with (
        rocketmq.running(packages + "namesrv.NamesrvStartup", "-c", str(rocketmq.home / "namesrv.conf")),
        rocketmq.running(packages + "broker.BrokerStartup", "-c", str(rocketmq.home / "broker.conf"), heap="1g") as log,
    ):
        wait_for(lambda: "boot success" in log.read_text(), 60, f"the stock broker does not start: {log}")
        yield f"127.0.0.1:{names}"


def wait_for(condition: object, timeout_s: float, story: str) -> None:
    """Polls a condition until it holds."""
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, story
        time.sleep(0.1)


def free_port() -> int:
    """A port whose neighbours below are free too: RocketMQ's broker takes port - 2 and port + 1 as well."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
