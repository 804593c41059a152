"""Reading over the wire, against servers that do as told: stock brokers, our own, and broken ones."""

from __future__ import annotations

import logging
import socket
import struct
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.broker_client import NO_GROUP, BrokerClient
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.pulling.cursor import Ask, Fetched
from rmqspark.client.pulling.fetcher import Arrival, Reset
from rmqspark.errors import (
    AlreadyClosed,
    BodyError,
    InvalidArgument,
    MessageNotFound,
    NoPermission,
    NotSupported,
    OffsetMoved,
    RecordError,
    RmqError,
    Unreachable,
)
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import CapabilitiesBody
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.faults import SQL_UNSUPPORTED
from rmqspark.protocol.records.message_id import offset_msg_id, pack_host
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import HEAD_BYTES, encode_record
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, cut, expect, wait_for_close

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.client.pulling.cursor import Cursor
    from rmqspark.clock import Clock
    from rmqspark.testing.scripted_peer import Step

QUEUE = MessageQueue("t", "broker-a", 0)
ASKED_CAPABILITIES = expect(RequestCode.RMQ_CAPABILITIES)
STOCK = [ASKED_CAPABILITIES, answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)]
OURS = [ASKED_CAPABILITIES, answer(body=CapabilitiesBody(version="0.1.0", capabilities={"bulkRead": 1}).encode())]
PULLED = expect(RequestCode.PULL_MESSAGE)
CUT = cut()
BULK_READ = expect(RequestCode.RMQ_BULK_READ)


def record(queue_offset: int, tags: str = "") -> bytearray:
    properties = encode_properties({"TAGS": tags})
    place = {"queue_offset": queue_offset, "physical_offset": 1_000 * queue_offset}
    return encode_record(topic="t", body=b"%d" % queue_offset, properties=properties, **place)


def pull_answer(
    *records: bytearray, next_offset: int, max_offset: int, code: int = 0, remark: str = "FOUND", deleted_ms: int = 0
) -> Step:
    fields = {"suggestWhichBrokerId": 0, "nextBeginOffset": next_offset, "minOffset": 0, "maxOffset": max_offset}
    fields |= {"topicDeleted": deleted_ms} if deleted_ms else {}
    return answer(code, b"".join(records), remark=remark, **{name: str(value) for name, value in fields.items()})


def bulk_answer(*records: bytearray, next_offset: int, max_offset: int) -> Step:
    sizes = struct.pack(f">{len(records)}i", *map(len, records))
    fields = {"nextBeginOffset": next_offset, "minOffset": 0, "maxOffset": max_offset, "count": len(records)}
    return answer(body=sizes + b"".join(records), **{name: str(value) for name, value in fields.items()})


class OneBroker:
    """A name server that knows one broker, which follows a script, and a consumer of its one queue."""

    def __init__(self, *script: Step) -> None:
        self.broker = ScriptedPeer([*script, *([] if script[-1] is CUT else [wait_for_close()])])
        info = ClusterInfo({"broker-a": BrokerData("c", "broker-a", {0: self.broker.address})}, {"c": ["broker-a"]})
        self.names = ScriptedPeer(
            [expect(RequestCode.GET_BROKER_CLUSTER_INFO), answer(body=info.encode()), wait_for_close()]
        )

    def read(self, **options: str | Clock) -> Iterator[PullConsumer]:
        with self.broker, self.names, PullConsumer(self.names.address, **options) as consumer:  # type: ignore[arg-type]
            consumer.assign([QUEUE])
            consumer.seek(QUEUE, 0)
            yield consumer


def bodies(consumer: PullConsumer) -> list[bytes]:
    return [message.body for message in consumer.poll(60_000)]


def poll_until_error(consumer: PullConsumer) -> NoReturn:
    while True:
        assert consumer.poll(300) == []


def test_a_stock_broker_is_read_by_pulls() -> None:
    """A broker without bulk reads is pulled from, with the subscription in each request; 20 means go on at once."""
    cluster = OneBroker(
        *(*STOCK, PULLED, pull_answer(record(0), record(1), next_offset=2, max_offset=5)),
        *(PULLED, pull_answer(next_offset=4, max_offset=5, code=ResponseCode.PULL_RETRY_IMMEDIATELY)),
        *(PULLED, pull_answer(record(4), next_offset=5, max_offset=5), PULLED),
    )
    for consumer in cluster.read():
        assert bodies(consumer) == [b"0", b"1"]
        assert consumer.position(QUEUE) == 2
        assert bodies(consumer) == [b"4"]
        assert consumer.position(QUEUE) == 5
        assert consumer.poll(0) == []
    first, *_, last = (request.fields for request in cluster.broker.requests[1:])
    assert (first["queueOffset"], last["queueOffset"]) == ("0", "5")
    assert first["consumerGroup"] == NO_GROUP
    assert (first["subscription"], first["sysFlag"], first["suspendTimeoutMillis"]) == ("*", "6", "15000")


