"""Which half messages are sent again after a failure."""

from __future__ import annotations

import pytest

from rmqspark.client.transaction_producer import surely_not_stored
from rmqspark.errors import (
    Busy,
    ConnectionLost,
    GoingAway,
    InvalidMessage,
    NotWritable,
    RequestTimeout,
    RmqError,
    Unreachable,
)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (Unreachable("nobody answers", address="a:1"), True),
        (Busy("later"), True),
        (NotWritable("an fsync failed"), False),  # it is in the log, and may be there after the next start
        (GoingAway("bye"), True),
        (ConnectionLost("cut", address="a:1"), False),
        (RequestTimeout("no answer"), False),
        (InvalidMessage("too large"), False),
    ],
)
def test_only_what_is_surely_not_stored_is_sent_again(error: RmqError, again: bool) -> None:
    """A second half message of one transaction would be asked about on its own, and could be committed on its own."""
    assert surely_not_stored(error) is again
