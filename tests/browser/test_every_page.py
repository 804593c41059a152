"""What holds for every page: who cannot see it, has a narrow screen, or only a keyboard, can use it, in both themes and
in whatever state the cluster is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from .conftest import NARROW, WIDE, ready, visit
from .routes import LISTS, ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import BrowserContext, Page

    from .conftest import Console

pytestmark = pytest.mark.browser

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
# 24 by 24 CSS pixels, or a link within a sentence (WCAG 2.5.8).
SMALL_TARGETS = """() => [...document.querySelectorAll('a, button, input, select, textarea, summary, [tabindex="0"]')]
    .filter(each => each.checkVisibility() && !each.closest('.nicegui-skip-link'))
    .map(each => [each.outerHTML.slice(0, 120), each.getBoundingClientRect()])
    .filter(([_, box]) => box.width > 0 && (box.width < 24 || box.height < 24))
    .map(([html, box]) => `${Math.round(box.width)}x${Math.round(box.height)} ${html}`)"""


@pytest.fixture
def page(contexts: Callable[..., BrowserContext]) -> Page:
    return contexts().new_page()


def axe_findings(page: Page) -> list[str]:
    answer = Axe().run(page, options=RULES).response
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
        for each in answer["violations"]
        for node in each["nodes"]
    ]


def check_looks(page: Page) -> None:
    """In both widths and both themes."""
    for width in (WIDE, NARROW):
        page.set_viewport_size(width)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            assert axe_findings(page) == [], f"{page.url} {width['width']} {theme}"
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{page.url} scrolls sideways at {width}"
    assert page.evaluate(SMALL_TARGETS) == []


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
    assert page.get_by_role("navigation", name="Main").get_by_role("link").count() == 7
    check_looks(page)


@pytest.mark.parametrize("route", LISTS)
def test_an_empty_cluster(consoles: Callable[[str], Console], page: Page, route: str) -> None:
    """It says what belongs there."""
    visit(page, consoles("empty").url + route)
    if route != "/transactions":
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
    wanted = page.evaluate(
        """() => [...document.querySelectorAll(
            'a[href], button:enabled, input, select, textarea, summary, [tabindex="0"]')]
            .filter(each => each.checkVisibility({visibilityProperty: true})).map(each => each.id || each.outerHTML)"""
    )
    reached = []
    for _ in range(len(wanted) + 5):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => { const at = document.activeElement, style = getComputedStyle(at);
            return at === document.body ? null
                : [at.id || at.outerHTML, style.outlineStyle, parseFloat(style.outlineWidth)] }"""
        )
        if at is None:
            break
        assert at[1] != "none", at[0]
        assert at[2] >= 2, at[0]
        reached.append(at[0])
    assert reached == wanted


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
