"""What `rmq bench` measures with: requests made once, answers counted, times summed up."""

from __future__ import annotations

import os
import resource
import socket
from array import array
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.cli.bench import verb
from rmqspark.cli.bench.cpu import ServerCpu
from rmqspark.cli.bench.figures import Latencies, StageFigures
from rmqspark.cli.bench.frames import SendFrame
from rmqspark.cli.bench.load import Lane, SendLoad
from rmqspark.cli.bench.stages import Bench, Plan, fill_plan
from rmqspark.clock import SystemClock
from rmqspark.errors import Busy, ConnectionLost, InvalidArgument, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.records.batch import decode_batch
from rmqspark.protocol.records.properties import Property, decode_properties
from rmqspark.protocol.signature import signature, signer
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, cut, expect, send_bytes

QUEUE = MessageQueue("t", "broker-a", 3)
RUN = "0123456789ABCDEF0123"


def decoded(frame: bytes | bytearray) -> tuple[dict[str, str], int, bytes]:
    """Fields, code and body of a request."""
    (whole,) = FrameDecoder().feed(bytes(frame))
    raw = split_frame(whole)
    command = decode_command(raw)
    return command.fields, command.code, bytes(raw.body)


def test_every_message_has_an_id_of_its_own() -> None:
    """A single send is what a producer sends, with the number of the request in its unique id."""
    frame = SendFrame(QUEUE, 7, 1, 100, RUN, 1_700_000_000_000)
    ids = []
    for number in (0, 1, (1 << 32) - 1):
        fields, code, body = decoded(frame.numbered(number))
        assert (code, fields["b"], fields["e"], fields["n"]) == (RequestCode.SEND_MESSAGE_V2, "t", "3", "broker-a")
        assert body == b"x" * 100
        ids.append(decode_properties(fields["i"].encode())[Property.UNIQ_KEY])
    assert ids == [f"{RUN}{number:08X}0000" for number in (0, 1, (1 << 32) - 1)]


def test_so_have_those_of_a_batch() -> None:
    """A batch is RocketMQ's batch request, its messages numbered."""
    fields, code, body = decoded(SendFrame(QUEUE, 7, 3, 10, RUN, 1_700_000_000_000).numbered(255))
    assert (code, fields["m"]) == (RequestCode.SEND_BATCH_MESSAGE, "true")
    elements = decode_batch(body)
    assert [bytes(element.body) for element in elements] == [b"x" * 10] * 3
    ids = [decode_properties(element.properties)[Property.UNIQ_KEY] for element in elements]
    assert ids == [f"{RUN}000000FF{number:04X}" for number in range(3)]


def test_what_no_server_reads_is_not_sent() -> None:
    """The error says what is too large, before anything hangs up."""
    with pytest.raises(InvalidArgument, match=r"32 messages of 1,048,576 bytes.* more than 16,777,216.*--batch"):
        SendFrame(QUEUE, 7, 32, 1 << 20, RUN, 1_700_000_000_000)


@pytest.mark.parametrize(
    ("body_bytes", "missing", "asked"),
    [(128, 1_000_000, (64, 4, 32)), (1 << 21, 448, (8, 4, 1)), (4 << 20, 3, (1, 3, 1)), (128, 1, (1, 1, 1))],
)
def test_what_is_to_be_read_is_sent_a_little_at_once(
    body_bytes: int, missing: int, asked: tuple[int, int, int]
) -> None:
    """Connections, sends under way on each, and messages in one: more would be more than is missing, or memory."""
    plan = Plan(seconds=1, messages=None, body_bytes=body_bytes, connections=64, depth=1, batch=1, rate=1)
    found = fill_plan(plan, missing)
    assert (found.connections, found.depth, found.batch) == asked
    assert found.connections * found.depth * found.batch <= missing


@pytest.mark.parametrize("messages", [1, 3])
def test_each_request_is_signed(messages: int) -> None:
    """As a server verifies it, with the number of the request in what is signed."""
    frame = SendFrame(QUEUE, 7, messages, 10, RUN, 1_700_000_000_000, signer("bench", "s3cret"))
    signatures = set()
    for number in range(4):
        fields, _, body = decoded(frame.numbered(number))
        assert fields["AccessKey"] == "bench"
        assert fields["Signature"] == signature(fields, body, "s3cret")
        signatures.add(fields["Signature"])
    assert len(signatures) == 4


def frames(count: int) -> list[SendFrame]:
    return [SendFrame(QUEUE, number, 1, 10, RUN, 0) for number in range(count)]


STORED, REFUSED = answer(msgId="x", queueId="0"), answer(ResponseCode.SYSTEM_BUSY, remark="too much")
SEND = expect(RequestCode.SEND_MESSAGE_V2)


def test_answers_are_counted_however_they_arrive() -> None:
    """Several at once, or one in pieces; refusals are counted apart, for they are no sends that were quick; nothing is
    left under way at the end."""
    whole = b"".join(encode_response(1, 0, extra={"msgId": "x"}))
    pieces = [send_bytes(whole[:3]), send_bytes(whole[3:50]), send_bytes(whole[50:] + whole)]
    with ScriptedPeer([SEND, SEND, *pieces, SEND, SEND, STORED, REFUSED]) as peer:
        lane = Lane(peer.address, frames(2))
        load = SendLoad([lane], 1)
        result = load.run(2, lambda messages, nanoseconds: messages >= 2)
        load.close()
    assert (result.messages, result.refused, len(result.latencies_ns)) == (3, 1, 3)
    assert (type(result.refusal), result.refusal and result.refusal.message) == (Busy, "too much")
    assert lane.under_way == 0
    assert all(nanoseconds > 0 for nanoseconds in result.latencies_ns)
    ids = {request.fields["i"] for request in peer.requests}
    assert len(ids) == 4


