"""What operators are told of decided batches, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.txn import HeldAttempt, InputRange, TxnDecision
from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.txn.coordinator.events import Decided, RunOpened, encode_event
from rmqspark.txn.coordinator.ledger import Ledger
from rmqspark.txn.coordinator.report import Reports
from rmqspark.txn.coordinator.rollout import Rollout
from rmqspark.txn.coordinator.uptime import Uptime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.txn.coordinator.events import Event

T = "spark-q"
WIDE = [InputRange("g" * 40, "orders", "broker-a", queue, 10**9, 10**9 + 1) for queue in range(5_000)]


class Book:
    """A ledger, and the topic it would be in."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.log: list[bytes] = []
        rollout = Rollout(self.ledger, pytest.fail, ManualClock(), lambda: pytest.fail("nothing is completed"))
        self.reports = Reports("a", self.ledger, self, rollout, Uptime(ManualClock(), 0))  # type: ignore[arg-type]
        self.record(RunOpened(T, "q", "r1", 1, 0))

    def record(self, *events: Event) -> None:
        for event in events:
            self.log.append(encode_event(event))
            self.ledger.apply(event)

    def scan(self, queue_offset: int) -> Iterator[tuple[int, int, bytes]]:
        for offset in range(queue_offset, len(self.log)):
            yield offset, 0, self.log[offset]

    def decide(self, version: int, inputs: list[InputRange], *, finish: bool) -> None:
        held = {"a": [HeldAttempt(0, "x", 1, 1)]}
        self.record(Decided(T, 1, version, TxnDecision("q", held, rows=1, inputs=inputs), 0, "driver"))
        if finish:
            self.record(*self.ledger.completed(T, version, {"a": []}))

    def pages(self, limit: int) -> list[list[tuple[int, bool]]]:
        """Version, and whether it is completed, of each batch of each page."""
        pages, cursor = [], None
        while True:
            page = self.reports.batches(T, None, limit, cursor)
            assert len(page.encode(standard=True)) < MAX_FRAME_BYTES
            pages.append([(batch.version, batch.completed) for batch in page.batches])
            if (cursor := page.cursor) is None:
                return pages


@pytest.mark.parametrize("finish", [True, False])
def test_pages_end_with_a_number_of_batches(finish: bool) -> None:
    """Every batch is told once, finished ones first, whatever the size of a page."""
    book = Book()
    for version in range(7):
        book.decide(version, [], finish=finish or version < 3)
    told = [(version, finish or version < 3) for version in range(7)]
    for limit in (1, 2, 3, 7, 1_000):
        pages = book.pages(limit)
        assert [batch for page in pages for batch in page] == told
        assert max(map(len, pages)) <= limit


@pytest.mark.parametrize("finish", [True, False])
def test_a_page_of_wide_batches_fits_a_frame(finish: bool) -> None:
    """Batches that read thousands of queues come fewer at a time."""
    book = Book()
    for version in range(40):
        book.decide(version, WIDE, finish=finish)
    pages = book.pages(500)
    assert [version for page in pages for version, _ in page] == list(range(40))
    assert len(pages) > 2


def test_a_batch_that_is_finished_between_two_pages_is_not_left_out() -> None:
    """It may come twice then, and counts as it comes last."""
    book = Book()
    for version in range(4):
        book.decide(version, [], finish=False)
    first = book.reports.batches(T, None, 2, None)
    book.record(*book.ledger.completed(T, 0, {"a": []}), *book.ledger.completed(T, 3, {"a": []}))
    rest = book.reports.batches(T, None, 9, first.cursor)
    told = {batch.version: batch.completed for batch in (*first.batches, *rest.batches)}
    assert told == {0: True, 1: False, 2: False, 3: True}


@pytest.mark.parametrize("cursor", ["", "x", "-1", "9" * 5_000, "1 2", "1 2 ", "1 x y", "٣"])
def test_what_is_no_cursor(cursor: str) -> None:
    """It is refused in words."""
    with pytest.raises(InvalidArgument, match="no cursor"):
        Book().reports.batches(T, None, 1, cursor)
