"""Our servers as processes of their own, started with the command line as a user would start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocketmq import wait_for

from rmqspark.client.pull_consumer import PullConsumer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.model import ReceivedMessage
    from rmqspark.remoting.access import Access

RMQ = [sys.executable, "-m", "rmqspark"]


@dataclass(frozen=True)
class Up:
    """A running `rmq up`: its addresses, and the directory of its broker's store."""

    namesrv: str
    broker: str
    store: Path
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Ends it as a crash would: nothing is closed, the abort file stays."""
        self.process.kill()
        self.process.wait()


@contextmanager
def up(directory: Path, *arguments: str) -> Iterator[Up]:
    """`rmq up` on free ports, with these arguments, stopped in order at the end unless it was killed."""
    endpoints = directory / "endpoints.json"
    endpoints.unlink(missing_ok=True)  # left behind by one that was killed
    ports = ["--namesrv-port", "0", "--broker-port", "0", "--no-admin"]
    with _serving(directory, "up", "--store", str(directory), *ports, *arguments) as process:
        wait_for(lambda: endpoints.exists() or process.poll() is not None, f"rmq up answers: {directory}/up.log")
        assert process.poll() is None, (directory / "up.log").read_text()
        told = json.loads(endpoints.read_text())
        yield Up(told["namesrv"], told["brokers"][0], directory / "broker-a", process)


@contextmanager
def name_server(directory: Path) -> Iterator[str]:
    """`rmq namesrv` on a free port; gives its address."""
    with _serving(directory, "namesrv", "--port", "0"):
        greeting = directory / "namesrv.log"
        wait_for(lambda: "Name server at" in greeting.read_text(), f"rmq namesrv answers: {greeting}")
        yield greeting.read_text().split("Name server at ")[1].split()[0].rstrip(".")


@contextmanager
def broker(directory: Path, namesrv: str, name: str, *words: str) -> Iterator[str]:
    """`rmq broker` on a free port, registered with a name server; gives its address. `words` are further flags."""
    where = ["--name", name, "--port", "0", "--store", str(directory / name), "--namesrv", namesrv]
    with _serving(directory, "broker", *where, *words):
        greeting, begin = directory / "broker.log", f"Broker {name} at "
        wait_for(lambda: begin in greeting.read_text(), f"rmq broker answers: {greeting}")
        yield greeting.read_text().split(begin)[1].split(",")[0]


@contextmanager
def _serving(directory: Path, verb: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{verb}.log").open("ab") as log:
        process = subprocess.Popen([*RMQ, verb, *arguments], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def rmq(namesrv: str, *arguments: str) -> str:
    """Runs a verb of the command line to its end and returns what it printed."""
    done = subprocess.run(
        [*RMQ, *arguments], env={**os.environ, "RMQ_NAMESRV": namesrv}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read(
    namesrv: str,
    topic: str,
    tags: str = "*",
    group: str | None = None,
    *,
    sql: str | None = None,
    access: Access | None = None,
) -> list[ReceivedMessage]:
    """All that is in a topic, queue by queue; where a group is named, from what it committed on, and committed."""
    with PullConsumer(namesrv, group, tags=tags, sql=sql, access=access) as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        ends = {queue: consumer.max_offset(queue) for queue in queues}
        messages: list[ReceivedMessage] = []
        while any(consumer.position(queue) < end for queue, end in ends.items()):
            messages += consumer.poll(1000)
        if group is not None:
            consumer.commit()
    return sorted(messages, key=lambda message: (message.queue, message.queue_offset))


@contextmanager
def admin(directory: Path, namesrv: str) -> Iterator[str]:
    """`rmq admin` on a free port; gives the URL of its REST."""
    log = ["--action-log", str(directory / "actions.jsonl")]
    with _serving(directory, "admin", "--port", "0", "--namesrv", namesrv, *log):
        greeting = directory / "admin.log"
        wait_for(lambda: "REST and console at" in greeting.read_text(), f"rmq admin answers: {greeting}")
        yield greeting.read_text().split("REST and console at ")[1].split()[0].rstrip(".")
