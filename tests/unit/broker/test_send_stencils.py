"""Which headers of sends become stencils, and what these say of the next one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.broker.sending.send_stencils import stencil_of
from rmqspark.broker.sending.usual_properties import read_usual
from rmqspark.protocol.commands.command import JSON, RawCommand, decode_envelope, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.headers.produce import SendMessageRequestHeader, SendMessageRequestHeaderV2

if TYPE_CHECKING:
    from rmqspark.broker.sending.send_stencils import SendStencil

BORN_MS = 1_700_000_000_000
KEY, OTHER_KEY = "7F0000010B2C18B4AAC25E0BE0F50007", "7F0000010B2C18B4AAC25E0BE0F50008"
BROKERS_OWN = b"CLUSTER\x01100%\x02"


def header(**changes: Any) -> SendMessageRequestHeaderV2:
    fields = {"a": "group", "b": "orders", "c": "TBW102", "d": 4, "e": 3, "f": 0, "g": BORN_MS, "h": 9}
    return SendMessageRequestHeaderV2(**{**fields, "i": f"UNIQ_KEY\x01{KEY}\x02WAIT\x01true", "j": 0, **changes})


def raw_of(fields: Any, opaque: int, serialize: Any) -> RawCommand:
    code = 310 if isinstance(fields, SendMessageRequestHeaderV2) else 10
    return split_frame(b"".join(encode_request(code, opaque, fields, b"body", serialize=serialize))[4:])


def raw_json(members: object) -> RawCommand:
    return RawCommand(JSON, memoryview(json.dumps(members, separators=(",", ":")).encode()), memoryview(b"body"))


def stencil(raw: RawCommand, kind: type = SendMessageRequestHeaderV2) -> SendStencil | None:
    envelope = decode_envelope(raw, kind)
    usual = read_usual(envelope.extFields.i if kind is SendMessageRequestHeaderV2 else envelope.extFields.properties)
    assert usual is not None
    return stencil_of(raw, envelope, usual[0], BROKERS_OWN)


@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize("is_v2", [True, False])
def test_a_stencil_reads_the_next_header(serialize: str, is_v2: bool) -> None:
    """Values that vary are the new ones, the rest is as before, the broker's own properties at the end."""
    first, second = header(), header(b="prices", e=1, g=BORN_MS + 1, i=f"UNIQ_KEY\x01{OTHER_KEY}\x02WAIT\x01true")
    kind = SendMessageRequestHeaderV2 if is_v2 else SendMessageRequestHeader
    raws = [raw_of(h if is_v2 else h.as_v1(), 17 + n, serialize) for n, h in enumerate((first, second))]
    made = stencil(raws[0], kind)
    assert made is not None
    found = made.unpack_from(raws[1].header, 0)
    assert found[::2] == made.between
    opaque = b"18" if serialize == "JSON" else bytes([0, 0, 0, 18])
    key = OTHER_KEY.encode()
    assert made.values(found) == (opaque, b"prices", b"1", b"%d" % (BORN_MS + 1), key)
    constant = made.constant
    assert constant.properties % key == b"UNIQ_KEY\x01" + key + b"\x02WAIT\x01true\x02" + BROKERS_OWN
    assert (constant.both, constant.waits_for_flush, constant.flag) == (None, True, 9)


@pytest.mark.parametrize("text", ["KEYS\x01{} b\x02UNIQ_KEY\x01{}\x02", "UNIQ_KEY\x01{}\x02TAGS\x015%\x02KEYS\x01{} b"])
def test_keys_vary_too(text: str) -> None:
    """Ahead of the id or behind it."""
    first, second = (raw_of(header(i=text.format(*pair)), 17, "JSON") for pair in (("A1", "B2"), ("C3", "D4")))
    made = stencil(first)
    assert made is not None
    assert made.constant.both is not None
    found = made.unpack_from(second.header, 0)
    assert found[::2] == made.between
    end = "" if text.endswith("\x02") else "\x02"
    properties = text.format("C3", "D4").encode() + end.encode() + BROKERS_OWN
    assert made.constant.properties % made.constant.both(found) == properties
    assert found[made.constant.keys_at] in (b"C3 b", b"D4 b")


@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize(
    "unusual",
    [
        header(g=BORN_MS // 10),
        header(g=BORN_MS * 10),
        header(i='UNIQ_KEY\x01A1\x02KEYS\x01"quoted"\x02'),
        header(i="UNIQ_KEY\x01A1\x02KEYS\x01---\x02"),
        header(b="---"),
    ],
    ids=["a short time", "a long time", "keys that JSON escapes", "keys without letters", "no letters"],
)
def test_where_values_could_not_vary_there_is_no_stencil(unusual: SendMessageRequestHeaderV2, serialize: str) -> None:
    """A number could get too large, a string end too early, or it could not be proved where a value stands."""
    assert stencil(raw_of(unusual, 17, serialize)) is None


def test_an_opaque_of_ten_digits_may_not_vary_in_json() -> None:
    """It could be more than 32 bits hold."""
    assert stencil(raw_of(header(), 1_000_000_000, "JSON")) is None
    assert stencil(raw_of(header(), 1_000_000_000, "ROCKETMQ")) is not None


FIELDS = {
    **{name: str(value) for name, value in zip("abcdefgh", ["g", "orders", "T", 4, 3, 0, BORN_MS, 0], strict=True)}
}


@pytest.mark.parametrize(
    "members",
    [
        {"code": 310, "opaque": 17, "extFields": {**FIELDS, "e": 3, "i": "UNIQ_KEY\x01A1\x02"}, "other": {"e": "3"}},
        {"code": 310, "extFields": {**FIELDS, "i": "UNIQ_KEY\x01A1\x02"}, "other": {"opaque": 0}},
        {"code": 310, "opaque": 17, "extFields": {**FIELDS, "i": "UNIQ_KEY\x01A1\x02", "x": "UNIQ_KEY\x01A1"}},
    ],
    ids=["a field", "the opaque", "the id"],
)
def test_a_value_that_stands_elsewhere_too_does_not_lead_astray(members: dict[str, Any]) -> None:
    """What is found in a wrong place is not what the header is read by, which shows."""
    assert stencil(raw_json(members)) is None
