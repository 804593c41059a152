"""Tables of topics and groups, page by page (spec: requests, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.protocol.bodies.route import DataVersion

PAGE_ENTRIES: Final = 2000  # RocketMQ's splitMetadataSize


def page_of(
    names: Iterable[str], version: DataVersion, *, first: int | None, count: int | None, known_version: str | None
) -> list[str]:
    """The names from the `first` on, in order, as many as asked for and allowed.

    4.x asks without saying where to begin and gets everything; a requester that has pages of another version of the
    table begins anew.
    """
    ordered = sorted(names)
    if first is None:
        return ordered
    if known_version and known_version != version.encode().decode():
        first = 0
    begin = max(0, first)
    return ordered[begin : begin + max(0, min(count or PAGE_ENTRIES, PAGE_ENTRIES))]
