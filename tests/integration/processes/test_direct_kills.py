"""Direct reads of the files of a broker that is killed meanwhile."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from rmqspark.client.cluster.shared import shared_client
from rmqspark.client.producer import Producer
from rmqspark.clock import SystemClock
from rmqspark.errors import Unreachable
from rmqspark.model import Message, MessageQueue
from rmqspark.source.options import RetryPolicy, SourceOptions, Subscription
from rmqspark.source.partitions import Holder
from rmqspark.source.planning import direct_plan
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.tasks import direct

from .load import ONE_TRY
from .servers import UpProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqspark.source.partitions import DirectPartition

pytestmark = [pytest.mark.integration, pytest.mark.faults]
SCHEMA = StructType([StructField("queueId", IntegerType()), StructField("body", BinaryType())])
QUEUES = 2


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    with UpProcess(tmp_path) as process:
        process.start()
        process.create_topic("orders", QUEUES)
        yield process


def options(up: UpProcess) -> SourceOptions:
    return SourceOptions(Subscription(("orders",)), namesrv=up.namesrv, read_mode="direct", retry=RetryPolicy(0, 0))


def send(up: UpProcess, first: int, count: int) -> None:
    """Numbers, in batches to the two queues by turns; acknowledged when this returns."""
    with Producer(up.namesrv, config=ONE_TRY) as producer:  # nothing twice
        for at in range(first, first + count, 50):
            bodies = [Message("orders", b"%d" % number) for number in range(at, min(at + 50, first + count))]
            producer.send_batch(bodies, queue=at // 50 % QUEUES)


def plan(up: UpProcess) -> DirectPartition:
    """One task for all there is."""
    client = shared_client(up.namesrv)
    queues = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(QUEUES)]
    broker = client.broker("broker-a")
    ranges = [QueueRange(queue, 0, broker.max_offset("orders", queue.queue_id)) for queue in queues]
    (partition,), others = direct_plan.plan_direct(client, ranges, options(up), Holder(), options(up).for_tasks)
    assert not others
    return partition  # type: ignore[return-value]


def bodies(up: UpProcess, partition: DirectPartition) -> Iterator[list[bytes]]:
    for batch in direct.read_direct(partition, SCHEMA):
        yield batch.column("body").to_pylist()


def numbers(batches: list[list[bytes]]) -> list[int]:
    return sorted(int(body) for batch in batches for body in batch)


def wait_until_written(up: UpProcess, partition: DirectPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the files hold all of it: the broker writes queue entries up to a second late."""
    asked: list[Any] = []
    real = direct.fetch
    monkeypatch.setattr(direct, "fetch", lambda *call: asked.append(call) or real(*call))
    clock = SystemClock()
    while True:
        asked.clear()
        for _ in bodies(up, partition):
            pass
        if not asked:
            return
        clock.sleep_ms(20)


def test_a_kill_in_the_middle_of_a_read(up: UpProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the files is read to the end though the broker died at the first batch, and it is all that was
    acknowledged; what was not written yet is an error until the broker is back, and then it is there."""
    monkeypatch.setattr(direct, "rows_of_a_batch", lambda _: 500)
    send(up, 0, 4000)
    partition = plan(up)
    wait_until_written(up, partition, monkeypatch)
    send(up, 4000, 30)
    later = plan(up)
    reading = bodies(up, partition)
    batches = [next(reading)]
    up.kill()
    batches += reading
    assert len(batches) >= 8
    assert numbers(batches) == list(range(4000))
    read_before: list[list[bytes]] = []
    with suppress(Unreachable):
        for batch in bodies(up, later):
            read_before.append(batch)
    assert set(numbers(read_before)) <= set(range(4030))
    up.start()
    assert numbers(list(bodies(up, plan(up)))) == list(range(4030))
