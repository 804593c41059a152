"""What changes a cluster: it says what it does, asks, does it once, tells what came of it, and is on the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from rmqspark import AdminClient

from .conftest import ready, visit

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from .conftest import Console, Open

pytestmark = pytest.mark.browser


@pytest.fixture
def changed(consoles: Callable[[str], Console]) -> Console:
    """A filled one that other tests do not look at."""
    return consoles("filled changed")


def audit(page: Page, console: Console) -> list[str]:
    visit(page, console.url + "/audit")
    return page.locator("tbody tr").all_inner_texts() if page.locator("tbody").count() else []


def test_a_topic_is_deleted_by_its_name(changed: Console, opened: Open) -> None:
    """The dialog says what is lost; Cancel has the focus, Enter does nothing; the name has to be typed; two clicks are
    one change."""
    with AdminClient(changed.namesrv) as admin:
        admin.create_topic("doomed", 2)
        page = opened(changed.url + "/topics/doomed")
        before = len([row for row in audit(page, changed) if "delete topic" in row])
        visit(page, changed.url + "/topics/doomed")
        page.get_by_role("button", name="Delete", exact=True).click()
        dialog = page.get_by_role("dialog", name="Delete topic doomed?")
        expect(dialog).to_contain_text("0 messages in 2 queues on 1 broker are deleted with it.")
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        assert "doomed" in admin.topics()

        page.get_by_role("button", name="Delete", exact=True).click()
        do = dialog.get_by_role("button", name="Delete topic")
        expect(do).to_be_disabled()
        typed = dialog.get_by_role("textbox")
        typed.fill("domed")
        expect(do).to_be_disabled()
        typed.fill("doomed")
        expect(do).to_be_enabled()
        typed.press("Enter")
        assert "doomed" in admin.topics()
        do.dblclick()
        page.wait_for_url("**/topics")
        assert "doomed" not in admin.topics()
    done = [row for row in audit(page, changed) if "delete topic" in row]
    assert len(done) - before == 1
    assert "doomed" in done[0]
    assert "0 messages deleted with it" in done[0]


def test_a_topic_is_made(changed: Console, opened: Open) -> None:
    """What is wrong with it is told in the dialog, where what was typed still is."""
    page = opened(changed.url + "/topics")
    page.get_by_role("button", name="New topic").click()
    dialog = page.get_by_role("dialog", name="New topic")
    dialog.get_by_label("Name").fill("no blanks")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("no blanks")
    expect(dialog.get_by_label("Name")).to_have_value("no blanks")
    dialog.get_by_label("Name").fill("made-here")
    dialog.get_by_label("Queues on each broker").fill("3")
    dialog.get_by_role("button", name="Create").click()
    page.wait_for_url("**/topics/made-here")
    ready(page)
    expect(page.locator(".figures")).to_contain_text("3")


def test_a_dialog_above_another_closes_alone(changed: Console, opened: Open) -> None:
    """Bodies are sampled for a while, and somebody asks twice: each Close closes its own."""
    page = opened(changed.url + "/topics/orders")
    page.get_by_role("button", name="Sample bodies").dblclick()
    dialogs = page.locator("dialog")
    expect(dialogs).to_have_count(2)
    for left in (1, 0):
        dialogs.last.get_by_role("button", name="Close").click()
        expect(dialogs).to_have_count(left)


def test_a_message_is_sent_and_sent_again(changed: Console, opened: Open) -> None:
    """The result stays until it is read, and leads to the message; a changed copy of it is another one."""
    page = opened(changed.url + "/topics/empty-topic/messages")
    page.get_by_role("button", name="Send a message").click()
    dialog = page.get_by_role("dialog", name="Send to empty-topic")
    dialog.get_by_label("Body").fill('{"a": 1}')
    dialog.get_by_label("Tag").fill("paid")
    dialog.get_by_label("Keys").fill("k1 k2")
    dialog.get_by_label("Properties").fill("price=7")
    dialog.get_by_role("button", name="Send").dblclick()
    told = page.get_by_role("status").filter(has_text="Stored in broker-a/")
    expect(told).to_be_visible()
    expect(told.get_by_role("link")).to_have_count(1)
    told.get_by_role("link").click()
    page.wait_for_url("**/messages/*")
    ready(page)
    expect(page.get_by_role("region", name="Body as JSON")).to_contain_text('"a": 1')
    page.get_by_role("button", name="Edit and resend").click()
    expect(dialog.get_by_label("Properties")).to_have_value("price=7")
    dialog.get_by_label("Body").fill('{"a": 2}')
    dialog.get_by_role("button", name="Send").click()
    expect(told).to_be_visible()
    told.get_by_role("button", name="Dismiss").click()
    expect(told).to_have_count(0)
    visit(page, changed.url + "/topics/empty-topic/messages")
    assert page.locator(".body-cell").all_inner_texts() == ['{"a": 2}', '{"a": 1}']


def test_a_group_is_reset_to_what_was_shown(changed: Console, opened: Open) -> None:
    """First a preview queue by queue, then exactly that."""
    page = opened(changed.url + "/groups/billing")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_role("textbox", name="Where to").fill("nowhere")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("cannot be reset to 'nowhere'")
    page.get_by_role("textbox", name="Where to").fill("earliest")
    page.get_by_role("button", name="Preview").click()
    dialog = page.get_by_role("dialog", name="Reset group billing to earliest?")
    expect(dialog).to_contain_text("4 queues are set; 70 messages will be consumed once more.")
    assert dialog.get_by_role("row").count() == 5
    dialog.get_by_role("textbox").fill("billing")
    dialog.get_by_role("button", name="Reset group").click()
    expect(page.get_by_role("status").filter(has_text="Group billing is reset to earliest")).to_be_visible()
    with AdminClient(changed.namesrv) as admin:
        assert [queue.committed for queue in admin.group("billing").queues if queue.queue.topic == "orders"] == [0] * 4
    assert "70 messages again" in audit(page, changed)[0]


def test_what_is_in_doubt_is_rolled_back(changed: Console, opened: Open) -> None:
    """After its name was typed; it is settled then, and by whom."""
    page = opened(changed.url + "/transactions")
    page.get_by_role("button", name="Roll back spark-invoices").click()
    dialog = page.get_by_role("dialog", name="Roll back version 3 of spark-invoices?")
    expect(dialog).to_contain_text("2 rows")
    dialog.get_by_role("textbox").fill("spark-invoices")
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("status").filter(has_text="rolled back")).to_be_visible()
    expect(page.get_by_role("region", name="Settled transactions")).to_contain_text("spark-invoices")
    expect(page.get_by_text("No batch waits for a decision.")).to_be_visible()


def test_dead_letters_are_sent_again_by_cause(changed: Console, opened: Open) -> None:
    """All of one cause; then they are known as sent again."""
    page = opened(changed.url + "/dlq/billing")
    page.get_by_role("button", name="Resend 4 letters").click()
    dialog = page.get_by_role("dialog", name="Give billing its dead letters again?")
    expect(dialog).to_contain_text("4 dead letters go to group billing alone")
    dialog.get_by_role("button", name="Resend").dblclick()
    expect(page.get_by_role("status").filter(has_text="4 dead letters sent again")).to_be_visible()
    expect(page.get_by_text("all were sent again")).to_be_visible()


def test_a_setting_is_changed(changed: Console, opened: Open) -> None:
    """Only live ones can be; what it does not take is told."""
    page = opened(changed.url + "/brokers/broker-a?live=1")
    buttons = page.get_by_role("button", name="Change ")
    assert buttons.count() == page.locator("tbody tr").count() > 0
    page.get_by_label("Setting or meaning contains").fill("file_reserved_time")
    page.get_by_role("button", name="Change file_reserved_time").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("no number")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("alert")).not_to_be_empty()
    dialog.get_by_role("textbox").fill("71")
    dialog.get_by_role("button", name="Change").click()
    expect(page.get_by_role("status").filter(has_text="file_reserved_time")).to_be_visible()
    expect(page.locator("tbody tr").first).to_contain_text("71")