def test_backlog_comes_in_bulk_and_the_tail_by_a_held_pull() -> None:
    """Our own broker is asked for large pieces of a backlog, and for a pull that waits when there is none."""
    cluster = OneBroker(
        *(*OURS, BULK_READ, bulk_answer(record(0), record(1), next_offset=2, max_offset=100)),
        *(BULK_READ, bulk_answer(record(99), next_offset=100, max_offset=100)),
        *(PULLED, pull_answer(record(100), next_offset=101, max_offset=101), PULLED),
    )
    for consumer in cluster.read():
        assert bodies(consumer) == [b"0", b"1"]
        assert bodies(consumer) == [b"99"]
        assert bodies(consumer) == [b"100"]
        assert consumer.poll(0) == []


def test_tags_are_tested_by_the_client_too() -> None:
    """A broker filters by hash; a message whose tag only shares the hash is not handed out."""
    assert "Aa" != "BB"  # and both have the hash 2112
    cluster = OneBroker(
        *(*STOCK, PULLED, pull_answer(record(0, "Aa"), record(1, "BB"), next_offset=2, max_offset=2), PULLED)
    )
    for consumer in cluster.read(tags="Aa || c"):
        assert bodies(consumer) == [b"0"]
        assert consumer.position(QUEUE) == 2
        assert consumer.poll(0) == []
    assert cluster.broker.requests[1].fields["subscription"] == "Aa || c"


def has_arrived(consumer: PullConsumer, queue: MessageQueue, queue_offset: int, stored: bytes) -> None:
    """One message, and nothing else is asked for."""
    cursor = consumer._reading.cursors[queue]
    cursor.arrived(Fetched(next_offset=queue_offset + 1, max_offset=queue_offset + 1, records=stored))
    cursor.asking = Ask.TAIL


def between_two(consumer: PullConsumer) -> MessageQueue:
    """The message of one queue cannot be read, that of the other, which is returned, can."""
    broken = encode_record(topic="t", body=b"damaged")
    broken[HEAD_BYTES] ^= 1
    other = QUEUE._replace(queue_id=1)
    consumer.assign([QUEUE, other])
    for queue, stored in ((QUEUE, broken), (other, record(0))):
        consumer.seek(queue, 0)
        has_arrived(consumer, queue, 0, bytes(stored))
    return other


def test_what_other_queues_gave_is_handed_out_before_a_message_that_cannot_be_read() -> None:
    """It counts as consumed with the next commit, so an error must not take its place."""
    with PullConsumer("127.0.0.1:1") as consumer:
        other = between_two(consumer)
        assert bodies(consumer) == [b"0"]
        with pytest.raises(RmqError):
            consumer.poll(0)
        assert (consumer.position(QUEUE), consumer.position(other)) == (0, 1)


def test_a_message_that_cannot_be_read_is_not_told_of_where_it_is_not_met_any_more() -> None:
    """Its queue was set elsewhere before it was told: who follows the hint then would skip what is between."""
    with PullConsumer("127.0.0.1:1") as consumer:
        between_two(consumer)
        assert bodies(consumer) == [b"0"]
        consumer.seek(QUEUE, 7)
        has_arrived(consumer, QUEUE, 7, bytes(record(7)))
        assert bodies(consumer) == [b"7"]


@pytest.mark.parametrize("count", [3, 300])
def test_a_message_that_cannot_be_read_is_named_once_those_before_it_are_handed_out(count: int) -> None:
    """A disk may have damaged it. Whoever steps over it has lost none of its neighbours."""
    broken = encode_record(topic="t", body=b"whole", queue_offset=count).replace(b"whole", b"holes")
    with PullConsumer("127.0.0.1:1") as consumer:
        consumer.assign([QUEUE])
        consumer.seek(QUEUE, 0)
        records = b"".join((*map(record, range(count)), broken, record(count + 1)))

        def arrived(first: int) -> None:
            cursor = consumer._reading.cursors[QUEUE]
            cursor.arrived(Fetched(count + 2, count + 2, records[records.index(record(first)) :]))
            cursor.asking = Ask.TAIL  # nothing else is asked for

        arrived(0)
        assert bodies(consumer) == [b"%d" % number for number in range(count)]
        for _ in range(2):
            with pytest.raises(
                RecordError, match=f"Message {count} of t/broker-a/0 cannot be read: .*checksum"
            ) as told:
                consumer.poll(0)
        assert told.value.hint == f"Step over it: consumer.seek(queue, {count + 1})."
        consumer.seek(QUEUE, count + 1)
        arrived(count + 1)
        assert bodies(consumer) == [b"%d" % (count + 1)]


