"""Texts of others stay texts; what is unknown is said; numbers are exact."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rmqspark import AdminClient, Message, Producer

from .seeding import CANARY, FORMULA

if TYPE_CHECKING:
    from .conftest import Console, Open

pytestmark = pytest.mark.browser


def test_bodies_are_text(filled: Console, opened: Open) -> None:
    """Whatever they say: nothing of them becomes an element, or runs."""
    page = opened(filled.url + "/topics/nasty/messages")
    cell = page.locator(".body-cell").filter(has_text="<img")
    assert cell.inner_text() == CANARY
    page.locator("tr").filter(has=cell).locator("th a").click()
    page.wait_for_url("**/messages/*")
    expect(page.get_by_role("region", name="Body as Text")).to_have_text(CANARY)
    assert page.locator("main img").count() == 0
    assert "owned" not in page.title()


def test_a_long_body_is_cut_until_asked_for(filled: Console, opened: Open) -> None:
    """It says how much is left out; one click shows it."""
    page = opened(filled.url + "/topics/nasty/messages")
    page.locator("tr").filter(has_text="xxxx").locator("th a").click()
    body = page.get_by_role("region", name="Body as Text")
    expect(body).to_be_visible()
    assert len(body.inner_text()) == 4096
    expect(page.get_by_text("15,904 more characters are not shown.")).to_be_visible()
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_text("are not shown")).to_have_count(0)
    assert len(body.inner_text()) == 20_000


def test_a_body_of_megabytes(filled: Console, opened: Open) -> None:
    """Is there as quickly as another one, cut; all of it can be saved."""
    body = b"0123456789" * 390_000
    with AdminClient(filled.namesrv) as admin, Producer(filled.namesrv, group="test") as producer:
        admin.create_topic("large", 1)
        receipt = producer.send(Message("large", body))
    page = opened(f"{filled.url}/messages/{receipt.msg_id}?topic=large")
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_text("3,637,856 more characters are not shown.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the body").click()
    assert download.value.suggested_filename.endswith(".txt")
    assert Path(download.value.path()).read_bytes() == body


def test_a_body_is_copied(filled: Console, opened: Open) -> None:
    """In the shape that is shown."""
    page = opened(filled.url + "/topics/orders/messages?key=order-1", permissions=["clipboard-read", "clipboard-write"])
    page.locator("tbody th a").click()
    page.get_by_role("button", name="Copy what is shown of the body").click()
    shown = page.get_by_role("region", name="Body as JSON").inner_text()
    assert '"customer": "customer-1"' in shown
    page.wait_for_function("async text => await navigator.clipboard.readText() === text", arg=shown)


def test_bytes_that_are_no_text_are_hex(filled: Console, opened: Open) -> None:
    """And nothing else is offered; characters that turn the line are shown as their codes."""
    page = opened(filled.url + "/topics/nasty/messages")
    expect(page.locator(".body-cell").filter(has_text="gnp.exe")).to_have_text("\\u202egnp.exe")
    page.locator("tr").filter(has_text="ff fe 00").locator("th a").click()
    hexed = page.get_by_role("region", name="Body as Hex")
    expect(hexed).to_contain_text("00000000  ff fe 00 62 69 6e 61 72 79")
    assert page.get_by_role("group", name="Show the body as").get_by_role("button").all_inner_texts() == ["Hex"]


def test_exports(filled: Console, opened: Open) -> None:
    """As JSONL and as CSV, in which no cell is a formula."""
    page = opened(filled.url + "/topics/nasty/messages")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    text = Path(download.value.path()).read_text()
    assert f"'{FORMULA}".replace('"', '""') in text
    assert not any(line.startswith("=") or ",=" in line for line in text.splitlines())
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as JSONL").click()
    assert download.value.suggested_filename == "nasty-messages.jsonl"
    assert len(Path(download.value.path()).read_text().splitlines()) == 5


def test_unknown_is_neither_0_nor_minus_1(filled: Console, opened: Open) -> None:
    """A group that never committed in a queue is unknown there."""
    page = opened(filled.url + "/groups/never-committed")
    cells = [
        row.split("\t") for row in page.get_by_role("region", name="Offsets").locator("tbody tr").all_inner_texts()
    ]
    assert [row[1] for row in cells].count("unknown") == 3
    assert [row[3] for row in cells].count("unknown") == 3
    assert not any("-1" in cell for row in cells for cell in row[1:])
    expect(page.get_by_text("Never committed in 3 queues")).to_be_visible()


def test_offsets_beyond_2_to_the_53_are_exact(filled: Console, opened: Open) -> None:
    """JavaScript's numbers are not."""
    page = opened(filled.url + "/groups/far-ahead")
    expect(page.get_by_role("region", name="Offsets")).to_contain_text("9007199254740993")
