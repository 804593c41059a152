"""A Chromium, and consoles to look at: one process for each state that a cluster is in."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from .consoles import Console, console

if find_spec("playwright") is None:  # make browser installs it
    collect_ignore_glob = ["test_*.py"]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

    Open = Callable[..., Page]

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 30_000  # of a machine that has other things to do
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not on this machine: apt install chromium")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def consoles() -> Iterator[Callable[[str], Console]]:
    """By the words of `console_process`; each is started once. `down` is a filled one whose broker was stopped."""
    running: dict[str, Console] = {}
    with ExitStack() as stack:

        def of(state: str) -> Console:
            if state not in running:
                words = ["filled"] if state == "down" else state.split()
                running[state] = stack.enter_context(console(*words))
                if state == "down":
                    running[state].order("stop")
            return running[state]

        yield of


@pytest.fixture
def filled(consoles: Callable[[str], Console]) -> Console:
    return consoles("filled")


@pytest.fixture
def contexts(chromium: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Fresh browsers: cookies, tabs and all."""
    with ExitStack() as stack:

        def make(**options: Any) -> BrowserContext:
            context = chromium.new_context(**{"viewport": WIDE, "timezone_id": "Europe/Berlin", **options})
            context.set_default_timeout(PATIENCE_MS)
            stack.callback(context.close)
            return context

        yield make


@pytest.fixture
def opened(contexts: Callable[..., BrowserContext]) -> Open:
    """Opens an address in a fresh browser; returns when the page is there and can be used."""

    def open_page(url: str, **options: Any) -> Page:
        page = contexts(**options).new_page()
        visit(page, url)
        return page

    return open_page


def visit(page: Page, url: str) -> None:
    """Goes there, and waits until the page answers, and has what it is about."""
    page.goto(url)
    ready(page)


def ready(page: Page) -> None:
    page.wait_for_function("window.did_handshake === true && document.querySelector('h1') !== null")
    page.wait_for_function("document.querySelector('[aria-busy=true]') === null")
