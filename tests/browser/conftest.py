"""A Chromium, and consoles to look at: one process for each state that a cluster is in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="make browser installs it")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

    Open = Callable[..., Page]

HERE = Path(__file__).parent
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@dataclass
class Console:
    """A console that runs."""

    process: subprocess.Popen[str]
    url: str
    namesrv: str

    def order(self, word: str) -> None:
        """`stop` or `start`, of its broker; done when this returns."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert json.loads(self.process.stdout.readline()) == "ok"


@contextmanager
def console(*words: str) -> Iterator[Console]:
    package = str(HERE.parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    for name in ("PYTEST_CURRENT_TEST", "PYTEST_VERSION"):  # NiceGUI is another one under pytest
        environment.pop(name, None)
    command = [sys.executable, str(HERE / "console_process.py"), *words]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        yield Console(process, **json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.wait(30)
        process.stdin.close()
        process.stdout.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not on this machine: apt install chromium")
    with playwright.sync_playwright() as driver:
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
            context.set_default_timeout(20_000)
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
