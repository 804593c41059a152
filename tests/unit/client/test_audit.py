"""What an audit finds in what the brokers recorded."""

from __future__ import annotations

import pytest

from rmqspark.client.spark.audit import Kind, findings, resets, unwritten
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.txn import AuditedBatch, InputRange, OutputRange

BY_A_RESET = ": its group was set there, its topic was made anew, or its broker lost the end of its store."


def batch(version: int, read: tuple[int, int] | None, written: tuple[int, int], *, rows: int | None = None,
          name: str = "T", done: bool = True, lease: int | None = None,
          own: int | None = None, deleted: int | None = None, epoch: int | None = None,
          queues: int = 1, numbered: bool = True) -> AuditedBatch:  # fmt: skip
    """A version, `numbered` by the user, that read from one queue, or as much of several, and wrote to another."""
    return AuditedBatch(
        name,
        "q",
        version,
        rows=written[1] - written[0] if rows is None else rows,
        inputs=[InputRange("g", "in", "a", at, *read, lease=lease, topicEpoch=epoch) for at in range(queues)]
        if read
        else [],
        outputs=[OutputRange("out", "a", 0, *written, own, deleted)],
        completed=done,
        ownVersion=numbered,
    )


GOOD = [batch(0, (0, 5), (0, 5)), batch(1, None, (5, 5)), batch(2, (5, 9), (7, 11))]


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        (GOOD, []),
        ([batch(0, (0, 5), (0, 5)), batch(0, (0, 5), (5, 10), name="U")], []),
        ([batch(0, (0, 5), (0, 5), numbered=False), batch(1, (5, 9), (5, 9), name="U", numbered=False)], []),
        ([batch(0, (0, 5), (0, 5), numbered=False), batch(0, (0, 5), (5, 10), name="U", numbered=False)],
         [(Kind.DUPLICATE, 0, 5, "Input in/a/0, offsets 0 to 4, is in two batches.")]),  # its id was changed
        ([batch(0, (0, 5), (0, 5), numbered=False), batch(1, (7, 9), (5, 7), name="U", numbered=False)],
         [(Kind.GAP, 1, 2, "Input in/a/0, offsets 5 to 6, is in no batch.")]),
        ([batch(0, (0, 5), (0, 5)), batch(0, (0, 5), (5, 10))],  # two coordinators have decided it
         [(Kind.DUPLICATE, 0, 5, "Input in/a/0, offsets 0 to 4, is in two batches.")]),
        ([batch(0, (0, 5), (0, 5)), batch(1, (7, 9), (5, 7))],
         [(Kind.GAP, 1, 2, "Input in/a/0, offsets 5 to 6, is in no batch.")]),
        ([batch(0, (0, 5), (0, 5)), batch(1, (3, 9), (5, 11))],
         [(Kind.DUPLICATE, 1, 2, "Input in/a/0, offsets 3 to 4, is in two batches.")]),
        ([batch(0, (0, 5), (0, 5)), batch(1, (5, 9), (4, 8))],
         [(Kind.DUPLICATE, 1, 1, "Output out/a/0, offsets 4 to 4, is in two batches.")]),
        ([batch(0, (0, 5), (0, 5), rows=7)], [(Kind.GAP, 0, 2, "7 rows were committed, 5 are in the topics.")]),
        ([batch(0, (0, 5), (0, 5), rows=4)], [(Kind.DUPLICATE, 0, 1, "4 rows were committed, 5 are in the topics.")]),
        ([batch(0, (0, 5), (0, 5), rows=7, done=False)], []),
        ([batch(0, (0, 5), (0, 9), rows=5, own=5)], []),  # others wrote in between
        ([batch(0, (0, 5), (0, 9), rows=5, own=4)], [(Kind.GAP, 0, 1, "5 rows were committed, 4 are in the topics.")]),
        ([batch(0, (0, 5), (0, 5)), batch(1, (5, 9), (0, 0), rows=4, deleted=4)], []),  # the topic has gone
        ([batch(0, (0, 5), (0, 0), rows=5, deleted=4)],
         [(Kind.GAP, 0, 1, "5 rows were committed, 4 went with their topic, 0 are in the topics.")]),
        ([batch(0, None, (0, 5)), batch(1, None, (5, 9))], []),  # of another source
        ([batch(0, (0, 5), (0, 5)), batch(1, None, (5, 7)), batch(2, None, (7, 7)), batch(3, (7, 9), (7, 9))],
         [(Kind.GAP, 3, 2, "Input in/a/0, offsets 5 to 6, is in no batch that said what it read; version 1 did not.")]),
        ([batch(0, (0, 5), (0, 5), numbered=False), batch(3, (7, 9), (5, 7), numbered=False)],  # of a stream
         [(Kind.GAP, 3, 2, "Input in/a/0, offsets 5 to 6, is in no batch; versions 1, 2 were not written here.")]),
        ([batch(0, (0, 5), (0, 5), lease=1), batch(1, (7, 9), (5, 7), lease=3)], []),  # another query's in between
        ([batch(0, (0, 5), (0, 5), lease=1), batch(1, (7, 9), (5, 7), lease=1)],
         [(Kind.GAP, 1, 2, "Input in/a/0, offsets 5 to 6, is in no batch.")]),
        ([batch(0, (0, 5), (0, 5), lease=1), batch(1, (4, 9), (5, 10), lease=3)],
         [(Kind.DUPLICATE, 1, 1, "Input in/a/0, offsets 4 to 4, is in two batches.")]),
    ],
)  # fmt: skip
def test_gaps_and_duplicates(batches: list[AuditedBatch], found: list[tuple[Kind, int, int, str]]) -> None:
    """Ranges that do not meet, offsets used twice, and rows that are not there are counted and placed."""
    told = [(finding.kind, finding.version, finding.messages, finding.story) for finding in findings(batches)]
    assert told == found


