"""Slaves as the console shows them: in sync, away, lost, and when one of them is all there is left."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from .conftest import visit
from .looks import check_looks, check_tab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page

    from .conftest import Console, Open

pytestmark = pytest.mark.browser


@pytest.fixture
def pair(consoles: Callable[[str], Console]) -> Console:
    """A master whose sends wait for its slave."""
    return consoles("filled slave")


@pytest.fixture
def left_alone(pair: Console) -> Iterator[Console]:
    """The same while its master is away."""
    pair.order("stop")
    yield pair
    pair.order("start")


def slaves(page: Page) -> Locator:
    return page.get_by_role("region", name="Slaves").locator("tbody tr")


def test_one_that_keeps_up(pair: Console, opened: Open) -> None:
    """Where it is, how far behind, in sync; beside it the master that waits for it."""
    page = opened(pair.url + "/brokers")
    row = slaves(page)
    expect(row).to_contain_text("1 of broker-a")
    expect(row.get_by_role("cell")).to_have_text(
        [re.compile(r"127\.0\.0\.1:\d+"), "SLAVE", "0 bytes", "yes", re.compile("ok")]
    )
    expect(page.get_by_role("region", name="Brokers")).to_contain_text("1 of 1, a send waits for 1")
    check_tab(page)
    check_looks(page)


def test_its_master_s_page(pair: Console, opened: Open) -> None:
    """Shows it, and where it is."""
    page = opened(pair.url + "/brokers")
    page.get_by_role("link", name="broker-a", exact=True).click()
    page.wait_for_url("**/brokers/broker-a")
    expect(slaves(page)).to_contain_text("1 of broker-a")
    expect(page.locator(".facts").first).to_contain_text(re.compile(r"Slave 1\s*127\.0\.0\.1:"))
    check_looks(page)


def test_one_that_goes_and_comes_back(pair: Console, opened: Open) -> None:
    """Sends wait for it: that is said as long as it is so, by itself."""
    page = opened(pair.url + "/brokers")
    expect(slaves(page)).to_have_count(1)
    pair.order("stop slave")
    try:
        expect(page.get_by_role("region", name="Problems")).to_contain_text(
            "a send waits for 1 slave in sync, and there is none"
        )
        expect(slaves(page)).to_have_count(0)
        expect(page.get_by_role("region", name="Brokers")).to_contain_text("none there, a send waits for 1")
        check_looks(page)
    finally:
        pair.order("start slave")
    expect(slaves(page)).to_contain_text("yes")
    expect(page.get_by_role("region", name="Problems")).to_have_count(0)


def test_one_that_follows_nobody(consoles: Callable[[str], Console], opened: Open) -> None:
    """It is registered, and has nothing: how much it lacks is said."""
    page = opened(consoles("filled lost").url + "/brokers")
    expect(slaves(page)).to_contain_text("does not follow its master")
    expect(slaves(page).get_by_role("cell").nth(2)).to_have_text(re.compile(r"^[1-9][\d.]* KiB$"))
    expect(slaves(page).get_by_role("cell").nth(3)).to_have_text("no")
    check_looks(page)


@pytest.mark.parametrize("route", ["/", "/brokers", "/brokers/broker-a", "/topics", "/topics/orders/messages"])
def test_one_that_is_left_alone(left_alone: Console, opened: Open, route: str) -> None:
    """What it has can still be read; what cannot be done is said on every page."""
    page = opened(left_alone.url + route)
    expect(page.locator(".banner")).to_contain_text("broker-a: has no master and takes no messages")
    assert page.locator("tbody tr").count() > 0
    expect(page.locator(".trouble")).to_have_count(0)
    check_looks(page)


def test_nothing_is_sent_to_one_that_is_left_alone(left_alone: Console, opened: Open) -> None:
    """The dialog says why, and keeps what was typed."""
    page = opened(left_alone.url + "/topics/orders/messages")
    page.get_by_role("button", name="Send a message").click()
    dialog = page.get_by_role("dialog", name="Send to orders")
    dialog.get_by_label("Body").fill("hello")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the master of its broker is down")
    expect(dialog.get_by_label("Body")).to_have_value("hello")


def test_a_master_that_comes_back(pair: Console, opened: Open) -> None:
    """All is well by itself."""
    page = opened(pair.url + "/")
    pair.order("stop")
    try:
        expect(page.locator(".banner")).to_be_visible()
    finally:
        pair.order("start")
    expect(page.locator(".banner")).to_have_count(0)
    visit(page, pair.url + "/brokers")
    expect(page.get_by_role("region", name="Brokers")).to_contain_text("SYNC_MASTER")
