"""What `rmq consume` prints and what it calls consumed."""

from __future__ import annotations

import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.cli.consume import Batch, print_all
from rmqspark.model import MessageQueue, ReceivedMessage

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def message(queue: MessageQueue, queue_offset: int) -> ReceivedMessage:
    return ReceivedMessage(
        topic="t",
        body=f"{queue.queue_id}/{queue_offset}".encode(),
        tags=None,
        keys=[],
        properties={},
        msg_id="",
        queue=queue,
        queue_offset=queue_offset,
        born_timestamp_ms=0,
        store_timestamp_ms=0,
    )


READ = [
    Batch([], {FIRST: 5, SECOND: 0}),
    Batch([message(FIRST, 5), message(FIRST, 7), message(SECOND, 0)], {FIRST: 9, SECOND: 1}),
    Batch([message(SECOND, 1)], {FIRST: 9, SECOND: 4}),
]


def consumed(count: int | None) -> tuple[list[str], dict[MessageQueue, int]]:
    printed: list[str] = []
    positions: dict[MessageQueue, int] = {}
    print_all(
        iter(READ), lambda m: printed.append(m.body.decode()), lambda batch: positions.update(batch.positions), count
    )
    return printed, positions


def test_a_topic_read_to_its_end_is_consumed_to_its_end() -> None:
    """Messages that a tag left out count as consumed too."""
    assert consumed(None) == (["0/5", "0/7", "1/0", "1/1"], {FIRST: 9, SECOND: 4})


def test_a_count_in_the_middle_leaves_the_rest_for_the_next_time() -> None:
    """What was fetched and not printed is not consumed; a queue that gave nothing stays where it was."""
    assert consumed(1) == (["0/5"], {FIRST: 6, SECOND: 0})
    assert consumed(2) == (["0/5", "0/7"], {FIRST: 8, SECOND: 0})
    assert consumed(3) == (["0/5", "0/7", "1/0"], {FIRST: 9, SECOND: 1})


def test_ctrl_c_in_the_middle_leaves_what_was_not_printed() -> None:
    """What is out already is not printed once more the next time."""
    printed: list[ReceivedMessage] = []
    positions: dict[MessageQueue, int] = {}

    def write(message: ReceivedMessage) -> None:
        if len(printed) == 2:
            raise KeyboardInterrupt
        printed.append(message)

    with pytest.raises(KeyboardInterrupt):
        print_all(iter(READ), write, lambda batch: positions.update(batch.positions), None)
    assert positions == {FIRST: 8, SECOND: 0}


class BrokenInto(FileIO):
    """A file into whose first write Ctrl-C breaks."""

    is_new = True

    def write(self, data: Any) -> int:
        if self.is_new:
            self.is_new = False
            raise KeyboardInterrupt
        return super().write(data)


def test_ctrl_c_in_a_write_leaves_no_message_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the buffer of the file has room for many of those that Python's text layer holds back, as on NFS."""
    positions: dict[MessageQueue, int] = {}
    batch = Batch([message(FIRST, number) for number in range(5_000)], {FIRST: 5_000})
    printed = tmp_path / "printed"
    with TextIOWrapper(BufferedWriter(BrokenInto(printed, "w"), 1 << 16)) as output:
        monkeypatch.setattr(sys, "stdout", output)

        def done(batch: Batch) -> None:
            output.flush()
            positions.update(batch.positions)

        with pytest.raises(KeyboardInterrupt):
            print_all(iter([batch]), lambda m: print(m.queue_offset, "x" * 60), done, None)
        monkeypatch.undo()
    assert 0 < positions[FIRST] <= len(printed.read_text().splitlines())


def test_a_count_beyond_the_end_is_no_error() -> None:
    """It prints what there is."""
    assert consumed(100) == consumed(None)
