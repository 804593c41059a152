"""Handles to recall messages: as RocketMQ makes them, and what is none."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import NotRecallable
from rmqspark.protocol.recall_handle import RecallHandle

VECTOR = json.loads((Path(__file__).parents[2] / "golden" / "handles" / "recall.json").read_text())
TEXT = bytes.fromhex(VECTOR["wire"]).decode()
HANDLE = RecallHandle("TopicTest", "broker-a", "1700000061001", "C0A8010A1F9018B4AAC25E0BE0F50007")


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


def test_a_handle_is_made_and_read_as_rocketmq_does() -> None:
    """With its padding or without it."""
    assert HANDLE.encode() == TEXT
    assert RecallHandle.decode(TEXT) == RecallHandle.decode(TEXT.rstrip("=")) == HANDLE


def test_words_behind_the_id_count_for_nothing() -> None:
    """As for RocketMQ; and blanks at the end make no words."""
    assert RecallHandle.decode(encoded("v1 t b 5 U more  ")) == ("t", "b", "5", "U")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        "a",
        TEXT[:-3],  # one letter more than whole bytes take
        TEXT + "=",
        TEXT.replace("d", "+"),
        TEXT + "\n",
        encoded("v1 t b 5"),
        encoded(" v1 t b 5 U"),
    ],
)
def test_what_is_no_handle_is_said_to_be_none(text: str) -> None:
    """In RocketMQ's words."""
    with pytest.raises(NotRecallable, match="^recall handle is invalid$"):
        RecallHandle.decode(text)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: urlsafe_b64encode(raw).decode()))
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    """Nothing else is raised."""
    try:
        RecallHandle.decode(text)
    except NotRecallable:
        return
    assert RecallHandle.decode(text)
