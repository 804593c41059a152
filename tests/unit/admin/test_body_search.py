"""Looking for a text in bodies, page by page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.admin.paging import Page
from rmqspark.admin.reads.body_search import searched
from rmqspark.admin.schemas.messages import MessageView
from rmqspark.errors import RequestTimeout


def message(number: int, body: str | None, encoded: str | None = None) -> MessageView:
    return MessageView.model_validate(
        {
            **{"topic": "t", "broker_name": "b", "queue_id": 0, "queue_offset": number, "msg_id": "", "keys": []},
            **{"offset_msg_id": "", "tags": None, "body": body, "body_base64": encoded, "body_bytes": 0},
            **{"properties": {}, "born_timestamp": 0, "store_timestamp": 0, "reconsume_times": 0, "flag": 0},
        }
    )


class Topic:
    """Pages of a list of messages; the cursor is where the next one begins."""

    def __init__(self, having: list[bool], most_at_once: int = 1_000_000) -> None:
        self._messages = [message(number, "needle" if has else "hay") for number, has in enumerate(having)]
        self._most_at_once = most_at_once

    def read(self, limit: int, cursor: str | None) -> Page[MessageView]:
        if limit > self._most_at_once:
            raise RequestTimeout("too many")
        begin = int(cursor or 0)
        end = begin + limit
        more = str(end) if end < len(self._messages) else None
        return Page(items=self._messages[begin:end], next=more)


def all_of(topic: Topic, limit: int, patience: int) -> list[int]:
    """Page by page; each page looks at so many pages of the topic at most."""
    found: list[int] = []
    cursor: str | None = None
    while True:
        looks = iter(range(patience))
        page = searched(topic.read, b"needle", limit, cursor, lambda looks=looks: next(looks, None) is not None)
        assert len(page.items) <= limit
        found += (each.queue_offset for each in page.items)
        cursor = page.next
        if cursor is None:
            return found


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 10), st.integers(0, 5), st.integers(10, 60))
def test_each_is_found_once(having: list[bool], limit: int, patience: int, most_at_once: int) -> None:
    """In order, whatever the sizes, the patience, and what can be read at once."""
    topic = Topic(having, most_at_once)
    assert all_of(topic, limit, patience) == [number for number, has in enumerate(having) if has]


@pytest.mark.parametrize(("text", "count"), [(b"hay", 1), (b"straw", 0)])
def test_bytes_that_are_no_text_are_looked_through(text: bytes, count: int) -> None:
    """A text may be part of them."""
    page = searched(lambda *_: Page(items=[message(0, None, "/2hheQ==")]), text, 5, None, lambda: True)
    assert len(page.items) == count


def test_what_cannot_be_read_is_told() -> None:
    """At once where nothing was looked at; after what was found."""
    with pytest.raises(RequestTimeout):
        searched(Topic([True], 0).read, b"needle", 5, None, lambda: True)
    topic = Topic([True] + [False] * 499 + [True])

    def reads_once(limit: int, cursor: str | None) -> Page[MessageView]:
        if cursor is not None:
            raise RequestTimeout("too many")
        return topic.read(limit, cursor)

    page = searched(reads_once, b"needle", 5, None, lambda: True)
    assert ([each.queue_offset for each in page.items], page.next) == ([0], "500")
