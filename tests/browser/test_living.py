"""What goes on by itself: rows that come, brokers that go and come back, connections that are lost."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rmqspark import AdminClient, Message, Producer

from .conftest import visit
from .wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Console, Open

pytestmark = pytest.mark.browser


@pytest.fixture
def living(consoles: Callable[[str], Console]) -> Console:
    """A filled one that other tests do not look at."""
    return consoles("filled living")


def test_a_broker_goes_and_comes_back(living: Console, opened: Open) -> None:
    """Every page says so; what was known stays, with its age; all of it goes by itself."""
    page = opened(living.url + "/topics")
    before = page.locator("tbody tr").count()
    living.order("stop")
    banner = page.locator(".banner")
    expect(banner).to_be_visible()
    assert banner.get_attribute("role") == "alert"
    expect(page.locator(".freshness")).to_contain_text("Old: as it was")
    trouble = page.locator(".trouble")
    expect(trouble).to_contain_text("No broker is there to be asked.")
    expect(trouble).to_contain_text("it has the number")
    expect(trouble.get_by_role("button", name="Try again")).to_be_visible()
    assert page.locator("tbody tr").count() == before
    living.order("start")
    expect(banner).to_have_count(0)
    expect(trouble).to_have_count(0)
    expect(page.locator(".freshness")).to_contain_text("Live")


def test_a_page_that_was_opened_without_brokers_fills_by_itself(living: Console, opened: Open) -> None:
    """It does not say that there are no topics, for nobody knows."""
    living.order("stop")
    try:
        page = opened(living.url + "/topics/orders")
        expect(page.locator(".trouble")).to_be_visible()
        assert page.locator(".empty").count() == 0
    finally:
        living.order("start")
    expect(page.locator(".figures")).to_contain_text("can be read now")


def test_messages_come_in_and_can_be_paused(living: Console, opened: Open) -> None:
    """New ones come on top and are told; paused, nothing moves."""
    page = opened(living.url + "/topics/empty-topic/messages?follow=1")
    told = page.locator("p[aria-live=polite]")
    with Producer(living.namesrv, group="test") as producer:
        producer.send(Message("empty-topic", b"first"))
        expect(page.locator(".body-cell").first).to_have_text("first")
        expect(told).to_contain_text("1 message shown")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".freshness")).to_contain_text("Paused.")
        page.evaluate(
            """() => { window.moved = 0; new MutationObserver(found => window.moved += found.length)
                .observe(document.querySelector('main'), {subtree: true, childList: true, characterData: true}) }"""
        )
        producer.send(Message("empty-topic", b"second"))
        second = opened(living.url + "/topics/empty-topic/messages?follow=1")
        expect(second.locator(".body-cell").first).to_have_text("second")
        assert page.evaluate("window.moved") == 0
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".body-cell").first).to_have_text("second")


def test_a_flood_is_capped(living: Console, opened: Open) -> None:
    """However many come, so many rows are there, and the page says so."""
    page = opened(living.url + "/topics/invoices/messages?follow=1")
    told = page.locator("p[aria-live=polite]")
    with Producer(living.namesrv, group="test") as producer:
        for turn in range(1, 20):
            bulk = [producer.send_async(Message("invoices", b"%d of %d" % (number, turn))) for number in range(200)]
            for sent in bulk:
                sent.result()
            expect(page.locator(".body-cell").filter(has_text=f" of {turn}").first).to_be_visible()
            if "Only the newest 200 are kept here." in told.inner_text():
                break
    expect(told).to_contain_text("Only the newest 200 are kept here.")
    assert page.locator("tbody tr").count() == 200


def test_who_reads_a_row_is_not_disturbed(living: Console, opened: Open) -> None:
    """The focus stays on a link while the page is read again."""
    page = opened(living.url + "/topics")
    link = page.get_by_role("link", name="orders", exact=True)
    count = page.locator("tbody tr").filter(has=link).locator("td").first
    before = int(count.inner_text())
    link.focus()
    with Producer(living.namesrv, group="test") as producer:
        producer.send(Message("orders", b"one more"))
    expect(count).to_have_text(str(before + 1))
    expect(link).to_be_focused()


def test_a_connection_that_is_lost(living: Console, opened: Open) -> None:
    """It is said, tried again, and nothing that was typed or chosen is gone."""
    with Wire(living.url) as wire:
        page = opened(wire.url + "/topics")
        page.get_by_label("Name contains").fill("orders")
        expect(page.locator("tbody tr")).to_have_count(1)
        wire.cut()
        notice = page.get_by_role("alert").filter(has_text="Connection lost")
        expect(notice).to_be_visible()
        wire.mend()
        expect(notice).to_have_count(0)
        expect(page.get_by_label("Name contains")).to_have_value("orders")
        page.get_by_label("Name contains").fill("nasty")
        expect(page.locator("tbody tr")).to_have_text([re.compile("nasty")])


def test_two_tabs_do_not_know_each_other(living: Console, opened: Open) -> None:
    """What one is filtered by is not the other's business."""
    one = opened(living.url + "/topics")
    other = one.context.new_page()
    visit(other, living.url + "/topics")
    one.get_by_label("Name contains").fill("nasty")
    expect(one.locator("tbody tr")).to_have_count(1)
    assert other.locator("tbody tr").count() > 1
    assert other.url.endswith("/topics")


def test_speed(consoles: Callable[[str], Console], opened: Open, tell: Callable[[str], None]) -> None:
    """With a thousand topics: how long the first content takes, and a key until its result; told, not asserted."""
    many = consoles("empty many")
    with AdminClient(many.namesrv) as admin, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: admin.create_topic(f"topic-{number}", 1), range(1_000)))
    page = opened(many.url + "/topics")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1")
    page.evaluate(
        """() => new MutationObserver(() => window.answered ??= performance.now() - window.typed)
            .observe(document.querySelector('tbody'), {subtree: true, childList: true})"""
    )
    page.evaluate(
        "document.querySelector('input[type=search]').addEventListener('input', () => window.typed = performance.now())"
    )
    page.get_by_label("Name contains").press_sequentially("7")
    page.wait_for_function("window.answered > 0")
    tell(f"first content after {paint:.0f} ms, a key is answered after {page.evaluate('window.answered'):.0f} ms")
