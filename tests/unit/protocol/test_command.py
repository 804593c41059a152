"""Commands: typed where they are stock, tolerant where they are odd, an error where they are broken."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqspark.errors import DecodeError, FrameError, HeaderError, InvalidArgument
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.command import (
    JSON,
    MAX_HEADER_BYTES,
    MAX_RESPONSE_HEADER_BYTES,
    ROCKETMQ,
    Command,
    RawCommand,
    Serialize,
    decode_command,
    decode_envelope,
    peek_code,
    split_frame,
)
from rmqspark.protocol.commands.encoding import encode_request, encode_response
from rmqspark.protocol.headers.cluster import GetRouteInfoRequestHeader
from rmqspark.protocol.headers.consume import (
    HeartbeatRequestHeader,
    OffsetResponseHeader,
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
)
from rmqspark.protocol.headers.fields import to_fields
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rmqspark.protocol.headers.registry import REQUEST_HEADERS

if TYPE_CHECKING:
    from rmqspark.protocol.headers.types import Header


def raw_json(header: bytes | str | dict[str, Any]) -> RawCommand:
    if isinstance(header, dict):
        header = json.dumps(header)
    data = header.encode() if isinstance(header, str) else header
    return RawCommand(JSON, memoryview(data), memoryview(b""))


def sent(buffers: list[Any]) -> RawCommand:
    return split_frame(b"".join(buffers)[4:])


ROUTE = {"code": 105, "extFields": {"topic": "T"}, "opaque": 7, "flag": 0, "version": 479, "language": "GO"}


def test_a_stock_header_is_decoded_in_one_pass() -> None:
    """A route request decodes into its own struct, unknown members ignored."""
    envelope = decode_envelope(raw_json({**ROUTE, "serializeTypeCurrentRPC": "JSON"}), GetRouteInfoRequestHeader)
    assert envelope.extFields == GetRouteInfoRequestHeader("T")
    assert (envelope.code, envelope.opaque, envelope.version, envelope.language) == (105, 7, 479, "GO")


ODD = {
    "control characters as they are": b'{"code":105,"extFields":{"topic":"a\x01b\x02\n"}}',
    "escaped control characters": rb'{"code":105,"extFields":{"topic":"a\u0001b\u0002\n"}}',
    "single quotes": b"{'code':105,'extFields':{'topic':'a\x01b\x02\\n'}}",
    "bare keys": b'{code:105,extFields:{topic:"a\x01b\x02\\n"}}',
    "trailing junk": b'{"code":105,"extFields":{"topic":"a\\u0001b\\u0002\\n"}} \x00junk',
    "trailing comma": b'{"code":105,"extFields":{"topic":"a\\u0001b\\u0002\\n",},}',
    "numbers as strings": rb'{"code":"105","extFields":{"topic":"a\u0001b\u0002\n"},"opaque":"0"}',
    "a key twice": rb'{"code":105,"extFields":{"topic":"other","topic":"a\u0001b\u0002\n"}}',
    "nested unknown members": rb'{"code":105,"x":[{"y":[]}],"extFields":{"z":{"a":[1]},"topic":"a\u0001b\u0002\n"}}',
    "nulls": rb'{"code":105,"remark":null,"extFields":{"topic":"a\u0001b\u0002\n","acceptStandardJsonOnly":null}}',
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD.keys())
def test_odd_json_means_what_fastjson_takes_it_for(data: bytes) -> None:
    """Clients whose JSON only RocketMQ's own parser accepts are understood all the same."""
    raw = raw_json(data)
    assert decode_command(raw).fields["topic"] == "a\x01b\x02\n"
    assert decode_envelope(raw, GetRouteInfoRequestHeader).extFields.topic == "a\x01b\x02\n"
    assert peek_code(raw) == 105


def test_scalars_beside_strings_are_read_as_their_text() -> None:
    """A client that sends numbers and booleans in its fields is understood as if it had sent strings."""
    raw = raw_json(
        '{"code":14,"extFields":{"consumerGroup":"g","topic":5,"queueId":3,"setZeroIfNotFound":false,"d":1.5}}'
    )
    assert decode_command(raw).fields == {
        "consumerGroup": "g",
        "topic": "5",
        "queueId": "3",
        "setZeroIfNotFound": "false",
        "d": "1.5",
    }
    header = decode_envelope(raw, QueryConsumerOffsetRequestHeader).extFields
    assert header == QueryConsumerOffsetRequestHeader("g", "5", 3, setZeroIfNotFound=False)


def test_a_request_without_fields_has_defaults() -> None:
    """A 4.x heartbeat, which has no fields at all, is a heartbeat."""
    envelope = decode_envelope(raw_json('{"code":34,"opaque":3}'), HeartbeatRequestHeader)
    assert (envelope.extFields, envelope.opaque, envelope.version) == (HeartbeatRequestHeader(), 3, 0)


