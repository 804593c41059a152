"""Where a version's messages are: one range a queue, with a length that is known before anything is written."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.bodies.txn import OutputRange
from rmqspark.txn.participant.held import AppendedRows
from rmqspark.txn.participant.output_ranges import most_bytes, output_ranges
from rmqspark.txn.ports import Vote

from .participant_bench import ParticipantBench, Sent, other_message, run
from .test_participant import N0

Piece = tuple[str, int, AppendedRows]


def piece(queue: int, first: int, rows: int, topic: str = "t") -> Piece:
    return topic, queue, AppendedRows(first, rows)


@pytest.mark.parametrize(
    ("appended", "ranges"),
    [
        ([], []),
        ([piece(0, 5, 2)], [("t", 0, 5, 7, None)]),
        ([piece(0, 7, 3), piece(0, 5, 2)], [("t", 0, 5, 10, None)]),
        ([piece(0, 5, 2), piece(0, 9, 1)], [("t", 0, 5, 10, 3)]),
        ([piece(1, 0, 1), piece(0, 0, 1), piece(0, 0, 1, "s")],
         [("s", 0, 0, 1, None), ("t", 0, 0, 1, None), ("t", 1, 0, 1, None)]),
    ],
)  # fmt: skip
def test_one_range_a_queue(appended: list[Piece], ranges: list[tuple[object, ...]]) -> None:
    """Where others wrote in between, the range says how many of its messages are the version's own."""
    assert [(r.topic, r.queueId, r.fromOffset, r.toOffset, r.rows) for r in output_ranges(appended, "a")] == ranges


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["t", "orders", "µ"]),
            st.integers(0, (1 << 31) - 1),
            st.builds(AppendedRows, st.integers(0, 1 << 62), st.integers(1, 1 << 31)),
        )
    ),
    st.text(min_size=1, max_size=20),
)
def test_the_length_is_known_before(appended: list[Piece], broker: str) -> None:
    """However far offsets have grown, and whatever others wrote in between."""
    ranges = {broker: output_ranges(appended, broker)}
    assert len(msgspec.json.encode(ranges)) <= most_bytes({each[:2] for each in appended}, broker) + len("{:[]}")


def test_others_write_in_between() -> None:
    """A large version with somebody else's message behind each of its pieces is told in one range, at any time."""
    bench = ParticipantBench()
    attempt = bench.send(N0, *(Sent("t", 0, [b"1", b"22"], tags="x") for _ in range(20)))

    def disturb() -> None:
        bench.store.writer.append_parts("t", 0, *other_message())

    bench.vote(N0, attempt)
    bench.commit(N0, attempt, each_step=disturb)
    for _ in range(2):
        (told,) = bench.participant.outputs(N0)
        assert (told.fromOffset, told.toOffset, told.rows) == (0, 40 + 19, 40)
        bench.reopen()


def test_more_queues_than_one_event_can_list() -> None:
    """The vote is no, in words, and pins nothing; with one queue less it is yes, and says how long the list will be."""
    limit = most_bytes({("t", 0), ("t", 1)}, "broker-a")
    bench = ParticipantBench(max_output_bytes=limit)
    two = bench.send(N0, Sent("t", 0, [b"1"]), Sent("t", 1, [b"2"]))
    three = bench.send(N0, *(Sent("t", queue, [b"3"]) for queue in range(3)), attempt="b")
    assert "fewer topics or queues" in bench.vote(N0, three)
    assert not bench.participant.has_voted(N0)
    assert bench.vote(N0, two) == ""
    assert run(bench.resolver.vote(Vote(*N0, [two]))).output_bytes == limit


def test_twenty_thousand_queues_fit_an_event() -> None:
    """With names of usual lengths: what a broker holds for that many can be told when it is done."""
    queues = [(f"orders-of-customer-{number:06}", 0) for number in range(20_000)]
    assert most_bytes(queues, "broker-a") < 4 << 20
    full = [OutputRange(topic, "broker-a", queue, 1 << 40, 1 << 41, 1 << 39) for topic, queue in queues]
    deleted = [OutputRange(topic, "broker-a", queue, deleted=1 << 40) for topic, queue in queues]
    assert max(len(msgspec.json.encode(ranges)) for ranges in (full, deleted)) < most_bytes(queues, "broker-a")
