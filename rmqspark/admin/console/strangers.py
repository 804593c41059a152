"""What the console keeps for who is not signed in: as much as there is room for (security: S8).

A page is kept for a minute whether a browser comes for the rest of it or not, in some hundred KiB, and for as long as
there is a connection that says it is that browser's. One connection may say so of any number of pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import Client

from rmqspark.admin.gate import bounded

if TYPE_CHECKING:
    from starlette.types import Message, Receive

MOST_UNFETCHED: Final = 100  # pages of which no browser has fetched the rest yet
MOST_PAGES: Final = 500  # as many connections has one address
MOST_SAID: Final = 16 << 10  # at once: of a page to sign in nobody says more


class Strangers:
    """Which pages were made for them."""

    def __init__(self) -> None:
        self._pages: set[str] = set()

    def add(self, client_id: str) -> None:
        self._pages.add(client_id)

    def are_too_many(self) -> bool:
        self._pages &= Client.instances.keys()
        unfetched = sum(not client.has_socket_connection for client in Client.instances.values())
        return len(self._pages) >= MOST_PAGES or unfetched >= MOST_UNFETCHED


def saying_little(receive: Receive) -> Receive:
    """What comes of a connection, up to where more comes at once than a stranger has to say: then it has ended."""
    take = bounded(receive, MOST_SAID)

    async def taking() -> Message:
        message = await take()
        said = max(len(message.get("bytes") or b""), len(message.get("text") or ""))
        return {"type": "websocket.disconnect", "code": 1009} if said > MOST_SAID else message

    return taking