def test_a_topic_that_was_made_anew_gives_its_offsets_again() -> None:
    """What was written before went with it. Two of the batches that wrote since at one offset are a fault all the
    same."""
    before, after, again = batch(0, None, (0, 5)), batch(1, None, (0, 4)), batch(2, None, (3, 6))
    before.decidedAtMs, after.decidedAtMs, again.decidedAtMs = 1_000, 3_000, 4_000
    asked: list[MessageQueue] = []

    def deleted_ms(queue: MessageQueue) -> int:
        asked.append(queue)
        return 2_000

    assert findings([before, batch(1, None, (5, 9))], deleted_ms) == []
    assert asked == [], "nothing to ask about"
    assert findings([before, after], deleted_ms) == []
    assert asked == [MessageQueue("out", "a", 0)]
    stories = [found.story for found in findings([before, after, again], deleted_ms)]
    assert stories == ["Output out/a/0, offsets 3 to 3, is in two batches."]


@pytest.mark.parametrize(
    ("batches", "wrong", "wanted"),
    [
        ([batch(0, (0, 5), (0, 5), epoch=0), batch(1, (2, 9), (5, 12), epoch=1)],
         [], [(1, 3, f"Input in/a/0 was read on from offset 2 instead of 5{BY_A_RESET}")]),
        ([batch(0, (0, 5), (0, 5), epoch=1), batch(1, (7, 9), (5, 7), epoch=2)],
         [], [(1, 2, f"Input in/a/0 was read on from offset 7 instead of 5{BY_A_RESET}")]),
        ([batch(0, (0, 5), (0, 5), epoch=0), batch(1, (5, 9), (5, 9), epoch=1)], [], []),  # another queue of the topic
        ([batch(0, (0, 9), (0, 9), epoch=0), batch(1, (2, 4), (9, 11), epoch=1), batch(2, (4, 6), (11, 13), epoch=1)],
         [], [(1, 7, f"Input in/a/0 was read on from offset 2 instead of 9{BY_A_RESET}")]),
        ([batch(0, (0, 9), (0, 9), epoch=0), batch(1, (2, 4), (9, 11), epoch=1), batch(2, (3, 6), (11, 14), epoch=1)],
         [(Kind.DUPLICATE, 2, 1, "Input in/a/0, offsets 3 to 3, is in two batches.")],
         [(1, 7, f"Input in/a/0 was read on from offset 2 instead of 9{BY_A_RESET}")]),
        ([batch(0, (0, 5), (0, 5), epoch=1), batch(1, (2, 9), (5, 12), epoch=0)],  # a checkpoint that was restored
         [(Kind.DUPLICATE, 1, 3, "Input in/a/0, offsets 2 to 4, is in two batches.")], []),
        ([batch(0, (0, 5), (0, 5)), batch(1, (2, 9), (5, 12), epoch=1)],  # not known to have risen
         [(Kind.DUPLICATE, 1, 3, "Input in/a/0, offsets 2 to 4, is in two batches.")], []),
        ([batch(0, (0, 5), (0, 5), epoch=1), batch(1, (7, 9), (5, 7))],
         [(Kind.GAP, 1, 2, "Input in/a/0, offsets 5 to 6, is in no batch.")], []),
        ([batch(0, (0, 5), (0, 5), lease=1, epoch=0), batch(1, (2, 9), (5, 12), lease=3, epoch=1)],
         [], [(1, 3, f"Input in/a/0 was read on from offset 2 instead of 5{BY_A_RESET}")]),
    ],
)  # fmt: skip
def test_a_wanted_reset_is_no_fault(
    batches: list[AuditedBatch], wrong: list[tuple[Kind, int, int, str]], wanted: list[tuple[int, int, str]]
) -> None:
    """What is read again, or skipped, because the group was set to another place is told as that; only by the epoch of
    the topic, and nothing else is excused by it."""
    assert [(found.kind, found.version, found.messages, found.story) for found in findings(batches)] == wrong
    assert [(found.version, found.messages, found.story) for found in resets(batches)] == wanted


