"""Bytes that settle arguments: every vector decodes to what it means, and what it means encodes to it."""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from rmqspark.model import MessageQueue
from rmqspark.protocol import bodies, headers
from rmqspark.protocol.bodies.register import decode_register_body, register_crc32
from rmqspark.protocol.codes import Language, RequestCode
from rmqspark.protocol.commands.binary_header import BinaryHeader, decode_binary_header, encode_binary_header
from rmqspark.protocol.commands.command import decode_command, decode_envelope, peek_code, split_frame
from rmqspark.protocol.commands.encoding import encode_request, encode_response
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.headers.fields import from_fields, to_fields
from rmqspark.protocol.headers.produce import RecallMessageRequestHeader
from rmqspark.protocol.headers.registry import REQUEST_HEADERS
from rmqspark.protocol.signature import signature
from rmqspark.replication.stream import ReportDecoder, Transfer, TransferDecoder, report, transfer_head

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.golden

_HERE = Path(__file__).parent


def vectors(kind: str) -> list[Any]:
    files = sorted((_HERE / kind).glob("*.json"))
    return [pytest.param(json.loads(file.read_text()), id=file.stem) for file in files]


def named(package: ModuleType, name: str) -> Any:
    """The struct of this name in whichever family of headers or bodies has it."""
    families = [
        importlib.import_module(f"{package.__name__}.{family.name}")
        for family in pkgutil.iter_modules(package.__path__)
    ]
    return next(vars(family)[name] for family in families if name in vars(family))


def wire_of(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["wire"])


@pytest.mark.parametrize("vector", vectors("replication"))
def test_golden_replication_is_made_and_read_so(vector: dict[str, Any]) -> None:
    """Heads of transfers, with what follows still to come, heartbeats, and reports."""
    meaning, wire = vector["meaning"], wire_of(vector)
    offset = meaning["physical_offset"]
    if meaning["from"] == "slave":
        assert (report(offset), ReportDecoder().feed(wire)) == (wire, [offset])
    else:
        size = meaning["size"]
        assert transfer_head(offset, size) == wire
        assert TransferDecoder().feed(wire + bytes(size)) == [Transfer(offset, bytes(size))]


@pytest.mark.parametrize("vector", vectors("commands"))
def test_a_golden_command_decodes_to_its_meaning(vector: dict[str, Any]) -> None:
    """Commands of RocketMQ's clients and servers mean to us what they mean to each other."""
    meaning = vector["meaning"]
    (frame,) = FrameDecoder().feed(wire_of(vector))
    raw = split_frame(frame)
    command = decode_command(raw)
    assert ["JSON", "ROCKETMQ"][raw.serialize_type] == meaning["serialize"]
    assert peek_code(raw) == command.code == meaning["code"]
    assert (command.opaque, command.flag, command.version) == (meaning["opaque"], meaning["flag"], meaning["version"])
    assert (command.language, command.remark) == (meaning["language"], meaning["remark"])
    assert command.fields == meaning["fields"]
    assert bytes(raw.body).hex() == meaning["body"]


@pytest.mark.parametrize("vector", vectors("commands"))
def test_a_golden_command_is_what_we_would_send(vector: dict[str, Any]) -> None:
    """What a stock client or server would put on the wire, we put on the wire, byte for byte."""
    meaning = vector["meaning"]
    body = bytes.fromhex(meaning["body"])
    if meaning["flag"] & 1:
        buffers = encode_response(
            meaning["opaque"],
            meaning["code"],
            body=body,
            remark=meaning["remark"],
            extra=meaning["fields"],
            serialize=meaning["serialize"],
        )
    else:
        buffers = encode_request(
            meaning["code"],
            meaning["opaque"],
            body=body,
            extra=meaning["fields"],
            serialize=meaning["serialize"],
            language="JAVA",
        )
    assert b"".join(buffers).hex() == vector["wire"]


