"""Messages whose body has a text, which no broker filters by: page after page is read, and what has it is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rmqspark.admin.paging import Page
from rmqspark.admin.schemas.messages import MessageView
from rmqspark.errors import RequestTimeout

_AT_ONCE: Final = 500  # are read first: few bodies have what somebody looks for
_FEWER: Final = 4  # times, where it was too many


def searched(
    read: Callable[[int, str | None], Page[MessageView]],
    text: bytes,
    limit: int,
    cursor: str | None,
    goes_on: Callable[[], bool],
) -> Page[MessageView]:
    """The first `limit` of those that `read` gives, page by page, so many at a time; fewer, and a `next`, once
    `goes_on` says no."""
    found: list[MessageView] = []
    begun_at, at_once = cursor, max(limit, _AT_ONCE)
    while True:
        try:
            there = read(at_once, cursor)
        except RequestTimeout:
            if cursor != begun_at:
                return Page(items=found, next=cursor)  # whoever asks for the next page is told
            if at_once == limit:
                raise
            at_once = max(limit, at_once // _FEWER)
            continue
        having = [each for each in there.items if text in each.body_as_bytes()]
        if len(found) + len(having) > limit:
            if found:
                return Page(items=found, next=cursor)  # these are the next page's
            at_once = max(limit, at_once // _FEWER)
            continue
        found, cursor = found + having, there.next
        if cursor is None or len(found) == limit or not goes_on():
            return Page(items=found, next=cursor)
