"""Sending over the wire, against servers that misbehave as told."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Queue
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster import heartbeats
from rmqspark.client.cluster.broker_line import BrokerLine
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.connections import _Slot
from rmqspark.client.cluster.futures import UsersFuture
from rmqspark.client.producer import Producer
from rmqspark.client.sending.delivery import Delivery, Parcel
from rmqspark.client.sending.outgoing import Outgoing, SendConfig
from rmqspark.client.sending.selection import Target
from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import (
    Busy,
    Conflict,
    ConnectionLost,
    InvalidArgument,
    InvalidMessage,
    InvalidQueue,
    NoBrokers,
    RequestTimeout,
    RmqError,
    ServerFault,
    TopicNotFound,
    Unreachable,
)
from rmqspark.model import Message, MessageQueue, SendStatus
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, cut, expect, wait_for, wait_for_close

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from rmqspark.model import SendReceipt
    from rmqspark.testing.scripted_peer import Step

PARCEL = Parcel("t", ("ID",), Outgoing(b"body", "WAIT\x01true\x02", 0, 0))
ANYWHERE = Target()
SEND = RequestCode.SEND_MESSAGE_V2
BUSY = ResponseCode.SYSTEM_BUSY
STORED = {"msgId": "OFFSET-ID", "queueId": "0", "queueOffset": "41"}
ASKED_ROUTE = expect(RequestCode.GET_ROUTEINFO_BY_TOPIC)
ASKED_BROKERS = expect(RequestCode.GET_BROKER_CLUSTER_INFO)
NO_QUEUE = answer(ResponseCode.INVALID_PARAMETER, remark="Topic 't' has 1 queue to write to, there is no 7.")
NO_TOPIC = answer(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info in name server for the topic: t")
NO_ROUTES = [ASKED_ROUTE, NO_TOPIC, ASKED_ROUTE, NO_TOPIC]  # neither of the topic nor of the template


def route(*addresses: str, queues: int = 1) -> TopicRouteData:
    """A topic on broker-0, broker-1, … at these addresses."""
    names = [f"broker-{number}" for number in range(len(addresses))]
    return TopicRouteData(
        [QueueData(name, queues, queues, 6) for name in names],
        [BrokerData("c", name, {0: address}) for name, address in zip(names, addresses, strict=True)],
    )


def registered(*addresses: str) -> ClusterInfo:
    """broker-0, broker-1, … as a name server lists them."""
    brokers = {f"broker-{n}": BrokerData("c", f"broker-{n}", {0: address}) for n, address in enumerate(addresses)}
    return ClusterInfo(brokers, {"c": list(brokers)})


def told_of_brokers(*addresses: str) -> list[Step]:
    """A name server's part where it is asked for them."""
    return [ASKED_BROKERS, answer(body=registered(*addresses).encode(standard=True))]


def namesrv(data: TopicRouteData, asked: int = 1) -> ScriptedPeer:
    """A name server that is asked for the route that many times."""
    return ScriptedPeer([*[ASKED_ROUTE, answer(body=data.encode(standard=True))] * asked, wait_for_close()])


def broker(*steps: Step) -> ScriptedPeer:
    return ScriptedPeer([*steps, wait_for_close()])


def send(
    names: ScriptedPeer, target: Target = ANYWHERE, timeout_ms: int = 3000, parcel: Parcel = PARCEL
) -> list[SendReceipt]:
    with ClusterClient(names.address, entropy=SystemEntropy(0)) as cluster:
        return Delivery(cluster, "g", tries=3).deliver(parcel, target, timeout_ms)


def test_a_receipt_says_where_the_message_is() -> None:
    """The request carries what RocketMQ's clients send, the receipt both ids and the place."""
    with broker(expect(SEND), answer(**STORED)) as server, namesrv(route(server.address)) as names:
        (receipt,) = send(names)
    assert (receipt.msg_id, receipt.offset_msg_id) == ("ID", "OFFSET-ID")
    assert (receipt.queue, receipt.queue_offset) == (MessageQueue("t", "broker-0", 0), 41)
    assert receipt.status is SendStatus.OK
    fields = server.requests[0].fields
    assert server.requests[0].body == b"body"
    assert int(fields.pop("g")) > 1_700_000_000_000
    assert fields == {
        "a": "g",
        "b": "t",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "h": "0",
        "i": "WAIT\x01true\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-0",
    }


