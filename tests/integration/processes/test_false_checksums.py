"""A sender of bulks whose checksum of one row is false, and a broker that is killed: nobody else's messages go."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.model import Message, MessageQueue
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.topic_rows import TopicRun, encode_runs
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.bulk import TopicsSendRequestHeader
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.unique_keys import IdRange

from .servers import BROKER, UpProcess, broker_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.faults]

ROWS = [b"row %d" % number for number in range(8)]
FALSE_ROW = 3


def send_falsely(namesrv: str) -> None:
    column = Column(np.frombuffer(b"".join(ROWS), np.uint8), np.cumsum([0, *map(len, ROWS)]))
    crcs = body_crcs(column.values, column.spans())
    crcs[FALSE_ROW] ^= 1
    rows = BulkRows(5, bytes(8), 0, IdRange("A" * 20, 9), crcs, column)
    body = encode_runs([TopicRun("t", 0, len(ROWS))]) + b"".join(part.tobytes() for part in rows.encode())
    header = TopicsSendRequestHeader(queues=1, count=len(ROWS), bodyCrc32=crc32(body))
    with ClusterClient(namesrv) as cluster:
        assert broker_of(cluster).call(RequestCode.RMQ_TOPICS_SEND, header, body).code == 0


def all_bodies(namesrv: str, count: int) -> list[bytes]:
    queue, found = MessageQueue("t", BROKER, 0), list[bytes]()
    with PullConsumer(namesrv) as consumer:
        consumer.assign([queue])
        consumer.seek_to_beginning(queue)
        while len(found) < count:
            found += [message.body for message in consumer.poll()]
    return found


def test_what_is_behind_a_false_checksum_outlives_a_kill(tmp_path: Path) -> None:
    with UpProcess(tmp_path) as server:
        server.start()
        server.create_topic("t", 1)
        send_falsely(server.namesrv)
        with Producer(server.namesrv) as producer:
            producer.send(Message("t", b"another's"))
        server.kill()
        server.start()
        kept = [row for number, row in enumerate(ROWS) if number != FALSE_ROW]
        assert all_bodies(server.namesrv, len(ROWS)) == [*kept, b"another's"]
        assert "the log is damaged, what lies beyond is served" in server.errors