def test_ctrl_c_in_a_poll_loses_nothing() -> None:
    """What one queue gave before it was not handed out: it is neither committed nor skipped."""
    other = QUEUE._replace(queue_id=1)

    def interrupt(message: object) -> bool:
        raise KeyboardInterrupt

    with PullConsumer("127.0.0.1:1") as consumer:
        consumer.assign([QUEUE, other])
        for queue in (QUEUE, other):
            consumer.seek(queue, 0)
            consumer._reading.cursors[queue].arrived(Fetched(next_offset=1, max_offset=1, records=bytes(record(0))))
            consumer._reading.cursors[queue].asking = Ask.TAIL  # nothing else is asked for
        turns = iter([lambda _: True, interrupt])
        consumer._reading._accept = lambda message: next(turns)(message)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(0)
        assert [consumer.position(queue) for queue in (QUEUE, other)] == [0, 0]


def test_expressions_are_the_broker_s_to_evaluate() -> None:
    """A pull carries SQL92, also where bulk reads know none of it; switched off there it is an error."""
    refusal = answer(ResponseCode.SYSTEM_ERROR, remark=f"CODE: 1 DESC: {SQL_UNSUPPORTED}")
    for beginning in (STOCK, OURS):
        cluster = OneBroker(
            *beginning, PULLED, pull_answer(record(0), record(2), next_offset=3, max_offset=90), PULLED, refusal
        )
        for consumer in cluster.read(sql="a > 3"):
            assert bodies(consumer) == [b"0", b"2"]
            with pytest.raises(NotSupported, match="SQL92.*enablePropertyFilter=true"):
                consumer.poll(60_000)
        asked = cluster.broker.requests[1].fields
        assert (asked["subscription"], asked["expressionType"]) == ("a > 3", "SQL92")


@pytest.mark.parametrize(
    ("options", "story"),
    [
        ({"sql": "a > "}, "wrong at character 5"),
        ({"sql": "a > 3 LIMIT 5"}, "character 7: 'LIMIT' is not understood here"),
        ({"sql": "a > 3", "tags": "b"}, "tags and sql exclude each other"),
    ],
)
def test_mistakes_in_expressions_show_before_a_broker_is_asked(options: dict[str, str], story: str) -> None:
    """No server is needed to be told."""
    with pytest.raises(InvalidArgument, match=story):
        PullConsumer("127.0.0.1:1", **options)  # type: ignore[arg-type]


def test_an_offset_that_is_gone_is_the_caller_s_to_decide() -> None:
    """Messages that expired unread are an error that tells where to go on, not a silent jump."""
    moved = pull_answer(next_offset=7, max_offset=9, code=ResponseCode.PULL_OFFSET_MOVED, remark="OFFSET_TOO_SMALL")
    cluster = OneBroker(*STOCK, PULLED, moved, PULLED, pull_answer(record(7), next_offset=8, max_offset=9))
    for consumer in cluster.read():
        with pytest.raises(OffsetMoved, match=r"consumer.seek\(queue, 7\)") as caught:
            consumer.poll(60_000)
        consumer.seek(QUEUE, caught.value.next_offset)
        assert bodies(consumer) == [b"7"]