@pytest.mark.parametrize("vector", [v for v in vectors("commands") if v.values[0]["meaning"]["header"]])
def test_a_golden_command_fits_its_header(vector: dict[str, Any]) -> None:
    """The typed header of a golden command loses none of its fields, and gives them back as they were."""
    meaning = vector["meaning"]
    header_type = named(headers, meaning["header"])
    raw = split_frame(wire_of(vector)[4:])
    envelope = decode_envelope(raw, header_type)
    assert envelope.code == meaning["code"]
    assert envelope.extFields == from_fields(meaning["fields"], header_type)
    undeclared = {"MSG_REGION", "TRACE_ON"}
    assert to_fields(envelope.extFields) == {k: v for k, v in meaning["fields"].items() if k not in undeclared}
    if not meaning["flag"] & 1:
        assert REQUEST_HEADERS[RequestCode(meaning["code"])] is header_type


@pytest.mark.parametrize("vector", vectors("codes"))
def test_codes_beyond_16_bits_survive_a_binary_header(vector: dict[str, Any]) -> None:
    """POP requests with binary headers arrive as what they were, though the header has too few bits for their codes."""
    code = vector["meaning"]["code"]
    wire = encode_binary_header(BinaryHeader(code, Language.JAVA, 479, 1, 0, None, {}))
    assert wire[:2].hex() == vector["wire"]
    assert decode_binary_header(wire).code == code == RequestCode[vector["meaning"]["name"]]


@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("vector", vectors("signatures"))
def test_what_a_client_signed_is_what_we_decode(vector: dict[str, Any], serialize: Any) -> None:
    """A signature made by a stock client still fits the fields and the body after they came over the wire."""
    meaning = vector["meaning"]
    body = bytes.fromhex(meaning["body"])
    wire = b"".join(encode_request(meaning["code"], 1, None, body, extra=meaning["fields"], serialize=serialize))
    raw = split_frame(wire[4:])
    fields = decode_command(raw).fields
    signed = "".join(fields[name] for name in sorted(fields)).encode() + bytes(raw.body)
    assert signed.hex() == vector["wire"]
    assert signature(fields, raw.body, meaning["secretKey"]) == meaning["signature"]


@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("vector", vectors("handles"))
def test_a_recall_handle_travels_unharmed(vector: dict[str, Any], serialize: Any) -> None:
    """The handle of a message to recall is the text that RocketMQ makes, and comes through both kinds of header."""
    meaning = vector["meaning"]
    words = ["v1", meaning["topic"], meaning["brokerName"], str(meaning["deliverTimestamp"]), meaning["uniqueId"]]
    handle = base64.urlsafe_b64encode(" ".join(words).encode())
    assert handle.hex() == vector["wire"]
    sent = RecallMessageRequestHeader(topic=meaning["topic"], recallHandle=handle.decode())
    wire = b"".join(encode_request(RequestCode.RECALL_MESSAGE, 1, sent, serialize=serialize))
    assert decode_envelope(split_frame(wire[4:]), RecallMessageRequestHeader).extFields == sent


def body_of(meaning: dict[str, Any]) -> Any:
    value = dict(meaning["value"])
    if meaning["type"] == "ConsumeStats":  # JSON has no maps with queues for keys: pairs stand for them
        value["offsetTable"] = {MessageQueue(*queue): offsets for queue, offsets in value["offsetTable"]}
    return msgspec.convert(value, named(bodies, meaning["type"]), strict=False)


@pytest.mark.parametrize("vector", vectors("bodies"))
def test_a_golden_body_works_both_ways(vector: dict[str, Any]) -> None:
    """Bodies in RocketMQ's JSON, number keys and queue keys included, are read and written byte for byte."""
    meaning = vector["meaning"]
    body = body_of(meaning)
    assert type(body).decode(wire_of(vector)) == body
    assert body.encode(standard=meaning["standard"]) == wire_of(vector)


def test_the_registration_checksum_has_no_sign() -> None:
    """A registration is accepted under RocketMQ's 31-bit checksum."""
    vector = json.loads((_HERE / "bodies" / "register_broker.json").read_text())
    meaning, wire = vector["meaning"], wire_of(vector)
    assert zlib.crc32(wire) == meaning["crc32"]
    assert register_crc32(wire) == meaning["bodyCrc32"]
    body = decode_register_body(wire, compressed=False, version=479, crc32=meaning["bodyCrc32"])
    assert body == body_of(meaning)
