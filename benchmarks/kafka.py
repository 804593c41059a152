"""Apache Kafka as it comes, for comparison: one node in KRaft mode, and what Spark's connector to it needs.

The jars come from Maven Central by the Ivy that PySpark carries (kafka.xml, about 60 MB, the first time). The node runs
with the settings of the distribution's config/server.properties and the JVM options of its start script; its log is in
a directory of its own, its ports are free ones.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaGateway

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "java"))

from rocketmq import fetched, free_port, java

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "4.3.1"
CONNECTOR = "4.2.0"
_COMPLAINTS = 20
_CLUSTER_ID = "Y29tcGFyaXNvbi1ydW4uMQ"  # any 16 bytes
# As kafka-server-start.sh and kafka-run-class.sh have them.
_JVM = ["-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
_JVM += ["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"]
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={directory}/log
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


@dataclass(frozen=True)
class Node:
    """A Kafka that was started: where it will listen, and what it prints."""

    address: str
    process: subprocess.Popen[bytes]
    output: Path


def connector_jars() -> str:
    """What `spark.jars` takes."""
    return ",".join(str(jar) for jar in sorted((_cache() / "connector").iterdir()))


@contextmanager
def kafka(directory: Path) -> Iterator[Node]:
    """A node over an empty directory; killed at the end, for it has nothing to save."""
    ports = {"broker": free_port(), "controller": free_port()}
    properties, output = directory / "server.properties", directory / "kafka.txt"
    properties.write_text(_PROPERTIES.format(directory=directory, **ports))
    run = [java(), *_JVM, "-cp", f"{_cache() / 'server'}/*"]
    with output.open("wb") as log:
        formatting = [*run, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties)]
        if subprocess.run(formatting, stdout=log, stderr=log, timeout=120, check=False).returncode:
            raise SystemExit(f"Kafka's storage could not be formatted:\n{output.read_text()}")
        process = subprocess.Popen([*run, "kafka.Kafka", str(properties)], stdout=log, stderr=log, cwd=directory)
    try:
        yield Node(f"127.0.0.1:{ports['broker']}", process, output)
    except BaseException:
        print(_last_complaints(output), file=sys.stderr)
        raise
    finally:
        process.kill()
        process.wait()


@contextmanager
def client_gateway() -> Iterator[Any]:
    """A JVM of its own with Kafka's client, by py4j; it ends with the context."""
    gateway = JavaGateway.launch_gateway(classpath=f"{_cache() / 'server'}/*", java_path=java(), die_on_exit=True)
    try:
        yield gateway
    finally:
        gateway.shutdown()


def _last_complaints(output: Path) -> str:
    """What the node had to say for itself, for whoever wonders why a run beside it failed."""
    lines = output.read_text(errors="replace").splitlines()
    complaints = [line for line in lines if " WARN " in line or " ERROR " in line]
    return "\n".join(["Kafka's last complaints:", *complaints[-_COMPLAINTS:], "Its last lines:", *lines[-5:]])


def _cache() -> Path:
    layout = "[conf]/[artifact]-[revision].[ext]"
    return fetched(Path(__file__).with_name("kafka.xml"), f"kafka-{VERSION}", ("connector", "server"), layout)
