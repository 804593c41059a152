"""What is kept for who is not signed in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from nicegui import Client
from nicegui.page import page

from rmqspark.admin.console import strangers
from rmqspark.admin.console.strangers import MOST_SAID, Strangers, saying_little

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def browser() -> Iterator[Callable[[], Client]]:
    """Makes pages, each of which is fetched: somebody says to be its browser."""
    made: list[Client] = []

    def make() -> Client:
        made.append(Client(page("/login")))
        made[-1].tab_id = "some tab"
        return made[-1]

    yield make
    for client in (each for each in made if not each.is_deleted):
        client.delete()


def test_pages_that_one_connection_keeps_have_an_end(
    browser: Callable[[], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs no more of itself than to say that it is each one's browser. When they go there is room again."""
    monkeypatch.setattr(strangers, "MOST_PAGES", 3)
    there = Strangers()
    clients = [browser() for _ in range(3)]
    for client in clients:
        assert not there.are_too_many()
        there.add(client.id)
    browser()  # of who is signed in
    assert there.are_too_many()
    clients[0].delete()
    assert not there.are_too_many()


@pytest.mark.parametrize(
    ("messages", "ending"),
    [
        ([{"type": "websocket.receive", "text": "x" * MOST_SAID}] * 2, "websocket.receive"),
        ([{"type": "websocket.receive", "text": "x" * (MOST_SAID + 1)}], "websocket.disconnect"),
        ([{"type": "websocket.receive", "bytes": bytes(MOST_SAID + 1), "text": None}], "websocket.disconnect"),
        ([{"type": "http.request", "body": bytes(MOST_SAID)}], "http.request"),
        ([{"type": "http.request", "body": bytes(MOST_SAID // 2 + 1)}] * 2, "http.disconnect"),
        ([{"type": "websocket.connect"}], "websocket.connect"),
    ],
)
def test_a_stranger_says_little_at_once(messages: list[dict[str, Any]], ending: str) -> None:
    """What a page calls its tab is kept with it: a mebibyte would be."""
    coming = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(coming)

    async def last() -> str:
        bounded = saying_little(receive)
        return [(await bounded())["type"] for _ in messages][-1]

    assert asyncio.run(last()) == ending
