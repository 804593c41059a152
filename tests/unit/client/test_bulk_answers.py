"""What a bulk send makes of answers that are no clear yes, and how a bulk read looks at what it is given."""

from __future__ import annotations

import numpy as np
import pytest

from rmqspark.client.cluster.bulk import BulkChunk, is_in_place, read_header
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.in_place import are_in_place
from rmqspark.errors import ConnectionLost, FlushTimeout, NotWritable, RmqError
from rmqspark.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.records.record import PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT, SIZE_AT, encode_record
from rmqspark.testing.scripted_peer import ScriptedPeer, Step, answer, cut, expect, wait_for_close


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (answer(ResponseCode.FLUSH_DISK_TIMEOUT, queueOffset="7", physicalOffset="0", count="1"), FlushTimeout),
        (answer(ResponseCode.FLUSH_SLAVE_TIMEOUT, queueOffset="7"), FlushTimeout),
        (answer(ResponseCode.SERVICE_NOT_AVAILABLE), NotWritable),
        (cut(), ConnectionLost),
    ],
)
def test_a_bulk_of_which_nobody_knows_is_never_acknowledged(end: Step, error: type[RmqError]) -> None:
    """Stored but not yet on disk, refused, or cut off: each is an error that may be tried again, never a receipt."""
    with ScriptedPeer([expect(RequestCode.RMQ_BULK_SEND), end]) as broker:
        data = TopicRouteData([QueueData("b", 1, 1, 6)], [BrokerData("c", "b", {0: broker.address})])
        asked = [expect(RequestCode.GET_ROUTEINFO_BY_TOPIC), answer(body=data.encode(standard=True)), wait_for_close()]
        with ScriptedPeer(asked) as names, ClusterClient(names.address) as cluster:
            assert cluster.publish_queues("t")
            sent = cluster.broker("b").bulk_send("t", 0, [memoryview(bytes(100))], 1, 100, 0)
            with pytest.raises(error) as caught:
                sent.result(60)
    assert caught.value.retriable


ASKED = read_header("b", "t", 3, 10, 40, max_count=9, max_bytes=1 << 20)
PLACES = [500, 0, 0, 70]  # bytes of others ahead of each record


def records_of_bodies(*bodies: bytes) -> tuple[bytearray, list[int]]:
    """Messages at 10, 11, 13, 14 of queue 3, and where each begins."""
    records, starts, physical_offset = bytearray(), [], 0
    for body, gap, queue_offset in zip(bodies, PLACES, (10, 11, 13, 14), strict=True):
        physical_offset += gap
        record = encode_record(
            topic="t", queue_id=3, body=body, queue_offset=queue_offset, physical_offset=physical_offset
        )
        starts.append(len(records))
        records += record
        physical_offset += len(record)
    return records, starts


def chunk_of(records: bytearray, starts: list[int], next_offset: int = 20) -> BulkChunk:
    sizes = np.diff([*starts, len(records)]).astype(np.int32)
    return BulkChunk(next_offset, 0, 99, sizes, memoryview(records))


@pytest.mark.parametrize("bodies", [(b"a", b"b", b"c", b"d"), (b"a", b"bb", b"ccc", b"d")])
def test_records_in_their_places(bodies: tuple[bytes, ...]) -> None:
    """Messages of the queue, in its order, some of which a filter has passed over, with others between them."""
    records, starts = records_of_bodies(*bodies)
    assert is_in_place(ASKED, chunk_of(records, starts))
    assert is_in_place(ASKED, chunk_of(bytearray(), []))


@pytest.mark.parametrize("bodies", [(b"a", b"b", b"c", b"d"), (b"a", b"bb", b"ccc", b"d")])
@pytest.mark.parametrize(
    ("number", "field_at", "change"),
    [
        (0, SIZE_AT + 3, 1),
        (2, SIZE_AT, 1),
        (1, QUEUE_ID_AT + 3, 1),
        (0, QUEUE_OFFSET_AT + 7, 1),  # 11, as the next
        (0, QUEUE_OFFSET_AT + 7, -1),  # below what was asked for
        (3, QUEUE_OFFSET_AT + 7, 6),  # where to go on
        (2, QUEUE_OFFSET_AT + 7, -2),
        (1, PHYSICAL_OFFSET_AT + 7, 1),
        (1, PHYSICAL_OFFSET_AT + 7, -1),
    ],
)
def test_records_that_are_not(bodies: tuple[bytes, ...], number: int, field_at: int, change: int) -> None:
    """One byte in one head makes the difference."""
    records, starts = records_of_bodies(*bodies)
    records[starts[number] + field_at] = (records[starts[number] + field_at] + change) % 256
    assert not is_in_place(ASKED, chunk_of(records, starts))


def several(*records: bytearray) -> tuple[memoryview, np.ndarray]:
    return memoryview(b"".join(records)), np.array([len(record) for record in records], np.int32)


def test_records_of_several_queues() -> None:
    """Each queue begins anew, anywhere in the log; a range may have brought nothing."""
    records = [
        encode_record(topic="t", queue_id=queue_id, body=b"x", queue_offset=queue_offset, physical_offset=place)
        for queue_id, queue_offset, place in [(3, 10, 900), (3, 11, 2000), (1, 5, 0), (2, 0, 500), (2, 7, 700)]
    ]
    counts = np.array([0, 2, 0, 1, 2, 0])
    queue_ids, starts, ends = (
        np.repeat(each, counts) for each in ([9, 3, 9, 1, 2, 9], [0, 10, 0, 5, 0, 0], [9, 12, 9, 6, 8, 9])
    )
    assert are_in_place(*several(*records), queue_ids, starts, ends, counts)
    assert not are_in_place(*several(*records), queue_ids, starts, ends)
    for one, other in ((0, 1), (2, 3), (3, 4)):
        swapped = [*records]
        swapped[one], swapped[other] = swapped[other], swapped[one]
        assert not are_in_place(*several(*swapped), queue_ids, starts, ends, counts)
