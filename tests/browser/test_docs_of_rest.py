"""`/docs`: every request, to be tried, on a page that asks nobody else for anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import BrowserContext

    from .conftest import Console

pytestmark = pytest.mark.browser


def test_a_request_is_tried_without_a_network(filled: Console, contexts: Callable[..., BrowserContext]) -> None:
    """All that the page loads is this console's, and its policy lets it."""
    page = contexts().new_page()
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.goto(filled.url + "/docs")
    page.locator("#operations-tag-topics, .opblock-summary-path").first.wait_for()
    request = page.locator(".opblock", has_text="/api/v1/topics").filter(has_text="GET").first
    request.locator(".opblock-summary-control").click()
    request.get_by_role("button", name="Try it out").click()
    request.get_by_role("button", name="Execute").click()
    expect(request.locator(".live-responses-table")).to_contain_text("orders")
    assert [url for url in asked if not url.startswith((filled.url, "data:", "blob:"))] == []
    assert complaints == []
