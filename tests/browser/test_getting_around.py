"""Keys, themes, zones and addresses: what somebody does to find something, and to come back to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from .conftest import ready, visit
from .seeding import COUNT, KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import BrowserContext, Page

    from .conftest import Console, Open

pytestmark = pytest.mark.browser

BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 24, 30)"


def test_keys(filled: Console, opened: Open) -> None:
    """`g t` goes to the topics, `?` shows them all, `/` finds; while somebody types they are letters."""
    page = opened(filled.url + "/")
    page.keyboard.type("gt")
    page.wait_for_url("**/topics")
    ready(page)
    field = page.get_by_label("Name contains")
    field.press_sequentially("g?/")
    expect(field).to_have_value("g?/")
    assert page.locator("dialog").count() == 0
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.type("ga")  # keys are the dialog's as long as it is open
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)  # the server, which ignores keys beside a dialog, knows it, too
    page.keyboard.press("/")
    found = page.get_by_role("dialog", name="Search")
    found.get_by_role("searchbox").press_sequentially("ord")
    expect(found.get_by_role("link", name="orders", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders")


def test_a_dialog_keeps_the_focus_and_gives_it_back(filled: Console, opened: Open) -> None:
    """Enter opens it, Tab stays inside, Esc closes it, and the button that opened it has the focus again."""
    page = opened(filled.url + "/topics")
    opener = page.get_by_role("button", name="Open in Spark / CLI / REST")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="The same rows, elsewhere")
    expect(dialog).to_be_visible()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()
    page.keyboard.press("Space")
    expect(dialog).to_be_visible()


def test_code_is_copied(filled: Console, opened: Open) -> None:
    """What is copied is what the dialog shows, and names this cluster and these filters."""
    page = opened(filled.url + "/topics/orders/messages?tags=paid", permissions=["clipboard-read", "clipboard-write"])
    page.evaluate("() => navigator.clipboard.writeText('')")  # all pages have one
    page.get_by_role("button", name="Open in Spark / CLI / REST").click()
    page.get_by_role("button", name="Copy Command line").click()
    text = page.evaluate(
        """async () => { let text = ''; while (!text) { text = await navigator.clipboard.readText();
            await new Promise(done => setTimeout(done, 20)) } return text }"""
    )
    consume = rf"rmq consume orders --from=\S+ --to=\S+ --tags=paid --json --namesrv {filled.namesrv}"
    assert re.fullmatch(rf"{consume} \| jq -c 'select\(.*\)'", text)
    shown = page.get_by_role("region", name="Spark").inner_text()
    assert f'.option("namesrv", "{filled.namesrv}")' in shown
    assert '.option("tags", "paid")' in shown


@pytest.mark.parametrize(("system", "colour"), [("light", LIGHT), ("dark", DARK)])
def test_the_theme_is_the_systems(
    filled: Console, contexts: Callable[..., BrowserContext], system: str, colour: str
) -> None:
    """From the first paint on: the page as it comes has the right ground, before any script has run."""
    page = contexts(color_scheme=system, java_script_enabled=False).new_page()
    page.goto(filled.url + "/topics")
    assert page.evaluate(BACKGROUND) == colour


def test_a_theme_that_is_chosen_stays(filled: Console, contexts: Callable[..., BrowserContext]) -> None:
    """At once, and after a reload from the first paint on, whatever the system says."""
    context = contexts(color_scheme="light")
    page = context.new_page()
    visit(page, filled.url + "/topics")
    page.get_by_label("Theme").select_option("dark")
    page.wait_for_function(f"{BACKGROUND} === '{DARK}'")
    page.wait_for_function("document.cookie.includes('rmq_theme=dark')")
    page.reload(wait_until="commit")
    page.wait_for_selector("body", state="attached")
    assert page.evaluate(BACKGROUND) == DARK
    ready(page)
    assert page.evaluate(BACKGROUND) == DARK
    expect(page.get_by_label("Theme")).to_have_value("dark")


def test_all_times_change_alike(filled: Console, opened: Open) -> None:
    """UTC, or the browser's zone: every time on the page, the chart's too; and it stays so."""
    page = opened(filled.url + "/")
    times = page.locator("main time")
    expect(page.locator("main svg").first).to_be_visible()
    assert all(text.endswith("Z") for text in times.all_inner_texts())
    page.get_by_label("Times").select_option("local")
    expect(page.locator("figcaption").first).to_contain_text("Europe/Berlin")
    expect(times.first).to_contain_text("+0")
    assert all(re.search(r"\+0[12]:00$", text) for text in times.all_inner_texts())
    page.wait_for_function("document.cookie.includes('rmq_zone=Europe/Berlin')")
    visit(page, filled.url + "/topics/orders")
    assert page.locator("main time").count() > 3
    assert all(re.search(r"\+0[12]:00$", text) for text in page.locator("main time").all_inner_texts())


def test_charts_can_be_read(filled: Console, opened: Open) -> None:
    """A picture with a name that says what is in it, its unit and zone, and the same numbers as a table."""
    page = opened(filled.url + "/groups/billing")
    picture = page.get_by_role("img")
    expect(picture).to_be_visible()
    assert re.match(r"Lag now 80 messages, ", picture.get_attribute("aria-label") or "")
    assert "messages, UTC" in page.locator("figcaption").inner_text()
    page.get_by_text("As a table").click()
    assert page.get_by_role("table", name="Lag").get_by_role("row").count() > 2


def rows(page: Page) -> list[str]:
    return page.get_by_role("table").first.get_by_role("row").all_inner_texts()


def test_filters_are_in_the_address(filled: Console, opened: Open) -> None:
    """What was asked for is there after a reload, with Back, and in another browser."""
    page = opened(filled.url + "/topics/orders/messages")
    page.get_by_label("Tags").fill("paid")
    page.get_by_role("combobox", name="Order").select_option("oldest")
    page.get_by_role("button", name="Look").click()
    page.wait_for_url("**/messages?tags=paid&order=oldest")
    ready(page)
    seen = rows(page)
    assert len(seen) == 51
    assert all("\tpaid\t" in row for row in seen[1:])
    page.reload()
    ready(page)
    assert rows(page) == seen
    assert page.get_by_label("Tags").input_value() == "paid"
    assert rows(opened(page.url)) == seen
    page.get_by_role("link", name="Next page").or_(page.get_by_role("link", name="Clear")).first.click()
    ready(page)
    assert rows(page) != seen
    page.go_back()
    ready(page)
    assert rows(page) == seen


def orders(page: Page) -> list[str]:
    """The first key of each row."""
    return [text.split()[0] for text in page.locator("tbody tr td:nth-child(4)").all_inner_texts()]


@pytest.mark.parametrize("query", ["", f"?key={KEY}"])
def test_pages_of_messages(filled: Console, opened: Open, query: str) -> None:
    """Page by page all of them come, each once; by a key, too."""
    page = opened(f"{filled.url}/topics/orders/messages{query}")
    seen = orders(page)
    assert len(seen) == 50
    while page.get_by_role("link", name="Next page").count():
        page.get_by_role("link", name="Next page").click()
        page.wait_for_url(re.compile("cursor="))
        ready(page)
        page.wait_for_function(
            "first => document.querySelector('tbody tr td:nth-child(4)')?.textContent.split(' ')[0] !== first",
            arg=seen[-50],
        )
        seen += orders(page)
    assert sorted(seen) == sorted(f"order-{number}" for number in range(COUNT))


def test_the_oldest_with_a_key(filled: Console, opened: Open) -> None:
    """Are on the last page, whatever the order on a page; it is said."""
    page = opened(f"{filled.url}/topics/orders/messages?key={KEY}&order=oldest")
    assert sorted(orders(page)) == [f"order-{number}" for number in range(100, COUNT)]
    expect(page.get_by_text("older ones are on the next page")).to_be_visible()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("key=order-42", ["order-42"]),
        ("sql=price > 147", ["order-149", "order-148"]),
        ('body="id": 14', ["order-14", *(f"order-{number}" for number in range(140, 150))]),
        ("body=nowhere", []),
        ("queue=broker-a/1&offset=5:7&order=oldest", 2),
        ("from=2000-01-01T00:00&to=2000-01-02T00:00", []),
        ("queue=9", "There is no queue '9'."),
        ("sql=price >", "SQL"),
        ("from=yesterday", "is not a moment"),
    ],
)
def test_ways_to_look_for_messages(filled: Console, opened: Open, query: str, found: object) -> None:
    """By key, property, place and time; what cannot be understood is told with what would be right."""
    page = opened(f"{filled.url}/topics/orders/messages?{query}")
    if isinstance(found, str):
        expect(page.get_by_role("alert").filter(has_text=found)).to_be_visible()
        return
    keys = orders(page)
    if isinstance(found, int):
        assert len(keys) == found
    else:
        assert sorted(keys) == sorted(found)


def test_a_filter_that_is_wrong_can_be_mended(filled: Console, opened: Open) -> None:
    """What was typed stays beside what is wrong with it, and so do the other filters."""
    page = opened(filled.url + "/topics/orders/messages?tags=paid")
    page.get_by_label("SQL92").fill("price >")
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_role("alert").filter(has_text="SQL")).to_be_visible()
    expect(page.get_by_label("SQL92")).to_have_value("price >")
    expect(page.get_by_label("Tags")).to_have_value("paid")
    page.get_by_label("SQL92").fill("price > 147")
    page.get_by_label("Tags").fill("")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_a_key_leads_to_all_that_have_it(filled: Console, opened: Open) -> None:
    """From one message to the others of the same order, customer, or whatever the key is."""
    page = opened(filled.url + "/topics/orders/messages?key=order-7")
    page.locator("tbody th a").click()
    page.get_by_role("link", name=KEY, exact=True).click()
    page.wait_for_url(f"**/topics/orders/messages?key={KEY}")
    ready(page)
    assert len(orders(page)) == 50


def test_a_list_is_filtered_as_somebody_types(filled: Console, opened: Open) -> None:
    """The address goes along, and the field keeps the focus."""
    page = opened(filled.url + "/topics")
    field = page.get_by_label("Name contains")
    field.press_sequentially("ord")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(field).to_be_focused()
    page.wait_for_function("location.search === '?q=ord'")
    page.reload()
    ready(page)
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_label("Name contains")).to_have_value("ord")


def test_sorting_is_in_the_address(filled: Console, opened: Open) -> None:
    """By any column, said to who cannot see it; what is unknown comes last either way."""
    page = opened(filled.url + "/groups")
    head = page.get_by_role("columnheader", name="Name")
    assert head.get_attribute("aria-sort") == "none"
    head.get_by_role("link").click()
    page.wait_for_url("**/groups?sort=name")
    ready(page)
    assert page.get_by_role("columnheader", name="Name").get_attribute("aria-sort") == "ascending"
    names = page.locator("tbody th").all_inner_texts()
    assert names == sorted(names)


def test_a_link_to_one_message(filled: Console, opened: Open) -> None:
    """Works in a browser that has seen nothing else, and shows its way."""
    listed = opened(filled.url + "/topics/orders/messages?key=order-1")
    listed.locator("tbody th a").click()
    listed.wait_for_url("**/messages/*")
    page = opened(listed.url)
    assert '"id": 1' in page.get_by_role("region", name="Body as JSON").inner_text()
    expect(page.get_by_role("region", name="Journey")).to_contain_text("stored")
    page.get_by_role("button", name="Hex").click()
    page.wait_for_function("location.search === '?view=hex'")
    assert opened(page.url).get_by_role("region", name="Body as Hex").inner_text().startswith("00000000  7b 22")


@pytest.mark.parametrize(
    ("address", "nearest"),
    [
        ("/topics/oders", "/topics/orders"),
        ("/groups/biling", "/groups/billing"),
        ("/brokers/broker-b", "/brokers/broker-a"),
    ],
)
def test_what_is_not_there(
    filled: Console, contexts: Callable[..., BrowserContext], address: str, nearest: str
) -> None:
    """Is a 404, with the nearest name that is."""
    page = contexts().new_page()
    answer = page.goto(filled.url + address)
    assert answer is not None
    assert answer.status == 404
    ready(page)
    page.locator(f"main a[href='{nearest}']").click()
    page.wait_for_url(f"**{nearest}")


def test_addresses_that_are_none(filled: Console, contexts: Callable[..., BrowserContext]) -> None:
    """The console's are pages, REST's are problems as REST has them."""
    page = contexts().new_page()
    answer = page.goto(filled.url + "/no/such/page")
    assert answer is not None
    assert (answer.status, page.title()) == (404, "Not found · rmqspark")
    problem = page.request.get(filled.url + "/api/v1/nothing")
    assert (problem.status, problem.headers["content-type"]) == (404, "application/problem+json")
    assert page.request.post(filled.url + "/api/v1/cluster").status == 405
    assert page.request.get(filled.url + "/healthz").json() == {"status": "ok"}


def test_nothing_is_loaded_from_elsewhere(filled: Console, contexts: Callable[..., BrowserContext]) -> None:
    """All of a page comes from where it is, and the browser was told so."""
    page = contexts().new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    answer = page.goto(filled.url + "/")
    assert answer is not None
    ready(page)
    assert asked
    assert all(url.startswith((filled.url, filled.url.replace("http", "ws"), "data:", "blob:")) for url in asked)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy


def test_behind_a_proxy(consoles: Callable[[str], Console], opened: Open) -> None:
    """With a base path every link is under it."""
    console = consoles("filled --base-path /rmq")
    page = opened(console.url + "/topics")
    assert console.url.endswith("/rmq")
    hrefs = page.evaluate("[...document.querySelectorAll('a[href]')].map(each => each.getAttribute('href'))")
    assert all(href.startswith(("/rmq/", "#")) for href in hrefs)
    page.keyboard.type("gg")
    page.wait_for_url("**/rmq/groups")
