"""What errors are called for programs, in REST's answers."""

from __future__ import annotations

import pytest

from rmqspark.admin.problems import code_of
from rmqspark.client.cluster.routes import no_broker
from rmqspark.errors import RmqError, TopicNotFound, Unreachable


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TopicNotFound("orders"), "topic_not_found"),
        (Unreachable("Nobody.", address="h:1"), "unreachable"),
        (no_broker("h:1"), "unreachable"),
    ],
)
def test_a_code_stays(error: RmqError, code: str) -> None:
    """Programs go by it: what gets a class of its own in here keeps the code that it had."""
    assert code_of(error) == code
