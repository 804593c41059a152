"""What is open in a store that is opened: also in one that an Apache broker was killed over."""

from __future__ import annotations

import pytest

from rmqspark.txn.half_messages.half_message import HalfMessage, Identity
from rmqspark.txn.half_messages.half_replay import HalfReplay


def half(queue_offset: int, key: str = "", *, checks: int = 0) -> HalfMessage:
    """A half message at physical offset 100 x its queue offset; halves without a key have one of their own."""
    identity = Identity("PG", key or f"key-{queue_offset}", 7)
    return HalfMessage(queue_offset, queue_offset * 100, 1, identity, "orders", 0, checks, None)


ORIGINAL, COPY, LATER_COPY = half(0, "a"), half(3, "a", checks=1), half(5, "a", checks=2)


@pytest.mark.parametrize(
    ("halves", "marked", "committed", "still_open", "unmarked"),
    [
        ([], set(), set(), [], []),
        ([half(0), half(1), half(2)], {1}, set(), [0, 2], []),
        ([half(0), half(1)], set(), {100}, [0], [1]),  # killed between the message and its mark
        ([half(0)], {0}, {0}, [], []),
        ([ORIGINAL, half(1), COPY], set(), set(), [1, 3], []),  # the copy stands for its original
        ([ORIGINAL, COPY, LATER_COPY], set(), set(), [5], []),
        ([ORIGINAL, COPY], {3}, set(), [], [0]),  # the copy was committed: so was the original
        ([ORIGINAL, COPY], {0}, set(), [], [3]),  # a late commit of the original
        ([ORIGINAL, COPY, LATER_COPY], set(), {300}, [], [0, 3, 5]),
        ([COPY], set(), set(), [3], []),  # its original is below the committed offset
        ([half(0, "a"), half(1, "a")], {0}, set(), [1], []),  # one message object, sent in two transactions
        ([ORIGINAL, half(4, "a", checks=0)], {0}, set(), [4], []),  # set aside, then resumed
    ],
)
def test_what_is_open(
    halves: list[HalfMessage], marked: set[int], committed: set[int], still_open: list[int], unmarked: list[int]
) -> None:
    """Every transaction is open once or has ended; ends without an op record are given one."""
    replay = HalfReplay(marked)
    for message in halves:
        replay.see(message)
    found = replay.settle(committed)
    assert [message.queue_offset for message in found.open] == still_open
    assert found.unmarked == unmarked


def test_where_to_look_for_committed_messages() -> None:
    """Behind the oldest half without a mark; nowhere if there is none."""
    replay = HalfReplay({0, 2})
    assert replay.first_unmarked is None
    for offset in range(4):
        replay.see(half(offset))
    assert replay.first_unmarked == half(1)
