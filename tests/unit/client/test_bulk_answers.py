"""What a bulk send makes of answers that are no clear yes."""

from __future__ import annotations

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import ConnectionLost, FlushTimeout, NotWritable, RmqError
from rmqspark.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqspark.protocol.codes import RequestCode, ResponseCode
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