def test_a_busy_broker_s_message_goes_to_another() -> None:
    """After a retriable answer the next try goes to another broker."""
    with (
        broker(expect(SEND), answer(BUSY)) as first,
        broker(expect(SEND), answer(**STORED)) as second,
        namesrv(route(first.address, second.address), asked=2) as names,
        ClusterClient(names.address, entropy=SystemEntropy(0)) as cluster,
    ):
        delivery = Delivery(cluster, "g", tries=3)
        delivery._round_robin._turns["t"] = iter([0, 0])
        (receipt,) = delivery.deliver(PARCEL, Target(), 3000)
    assert receipt.queue.broker_name == "broker-1"


def test_a_chosen_queue_is_not_changed() -> None:
    """A message for a certain queue is tried again, but on no other queue."""
    for target in (Target(MessageQueue("t", "broker-0", 0)), Target(shard="any")):
        with (
            broker(expect(SEND), answer(BUSY), expect(SEND), answer(**STORED)) as server,
            namesrv(route(server.address), asked=2) as names,
        ):
            (receipt,) = send(names, target)
        assert receipt.queue == MessageQueue("t", "broker-0", 0)


def test_three_tries_and_the_last_error() -> None:
    """A send fails with what the broker said, after three tries."""
    steps = [expect(SEND), answer(ResponseCode.SYSTEM_ERROR, remark="disk on fire")] * 3
    with (
        broker(*steps) as server,
        namesrv(route(server.address), asked=3) as names,
        pytest.raises(ServerFault, match="disk on fire"),
    ):
        send(names)


def test_what_another_try_cannot_mend_is_not_tried_again() -> None:
    """A message that the broker finds illegal is reported at once."""
    with (
        broker(expect(SEND), answer(ResponseCode.MESSAGE_ILLEGAL)) as server,
        namesrv(route(server.address)) as names,
        pytest.raises(InvalidMessage),
    ):
        send(names)


def shrunk(address: str) -> ScriptedPeer:
    """A name server of a topic that has eight queues when it is asked first, and then one."""
    routes = [route(address, queues=queues).encode(standard=True) for queues in (8, 1)]
    return ScriptedPeer([step for body in routes for step in (ASKED_ROUTE, answer(body=body))] + [wait_for_close()])


@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("target", [ANYWHERE, Target(shard="any")])
def test_a_queue_that_the_topic_has_no_more_costs_no_send(target: Target, tries: int) -> None:
    """After a topic has shrunk, a message that any queue may take goes by a fresh route, with one try too."""
    with (
        broker(expect(SEND), NO_QUEUE, expect(SEND), answer(**STORED)) as server,
        shrunk(server.address) as names,
        ClusterClient(names.address, entropy=SystemEntropy(0)) as cluster,
    ):
        Delivery(cluster, "g", tries=tries).deliver(target=target, parcel=PARCEL, timeout_ms=3000)
    assert server.requests[1].fields["e"] == "0"


