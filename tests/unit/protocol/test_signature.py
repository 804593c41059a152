"""Signatures of requests: RocketMQ's own vectors are in tests/golden/signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.signature import signature, signer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.protocol.commands.command import Serialize

SECRET = "12345678"
TV_5 = {"topic": "TopicTest", "AccessKey": "RocketMQ"}
HEADER = SendMessageRequestHeaderV2(
    a="PG",
    b="TopicTest",
    c="TBW102",
    d=4,
    e=1,
    f=0,
    g=1_700_000_000_000,
    h=0,
    i="UNIQ_KEY\x010A\x02",
    j=0,
    k=False,
    m=False,
    n="broker-a",
)
OF_TV_6 = "n2Br7/KbESMRpDeSbYUrHMdCTjM="


def reference(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """What AclUtils and AclSigner do, in the plainest words."""
    text = ""
    for name in sorted(fields, key=lambda name: list(name.encode("utf-16-be"))):
        if name != "Signature":
            text += fields[name]
    digest = hmac.new(secret_key.encode("utf-8"), text.encode("utf-8") + body, hashlib.sha1)
    return base64.b64encode(digest.digest()).decode("ascii")


def test_a_request_without_a_body() -> None:
    """RocketMQ's signature of the same fields (TV-5); one that is there already is no part of what is signed."""
    assert signature(TV_5, b"", SECRET) == "0jiwhsaYp5ObE5GObbZH1I8/FT4="
    assert signature({**TV_5, "Signature": "x"}, b"", SECRET) == "0jiwhsaYp5ObE5GObbZH1I8/FT4="


@pytest.mark.parametrize(
    "body", [b"Hello", bytearray(b"Hello"), memoryview(b"Hello"), [b"He", b"", memoryview(b"llo")]]
)
@pytest.mark.parametrize("serialize", ["JSON", "ROCKETMQ"])
def test_a_request_as_it_goes_out(body: bytes, serialize: Serialize) -> None:
    """A send carries the key and RocketMQ's signature of it (TV-6), its body in one piece or in several."""
    sign = signer("RocketMQ", SECRET)
    wire = b"".join(encode_request(310, 7, HEADER, body, serialize=serialize, sign=sign))
    raw = split_frame(wire[4:])
    fields = decode_command(raw).fields
    assert bytes(raw.body) == b"Hello"
    assert (fields["AccessKey"], fields["Signature"]) == ("RocketMQ", OF_TV_6)
    assert "SecurityToken" not in fields


def test_a_token_is_signed_too() -> None:
    """Who was lent a pair of keys says so in a field of its own."""
    wire = b"".join(encode_request(RequestCode.HEART_BEAT, 1, sign=signer("ak", "sk", "lent"), body=b"{}"))
    fields = decode_command(split_frame(wire[4:])).fields
    assert fields.pop("Signature") == reference({"AccessKey": "ak", "SecurityToken": "lent"}, b"{}", "sk")
    assert fields == {"AccessKey": "ak", "SecurityToken": "lent"}


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(TEXT, TEXT, max_size=12), st.lists(st.binary(max_size=64), max_size=4), TEXT)
def test_any_request(fields: dict[str, str], parts: list[bytes], secret_key: str) -> None:
    """Whatever the names, values and pieces: fields in Java's order, which is not always Python's, then bytes."""
    assert signature(fields, parts, secret_key) == reference(fields, b"".join(parts), secret_key)


def test_names_that_java_orders_in_its_own_way() -> None:
    """By UTF-16 units what is beyond the basic plane comes before the last signs of it."""
    fields = {"\U0001f600": "first", "\uff5e": "second"}
    assert signature(fields, b"", "k") == reference({"a": "first", "b": "second"}, b"", "k")


def test_half_a_surrogate_pair_is_what_java_makes_of_it() -> None:
    """A question mark: a request that came over the wire with one can still be checked."""
    assert signature({"key": "caf\ud83d"}, b"", "k") == reference({"key": "caf?"}, b"", "k")