def test_an_unknown_language_is_other() -> None:
    """A client in a language that we have never heard of is served."""
    raw = raw_json({**ROUTE, "language": "ZIG"})
    assert decode_command(raw).language == "OTHER"
    assert decode_envelope(raw, GetRouteInfoRequestHeader).language == "OTHER"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"topic": "T", "consumerGroup": "g"}, "'queueId'"),
        ({"topic": "T", "consumerGroup": "g", "queueId": "many"}, "'queueId'"),
        ({"topic": "T", "consumerGroup": "g", "queueId": "2147483648"}, "'queueId'"),
        ({"consumerGroup": "g", "queueId": "0"}, "'topic'"),
    ],
)
@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
def test_a_missing_field_is_named(fields: dict[str, str], complaint: str, serialize: Serialize) -> None:
    """Who leaves out a field, or sends nonsense in it, is told which one."""
    raw = sent(encode_request(14, 1, extra=fields, serialize=serialize))
    with pytest.raises(HeaderError, match=complaint):
        decode_envelope(raw, QueryConsumerOffsetRequestHeader)


def test_an_optional_field_that_cannot_be_read_is_absent() -> None:
    """As with RocketMQ, nonsense in a field that may be left out does no harm."""
    fields = {"topic": "T", "consumerGroup": "g", "queueId": "+7", "setZeroIfNotFound": "no"}
    header = decode_envelope(sent(encode_request(14, 1, extra=fields)), QueryConsumerOffsetRequestHeader).extFields
    assert header == QueryConsumerOffsetRequestHeader("g", "T", 7, setZeroIfNotFound=False)


