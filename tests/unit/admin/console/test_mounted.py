"""Nodes in a page, which are changed where they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from nicegui import Client
from nicegui.elements.mixins.text_element import TextElement
from nicegui.page import page

from rmqspark.admin.console.mounted import Mounted
from rmqspark.admin.console.nodes import h

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.admin.console.nodes import Node


@pytest.fixture
def browser() -> Iterator[None]:
    """A page of nobody, with nothing on it."""
    client = Client(page("/nothing"))
    with client:
        yield
    client.delete()


def listed(*rows: tuple[str, str]) -> Node:
    return h("ul", *(h("li", text, key=key) for key, text in rows))


@pytest.mark.usefixtures("browser")
def test_rows_that_are_alike_are_shown_each() -> None:
    """Two brokers may both keep a transactional id: such rows stayed on the page for ever, and then it stood still."""
    mounted = Mounted(listed(("k", "1"), ("k", "2"), ("z", "3")))
    for rows in (
        [("k", "1"), ("k", "5"), ("z", "3")],
        [("z", "3"), ("k", "4"), ("k", "5"), ("k", "6")],
        [("k", "5"), ("z", "7")],
        [("z", "7")],
    ):
        mounted.patch(listed(*rows))
        there = [each for each in mounted.element.default_slot.children if isinstance(each, TextElement)]
        assert [each.text for each in there] == [text for _, text in rows]
