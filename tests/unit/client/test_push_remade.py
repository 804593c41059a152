"""Whether a queue is that of another topic by now, as answers to pulls tell a push consumer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rmqspark.client.cluster.pull_request import PullResult, PullStatus
from rmqspark.client.pushing.pulls import Asked, Found, Moved, Pulls
from rmqspark.client.pushing.subscription import Subscription
from rmqspark.model import MessageQueue
from rmqspark.protocol.headers.consume import OFFSET_RESET
from rmqspark.testing.manual_clock import ManualClock

QUEUE = MessageQueue("orders", "broker-a", 0)


def told(known_ms: int | None, result: PullResult) -> Found | Moved:
    """What an answer means to a consumer that knows of this deletion."""
    cluster: Any = SimpleNamespace(clock=ManualClock())
    pulls = Pulls(cluster, "g", {}, 32, commits=True)
    outcome = pulls._from_pull(result, Asked(Subscription.to("orders", "*", None, 0), QUEUE, 50, 0, known_ms), 0)
    assert isinstance(outcome, Found | Moved)
    return outcome


@pytest.mark.parametrize(
    ("known_ms", "told_ms", "is_another", "later_ms"),
    [
        (None, 0, False, 0),
        (None, 7, False, 7),
        (0, 7, True, 7),
        (7, 7, False, 7),
        (7, 9, True, 9),
        (7, None, False, 7),  # a slave, which does not know
        (None, None, False, None),
        (7, 0, False, 7),  # one that was made the master
    ],
)
def test_a_later_deletion_is_another_topic(
    known_ms: int | None, told_ms: int | None, is_another: bool, later_ms: int | None
) -> None:
    """It is read from its beginning. Who knows less than the one before does not make it another."""
    result = PullResult(PullStatus.NO_NEW, 50, 3, 90, b"", "", told_ms)
    outcome = told(known_ms, result)
    assert outcome.topic_deleted_ms == later_ms
    assert outcome.next_offset == (3 if is_another else 50)
    assert isinstance(outcome, Moved) is is_another


def test_an_operator_s_word_is_about_the_topic_of_now() -> None:
    result = PullResult(PullStatus.OFFSET_MOVED, 60, 3, 90, b"", OFFSET_RESET, 7)
    assert told(0, result)[:2] == (60, True)
