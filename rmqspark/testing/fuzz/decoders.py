"""All that takes bytes from outside, called as servers and clients call it. Nothing but an RmqError may escape."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.broker.delays.parked_bulks import ParkedBulks
from rmqspark.broker.pulling.subscriptions import parse_subscription
from rmqspark.broker.sending.bulks import BulkIntake
from rmqspark.clock import SystemClock
from rmqspark.errors import RmqError
from rmqspark.protocol import fastjson
from rmqspark.protocol.bodies.register import decode_register_body
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.topic_ranges import decode_found, decode_ranges, encode_ranges
from rmqspark.protocol.bulk.topic_rows import decode_topic_rows, records_bytes, records_of_topic_rows
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.command import (
    Envelope,
    RawCommand,
    decode_command,
    decode_envelope,
    peek_code,
    split_frame,
)
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.faults import from_response
from rmqspark.protocol.headers.bulk import BulkSendRequestHeader, TopicsReadRequestHeader, TopicsSendRequestHeader
from rmqspark.protocol.headers.cluster import RegisterBrokerRequestHeader
from rmqspark.protocol.headers.registry import REQUEST_HEADERS
from rmqspark.protocol.records.batch import decode_batch
from rmqspark.protocol.records.compression import decompress
from rmqspark.protocol.records.properties import decode_properties
from rmqspark.protocol.records.record import decode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.remoting.response import Response
from rmqspark.store.appending.bulk_check import check_bulk, check_rows, check_topic_rows
from rmqspark.testing.fuzz.bodies import BODIES

if TYPE_CHECKING:
    import msgspec

SENDS: Final = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})
_MAX_BODY_BYTES: Final = 4 << 20
_PARKED: Final = ParkedBulks(
    lambda topic, queue_id: None, lambda messages: None, SystemClock(), levels=18, max_delay_ms=259_200_000
)
_BULKS: Final = BulkIntake(_PARKED, checks_bodies=False)


def receive(data: bytes) -> int:
    """Takes bytes in as a server does, up to where a handler would begin; the number of commands found."""
    commands = 0
    try:
        for frame in FrameDecoder().feed(bytearray(data)):
            commands += 1
            _take_command(split_frame(frame))
    except RmqError:
        pass
    return commands


def _take_command(raw: RawCommand) -> None:
    code = peek_code(raw)
    decode_command(raw)
    header_type = REQUEST_HEADERS.get(code)  # type: ignore[call-overload]
    try:
        if header_type is None:
            take_body(code, None, raw.body)
        else:
            take_body(code, decode_envelope(raw, header_type), raw.body)
    except RmqError:
        return


def take_body(code: int, envelope: Envelope[msgspec.Struct] | None, body: memoryview) -> None:
    """Decodes a body as the handler of its request does. Raises RmqError."""
    if code in SENDS:
        for element in decode_batch(body):
            decode_properties(element.properties)
    elif kind := BODIES.get(code):  # type: ignore[call-overload]
        decoded = kind.decode(body)
        decoded.encode()
        decoded.encode(standard=True)
    if envelope is None:
        return
    match envelope.extFields:
        case BulkSendRequestHeader() as header:
            bulk = _BULKS.open(header, body)
            if isinstance(bulk, BulkRows):
                check_rows(bulk, header.topic, _MAX_BODY_BYTES)
                bulk = RecordBatch.scan(bulk.records(header.topic, header.queueId).buffer)
            check_bulk(bulk, header.topic, header.queueId, _MAX_BODY_BYTES)
            _look_at(bulk)
        case TopicsSendRequestHeader() as header:
            runs, rows = decode_topic_rows(body, header.queues, header.count)
            check_topic_rows(runs, rows, _MAX_BODY_BYTES)
            out = np.empty(records_bytes(runs, rows), np.uint8)
            _look_at(RecordBatch.scan(records_of_topic_rows(runs, rows, out).buffer))
        case TopicsReadRequestHeader() as header:
            encode_ranges(decode_ranges(body, header.ranges))
        case RegisterBrokerRequestHeader() as header:
            decode_register_body(
                body, compressed=bool(header.compressed), version=envelope.version, crc32=header.bodyCrc32 or 0
            )


def receive_answer(data: bytes) -> None:
    """Takes bytes in as a client does: an answer whose body is records, JSON or both."""
    try:
        for frame in FrameDecoder().feed(data):
            raw = split_frame(frame)
            response = Response.of(decode_command(raw), raw.body)
            str(from_response(response.code, response.remark, topic="t"))
            read_records(bytes(raw.body))
            with suppress(RmqError):
                decode_found(raw.body, response.opaque & 3, response.opaque >> 2 & 3)
    except RmqError:
        return


def read_records(data: bytes) -> None:
    """Records as they come in pulls, one by one and all at once. Both ways must take the same bytes for records."""
    try:
        count = _read_one_by_one(data)
    except RmqError:
        count = -1
    try:
        batch = RecordBatch.scan(data)
        batch.check(check_crc=True)
    except RmqError:
        batch = None
    if count != (-1 if batch is None else len(batch)):
        raise AssertionError(f"One by one there are {count} records, all at once {batch and len(batch)}.")
    if batch is not None:
        _look_at(batch)


def _read_one_by_one(data: bytes) -> int:
    count = at = 0
    while at < len(data):
        record = decode_record(data, at)
        record.property_map()
        with suppress(RmqError):
            decompress(record.body, record.sys_flag, _MAX_BODY_BYTES)
        at += record.size
        count += 1
    return count


def _look_at(records: RecordBatch) -> None:
    """Reads every column there is."""
    for name in ("queue_offsets", "physical_offsets", "born_timestamps_ms", "store_timestamps_ms", "reconsume_times"):
        getattr(records, name)
    records.property_pairs()
    records.tags_codes()
    records.property_spans(b"KEYS")
    records.has_any_property((b"DELAY",))
    records.is_all_of_topic(b"fuzz-a")


def read_text(data: bytes) -> None:
    """The small languages: JSON, properties, tag expressions, SQL92."""
    decode_properties(data)
    text = data.decode("utf-8", "replace")
    for read in (
        lambda: fastjson.loads(data),
        lambda: parse_subscription(text, "TAG", property_filter=True),
        lambda: parse_subscription(text, "SQL92", property_filter=True),
    ):
        with suppress(RmqError):
            read()
