"""Option `store` on what Apache RocketMQ has written: its files alone, while its broker runs and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ours import name_server, read
from pyspark.sql.types import StructField, StructType
from rocketmq import wait_for

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message
from rmqspark.source.options import SourceOptions
from rmqspark.source.store_reader import RmqStoreReader
from rmqspark.source.values.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocketmq import RocketMQ

pytestmark = [pytest.mark.java, pytest.mark.integration]
TOPIC = "kept"
SCHEMA = StructType(
    [StructField(name, COLUMNS[name]) for name in ("body", "tags", "keys", "queueOffset", "brokerName")]
)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with name_server(tmp_path_factory.mktemp("names")) as address:
        yield address


def rows(store: Path, **given: str) -> list[tuple[object, ...]]:
    reader = RmqStoreReader(SourceOptions.parse({"store": str(store), **given}, streaming=False), SCHEMA)
    batches = (batch for partition in reader.partitions() for batch in reader.read(partition))
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_store_of_rocketmq_is_read_without_it(end: str, names: str, rocketmq: RocketMQ, tmp_path: Path) -> None:
    """Each message once, with its columns; a killed broker's too, and only those of the ordinary topics."""
    store = tmp_path / "stock"
    expected = sorted((b"%d" % n, f"t{n % 3}", f"k{n}", n, "stock") for n in range(200))
    with rocketmq.broker(store, names) as stock:
        with AdminClient(names) as admin:
            admin.create_topic(TOPIC, queues=1)
        with Producer(names) as producer:
            for number in range(200):
                producer.send(Message(TOPIC, b"%d" % number, tags=f"t{number % 3}", keys=[f"k{number}"]))
        wait_for(lambda: len(read(names, TOPIC)) == 200, "the consume queue is written")
        assert rows(store) == expected  # while it runs
        if end == "killed":
            stock.kill()
    assert rows(store, subscribe=TOPIC) == expected
    assert rows(store, subscribe=TOPIC, tags="t1") == [row for row in expected if row[1] == "t1"]
