"""What pages show of documents: they are functions of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from rmqspark.admin.access import Role
from rmqspark.admin.config import AdminConfig
from rmqspark.admin.console.histories import Histories
from rmqspark.admin.console.nodes import find, texts
from rmqspark.admin.console.pages import broker, group, messages, transactions
from rmqspark.admin.console.preferences import Preferences
from rmqspark.admin.console.sessions import Sessions
from rmqspark.admin.console.tail import Tail
from rmqspark.admin.console.visits import Visit
from rmqspark.admin.schemas.cluster import SlaveView
from rmqspark.admin.schemas.groups import GroupQueueView, GroupView
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame

TOKENS = AdminConfig(admin_token="a" * 16, read_token="r" * 16)


class Place:
    """What a page is given, of a visitor with this role."""

    def __init__(self, role: Role, **params: str) -> None:
        sessions = Sessions(TOKENS, ManualClock())
        cookie = sessions.begin(TOKENS.admin_token if role == Role.ADMIN else TOKENS.read_token)
        watch: Any = type("Watch", (), {"histories": Histories()})()
        nobody: Any = None
        self.visit = Visit(
            nobody, watch, sessions, cookie, "1.2.3.4", "http://h", "/rmq", "/x", params, {}, Preferences()
        )

    def frame(self) -> Frame:
        return cast("Frame", self)


def view(**changes: Any) -> GroupView:
    queues = [
        GroupQueueView(
            topic="t", broker_name="b", queue_id=0, committed=2**53 + 1, max_offset=2**53 + 3, lag=2, seconds_behind=1
        ),
        GroupQueueView(
            topic="t", broker_name="b", queue_id=1, committed=None, max_offset=7, lag=None, seconds_behind=None
        ),
    ]
    known = {"group": "g", "members": 0, "topics": ["t"], "lag": 2, "seconds_behind": 1, "consumed_per_second": None}
    return GroupView(**{**known, "caught_up_in_seconds": None, "clients": [], "offsets": queues, **changes})


async def nothing() -> None: ...


def test_offsets_are_exact_and_unknown_is_said() -> None:
    """Beyond what JavaScript can count; never committed is neither 0 nor -1."""
    shown = texts(group.show(Place(Role.ADMIN).frame(), view(), nothing))
    assert "9007199254740993" in shown
    assert "Never committed in 1 queue" in shown
    assert "-1" not in shown


@pytest.mark.parametrize(("role", "count"), [(Role.ADMIN, 2), (Role.READ, 0)])
def test_who_may_not_change_has_no_button_for_it(role: Role, count: int) -> None:
    """It is not there, rather than switched off."""
    assert len(find(group.show(Place(role).frame(), view(), nothing), "button")) == count


def test_links_are_under_the_prefix() -> None:
    """Behind a proxy, too."""
    shown = group.show(Place(Role.READ).frame(), view(), nothing)
    assert all(str(link.attributes["href"]).startswith("/rmq/") for link in find(shown, "a"))


def test_brokers_that_are_silent_are_named() -> None:
    """What they know is left out, and that is said."""
    shown = texts(transactions.show(Place(Role.READ).frame(), ([], {"broker-b": "it was cut"}), nothing))
    assert "Partial: broker-b does not answer, so what it knows is left out: it was cut" in shown


def test_a_tail_that_cannot_keep_up_says_so() -> None:
    """So does one that has dropped older ones."""
    tail = Tail(came=50, is_full=True, is_behind=True)
    shown = texts(messages.show_tail(Place(Role.READ, topic="t").visit, tail))
    assert "Only the newest 200 are kept here." in shown
    assert "some are left out" in shown


def test_slaves_are_shown_beside_their_master() -> None:
    """How far behind, in sync or not; unknown is said."""
    known = {"address": "h:2", "role": "SLAVE", "connected": True, "behind_bytes": 3 << 20, "in_sync": True}
    well = SlaveView(broker_id=1, state="ok", **known)
    away = SlaveView(
        broker_id=2,
        address="h:3",
        role="SLAVE",
        connected=None,
        behind_bytes=None,
        in_sync=None,
        state="does not answer",
    )
    shown = texts(broker._slaves(Place(Role.READ).visit, [well, away]))
    assert [words in shown for words in ("h:2", "3.0 MiB", "yes", "does not answer", "unknown")] == [True] * 5
