"""`rmq store check` on what Apache RocketMQ has written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ours import name_server, read
from rocketmq import wait_for

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message
from rmqspark.store.inspection.findings import Kind
from rmqspark.store.inspection.store import inspect_store
from rmqspark.store.posix_files import PosixFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocketmq import RocketMQ

    from rmqspark.store.inspection.findings import StoreReport

pytestmark = [pytest.mark.java, pytest.mark.integration]
TOPIC = "checked"
QUEUE = "consumequeue/checked/0/00000000000000000000"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with name_server(tmp_path_factory.mktemp("names")) as address:
        yield address


def inspect(store: Path, *, is_open: bool = False) -> StoreReport:
    return inspect_store(PosixFileSystem(store), str(store), is_open=is_open, on_progress=lambda done, whole: None)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_store_of_rocketmq_is_read_and_found_sound(end: str, names: str, rocketmq: RocketMQ, tmp_path: Path) -> None:
    """Log, queues, index and tables are understood while the broker runs and after; a changed byte is found."""
    store = tmp_path / "stock"
    with rocketmq.broker(store, names) as stock:
        with AdminClient(names) as admin:
            admin.create_topic(TOPIC, queues=1)
        with Producer(names) as producer:
            for number in range(50):
                producer.send(Message(TOPIC, b"%d" % number, tags=f"t{number % 3}", keys=[f"k{number}"]))
            producer.send_batch([Message(TOPIC, b"batch", keys=["b"]) for _ in range(50)])
        wait_for(lambda: len(read(names, TOPIC)) == 100, "the consume queue is written")
        files = PosixFileSystem(store)
        assert files.is_locked("lock")
        running = inspect(store, is_open=True)
        assert not running.is_broken, running.findings.kept
        if end == "killed":
            stock.kill()
    report = inspect(store)
    assert not report.is_broken, report.findings.kept
    assert (report.written_by, report.was_closed) == ("rocketmq", end == "stopped")
    (queue,) = [queue for queue in report.queues if queue.topic == TOPIC]
    assert (queue.min_offset, queue.max_offset, queue.records) == (0, 100, 100)
    assert sum(file.entries for file in report.index) >= 200
    assert "topics.json" in report.tables
    if end == "stopped":
        with (store / QUEUE).open("r+b") as file:
            file.seek(20 * 7 + 7)
            file.write(b"\xff")
        broken = inspect(store)
        assert [finding.kind for finding in broken.findings.kept if finding.is_broken] == [Kind.WRONG_ENTRIES]
