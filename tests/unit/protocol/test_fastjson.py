"""The JSON that is not quite JSON: what RocketMQ writes we read, and what we write it reads."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import BodyError
from rmqspark.model import MessageQueue
from rmqspark.protocol.fastjson import MAX_DEPTH, dumps, loads

QUEUE = MessageQueue("T", "b", 0)

# what fastjson writes, what it means
DIALECT: list[tuple[str, Any]] = [
    ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
    ('{"0":"a"}', {"0": "a"}),
    ('{{"brokerName":"b","queueId":0,"topic":"T"}:7}', {QUEUE: 7}),
    ('{{"topic":"T","extra":1,"queueId":0,"brokerName":"b"}:{"x":[1]}}', {QUEUE: {"x": [1]}}),
    ("{'a':'it is','b':\"it's\"}", {"a": "it is", "b": "it's"}),
    ("{a:1,b_2:true,-1:false}", {"a": 1, "b_2": True, "-1": False}),
    ('{"a":null,"b":[null]}', {"b": [None]}),
    ('{"a":12L,"b":-1.5D,"c":1e3,"d":7B}', {"a": 12, "b": -1.5, "c": 1000.0, "d": 7}),
    ('{"a":"tab\tand\x01\x02"}', {"a": "tab\tand\x01\x02"}),
    (r'{"a":"\u0001\x41\/\"\\\n\0\q"}', {"a": '\x01A/"\\\n\0q'}),
    (r'{"a":"\ud83d\ude00","b":"\ud83d","c":"\ude00x"}', {"a": "😀", "b": "\ufffd", "c": "\ufffdx"}),
    ('{"a":1,,"b":2,}', {"a": 1, "b": 2}),
    ('\n\t{ \n\t"T@G" : {0 : 250 ,1:250\n\t\t} }\n', {"T@G": {"0": 250, "1": 250}}),
    ('{"a":1}\x00\n trailing', {"a": 1}),
    ('{"a":1,"a":2}', {"a": 2}),
    ("[]", []),
    ("{}", {}),
    ('"text"', "text"),
    ("-0", 0),
    ("6e", 6),
    ("1.5e-", 1.5),
]


@pytest.mark.parametrize(("text", "meaning"), DIALECT)
def test_fastjson_is_read_as_fastjson_reads_it(text: str, meaning: Any) -> None:
    """Number keys, queue keys, loose strings and numbers: all that RocketMQ's servers and clients write is read."""
    assert loads(text.encode()) == meaning


BROKEN = [
    b"",
    b"   ",
    b"{",
    b"[",
    b"[1",
    b"[1 2]",
    b'{"a"}',
    b'{"a" 1}',
    b'{"a":}',
    b'{"a":1 "b":2}',
    b'{"a":"cut',
    b'{"a":"cut\\',
    b"{'a':1",
    b'{"a":nothing}',
    b'{"a":-}',
    b"{[1]:2}",
    b'{{"topic":"T"}:1}',
    b'{{"topic":1,"brokerName":"b","queueId":0}:1}',
    b'{"a":{"$ref":"$.b"}}',
    b'{"a":' + b"9" * 100 + b"}",
    b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    b"[" * 100_000,
    b"{" * 100_000,
    b'{"a":' * 100_000,
]


@pytest.mark.parametrize("data", BROKEN, ids=lambda data: data[:24].decode())
def test_what_is_not_even_fastjson_is_an_error(data: bytes) -> None:
    """Malformed text is refused with its place, and nesting without end is no way to fell a server."""
    with pytest.raises(BodyError):
        loads(data)


def test_nesting_up_to_the_limit_is_read() -> None:
    """Sixty-four levels are allowed."""
    value = loads(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []


class Inner(msgspec.Struct):
    b: int = 1
    a: str = "x"


class Outer(msgspec.Struct):
    z: list[Inner] = []
    m: dict[int, str] | None = None
    q: dict[MessageQueue, int] = {}
    absent: str | None = None
    f: float = 0.0


def test_members_are_sorted_and_absent_ones_left_out() -> None:
    """Bodies look as if RocketMQ's beans had written them."""
    value = Outer(z=[Inner()], m={1: "ü", 0: "a"}, q={QUEUE: 5})
    assert dumps(value).decode() == (
        '{"f":0.0,"m":{1:"ü",0:"a"},"q":{{"brokerName":"b","queueId":0,"topic":"T"}:5},"z":[{"a":"x","b":1}]}'
    )


def test_standard_json_is_standard() -> None:
    """Newer clients get number keys quoted and sorted, and nothing but ASCII."""
    text = dumps(Outer(z=[Inner(a="😀")], m={1: "ü", 0: "a"}), standard=True)
    assert text.isascii()
    assert text.decode() == (r'{"f":0.0,"m":{"0":"a","1":"\u00fc"},"q":{},"z":[{"a":"\ud83d\ude00","b":1}]}')
    assert json.loads(text)["z"][0]["a"] == "😀"


plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
queues = st.builds(MessageQueue, plain_text, plain_text, st.integers(0, 2**31 - 1))
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | plain_text,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(plain_text, inner, max_size=4)
        | st.dictionaries(queues, inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.property
@given(values)
def test_what_is_written_is_read_back(value: Any) -> None:
    """Anything that a body can hold survives the dialect, queues as keys included."""
    assert loads(dumps(value)) == value


@pytest.mark.property
@given(st.dictionaries(plain_text, values, max_size=3), st.data())
def test_torn_text_is_read_or_refused(value: Any, data: st.DataObject) -> None:
    """Text cut or spoilt anywhere is read as something or refused, in one way."""
    text = bytearray(dumps(value))
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with suppress(BodyError):
        loads(text[: data.draw(st.integers(0, len(text)))])


@pytest.mark.property
@given(st.binary(max_size=100) | st.text(alphabet="{}[]:,\"'\\0123456789truefalsenul ", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No bytes at all can do more than be refused."""
    with suppress(BodyError):
        loads(data)