@pytest.mark.parametrize("in_bulk", [False, True])
def test_another_topic_of_the_name_is_the_caller_s_to_decide(in_bulk: bool) -> None:
    """Who was busy while the topic was deleted and made anew is told, also where it has grown beyond his offset since:
    from where on, and once."""
    remade = pull_answer(record(1), next_offset=2, max_offset=90, deleted_ms=7)
    if in_bulk:
        told = [BULK_READ, answer(ResponseCode.RMQ_TOPIC_REMADE, remark="Topic 't' was deleted and made anew.")]
    else:
        told = [PULLED, remade]
    cluster = OneBroker(
        *(*(OURS if in_bulk else STOCK), PULLED, pull_answer(record(0), next_offset=1, max_offset=100), *told),
        *(PULLED, pull_answer(record(0), next_offset=1, max_offset=1, deleted_ms=7)),
        *(PULLED, pull_answer(record(1), next_offset=2, max_offset=2, deleted_ms=7)),
    )
    clock = ManualClock()
    for consumer in cluster.read(group="g", clock=clock):
        assert bodies(consumer) == [b"0"]
        with pytest.raises(OffsetMoved, match=r"was deleted.*consumer.seek\(queue, 0\)") as caught:
            consumer.poll(60_000)
        clock.advance(seconds=1)
        consumer.seek(QUEUE, caught.value.next_offset)
        assert bodies(consumer) == [b"0"]
        assert bodies(consumer) == [b"1"]


class ArrivedTogether:
    """Stands for a `Fetcher` whose first answers lie there together: a poll takes them off once, as off a real one."""

    def __init__(self, arrived: list[Arrival]) -> None:
        self._arrived = arrived
        self.asked: list[MessageQueue] = []

    def arrivals(self, timeout_ms: int) -> list[Arrival]:
        arrived, self._arrived = self._arrived, []
        return arrived

    def fetch(self, cursor: Cursor) -> None:
        cursor.ask(bulk=True)
        self.asked.append(cursor.queue)

    def wake(self) -> None: ...


def test_an_error_of_one_queue_keeps_no_answer_from_the_others() -> None:
    """Of answers that arrive together the first error is raised, no message is lost, and every queue is asked again."""
    queues = [QUEUE._replace(queue_id=queue_id) for queue_id in range(3)]
    with PullConsumer("127.0.0.1:1") as consumer:
        consumer.assign(queues)
        arrived = []
        outcomes = (OffsetMoved("of 0", next_offset=7), Fetched(1, 1, bytes(record(0))), NoPermission("of 2"))
        for queue, outcome in zip(queues, outcomes, strict=True):
            consumer.seek(queue, 0)
            cursor = consumer._reading.cursors[queue]
            cursor.ask(bulk=True)
            arrived.append(Arrival(cursor, cursor.generation, outcome))
        fetcher = ArrivedTogether(arrived)
        consumer._reading._fetcher = fetcher  # type: ignore[assignment]
        with pytest.raises(OffsetMoved, match="of 0"):
            consumer.poll(0)
        assert [message.body for message in consumer.poll(0)] == [b"0"]
        assert sorted(fetcher.asked) == queues


def test_a_reset_is_seen_in_the_middle_of_a_backlog() -> None:
    """A group that is far behind follows a reset within a second, not when it has caught up."""
    clock = ManualClock()
    reset = pull_answer(next_offset=50, max_offset=100, code=ResponseCode.PULL_OFFSET_MOVED, remark="OFFSET_RESET")
    cluster = OneBroker(
        *(*OURS, PULLED, pull_answer(record(0), next_offset=1, max_offset=100)),
        *(BULK_READ, bulk_answer(record(1), next_offset=2, max_offset=100)),
        *(PULLED, reset),
        *(BULK_READ, bulk_answer(record(50), next_offset=51, max_offset=100), BULK_READ),
    )
    for consumer in cluster.read(group="g", clock=clock):
        assert bodies(consumer) == [b"0"]
        clock.advance(seconds=1)
        assert bodies(consumer) == [b"1"]
        assert bodies(consumer) == [b"50"]


def test_a_reset_drops_what_was_fetched_before_it() -> None:
    """What is handed out and committed after it is the operator's place, never the old one."""
    with PullConsumer("127.0.0.1:1", "g") as consumer:
        consumer.assign([QUEUE])
        consumer.seek(QUEUE, 0)
        cursor = consumer._reading.cursors[QUEUE]
        cursor.arrived(Fetched(next_offset=1, max_offset=100, records=bytes(record(0))))
        cursor.ask(bulk=False)
        arrived = ArrivedTogether([Arrival(cursor, cursor.generation, Reset(50))])
        consumer._reading._fetcher = arrived  # type: ignore[assignment]
        assert consumer.poll(0) == []
        assert consumer.position(QUEUE) == 50


