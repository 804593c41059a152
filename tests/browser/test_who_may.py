"""Where tokens are set: signing in, and what a token allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from .conftest import ready
from .console_process import ADMIN, READ

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from .conftest import Console, Open

pytestmark = pytest.mark.browser

TARGET = "/topics/orders/messages?tags=paid&order=oldest"


@pytest.fixture
def guarded(consoles: Callable[[str], Console]) -> Console:
    return consoles("filled --tokens")


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_signing_in_keeps_where_one_wanted_to_go(guarded: Console, opened: Open) -> None:
    """A wrong token is told; the right one goes on, and its cookie is none for scripts or other sites."""
    page = opened(guarded.url + TARGET)
    assert page.title() == "Sign in · rmqspark"
    sign_in(page, "not-the-token-at-all")
    expect(page.get_by_role("alert").filter(has_text="not known")).to_be_visible()
    sign_in(page, ADMIN)
    page.wait_for_url(f"**{TARGET}")
    ready(page)
    assert page.locator("tbody tr").count() == 50
    (cookie,) = [each for each in page.context.cookies() if each["name"] == "rmq_session"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.get_by_role("link", name="Sign out").click()
    page.wait_for_url("**/login")
    page.goto(guarded.url + "/topics")
    assert "/login?next=%2Ftopics" in page.url


@pytest.mark.parametrize(
    "address",
    [
        "/topics",
        "/topics/orders",
        "/topics/orders/messages",
        "/groups/billing",
        "/spark/q-invoices",
        "/transactions",
        "/dlq/billing",
        "/brokers/broker-a",
    ],
)
def test_who_may_only_look_is_offered_nothing_else(guarded: Console, opened: Open, address: str) -> None:
    """What would change something is not there, not only switched off; REST refuses it as well."""
    page = opened(guarded.url + address)
    sign_in(page, READ)
    page.wait_for_url(f"**{address}")
    ready(page)
    changing = (
        "New",
        "Send",
        "Change",
        "Delete",
        "Reset",
        "Rewind",
        "Commit",
        "Roll back",
        "Resend",
        "Edit and resend",
    )
    named = page.get_by_role("button").all_inner_texts()
    assert named
    assert not [name for name in named if name.startswith(changing)]
    refused = page.request.delete(f"{guarded.url}/api/v1/topics/orders", headers={"Authorization": f"Bearer {READ}"})
    assert refused.status == 403


def test_the_login_goes_nowhere_else(guarded: Console, opened: Open) -> None:
    """A link cannot use it to lead somebody away."""
    page = opened(guarded.url + "/login?next=//evil.example/")
    sign_in(page, ADMIN)
    page.wait_for_url(guarded.url + "/")


def test_other_pages_cannot_use_it(guarded: Console, opened: Open) -> None:
    """Neither a form of another site, nor a name that is not ours."""
    page = opened(guarded.url + "/login")
    forged = page.request.post(
        guarded.url + "/login", form={"token": ADMIN}, headers={"Origin": "https://evil.example"}
    )
    assert forged.status == 403
    renamed = page.request.get(guarded.url + "/topics", headers={"Host": "evil.example"})
    assert renamed.status == 421


def test_nothing_is_told_to_who_is_not_signed_in(guarded: Console, opened: Open) -> None:
    """The page of the login is around a form alone: there is no search, which would tell all names, by key either."""
    page = opened(guarded.url + "/login")
    page.get_by_role("heading", name="Sign in").click()  # away from the field, in which keys are letters
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_role("button", name="Search")).to_have_count(0)
    expect(page.get_by_role("link", name="Sign out")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)


MANY = 60
PRESS = """(name) => [...document.querySelectorAll('button')].find(each => each.innerText.startsWith(name)).click()"""
CHOOSE = """() => {
    const times = document.querySelector('option[value=local]').parentElement
    times.value = 'local'
    times.dispatchEvent(new Event('change'))
}"""
NO_ZONE = """Intl.DateTimeFormat.prototype.resolvedOptions = () => ({timeZone: 'x'.repeat(1000)})"""


def test_what_a_stranger_has_made_has_an_end(guarded: Console, opened: Open) -> None:
    """The page of the login is open to all: whoever presses its buttons for ever fills no memory with it (S8)."""
    page = opened(guarded.url + "/login")
    page.evaluate(NO_ZONE)
    for _ in range(MANY):
        page.evaluate(PRESS, "Keys")
        page.evaluate(CHOOSE)
    told = page.locator(".notices .told")
    expect(told).to_have_count(20)
    page.wait_for_function("document.querySelectorAll('dialog').length > 0")
    assert page.locator("dialog").count() <= 2
    assert len(told.first.inner_text()) < 200