@pytest.mark.parametrize(
    ("batches", "left_out"),
    [
        ([batch(0, (0, 5), (0, 5), queues=2), batch(2, (7, 9), (5, 7), queues=2)],
         [(2, 4, "Version 1 was not written here (foreachBatch); messages read in between: 4.")]),
        ([batch(0, (0, 5), (0, 5)), batch(2, (5, 9), (5, 9))], []),  # it had nothing to read either
        ([batch(0, (0, 5), (0, 5)), batch(2, (5, 9), (5, 9)), batch(5, (10, 12), (9, 11))],
         [(5, 1, "Versions 3, 4 were not written here (foreachBatch); messages read in between: 1.")]),
        ([batch(0, (0, 5), (0, 5)), batch(10**15, (7, 9), (5, 7))],
         [(10**15, 2, "Versions 1, 2, 3 … were not written here (foreachBatch); messages read in between: 2.")]),
    ],
)  # fmt: skip
def test_a_version_that_was_not_written(batches: list[AuditedBatch], left_out: list[tuple[int, int, str]]) -> None:
    """A foreachBatch that returns at an empty batch has read, and has not written: told, and no fault."""
    assert [(found.version, found.messages, found.story) for found in unwritten(batches)] == left_out
    assert findings(batches) == []


@pytest.mark.parametrize(
    ("batches", "kind", "messages"),
    [
        ([batch(0, (0, 5), (0, 5)), batch(1, (6, 7), (5, 6)), batch(3, (9, 10), (6, 7))], Kind.GAP, 1),
        ([batch(0, (0, 5), (0, 5), numbered=False), batch(2, (7, 9), (5, 7), numbered=False)], Kind.GAP, 2),
        ([batch(0, (0, 5), (0, 5)), batch(1, None, (5, 7)), batch(3, (7, 9), (7, 9))], Kind.GAP, 2),
        ([batch(0, (0, 5), (0, 5)), batch(2, (3, 9), (5, 11))], Kind.DUPLICATE, 2),
    ],
)
def test_a_version_that_was_not_written_excuses_nothing_else(
    batches: list[AuditedBatch], kind: Kind, messages: int
) -> None:
    """Neither a hole between versions that are there, nor one where a stream writes every version, under
    whatever id, nor one beside rows that do not say where they came from, nor what is read twice."""
    assert [(found.kind, found.messages) for found in findings(batches)] == [(kind, messages)]
