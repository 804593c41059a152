"""What a page is looked at for: by who cannot see it, on narrow screens, in both themes, and by keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axe_playwright_python.sync_playwright import Axe

from .conftest import NARROW, WIDE

if TYPE_CHECKING:
    from playwright.sync_api import Page

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
# 24 by 24 CSS pixels, or a link within a sentence (WCAG 2.5.8).
SMALL_TARGETS = """() => [...document.querySelectorAll('a, button, input, select, textarea, summary, [tabindex="0"]')]
    .filter(each => each.checkVisibility() && !each.closest('.nicegui-skip-link'))
    .map(each => [each.outerHTML.slice(0, 120), each.getBoundingClientRect()])
    .filter(([_, box]) => box.width > 0 && (box.width < 24 || box.height < 24))
    .map(([html, box]) => `${Math.round(box.width)}x${Math.round(box.height)} ${html}`)"""


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


def check_tab(page: Page) -> None:
    """Tab reaches everything, in the order in which it is read, and what has the focus is seen."""
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
