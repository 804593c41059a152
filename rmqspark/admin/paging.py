"""Lists in pages: `limit`, and a `cursor` that names the last one seen: nothing is left out while others come."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query

from rmqspark.admin.values import Document
from rmqspark.errors import InvalidArgument

MOST = 1_000
USUAL = 100
_LONGEST_CURSOR = 32 << 10

Limit = Annotated[int, Query(ge=1, le=MOST, description="At most so many.")]
Cursor = Annotated[
    str | None, Query(max_length=_LONGEST_CURSOR, description="`next` of the page before; without it, the first.")
]
_Item = TypeVar("_Item")
_Shown = TypeVar("_Shown")


class Page(Document, Generic[_Item]):
    """`next` is the cursor of the page behind it; null where there is none."""

    items: list[_Item]
    next: str | None = None


class PartialPage(Page[_Item], Generic[_Item]):
    """`silent` are the brokers that do not answer, and why: what they know is left out, and in no figure."""

    silent: dict[str, str]


def partial(page: Page[_Item], silent: dict[str, str]) -> PartialPage[_Item]:
    return PartialPage(items=page.items, next=page.next, silent=silent)


def paged(
    names: Iterable[str], show: Callable[[Sequence[str]], list[_Shown]], limit: int, cursor: str | None
) -> Page[_Shown]:
    """One page of things that are listed by name; only those on it are looked at closely."""
    after = read_cursor(cursor, str) if cursor else ""
    rest = sorted(name for name in names if name > after)
    chosen = rest[:limit]
    more = make_cursor(chosen[-1]) if len(rest) > limit else None
    return Page(items=show(chosen), next=more)


def listed(items: Iterable[_Shown], key: Callable[[_Shown], list[Any]], limit: int, cursor: str | None) -> Page[_Shown]:
    """One page of things that are all looked at anyway, in the order of their keys: lists of what JSON has."""
    after = read_cursor(cursor, list) if cursor else None
    try:
        rest = sorted((item for item in items if after is None or key(item) > after), key=key)
    except TypeError:
        raise _no_cursor(cursor or "") from None
    return Page(items=rest[:limit], next=make_cursor(key(rest[limit - 1])) if len(rest) > limit else None)


def make_cursor(place: Any) -> str:
    """A place in a list as opaque text."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def read_cursor(cursor: str, kind: type[_Shown]) -> _Shown:
    """What `make_cursor` was given. InvalidArgument for anything else."""
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        place = None
    if not isinstance(place, kind):
        raise _no_cursor(cursor)
    return place


def read_places(cursor: str) -> dict[str, int]:
    """Of a cursor that is offsets by name. InvalidArgument for anything else."""
    places = read_cursor(cursor, dict)
    if all(map(is_place, places.values())):
        return places
    raise of_another_list()


def is_place(value: object) -> bool:
    """Whether it is an offset, or a time."""
    return isinstance(value, int) and 0 <= value < 1 << 63


def of_another_list() -> InvalidArgument:
    return InvalidArgument("The cursor is of another list.", hint="Take next of the page before, as it is.")


def _no_cursor(cursor: str) -> InvalidArgument:
    return InvalidArgument(f"{cursor!r:.80} is no cursor.", hint="Take next of the page before, as it is.")