def test_queues_of_one_broker_are_begun_together() -> None:
    """It is asked about all of them before an answer is awaited, so one that has stopped costs one timeout, not one for
    each queue, in which nothing of other brokers would be read either."""
    queues = [QUEUE._replace(queue_id=queue_id) for queue_id in range(8)]
    asked = [expect(RequestCode.QUERY_CONSUMER_OFFSET)] * len(queues)
    offsets = [answer(to=1 + at, offset=str(10 * at)) for at in range(len(queues))]
    pulled = [PULLED] * len(queues)
    cluster = OneBroker(
        ASKED_CAPABILITIES, *asked, answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, to=0), *offsets, *pulled
    )
    with cluster.broker, cluster.names, PullConsumer(cluster.names.address, "g") as consumer:
        consumer.assign(queues)
        while not all(cursor.asking is Ask.TAIL for cursor in consumer._reading.cursors.values()):
            assert consumer.poll(0) == []
        assert [consumer.position(queue) for queue in queues] == [10 * at for at in range(len(queues))]


def test_queues_that_end_together_are_sought_together() -> None:
    """Seeking asks about all queues before an answer is awaited."""
    queues = [QUEUE._replace(queue_id=queue_id) for queue_id in range(3)]
    asked = [expect(RequestCode.GET_MAX_OFFSET)] * len(queues)
    cluster = OneBroker(*asked, *(answer(to=at, offset=str(at)) for at in range(len(queues))))
    with cluster.broker, cluster.names, PullConsumer(cluster.names.address) as consumer:
        consumer.assign(queues)
        consumer.seek_to_end()
        assert [consumer.position(queue) for queue in queues] == [0, 1, 2]


def test_a_reset_of_the_group_is_followed() -> None:
    """When an operator resets the group's offset, the next pull goes on there."""
    reset = pull_answer(next_offset=50, max_offset=60, code=ResponseCode.PULL_OFFSET_MOVED, remark="OFFSET_RESET")
    cluster = OneBroker(*STOCK, PULLED, reset, PULLED, pull_answer(record(50), next_offset=51, max_offset=60), PULLED)
    for consumer in cluster.read(group="g"):
        assert bodies(consumer) == [b"50"]
        assert consumer.poll(0) == []


def test_an_answer_from_before_a_seek_is_dropped() -> None:
    """After a seek no message of the old place turns up, although its answer was under way."""
    cluster = OneBroker(
        *(*STOCK, PULLED, PULLED),
        *(_answer_to(1, record(0), next_offset=1), _answer_to(2, record(30), next_offset=31)),
    )
    for consumer in cluster.read():
        assert consumer.poll(0) == []
        consumer.seek(QUEUE, 30)
        assert bodies(consumer) == [b"30"]


def _answer_to(request: int, *records: bytearray, next_offset: int) -> Step:
    fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "32"}
    return answer(0, b"".join(records), to=request, remark="FOUND", **fields)


def test_what_is_not_allowed_is_raised() -> None:
    """A topic that may not be read is an error of poll."""
    cluster = OneBroker(*STOCK, PULLED, answer(ResponseCode.NO_PERMISSION, remark="no"))
    for consumer in cluster.read():
        with pytest.raises(NoPermission, match="no"):
            consumer.poll(60_000)


def test_a_lost_broker_is_an_error_when_nothing_else_works() -> None:
    """A poll whose only broker has gone ends with the reason instead of an empty list for ever."""
    cluster = OneBroker(*STOCK, PULLED, CUT)
    for consumer in cluster.read():
        with pytest.raises(Unreachable):
            poll_until_error(consumer)


def test_a_bulk_answer_that_does_not_add_up_is_refused() -> None:
    """A count that the body cannot hold is an error before anything is allocated for it."""
    lying = answer(body=bytes(100), nextBeginOffset="1", minOffset="0", maxOffset="1", count="2000000000")
    cluster = OneBroker(*OURS, BULK_READ, lying)
    for consumer in cluster.read():
        with pytest.raises(BodyError, match="2000000000"):
            consumer.poll(60_000)


def test_capabilities_are_asked_once_per_connection() -> None:
    """A broker of another make after a restart is noticed; while the connection lives it is not asked again."""
    with ScriptedPeer([*OURS, wait_for_close()], [*STOCK, wait_for_close()]) as peer:
        connections = [BlockingConnection(peer.address)]
        broker = BrokerClient("broker-a", lambda: connections[-1], 3000)
        assert broker.capabilities() is broker.capabilities()
        assert (broker.capabilities().product, broker.capabilities().bulk_read) == ("rmqspark", 1)
        connections[0].close()
        connections.append(BlockingConnection(peer.address))
        assert broker.capabilities() == Capabilities("rocketmq")
        connections[1].close()


