"""Bodies as the console shows and saves them."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.admin.console import exports
from rmqspark.admin.console.bodies import MOST_EVER, MOST_SHOWN, preview, shapes, visible
from rmqspark.admin.schemas.messages import MessageView

CODE = len(r"\u0000")


def message(body: str | None, **changes: object) -> MessageView:
    given: dict[str, object] = {
        **{"topic": "t", "broker_name": "broker-a", "queue_id": 1, "queue_offset": 2**53 + 1, "msg_id": "M"},
        **{"offset_msg_id": "O", "tags": None, "keys": [], "body": body, "body_bytes": len(body or "")},
        **{"properties": {}, "born_timestamp": 0, "store_timestamp": 0, "reconsume_times": 0, "flag": 0},
    }
    return MessageView.model_validate({**given, **changes})


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"a": 1}', ["JSON", "Text", "Hex"]),
        (b"[]", ["JSON", "Text", "Hex"]),
        (b"12", ["Text", "Hex"]),
        (b"", ["Text", "Hex"]),
        (b"\xff", ["Hex"]),
        (b"[" * 100_000, ["Text", "Hex"]),
    ],
)
def test_the_ways_to_read_a_body(body: bytes, names: list[str]) -> None:
    """JSON where it is, text where it is UTF-8, hex always; no depth of nesting breaks it."""
    assert [shape.name for shape in shapes(body)] == names


def test_json_is_shown_as_it_was_written() -> None:
    """Numbers keep every digit, what is nested is set in."""
    (shape, *_) = shapes(b'{"a": 9007199254740993, "b": 1.10, "c": [1, {"d": "\\u00e4"}], "e": {}}')
    lines = ["{", '  "a": 9007199254740993,', '  "b": 1.10,', '  "c": [', "    1,", "    {", '      "d": "ä"']
    assert shape.text == "\n".join([*lines, "    }", "  ],", '  "e": {}', "}"])


def test_json_means_the_same_however_deep() -> None:
    """Numbers are no texts there, either."""
    body = b"[" * 200 + b"1.10" + b"]" * 200
    (shape, *_) = shapes(body, all_of_it=True)
    assert (shape.name, "".join(shape.text.split()).encode()) == ("JSON", body)


def test_json_that_would_grow_is_text() -> None:
    """A quarter of a mebibyte in sixty brackets would be fifteen, set in, each time that it is shown."""
    body = b"[" * 60 + b"1," * 120_000 + b"1" + b"]" * 60
    assert [shape.name for shape in shapes(body)] == ["Text", "Hex"]


LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_means_the_same(document: object) -> None:
    """Set in or not."""
    body = json.dumps({"of": document}).encode()
    shape = shapes(body, all_of_it=True)[0]
    if "\\u" not in shape.text:  # what is shown as its code
        assert json.loads(shape.text) == {"of": document}


@given(st.binary(max_size=20_000), st.booleans())
def test_any_bytes_can_be_shown(body: bytes, all_of_it: bool) -> None:
    """Within bounds, and without a character that acts."""
    for shape in shapes(body, all_of_it=all_of_it):
        assert len(shape.text) <= (MOST_EVER if all_of_it else MOST_SHOWN) * CODE
        assert shape.text == visible(shape.text)
    assert len(preview(body)) <= 125


def test_a_long_body_that_is_no_text_is_told_as_bytes() -> None:
    """As a short one is; but a character that the preview cuts in two makes no text bytes."""
    assert preview(b"\x01\xff" * 400) == f"{'01 ff ' * 12}…"
    assert preview(("x" + "ä" * 400).encode()) == f"x{'ä' * 119} …"


@pytest.mark.parametrize("character", ["\x1b", "\x9b", "\u061c", "\u200f", "\u2028", "\u202e", "\u2069", "\ud800"])
def test_what_hides_or_turns_a_text_is_shown_as_its_code(character: str) -> None:
    """The same as on a terminal, and halves of surrogate pairs, which no page can hold."""
    assert visible(f"a{character}b") == f"a\\u{ord(character):04x}b"


@pytest.mark.parametrize("character", ["x", "\x00", "\u202e"])
def test_what_is_left_out_is_counted(character: str) -> None:
    """As characters of the body, however they are shown; at the most that there can be of one, too."""
    body = (character * (MOST_EVER + 5)).encode()
    text = next(shape for shape in shapes(body) if shape.name == "Text")
    assert (text.text, text.left_out) == (visible(character) * MOST_SHOWN, MOST_EVER + 5 - MOST_SHOWN)
    assert next(each for each in shapes(body, all_of_it=True) if each.name == "Text").left_out == 5


@pytest.mark.parametrize(
    ("cell", "saved"),
    [
        *((cell, f"'{cell}") for cell in ("=1", "+1", "-1", "@a", "\t=1", " =1", "\n=1", "\uff1d1")),
        ("a=1", "a=1"),
        ("", ""),
    ],
)
def test_no_cell_is_a_formula(cell: str, saved: str) -> None:
    """For spreadsheets would run it."""
    assert exports.guarded(cell) == saved
    rows = list(csv.reader(io.StringIO(exports.as_csv([message(cell, tags=cell, keys=[cell])]).decode(), newline="")))
    assert rows[1][rows[0].index("body")] == saved
    assert rows[1][rows[0].index("queueOffset")] == "9007199254740993"


def test_jsonl_is_what_rest_has() -> None:
    """One message a line; offsets are texts."""
    (line,) = exports.jsonl([message("ä")]).decode().splitlines()
    assert json.loads(line)["queueOffset"] == "9007199254740993"
    assert json.loads(line)["body"] == "ä"
