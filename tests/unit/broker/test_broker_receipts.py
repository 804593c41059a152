"""Answers to sends: the form that is filled in gives what the common way gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rmqspark.broker.sending.batches import Batch
from rmqspark.broker.sending.drafting import Origin
from rmqspark.broker.sending.intake import Admitted
from rmqspark.broker.sending.receipts import Receipts
from rmqspark.errors import FlushTimeout, NotWritable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.command import RawCommand, decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.stencil import opaque_value
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.records.offset_ids import StoredRun, StoredTogether
from rmqspark.remoting.router import Route, Router

if TYPE_CHECKING:
    from rmqspark.remoting.request import Request

UNIQUE_KEY = "C0A8010A1F9018B4AAC25E0BE0F50007"
QUEUE_OFFSET, PHYSICAL_OFFSET = 5, 0x1234


class Outgoing:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.under_way = 0
        self.peer = ("127.0.0.1", 1)

    def send(self, buffers) -> None:
        self.sent.append(b"".join(buffers))


def receipts_of_a_broker() -> Receipts:
    receipts = Receipts(region_id="DefaultRegion", trace_on=True)
    receipts.set_store_host(bytes([192, 168, 1, 20]) + (10911).to_bytes(4, "big"))
    return receipts


def answer(transaction_id: str, *, serialize: str = "JSON", error=None, common_way: bool = False) -> bytes:
    """What is sent in answer to one message."""
    message = Admitted("orders", 1, bytearray(), transaction_id=transaction_id)

    def handle(request: Request) -> None:
        receipts = receipts_of_a_broker()
        if common_way:
            request.answer(receipts.reply_to(1, transaction_id, QUEUE_OFFSET, PHYSICAL_OFFSET, error))
        else:
            receipts.give(request, message, QUEUE_OFFSET, PHYSICAL_OFFSET, error)

    return sent_by(handle, serialize)


def answer_to_batch(transaction_id: str, *, serialize: str = "JSON", error=None, common_way: bool = False) -> bytes:
    """What is sent in answer to a batch of three messages."""
    origin = Origin("orders", 1, 0, bytes(8), 5, 0)
    batch = Batch(origin, b"", transaction_id, waits_for_flush=True)
    places = np.array([7, 0x1234, 0x12EF, 1 << 40, 8])

    def handle(request: Request) -> None:
        receipts = receipts_of_a_broker()
        if common_way:
            request.answer(receipts.reply_to_batch(batch, 5, StoredRun.of(places[1:4]), error))
        else:
            receipts.give_batch(request, batch, 5, StoredRun(StoredTogether(places), 1, 3), error)

    return sent_by(handle, serialize)


def sent_by(handle, serialize: str) -> bytes:
    header = SendMessageRequestHeaderV2("p", "orders", "TBW102", 4, 0, 0, 5, 0)
    frame = b"".join(encode_request(RequestCode.SEND_MESSAGE_V2, 2, header, b"x", serialize=serialize))
    outgoing = Outgoing()
    router = Router([{RequestCode.SEND_MESSAGE_V2: Route(SendMessageRequestHeaderV2, handle)}])
    router.dispatch(split_frame(frame[4:]), outgoing)
    (sent,) = outgoing.sent
    return sent


@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("transaction_id", [UNIQUE_KEY, "", 'quote"d', "ü", "a\\b", "\x03", "0"])
@pytest.mark.parametrize("error", [None, FlushTimeout("late")])
@pytest.mark.parametrize("way", [answer, answer_to_batch])
def test_both_ways_of_answering_give_the_same_bytes(way, transaction_id, serialize, error) -> None:
    """Whatever the sender calls its message: no id of its choosing can break out of the form."""
    quick = way(transaction_id, serialize=serialize, error=error)
    assert quick == way(transaction_id, serialize=serialize, error=error, common_way=True)


@pytest.mark.parametrize("region_id", ["München", "100%b"])
def test_a_region_may_have_any_name(region_id: str) -> None:
    """In a binary answer lengths count bytes, and nothing of a region's name is a place to be filled in."""
    receipts = Receipts(region_id=region_id, trace_on=True)
    for serialize_type, (form, prefixes) in enumerate(receipts.forms):
        header = form % (7, 1, 5, UNIQUE_KEY.encode(), opaque_value(serialize_type, 2))
        command = decode_command(RawCommand(serialize_type, memoryview(header), memoryview(b"")))
        assert split_frame(prefixes[len(header)][4:] + header).serialize_type == serialize_type
        assert (command.fields["MSG_REGION"], command.fields["queueOffset"], command.opaque) == (region_id, "5", 2)


def test_a_batch_hears_the_id_of_each_message() -> None:
    """Commas between them, as RocketMQ's clients split them."""
    fields = decode_command(split_frame(answer_to_batch("")[4:])).fields
    places = ("0000000000001234", "00000000000012EF", "0000010000000000")
    assert fields["msgId"] == ",".join(f"C0A8011400002A9F{place}" for place in places)
    assert fields["transactionId"] == ""


def test_a_receipt_has_what_rocketmqs_clients_read() -> None:
    """TV-3 of the spec's requests page, field for field."""
    command = decode_command(split_frame(answer(UNIQUE_KEY)[4:]))
    assert (command.code, command.opaque, command.is_response, command.version) == (0, 2, True, 479)
    assert command.fields == {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "msgId": "C0A8011400002A9F0000000000001234",
        "queueId": "1",
        "queueOffset": "5",
        "transactionId": UNIQUE_KEY,
    }


@pytest.mark.parametrize(
    ("error", "code", "has_place"),
    [
        (FlushTimeout("late"), ResponseCode.FLUSH_DISK_TIMEOUT, True),
        (NotWritable("no disk"), ResponseCode.SERVICE_NOT_AVAILABLE, False),
    ],
)
def test_what_is_stored_but_not_safe_is_told_apart_from_what_is_not_stored(error, code, has_place) -> None:
    """The first has a receipt, the second only a reason."""
    command = decode_command(split_frame(answer(UNIQUE_KEY, error=error)[4:]))
    assert command.code == code
    assert ("msgId" in command.fields) is has_place
    assert command.fields["TRACE_ON"] == "true"
