"""What a live part of a page shows: while it is read the first time, while it cannot be read, and with what age."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from rmqspark.admin.config import AdminConfig
from rmqspark.admin.console.live import Live
from rmqspark.admin.console.nodes import find, h, texts
from rmqspark.admin.console.preferences import Preferences
from rmqspark.admin.console.sessions import Sessions
from rmqspark.admin.console.visits import Visit
from rmqspark.errors import RequestTimeout
from rmqspark.testing.manual_clock import ManualClock

TOKENS = AdminConfig(admin_token="a" * 16, read_token="r" * 16)


class Watched:
    """A cluster whose brokers are there, or are not."""

    def __init__(self) -> None:
        self.is_blind = False
        self.error: Any = None

    async def check(self) -> None: ...


class Scene:
    """A part of a page that shows a number; reading it raises what is in `error`."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.watch = Watched()
        self.number, self.error = 1, None
        self.sessions = Sessions(TOKENS, self.clock)
        self.cookie = self.sessions.begin(TOKENS.read_token)
        desk: Any = SimpleNamespace(cluster=SimpleNamespace(clock=self.clock))
        watch: Any = self.watch
        visit = Visit(desk, watch, self.sessions, self.cookie, "1.2.3.4", "http://h", "", "/x", {}, {}, Preferences())
        self.beside = ""  # of what all pages look at together
        self.live = Live(visit, self.read, lambda number: h("b", str(number), self.beside or None), **options)

    def read(self) -> int:
        if self.error is not None:
            raise self.error
        return self.number

    def shown(self) -> Any:
        with start_blocking_portal() as portal:
            portal.call(self.live.read)
        return self.live.node()


def test_first_a_skeleton() -> None:
    """Which says that it is busy."""
    node = Scene().live.node()
    assert node.attributes["aria-busy"] == "true"
    assert "Loading" in texts(node)


def test_what_was_read() -> None:
    """Is shown, and that it is live; busy no more."""
    node = Scene(every_s=5).shown()
    assert node.attributes["aria-busy"] == "false"
    assert texts(node) == "Live, every 5 s. Pause 1"


def test_what_is_old_stays_with_its_age() -> None:
    """With what went wrong, why, what to do, a number to find it by, and the way to try again; then all is well."""
    scene = Scene()
    scene.shown()
    scene.clock.advance(seconds=42)
    scene.clock.set_now_ms(0)  # as an operator may
    scene.error = RequestTimeout("No answer.", hint="Look at the broker.")
    node = scene.shown()
    (alert,) = [each for each in find(node, "div") if each.attributes.get("role") == "alert"]
    assert "No answer. Look at the broker. In the log of rmq admin it has the number" in texts(alert)
    assert texts(find(alert, "button")[0]) == "Try again"
    assert "Old: as it was 42 s ago." in texts(node)
    assert texts(find(node, "b")[0]) == "1"
    scene.error, scene.number = None, 2
    assert texts(scene.shown()) == "Live, every 3 s. Pause 2"


def test_nothing_more_is_read_once_somebody_has_signed_out() -> None:
    """A browser may keep the page open all the same; what was read before is what it has."""
    scene = Scene()
    scene.shown()
    scene.sessions.end(scene.cookie)
    scene.number = 2
    node = scene.shown()
    assert "You are not signed in." in texts(node)
    assert texts(find(node, "b")[0]) == "1"


def test_nor_is_anything_else_shown_then_that_is_new() -> None:
    """Charts, and how far behind groups are, are not of the document, but of what all pages look at together."""
    scene = Scene()
    scene.beside = "lag 7"
    assert "lag 7" in texts(scene.shown())
    scene.sessions.end(scene.cookie)
    scene.beside = "lag 8"
    assert "lag 8" not in texts(scene.live.node())


def test_a_read_that_was_overtaken_is_not_shown() -> None:
    """What somebody has typed last is what they see, whichever is read faster."""
    scene = Scene()
    is_reading, may_end = Event(), Event()

    def slowly() -> int:
        is_reading.set()
        assert may_end.wait(60)
        return 1

    reads = iter([slowly, lambda: 2])
    scene.live._source = lambda: next(reads)()
    with start_blocking_portal() as portal:
        first = portal.start_task_soon(scene.live.read)
        assert is_reading.wait(60)
        portal.call(scene.live.read)
        may_end.set()
        first.result(60)
    assert texts(find(scene.live.node(), "b")[0]) == "2"


def test_an_empty_answer_of_nobody_is_none() -> None:
    """What a name server that has lost its brokers tells does not take the place of what was known."""
    scene = Scene()
    scene.shown()
    scene.watch.is_blind, scene.number = True, 0
    node = scene.shown()
    assert "No broker is there to be asked." in texts(node)
    assert texts(find(node, "b")[0]) == "1"


@pytest.mark.parametrize("needs_brokers", [True, False])
def test_at_first_only_what_needs_no_broker_is_shown_without(needs_brokers: bool) -> None:
    """Lists would look empty."""
    scene = Scene(needs_brokers=needs_brokers)
    scene.watch.is_blind = True
    assert len(find(scene.shown(), "b")) == (0 if needs_brokers else 1)


def test_a_fault_of_ours_is_told() -> None:
    """Rather than a skeleton for ever."""
    scene = Scene()
    scene.error = ZeroDivisionError()
    assert "the log of rmq admin has it" in texts(scene.shown())