def test_nor_an_asynchronous_one() -> None:
    """The second try of a future is by a fresh route, too."""
    with (
        broker(expect(SEND), NO_QUEUE, expect(SEND), answer(**STORED)) as server,
        shrunk(server.address) as names,
        ClusterClient(names.address) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        future = Delivery(cluster, "g", tries=1).deliver_later(PARCEL, ANYWHERE, 3000, pool)
        assert future.result(60).queue_offset == 41


@pytest.mark.parametrize(("target", "asked"), [(ANYWHERE, 2), (Target(MessageQueue("t", "broker-0", 0)), 1)])
def test_a_queue_that_is_refused_again_or_was_named_is_an_error(target: Target, asked: int) -> None:
    """One fresh route is all that a refused queue is worth; a queue that the caller named is not changed at all."""
    with (
        broker(*[expect(SEND), NO_QUEUE] * asked) as server,
        namesrv(route(server.address), asked=asked) as names,
        pytest.raises(InvalidArgument, match="there is no 7"),
    ):
        send(names, target)


def test_a_lost_connection_is_opened_again() -> None:
    """A broker that cuts the connection gets the message over a new one."""
    again = [expect(SEND), answer(**STORED), wait_for_close()]
    with ScriptedPeer([expect(SEND), cut()], again) as server, namesrv(route(server.address), asked=2) as names:
        assert send(names)[0].queue_offset == 41


def test_all_tries_share_the_timeout() -> None:
    """A broker that never answers costs the caller its timeout once, not three times."""
    with (
        broker(expect(SEND)) as server,
        namesrv(route(server.address)) as names,
        ClusterClient(names.address) as cluster,
    ):
        cluster.route_to_publish(PARCEL.topic)  # which may take longer than that
        with pytest.raises(RequestTimeout, match="within"):
            Delivery(cluster, "g", tries=3).deliver(PARCEL, ANYWHERE, 50)


@pytest.mark.parametrize("later", [False, True], ids=["waited for", "asynchronous"])
def test_a_broker_that_hangs_leaves_time_for_another(later: bool) -> None:
    """Where tries are bounded; else it takes all of the time, though another broker is there (RocketMQ #8997)."""
    with (
        broker(expect(SEND)) as silent,
        broker(expect(SEND), answer(**STORED)) as other,
        namesrv(route(silent.address, other.address), asked=2) as names,
        ClusterClient(names.address) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        delivery = Delivery(cluster, "g", tries=2, try_timeout_ms=500)  # in which a busy machine connects, too
        delivery._round_robin._turns["t"] = iter([0, 0])
        if later:
            receipt = delivery.deliver_later(PARCEL, ANYWHERE, 60_000, pool).result(60)
        else:
            (receipt,) = delivery.deliver(PARCEL, ANYWHERE, 60_000)
    assert receipt.queue.broker_name == "broker-1"


def test_a_try_that_no_other_may_follow_has_all_the_time() -> None:
    """A bound would only have the send fail early."""
    with (
        broker(expect(SEND)) as silent,
        namesrv(route(silent.address)) as names,
        ClusterClient(names.address) as cluster,
    ):
        cluster.route_to_publish(PARCEL.topic)
        with pytest.raises(RequestTimeout, match=r"within (1\d\d|200) ms"):
            Delivery(cluster, "g", tries=1, try_timeout_ms=50).deliver(PARCEL, ANYWHERE, 200)


def test_a_broker_that_is_away_is_named() -> None:
    """The error of a send names the broker and its address, and what to look at."""
    with ScriptedPeer() as nobody:
        address = nobody.address
    with namesrv(route(address), asked=3) as names, pytest.raises(Unreachable) as caught:
        send(names)
    assert "broker-0" in str(caught.value)
    assert caught.value.address == address
    assert caught.value.hint


def test_when_the_topic_has_gone_the_first_failure_is_the_story() -> None:
    """A broker killed in the middle of a send is reported as lost, not as a topic that does not exist."""
    with (
        ScriptedPeer([expect(SEND), cut()]) as server,
        ScriptedPeer(
            [
                *(ASKED_ROUTE, answer(body=route(server.address).encode(standard=True))),
                *(ASKED_ROUTE, NO_TOPIC, ASKED_BROKERS, answer(body=registered(server.address).encode(standard=True))),
                *(ASKED_ROUTE, NO_TOPIC, wait_for_close()),
            ]
        ) as names,
        pytest.raises(ConnectionLost),
    ):
        send(names)


def test_a_name_server_that_knows_nothing_yet_is_not_believed() -> None:
    """A name server that was restarted has forgotten all topics: the known route is used until brokers are back."""
    again = [expect(SEND), answer(**STORED), wait_for_close()]
    with (
        ScriptedPeer([expect(SEND), cut()], again) as server,
        ScriptedPeer(
            [
                *(ASKED_ROUTE, answer(body=route(server.address).encode(standard=True))),
                *(ASKED_ROUTE, NO_TOPIC, ASKED_BROKERS, answer(body=registered().encode(standard=True))),
                wait_for_close(),
            ]
        ) as names,
    ):
        assert send(names)[0].queue_offset == 41


def test_name_servers_that_know_nothing_yet_are_asked_every_five_seconds() -> None:
    """Not with every message, until the brokers have registered again."""
    clock = ManualClock()
    known = answer(body=route("x:1").encode(standard=True))
    nobody = [NO_TOPIC, ASKED_BROKERS, answer(body=registered().encode(standard=True))]
    script = [ASKED_ROUTE, known, ASKED_ROUTE, *nobody, ASKED_ROUTE, known, wait_for_close()]
    with ScriptedPeer(script) as names, ClusterClient(names.address, clock=clock) as cluster:
        first = cluster.route("t")
        clock.advance(seconds=31)
        assert all(cluster.route("t") is first for _ in range(3))
        clock.advance(seconds=5)
        assert cluster.route("t") is not first


def test_name_servers_that_stop_before_they_have_told_which_brokers_there_are() -> None:
    """The known route is used, as where none of them answers at all."""
    clock = ManualClock()
    script = [ASKED_ROUTE, answer(body=route("x:1").encode(standard=True)), ASKED_ROUTE, NO_TOPIC, ASKED_BROKERS, cut()]
    with ScriptedPeer(script) as names, ClusterClient(names.address, clock=clock) as cluster:
        first = cluster.route("t")
        clock.advance(seconds=31)
        names._listener.close()
        assert cluster.route("t") is first


def test_a_topic_that_one_name_server_does_not_know_is_asked_of_the_next() -> None:
    """One of two that has just started costs a question, not an error."""
    with (
        ScriptedPeer([ASKED_ROUTE, NO_TOPIC, wait_for_close()]) as empty,
        namesrv(route("x:1")) as names,
        ClusterClient(f"{empty.address};{names.address}") as cluster,
    ):
        assert cluster.route("t").brokers == {"broker-0": {0: "x:1"}}


def test_what_one_name_server_is_too_busy_for_is_asked_of_the_next() -> None:
    """A refusal is no answer."""
    with (
        ScriptedPeer([ASKED_ROUTE, answer(BUSY), wait_for_close()]) as full,
        namesrv(route("x:1")) as names,
        ClusterClient(f"{full.address};{names.address}") as cluster,
    ):
        assert cluster.route("t").brokers == {"broker-0": {0: "x:1"}}


def test_brokers_that_one_name_server_does_not_know_are_asked_of_the_next() -> None:
    """As topics are: one of two that has just started knows none of them yet."""
    with (
        ScriptedPeer([ASKED_BROKERS, answer(body=registered().encode(standard=True)), wait_for_close()]) as empty,
        ScriptedPeer([ASKED_BROKERS, answer(body=registered("x:1").encode(standard=True)), wait_for_close()]) as names,
        ClusterClient(f"{empty.address};{names.address}") as cluster,
    ):
        assert cluster.broker_address("broker-0") == "x:1"


def test_a_broker_that_comes_back_while_no_name_server_answers_is_found_where_it_was() -> None:
    """Messages need brokers only: the address as last known is tried again."""
    with ScriptedPeer() as nobody:
        address = nobody.address
    known = [ASKED_ROUTE, answer(body=route(address).encode(standard=True)), cut()]
    with ScriptedPeer(known) as names, ClusterClient(names.address) as cluster:
        delivery = Delivery(cluster, "g", tries=1)
        with pytest.raises(Unreachable, match="broker-0"):
            delivery.deliver(PARCEL, ANYWHERE, 3000)
        names._listener.close()
        with pytest.raises(Unreachable, match=f"'broker-0' at {address}"):
            delivery.deliver(PARCEL, ANYWHERE, 3000)


def test_a_broker_that_failed_is_left_alone_by_the_next_messages() -> None:
    """After one refusal messages go to the other broker, and ten seconds later to both again."""
    clock = ManualClock()
    served = [expect(SEND), answer(**STORED)]
    with (
        broker(expect(SEND), answer(BUSY), *served) as first,
        broker(*served * 4) as second,
        namesrv(route(first.address, second.address), asked=2) as names,
        ClusterClient(names.address, clock=clock, entropy=SystemEntropy(0)) as cluster,
    ):
        delivery = Delivery(cluster, "g", tries=3)
        delivery._round_robin._turns["t"] = iter([0, 0, 0, 0, 0, 0, 1])

        def sent_to() -> str:
            return delivery.deliver(PARCEL, ANYWHERE, 3000)[0].queue.broker_name

        assert [sent_to() for _ in range(3)] == ["broker-1"] * 3
        clock.advance(seconds=10)
        assert [sent_to() for _ in range(2)] == ["broker-0", "broker-1"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_stored_but_not_yet_safe_is_no_error(code: ResponseCode, status: SendStatus) -> None:
    """A message that is stored, but not flushed or copied in time, has a receipt that says so."""
    with broker(expect(SEND), answer(code, **STORED)) as server, namesrv(route(server.address)) as names:
        assert send(names)[0].status is status


def test_a_batch_has_a_receipt_for_each_message() -> None:
    """Messages of a batch have consecutive offsets and their own ids."""
    parcel = PARCEL._replace(unique_ids=("A", "B"), batch=True)
    stored = {**STORED, "msgId": "OFFSET-A,OFFSET-B"}
    with (
        broker(expect(RequestCode.SEND_BATCH_MESSAGE), answer(**stored)) as server,
        namesrv(route(server.address)) as names,
    ):
        receipts = send(names, parcel=parcel)
    assert server.requests[0].fields["m"] == "true"
    assert [(receipt.msg_id, receipt.offset_msg_id, receipt.queue_offset) for receipt in receipts] == [
        ("A", "OFFSET-A", 41),
        ("B", "OFFSET-B", 42),
    ]


def test_an_unknown_topic_is_sent_to_as_the_template_says() -> None:
    """For a topic that is not there the route of TBW102 is used, and the broker creates it."""
    with broker(expect(SEND), answer(**STORED)) as server:
        template = answer(body=route(server.address, queues=8).encode(standard=True))
        with ScriptedPeer([ASKED_ROUTE, NO_TOPIC, ASKED_ROUTE, template, wait_for_close()]) as names:
            (receipt,) = send(names)
    assert [request.fields["topic"] for request in names.requests] == ["t", "TBW102"]
    assert receipt.queue.topic == "t"
    assert int(server.requests[0].fields["e"]) < 4


def test_an_unknown_topic_that_nobody_creates_is_an_error_with_a_hint() -> None:
    """Where topics are not created by themselves, the error says how to create one."""
    with (
        ScriptedPeer([*NO_ROUTES, *told_of_brokers("x:1"), wait_for_close()]) as names,
        pytest.raises(TopicNotFound, match="rmq topic create t"),
    ):
        send(names)


def test_a_topic_that_nobody_knows_while_no_broker_is_known_may_be_there() -> None:
    """Name servers that have just started know of nothing: that a topic has to be created is not said then. Nor is it
    known where they do not tell."""
    with (
        ScriptedPeer([*NO_ROUTES, *told_of_brokers(), wait_for_close()]) as names,
        pytest.raises(NoBrokers, match="No broker is registered"),
    ):
        send(names)
    with (
        ScriptedPeer([*NO_ROUTES, ASKED_BROKERS, answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)]) as names,
        pytest.raises(TopicNotFound),
    ):
        send(names)


def test_a_queue_that_the_topic_does_not_have_is_refused() -> None:
    """An explicit queue is checked against the route, a fresh one before it is refused."""
    with ScriptedPeer() as nobody:
        address = nobody.address
    with namesrv(route(address), asked=2) as names, pytest.raises(InvalidQueue, match="broker-0/0"):
        send(names, Target(7))


def test_an_asynchronous_send_is_tried_again_in_the_background() -> None:
    """A future of send_async ends well although the first broker refused."""
    steps = [expect(SEND), answer(BUSY), expect(SEND), answer(**STORED)]
    with (
        broker(*steps) as server,
        namesrv(route(server.address), asked=2) as names,
        ClusterClient(names.address) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        future = Delivery(cluster, "g", tries=3).deliver_later(PARCEL, Target(), 3000, pool)
        assert future.result(60).queue_offset == 41


def test_an_asynchronous_send_fails_with_its_reason() -> None:
    """A future of send_async ends with the error that send would have raised."""
    with (
        broker(expect(SEND), answer(ResponseCode.MESSAGE_ILLEGAL)) as server,
        namesrv(route(server.address)) as names,
        ClusterClient(names.address) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        future = Delivery(cluster, "g", tries=3).deliver_later(PARCEL, Target(), 3000, pool)
        with pytest.raises(InvalidMessage):
            future.result(60)


def test_an_asynchronous_send_ends_though_its_producer_was_closed_meanwhile() -> None:
    """Nobody is left to try it again: its future ends with what the first try met."""
    with (
        broker(expect(SEND), answer(BUSY)) as server,
        namesrv(route(server.address)) as names,
        ClusterClient(names.address) as cluster,
    ):
        pool = ThreadPoolExecutor(1)
        pool.shutdown()
        future = Delivery(cluster, "g", tries=3).deliver_later(PARCEL, Target(), 3000, pool)
        with pytest.raises(Busy):
            future.result(60)


def test_an_asynchronous_send_that_may_have_arrived_says_so_when_its_producer_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its connection is ended without an answer: not that nothing was sent, as AlreadyClosed would say."""
    monkeypatch.setattr(heartbeats, "GOOD_BYE_S", 0.0)
    sent = threading.Event()
    with (
        ScriptedPeer([expect(SEND), lambda _: sent.set(), wait_for_close()]) as server,
        namesrv(route(server.address)) as names,
    ):
        producer = Producer(names.address, config=SendConfig(send_msg_timeout=200))
        future = producer.send_async(Message("t", b"on its way"), timeout_ms=60_000)
        assert sent.wait(60)
        producer.close()
        with pytest.raises(ConnectionLost):
            future.result(60)


def test_an_asynchronous_send_that_may_have_arrived_says_so_when_its_topic_has_gone() -> None:
    """As `send` does: the failure of the first try is the story, not that there is nowhere to go for a second."""
    with (
        ScriptedPeer([expect(SEND), cut()]) as server,
        ScriptedPeer(
            [
                *(ASKED_ROUTE, answer(body=route(server.address).encode(standard=True))),
                *(ASKED_ROUTE, NO_TOPIC, ASKED_BROKERS, answer(body=registered(server.address).encode(standard=True))),
                *(ASKED_ROUTE, NO_TOPIC, wait_for_close()),
            ]
        ) as names,
        ClusterClient(names.address) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        future = Delivery(cluster, "g", tries=3).deliver_later(PARCEL, ANYWHERE, 3000, pool)
        with pytest.raises(ConnectionLost):
            future.result(60)


def test_no_try_begins_when_the_time_is_over() -> None:
    """A second try that waited for its turn is not made: it would be stored, and reported as not sent."""
    clock, turn = ManualClock(), threading.Event()
    with (
        broker(expect(SEND), answer(BUSY)) as server,
        namesrv(route(server.address)) as names,
        ClusterClient(names.address, clock=clock) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(turn.wait, 60)
        future = Delivery(cluster, "g", tries=3).deliver_later(PARCEL, ANYWHERE, 3000, pool)
        while not pool._work_queue.qsize():
            assert not future.done()
        clock.advance(seconds=4)
        turn.set()
        with pytest.raises(Busy):
            future.result(60)


@pytest.mark.parametrize("refused", [(), (expect(SEND), answer(BUSY))])
def test_a_route_that_took_all_the_time_is_told_and_nothing_is_sent(refused: tuple[Step, ...]) -> None:
    """Neither at first nor as a further try: it would be stored while its sender hears that it is not."""
    clock = ManualClock()
    with broker(*refused) if refused else ScriptedPeer() as server:
        known = answer(body=route(server.address).encode(standard=True))
        late = (ASKED_ROUTE, lambda _: clock.advance(seconds=4), known)
        script = [*((ASKED_ROUTE, known) if refused else ()), *late, wait_for_close()]
        with (
            ScriptedPeer(script) as names,
            ClusterClient(names.address, clock=clock) as cluster,
            pytest.raises(Busy if refused else Unreachable, match=None if refused else "Nothing was sent"),
        ):
            Delivery(cluster, "g", tries=3).deliver(PARCEL, ANYWHERE, 3000)


@pytest.mark.parametrize(("late_ms", "story"), [(60_000, "Nothing was sent"), (59_990, "10 ms")])
def test_an_asynchronous_send_has_what_its_route_leaves_of_the_time(late_ms: int, story: str) -> None:
    """As any other; where that is nothing, nothing is sent."""
    clock = ManualClock()
    with broker(expect(SEND)) if late_ms < 60_000 else ScriptedPeer() as server:
        known = answer(body=route(server.address).encode(standard=True))
        late = (ASKED_ROUTE, lambda _: clock.advance(ms=late_ms), known)
        with (
            ScriptedPeer([*late, wait_for_close()]) as names,
            ClusterClient(names.address, clock=clock) as cluster,
            ThreadPoolExecutor(1) as pool,
            pytest.raises(Unreachable if late_ms == 60_000 else RequestTimeout, match=story),
        ):
            Delivery(cluster, "g", tries=1).deliver_later(PARCEL, ANYWHERE, 60_000, pool).result(60)


def test_a_callback_that_waits_for_an_answer_is_told_that_it_cannot() -> None:
    """Its thread is the one that would bring it: the message would be stored, and reported as not answered."""
    told: Queue[BaseException | None] = Queue()
    listens = threading.Event()
    with (
        broker(expect(SEND), answer(**STORED), expect(SEND), wait_for(listens), answer(**STORED)) as server,
        namesrv(route(server.address), asked=2) as names,
        ClusterClient(names.address) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        delivery = Delivery(cluster, "g", tries=3)
        delivery.deliver(PARCEL, ANYWHERE, 3000)

        def send_another(_: object) -> None:
            told.put(error_of(lambda: delivery.deliver(PARCEL, ANYWHERE, 5000)))

        delivery.deliver_later(PARCEL, ANYWHERE, 60_000, pool).add_done_callback(send_another)
        listens.set()
        assert isinstance(told.get(timeout=60), Conflict)


def test_a_callback_that_ends_its_thread_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    """As one that calls sys.exit() where a send has failed: the others have failed, too, and are told so."""

    def leave(done: Future[SendReceipt]) -> None:
        if done.exception() is not None:
            sys.exit("a send has failed")

    all_sent = threading.Event()
    with (
        ScriptedPeer([expect(SEND), wait_for(all_sent), cut()]) as server,
        namesrv(route(server.address)) as names,
        ClusterClient(names.address) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        delivery = Delivery(cluster, "g", tries=1)
        futures = [delivery.deliver_later(PARCEL, ANYWHERE, 60_000, pool) for _ in range(3)]
        for future in futures:
            future.add_done_callback(leave)
        all_sent.set()
        assert all(isinstance(future.exception(30), Unreachable) for future in futures)
    assert "a send has failed" in caplog.text


def test_a_callback_of_what_has_ended_already_may_end_its_own_thread() -> None:
    """It is called where it is added: to leave the program there is what its author means."""
    future: UsersFuture[None] = UsersFuture()
    future.set_result(None)
    with pytest.raises(SystemExit):
        future.add_done_callback(lambda _: sys.exit())


def test_nor_can_it_on_the_thread_that_made_the_connection() -> None:
    """It runs there where the answer was there first; what it waits for would be behind itself."""
    told: Queue[BaseException | None] = Queue()
    listens = threading.Event()
    with broker() as server:

        def connect() -> BlockingConnection:
            assert listens.wait(60)
            return BlockingConnection(server.address)

        slot = _Slot(connect, server.address)
        line = BrokerLine("broker-0", lambda: slot.live or slot.soon(), SystemClock())
        waiting = slot.soon()
        waiting.add_done_callback(lambda _: told.put(error_of(lambda: line.call(SEND, None, b"", timeout_ms=5000))))
        listens.set()
        assert isinstance(told.get(timeout=60), Conflict)
        waiting.result().close()


def error_of(call: Callable[[], object]) -> RmqError | None:
    try:
        call()
    except RmqError as error:
        return error
    return None


def test_a_oneway_message_asks_for_no_answer() -> None:
    """send_oneway sets the oneway bit, and nobody waits."""
    with (
        broker(expect(SEND, oneway=True)) as server,
        namesrv(route(server.address)) as names,
        ClusterClient(names.address) as cluster,
    ):
        Delivery(cluster, "g", tries=3).deliver_oneway(PARCEL, Target())


def test_a_oneway_message_that_finds_nobody_spares_the_next_one_the_trouble() -> None:
    """Its failure is told, never tried again; and the messages after it go to another broker."""
    with ScriptedPeer() as nobody:
        address = nobody.address
    with (
        broker(*[expect(SEND, oneway=True)] * 2) as server,
        namesrv(route(address, server.address)) as names,
        ClusterClient(names.address) as cluster,
    ):
        delivery = Delivery(cluster, "g", tries=3)
        delivery._round_robin._turns["t"] = iter([0, 0, 0])
        with pytest.raises(Unreachable, match="broker-0"):
            delivery.deliver_oneway(PARCEL, ANYWHERE)
        for _ in range(2):
            delivery.deliver_oneway(PARCEL, ANYWHERE)


def test_routes_are_asked_for_every_thirty_seconds() -> None:
    """Sends within 30 s share a route; later ones see what has changed since."""
    clock = ManualClock()
    with namesrv(route("x:1"), asked=2) as names, ClusterClient(names.address, clock=clock) as cluster:
        for seconds in (0, 29, 2):
            clock.advance(seconds=seconds)
            assert cluster.route("t").address("broker-0") == "x:1"


def test_a_known_route_outlives_its_name_server() -> None:
    """While no name server answers, clients go on with the route they have."""
    clock = ManualClock()
    script = [ASKED_ROUTE, answer(body=route("x:1").encode(standard=True)), cut()]
    with ScriptedPeer(script) as names, ClusterClient(names.address, clock=clock) as cluster:
        first = cluster.route("t")
        clock.advance(seconds=31)
        names._listener.close()
        assert cluster.route("t") is first


def test_a_send_that_has_no_time_left_has_the_next_one_ask_for_the_route() -> None:
    """While the only broker hangs, another that comes back is used at once, not when the route is 30 s old."""
    with (
        broker(expect(SEND)) as silent,
        broker(expect(SEND), answer(**STORED)) as back,
        ScriptedPeer(
            [
                *(ASKED_ROUTE, answer(body=route(silent.address).encode(standard=True))),
                *(ASKED_ROUTE, answer(body=route(silent.address, back.address).encode(standard=True))),
                wait_for_close(),
            ]
        ) as names,
        ClusterClient(names.address) as cluster,
    ):
        delivery = Delivery(cluster, "g", tries=3)
        cluster.route_to_publish(PARCEL.topic)  # which may take longer than that
        with pytest.raises(RequestTimeout):
            delivery.deliver(PARCEL, ANYWHERE, 50)
        (receipt,) = delivery.deliver(PARCEL, ANYWHERE, 3000)
    assert receipt.queue.broker_name == "broker-1"


def test_asynchronous_sends_of_a_forked_process_end() -> None:
    """Its further tries run on threads of its own, although its parent had some when it forked."""
    with ScriptedPeer([*(ASKED_ROUTE, answer(body=route("127.0.0.1:1").encode(standard=True))), cut()]) as names:
        producer = Producer(names.address)
        producer._cluster.route("t")
        names._listener.close()
        assert isinstance(producer.send_async(Message("t", b"from the parent")).exception(60), Unreachable)
        if (child := os.fork()) == 0:
            with suppress(BaseException):
                if isinstance(producer.send_async(Message("t", b"from the child")).exception(10), Unreachable):
                    os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        producer.close()


def test_name_servers_that_have_stopped_keep_no_message() -> None:
    """Their silence costs a send that would ask them a moment, and those that follow nothing."""
    clock = ManualClock()
    with (
        broker(*[expect(SEND), answer(**STORED)] * 3) as server,
        ScriptedPeer(
            [ASKED_ROUTE, answer(body=route(server.address).encode(standard=True)), ASKED_ROUTE, wait_for_close()]
        ) as names,
        ClusterClient(names.address, clock=clock, timeout_ms=60_000) as cluster,
    ):
        delivery = Delivery(cluster, "g", tries=1)
        delivery.deliver(PARCEL, ANYWHERE, 3000)
        clock.advance(seconds=31)
        delivery.deliver(PARCEL, ANYWHERE, 3000)
        assert cluster._routes.fresh("t", clock.monotonic_ms()) is not None
        delivery.deliver(PARCEL, ANYWHERE, 3000)


def test_the_next_name_server_is_asked() -> None:
    """One name server of several is enough; with none the error lists them and says what to do."""
    with ScriptedPeer() as nobody:
        dead = nobody.address
    with namesrv(route("x:1")) as names, ClusterClient(f"{dead};{names.address}") as cluster:
        assert cluster.route("t").brokers == {"broker-0": {0: "x:1"}}
    with ClusterClient(dead) as cluster, pytest.raises(Unreachable, match="rmq up") as caught:
        cluster.route("t")
    assert dead in caught.value.message