def test_a_server_that_goes_is_named() -> None:
    """A broker that dies under the load ends it with its address."""
    with ScriptedPeer([SEND, cut()]) as peer:
        load = SendLoad([Lane(peer.address, frames(1))], 1)
        with pytest.raises(ConnectionLost, match=peer.address):
            load.run(1, lambda messages, nanoseconds: False)
        load.close()


def test_so_is_one_that_nothing_can_be_sent_to_any_more() -> None:
    """A broken pipe is not taken for a reader of our output that has gone, which ends rmq without a word."""
    with ScriptedPeer([SEND, cut()]) as peer:
        lane = Lane(peer.address, frames(1))

        def send_on() -> None:
            for number in range(1_000):
                lane.send(1, number)
                with suppress(ConnectionLost):
                    lane.receive(array("q"))

        with pytest.raises(ConnectionLost, match="broke: (Broken pipe|Connection reset)"):
            send_on()
        lane.close()


def test_one_that_is_not_there_is_named() -> None:
    """The system says only that a connection was refused."""
    with pytest.raises(Unreachable, match="No connection to 127.0.0.1:1: Connection refused"):
        Lane("127.0.0.1:1", frames(1))


def test_more_connections_than_files_may_be_open() -> None:
    """It is said what to ask for instead."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ScriptedPeer() as peer:
        highest = os.dup(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, limits[1]))
        try:
            with pytest.raises(Unreachable, match="Too many open files. Ask for fewer --connections"):
                Lane(peer.address, frames(1))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            os.close(highest)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=200))
def test_percentiles_are_within_what_was_measured(nanoseconds: list[int]) -> None:
    """They ascend, and none is above the longest."""
    told = Latencies.of(array("q", nanoseconds))
    assert told is not None
    values = list(told.percentiles.values())
    assert values == sorted(values)
    assert values[-1] <= told.longest == round(max(nanoseconds) / 1000, 1)
    assert (told.count, list(told.percentiles)) == (len(nanoseconds), ["p50", "p90", "p99", "p99.9"])


def test_nothing_measured_is_no_number() -> None:
    """An interrupted stage has no percentiles, and no division by zero."""
    assert Latencies.of(array("q")) is None
    figures = StageFigures("producer", 0, 0.0, 128, None)
    assert (figures.rate, figures.as_object()["latencyMicros"]) == (0.0, None)


@pytest.mark.parametrize(
    ("stage", "seconds", "is_short"), [("consumer", 0.3, True), ("consumer", 2.0, False), ("producer", 0.3, False)]
)
def test_a_backlog_read_in_no_time_is_called_short(
    stage: str, seconds: float, is_short: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stage that ended because there was nothing left to read says so, and what helps."""
    verb._print([StageFigures(stage, 1_000, seconds, 128, None)])
    assert ("a larger --backlog" in capsys.readouterr().out) is is_short


def test_what_was_refused_and_a_rate_that_was_not_come_to_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """With what one refusal says; and why times are long where more was asked for than one sender can do."""
    verb._print([StageFigures("producer", 1_000, 1.0, 128, None, errors=2, refusal="Too large.")])
    assert "Refused: 2 sends, one with: Too large.\n" in capsys.readouterr().out
    for rate, is_told in ((1_000, False), (1_200, True)):
        verb._print([StageFigures("end-to-end", 1_000, 1.0, 128, None, settings={"rate": rate})])
        assert (f"--rate {rate} is more than one sender comes to" in capsys.readouterr().out) is is_told


@pytest.mark.parametrize(("body_bytes", "messages"), [(8, 1_000_000), (1 << 20, 1024), (4 << 20, 256)])
def test_a_backlog_fills_no_disk(body_bytes: int, messages: int) -> None:
    """A million bodies of a megabyte did."""
    assert verb._backlog(body_bytes) == messages


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="reads /proc")
def test_the_process_behind_an_address_is_found() -> None:
    """By the port it listens on, on this machine; elsewhere nothing is known."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        here = ServerCpu([f"127.0.0.1:{port}"])
        assert here.pids == [os.getpid()]
        used = here.seconds()
        assert used is not None
        assert used > 0
    assert ServerCpu([f"10.1.2.3:{port}"]).seconds() is None
    assert ServerCpu([]).pids == []


def test_who_has_stopped_it_is_not_kept_by_what_a_next_stage_would_need() -> None:
    """After Ctrl-C nothing more is sent to be read: nobody is even asked how much there is."""
    plan = Plan(seconds=1, messages=None, body_bytes=8, connections=1, depth=1, batch=1, rate=1)
    nowhere = Bench("127.0.0.1:1", {}, [QUEUE], [QUEUE], plan, SystemClock(), lambda: True)
    assert verb._measure(nowhere, ["consumer"], backlog=1_000, stopped=[2], quiet=True) == []