BROKEN = {
    "nothing": b"",
    "no JSON": b"hello",
    "no object": b"[1,2]",
    "cut off": b'{"code":105,"extFields":{"topic":"T',
    "a code that is none": b'{"code":"soon","extFields":{"topic":"T"}}',
    "a code beyond 32 bits": b'{"code":4294967296,"extFields":{"topic":"T"}}',
    "an opaque beyond 32 bits": b'{"code":105,"opaque":99999999999,"extFields":{"topic":"T"}}',
    "an endless number": b'{"code":' + b"1" * 5000 + b"}",
    "too many fields": json.dumps({"code": 105, "extFields": {f"k{i}": "v" for i in range(257)}}).encode(),
    "too many numbers": json.dumps({"code": 105, "extFields": {f"k{i}": i for i in range(257)}}).encode(),
    "brackets to drown in": b'{"code":105,"extFields":' + b"[" * 60_000,
    "braces to drown in": b'{"a":' * 12_000,
    "objects as keys": b"{" * 60_000,
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_broken_json_is_an_error_of_one_kind(data: bytes) -> None:
    """No header, however malformed or deep, does more than fail its own request."""
    with pytest.raises(HeaderError):
        decode_command(raw_json(data))
    with pytest.raises(HeaderError):
        decode_envelope(raw_json(data), QueryConsumerOffsetRequestHeader)


@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
def test_what_is_no_unicode_is_named(serialize: Any) -> None:
    """A word of a command line may hold any byte; one that no header can carry is an error that shows it."""
    with pytest.raises(InvalidArgument, match=r"'caf\\udce9' is not valid Unicode"):
        encode_request(RequestCode.QUERY_MESSAGE, 1, serialize=serialize, extra={"topic": "t", "key": "caf\udce9"})


def test_headers_have_a_size() -> None:
    """A header over 64 KiB is refused before it is looked at, and never sent."""
    word = struct.pack(">I", MAX_HEADER_BYTES + 1)
    with pytest.raises(HeaderError, match="65537"):
        split_frame(word + bytes(MAX_HEADER_BYTES + 1))
    with pytest.raises(InvalidArgument, match="over the limit"):
        encode_request(105, 1, GetRouteInfoRequestHeader("x" * MAX_HEADER_BYTES))


def test_the_ids_of_a_large_batch_come_back() -> None:
    """The answer to a batch of thousands of messages names each of them, however long that makes its header."""
    ids = ",".join(f"{i:032X}" for i in range(5000))
    answer = encode_response(1, 0, SendMessageResponseHeader(ids, 0, 0))
    raw = split_frame(b"".join(answer)[4:], max_header_bytes=MAX_RESPONSE_HEADER_BYTES)
    assert decode_envelope(raw, SendMessageResponseHeader).extFields.msgId == ids


def test_frames_that_contradict_themselves_are_refused() -> None:
    """A header longer than its frame, or of an unknown kind, ends the connection."""
    with pytest.raises(FrameError, match="no room"):
        split_frame(b"\0\0\0")
    with pytest.raises(FrameError, match="claims a header of 3"):
        split_frame(b"\0\0\0\3{}")
    with pytest.raises(HeaderError, match="serialization type 2"):
        split_frame(b"\2\0\0\0")
    with pytest.raises(HeaderError, match="serialization type 255"):
        split_frame(b"\xff\0\0\0")


@pytest.mark.parametrize(("serialize", "serialize_type"), [("JSON", JSON), ("ROCKETMQ", ROCKETMQ)])
def test_responses_echo_and_say_so(serialize: Serialize, serialize_type: int) -> None:
    """An answer carries the request's number, the response bit, a remark, and fields beside those of its header."""
    header, extra = OffsetResponseHeader(5), {"TRACE_ON": "true"}
    raw = sent(encode_response(42, 3442, header, b"abc", remark="FOUND", extra=extra, serialize=serialize))
    command = decode_command(raw)
    assert command == Command(3442, 42, 1, 479, "JAVA", "FOUND", {"TRACE_ON": "true", "offset": "5"})
    assert (raw.serialize_type, peek_code(raw)) == (serialize_type, 3442)  # as a request it would be POP_MESSAGE
    assert command.is_response
    assert not command.is_oneway
    assert raw.body == b"abc"


def test_oneway_requests_are_marked() -> None:
    """A request that wants no answer says so, and who asks is named."""
    raw = sent(encode_request(RequestCode.UPDATE_CONSUMER_OFFSET, 9, oneway=True))
    command = decode_command(raw)
    assert command.is_oneway
    assert not command.is_response
    assert (command.code, command.language, command.fields) == (15, "PYTHON", {})


def test_a_forged_second_code_does_not_change_what_is_asked() -> None:
    """What a request is checked for is what its first member says, whatever a later one claims."""
    raw = raw_json('{"code":310,"code":17,"extFields":{"topic":"T"}}')
    assert peek_code(raw) == 310


def test_a_binary_header_that_looks_like_json_is_binary() -> None:
    """The kind of a header is what its frame says, not what its bytes resemble."""
    text = b'{"code":310,"extFields":{}}'
    raw = RawCommand(ROCKETMQ, memoryview(text), memoryview(b""))
    assert peek_code(raw) == int.from_bytes(text[:2], "big")
    with pytest.raises(HeaderError):
        decode_command(raw)


@cache  # to make one takes longer than to draw from it
def strategy_for(header_type: type[Header]) -> st.SearchStrategy[Any]:
    # An empty string does not survive a binary header, and a lone surrogate no encoding at all.
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
    fields = {field.name: _values(field, text) for field in msgspec.structs.fields(header_type)}
    return st.builds(header_type, **fields)


def _values(field: msgspec.structs.FieldInfo, text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    described = str(field.type)
    if "bool" in described:
        values: st.SearchStrategy[Any] = st.booleans()
    elif "str" in described:
        values = text
    else:
        bits = 63 if str(2**63 - 1) in described else 31
        values = st.integers(-(2**bits), 2**bits - 1)
    return values if field.required else st.none() | values


@pytest.mark.property
@pytest.mark.parametrize("header_type", sorted({*REQUEST_HEADERS.values()}, key=str))
@settings(max_examples=15)
@given(data=st.data(), serialize=st.sampled_from(["JSON", "ROCKETMQ"]))
def test_every_request_header_makes_the_round_trip(
    header_type: type[Header], data: st.DataObject, serialize: Serialize
) -> None:
    """Whatever a request says, it still says on the other side, with either kind of header."""
    header = data.draw(strategy_for(header_type))
    raw = sent(encode_request(31, 5, header, b"body", serialize=serialize))
    envelope = decode_envelope(raw, header_type)
    assert envelope.extFields == header
    assert decode_command(raw).fields == to_fields(header)
    assert (peek_code(raw), envelope.opaque) == (31, 5)


@pytest.mark.property
@given(st.binary(max_size=300), st.sampled_from([JSON, ROCKETMQ]))
def test_any_bytes_are_a_header_or_an_error(data: bytes, serialize_type: int) -> None:
    """No bytes in a header make anything happen but a decode or its one kind of error."""
    raw = RawCommand(serialize_type, memoryview(data), memoryview(b""))
    for decode in (decode_command, peek_code, lambda r: decode_envelope(r, PullMessageRequestHeader)):
        with suppress(DecodeError):
            decode(raw)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.property
@given(
    st.fixed_dictionaries(
        {},
        optional={name: json_like for name in ("code", "opaque", "flag", "version", "language", "remark", "extFields")},
    ),
    st.data(),
)
def test_any_json_is_a_header_or_an_error(members: dict[str, Any], data: st.DataObject) -> None:
    """Headers of the right shape with the wrong things in them fail in one way, too, cut anywhere or not."""
    text = json.dumps(members).encode()
    raw = raw_json(text[: data.draw(st.integers(0, len(text)))])
    for decode in (decode_command, peek_code, lambda r: decode_envelope(r, SendMessageRequestHeaderV2)):
        with suppress(DecodeError):
            decode(raw)
