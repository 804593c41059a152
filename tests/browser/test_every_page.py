"""What holds for every page: who cannot see it, has a narrow screen, or only a keyboard, can use it, in both themes and
in whatever state the cluster is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .conftest import ready, visit
from .looks import check_looks, check_tab
from .routes import LISTS, ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import BrowserContext, Page

    from .conftest import Console

pytestmark = pytest.mark.browser


@pytest.fixture
def page(contexts: Callable[..., BrowserContext]) -> Page:
    return contexts().new_page()


@pytest.mark.parametrize("route", ROUTES)
def test_a_filled_cluster(filled: Console, page: Page, route: str) -> None:
    """Title, one heading, landmarks, a language, a way past the navigation; nothing that axe finds."""
    visit(page, filled.url + route)
    title = ROUTES[route]
    assert page.title() == f"{title} · rmqspark"
    assert [each.inner_text() for each in page.get_by_role("heading", level=1).all()] == [title]
    assert page.locator("html").get_attribute("lang") == "en-US"
    for role in ("banner", "main"):
        assert page.get_by_role(role).count() == 1
    assert page.get_by_role("navigation", name="Main").get_by_role("link").count() == 8
    check_looks(page)


@pytest.mark.parametrize("route", LISTS)
def test_an_empty_cluster(consoles: Callable[[str], Console], page: Page, route: str) -> None:
    """It says what belongs there."""
    visit(page, consoles("empty").url + route)
    if route not in ("/transactions", "/brokers"):  # a broker is there, if nothing else
        assert page.locator(".empty").first.inner_text()
    check_looks(page)


@pytest.mark.parametrize("route", ROUTES)
def test_a_broker_that_is_away(consoles: Callable[[str], Console], page: Page, route: str) -> None:
    """Every page still says so, in words that are heard, and can be left."""
    visit(page, consoles("down").url + route)
    banner = page.locator(".banner")
    banner.wait_for()
    assert banner.get_attribute("role") == "alert"
    check_looks(page)


def test_titles_differ() -> None:
    """By the title of a tab it is known which page it is."""
    pages = {route.partition("?")[0]: title for route, title in ROUTES.items()}
    assert len(set(pages.values())) == len(pages)


@pytest.mark.parametrize("route", ["/", "/topics/orders/messages", "/transactions"])
def test_everything_can_be_reached_with_tab(filled: Console, page: Page, route: str) -> None:
    """In the order in which it is read, without a trap, and what has the focus is seen."""
    visit(page, filled.url + route)
    check_tab(page)


def test_zoom_text_spacing_and_less_motion(filled: Console, page: Page) -> None:
    """At 200 % nothing goes sideways; with wide spacing nothing is cut off; who wants no motion sees none."""
    page.emulate_media(reduced_motion="reduce", forced_colors="active")
    visit(page, filled.url + "/groups")
    page.set_viewport_size({"width": 640, "height": 400})  # of 1280 by 800
    assert page.evaluate("document.documentElement.scrollWidth") <= 640
    page.add_style_tag(
        content="* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }"
    )
    cut = page.evaluate(
        """() => [...document.querySelectorAll('button, h1, h2, dt, dd, th, td, main a')].filter(each =>
            each.checkVisibility() && each.scrollWidth > each.clientWidth + 1
            && getComputedStyle(each).overflow === 'hidden').map(each => each.outerHTML)"""
    )
    assert cut == []
    assert page.evaluate("document.getAnimations().length") == 0


def test_the_skip_link_goes_to_the_content(filled: Console, page: Page) -> None:
    """It is the first that Tab reaches, and what follows is behind the navigation."""
    visit(page, filled.url + "/topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    page.reload()
    ready(page)
