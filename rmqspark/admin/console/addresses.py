"""The addresses of the pages, with their filters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit


def path(*steps: str) -> str:
    """`/topics/orders`; every step is escaped."""
    return "/" + "/".join(quote(step, safe="") for step in steps)


def with_query(address: str, filters: Mapping[str, str | int | None]) -> str:
    """With those filters that are set."""
    query = urlencode({name: value for name, value in filters.items() if value not in (None, "")})
    return f"{address}?{query}" if query else address


def own(target: str | None) -> str:
    """Where to go after a login: a page of ours. Whatever else it is, the first page."""
    if not target or not target.startswith("/") or target.startswith(("//", "/\\")):
        return "/"
    parts = urlsplit(target)
    return "/" if parts.scheme or parts.netloc or any(ord(char) < ord(" ") for char in target) else target
