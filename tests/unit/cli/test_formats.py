"""Messages as text and text as messages."""

from __future__ import annotations

import json

import pytest

from rmqspark.cli.messages.formats import as_object, compile_format, compile_input, from_object
from rmqspark.errors import DecodeError, InvalidArgument
from rmqspark.model import Message, MessageQueue, ReceivedMessage

READ = ReceivedMessage(
    topic="orders",
    body="grün".encode(),
    tags="paid",
    keys=["42", "43"],
    properties={"colour": "green"},
    msg_id="ABC",
    queue=MessageQueue("orders", "broker-a", 3),
    queue_offset=7,
    born_timestamp_ms=1,
    store_timestamp_ms=2,
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (r"%t %p %o %k %v %d %h\n", "orders 3 7 42 43 grün 2 colour=green\n"),
        (r"%{tags}\t%{msgId} 100%%", "paid\tABC 100%"),
        ("%{colour}%{none}", "green"),
        ("plain", "plain"),
    ],
)
def test_formats_follow_kcat(template: str, text: str) -> None:
    """Verbs, named fields, the message's own properties, and escapes."""
    assert compile_format(template)(READ) == text


def test_an_unknown_verb_is_named() -> None:
    """The error lists the verbs there are."""
    with pytest.raises(InvalidArgument, match=r"%x.*%t %p"):
        compile_format("%x")


def test_what_is_printed_as_json_can_be_sent_again() -> None:
    """`rmq consume --json` and `rmq send --file x.jsonl` fit together."""
    again = from_object("orders", json.loads(json.dumps(as_object(READ))))
    assert again == Message("orders", "grün".encode(), tags="paid", keys=["42", "43"], properties={"colour": "green"})


def test_keys_of_a_file_are_those_of_a_topic() -> None:
    """A string has them with blanks between, as RocketMQ has it; other white space is a part of one."""
    message = from_object("t", {"body": "x", "keys": " M\u00fcller\u00a0GmbH  a\tb"})
    assert message.keys == ["M\u00fcller\u00a0GmbH", "a\tb"]


def test_a_file_may_call_them_what_the_options_are_called() -> None:
    """`--tag` and `--key`: a file written by hand loses neither."""
    assert from_object("t", {"body": "x", "tag": "paid", "key": "42"}) == Message("t", b"x", tags="paid", keys=["42"])
    assert from_object("t", {"body": "x", "tag": "a", "tags": "b", "key": "1", "keys": ["2"]}).keys == ["2"]


def test_bodies_that_are_no_text_travel_as_base64() -> None:
    """JSON loses no byte of a body."""
    import msgspec

    binary = msgspec.structs.replace(READ, body=b"\xff\x00")
    assert as_object(binary)["bodyBase64"] == "/wA="
    assert from_object("orders", as_object(binary)).body == b"\xff\x00"


def test_a_row_without_a_body_is_the_body() -> None:
    """Any JSON object or table row can be sent as it is."""
    assert json.loads(from_object("t", {"id": 1, "name": "x"}).body) == {"id": 1, "name": "x"}


def test_a_row_that_is_no_unicode_is_refused() -> None:
    """JSON may escape half of a character; no bytes of UTF-8 say that."""
    with pytest.raises(InvalidArgument, match="not valid Unicode"):
        from_object("t", json.loads(r'{"name": "\ud800"}'))


@pytest.mark.parametrize(
    ("value", "text"),
    [({"id": 1, "paid": True, "at": None}, '{"id": 1, "paid": true, "at": null}'), ([1, "ä"], '[1, "ä"]'),
     (True, "true"), (5, "5"), (1.5, "1.5"), ("ä", "ä")],
)  # fmt: skip
def test_values_that_are_no_text_are_sent_as_json(value: object, text: str) -> None:
    """A body that is an object, and a property that is a boolean, read the same in every language."""
    message = from_object("t", {"body": value, "properties": {"p": value}})
    assert (message.body.decode(), message.properties) == (text, {"p": text})


def test_properties_that_rocketmq_reserves_are_left_out() -> None:
    """As Spark's sink has it: what a topic holds can be sent."""
    given = {"a": "b", "UNIQ_KEY": "A", "TAGS": "t", "__RMQ.TRANSIENT.x": "y"}
    assert from_object("t", {"body": "x", "properties": given}).properties == {"a": "b"}


def test_a_property_that_is_null_is_none() -> None:
    """It is left out, as one that is not there; and not sent as the word None."""
    assert from_object("t", {"body": "x", "properties": {"a": None, "b": "1"}}).properties == {"b": "1"}


def test_lines_are_cut_as_the_format_says() -> None:
    """`--format '%k:%v'` takes the key from the front of each line."""
    message = compile_input("%k:%v")("t", "42:a:b")
    assert (message.keys, message.body) == (["42"], b"a:b")
    with pytest.raises(DecodeError, match="'no colon' does not have the shape of --format '%k:%v'"):
        compile_input("%k:%v")("t", "no colon")


def test_the_format_of_consume_is_one_for_send() -> None:
    """`rmq consume a --format '%k:%v\\n' | rmq send b --format '%k:%v\\n'` copies; a line has lost its end by then."""
    template = r"%{tags} %k:%v\n"
    message = compile_input(template)("t", compile_format(template)(READ).removesuffix("\n"))
    assert (message.tags, message.keys, message.body) == (READ.tags, READ.keys, READ.body)
    assert compile_input(r"%v\\n")("t", r"a\n").body == b"a"