def test_another_broker_is_not_taken_for_the_one_that_was_there() -> None:
    """Who says another name is asked for nothing else, and whoever knows where brokers are hears of it each time; who
    says none may be anybody."""
    another = [ASKED_CAPABILITIES, answer(body=CapabilitiesBody(brokerName="broker-b").encode())]
    with ScriptedPeer([*another, *another, *OURS, wait_for_close()]) as peer:
        connection, told = BlockingConnection(peer.address), list[str]()
        broker = BrokerClient("broker-a", lambda: connection, 3000, suspect=told.append)
        for _ in range(2):
            with pytest.raises(Unreachable, match="'broker-b' answers at .* where 'broker-a' was"):
                broker.capabilities()
        assert told == [peer.address] * 2
        assert broker.capabilities().broker_name == ""
        connection.close()


def test_a_forged_message_id_makes_no_connection() -> None:
    """An id that names a foreign address is looked up in this cluster only: nobody is led to connect elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as victim:
        victim.settimeout(0)
        forged = offset_msg_id(pack_host("127.0.0.1", victim.getsockname()[1]), 4711)
        info = ClusterInfo({"broker-a": BrokerData("c", "broker-a", {0: "10.0.0.1:10911"})}, {"c": ["broker-a"]})
        script = [expect(RequestCode.GET_BROKER_CLUSTER_INFO), answer(body=info.encode())] * 2
        topics = [expect(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), answer(body=b'{"topicList":["TBW102"]}')]
        with (
            ScriptedPeer([*script, *topics, wait_for_close()]) as names,
            AdminClient(names.address) as admin,
            pytest.raises(MessageNotFound, match=forged),
        ):
            admin.message(forged)
        with pytest.raises(BlockingIOError):
            victim.accept()


def test_a_closed_consumer_says_so() -> None:
    """After close every call says that the consumer is closed, whatever it knew; closing again is no mistake."""
    route = TopicRouteData([QueueData("broker-a", 1, 1, 6)], [BrokerData("c", "broker-a", {0: "127.0.0.1:1"})])
    asked = [expect(RequestCode.GET_ROUTEINFO_BY_TOPIC), answer(body=route.encode(standard=True)), wait_for_close()]
    with ScriptedPeer(asked) as names:
        consumer = PullConsumer(names.address, group="g")
        consumer.assign(consumer.queues("t"))
        consumer.close()
        consumer.close()
        for call in (
            *(lambda: consumer.queues("t"), lambda: consumer.assign([QUEUE]), lambda: consumer.poll(0)),
            *(lambda: consumer.seek(QUEUE, 0), lambda: consumer.seek_to_beginning(), lambda: consumer.seek_to_end()),
            *(lambda: consumer.position(QUEUE), lambda: consumer.min_offset(QUEUE), lambda: consumer.max_offset(QUEUE)),
            *(lambda: consumer.offset_by_time(QUEUE, 0), consumer.commit, lambda: consumer.committed(QUEUE)),
        ):
            with pytest.raises(AlreadyClosed):
                call()


@pytest.mark.parametrize("slip", ["orders", ["orders"], [("orders", "broker-a", 0)]])
def test_what_is_no_queue_is_not_assigned(slip: Any) -> None:
    """A topic's name in the place of its queues is answered with the line that gives them."""
    with PullConsumer("127.0.0.1:9") as consumer, pytest.raises(InvalidArgument, match=r"consumer\.queues\(.orders.\)"):
        consumer.assign(slip)


def test_misuse_says_what_to_do() -> None:
    """Polling nothing, seeking a foreign queue and committing without a group are errors with a way out."""
    with PullConsumer("127.0.0.1:1") as consumer:
        with pytest.raises(InvalidArgument, match="assign"):
            consumer.poll(0)
        with pytest.raises(InvalidArgument, match="not assigned"):
            consumer.seek(QUEUE, 0)
        with pytest.raises(InvalidArgument, match="group"):
            consumer.commit()
        consumer.assign([QUEUE])
        with pytest.raises(InvalidArgument, match="-1"):
            consumer.seek(QUEUE, -1)
    with pytest.raises(InvalidArgument, match="earliest"):
        PullConsumer("127.0.0.1:1", start="newest")  # type: ignore[arg-type]


def test_tags_that_look_like_several_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """They are one tag to RocketMQ, and may be meant."""
    with caplog.at_level(logging.WARNING), PullConsumer("127.0.0.1:1", tags="paid,shipped"):
        assert "exactly the tag 'paid,shipped'" in caplog.text
