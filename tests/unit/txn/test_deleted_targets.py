"""A participant whose target topics are deleted while half batches for them are on their way, and made anew."""

from __future__ import annotations

from errno import ENOSPC
from itertools import count
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.handlers.txn_participant import TxnParticipantHandlers
from rmqspark.broker.state.topics import TopicTable
from rmqspark.errors import NotWritable, TopicNotFound
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.headers.txn import TxnHalfRequestHeader
from rmqspark.store.deletions import Deletion, Deletions
from rmqspark.txn.participant.half_batch import Batch

from .participant_bench import ParticipantBench, Sent, T, make_half, run


class _Request(NamedTuple):
    header: TxnHalfRequestHeader
    body: memoryview


N0, N1 = (Batch(T, 1, version) for version in range(2))


@pytest.fixture
def bench() -> ParticipantBench:
    return ParticipantBench()


def test_nothing_is_taken_for_a_topic_that_goes_while_the_coordinator_is_asked(bench: ParticipantBench) -> None:
    """It would be in the next topic of the name, as if it had been sent to that."""
    topics = TopicTable(max_topics=1, now_ms=0)
    topics.put(TopicConfig(topicName="t"), 0)
    bulks: Any = None  # it comes to none
    handlers = TxnParticipantHandlers(bench.resolver, topics, bulks, lambda _: None, max_body_bytes=1_000)
    half, body = make_half(N0, 0, "a", 0, Sent("t", 0, [b"1"]))
    header = TxnHalfRequestHeader(T, 1, 0, 0, "a", 0, "t", 0, half.rows, half.record_size, half.body_crc32)
    bench.meanwhile = lambda: topics.remove("t", 0)
    answer: Any = handlers.hold(_Request(header, memoryview(body)))  # type: ignore[arg-type]
    with pytest.raises(TopicNotFound):
        run(answer)
    assert bench.held() == []


@pytest.mark.parametrize("anew", [False, True])
def test_no_vote_for_rows_of_a_topic_that_was_deleted(bench: ParticipantBench, *, anew: bool) -> None:
    """Nor for a topic of its name that was made since; what is sent to that one is voted for."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), Sent("u", 0, [b"2"]))
    bench.delete("u", anew=anew)
    for _ in range(2):
        assert "'u' was deleted" in bench.vote(N0, attempt)
        bench.kill()
    bench.targets.add("u")
    next_run = N0._replace(epoch=2)
    again = bench.send(next_run, Sent("t", 0, [b"1"]), Sent("u", 0, [b"2"]))
    assert bench.vote(next_run, again) == ""
    assert bench.commit(next_run, again) == [("t", 0, 0, 1), ("u", 0, 0, 1)]


def test_no_vote_where_the_topic_is_deleted_during_its_flush(
    bench: ParticipantBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has decided anything yet, so the answer is still a no; nothing of the batch is left when it is dropped."""
    attempt = bench.send(N0, Sent("u", 0, [b"1"]))

    async def flushed(end_offset: int) -> None:
        bench.delete("u", anew=True)

    monkeypatch.setattr(bench.disk, "flushed", flushed)
    assert "'u' was deleted" in bench.vote(N0, attempt)
    bench.drop(N0)
    assert (bench.held(), bench.bodies("u")) == ([], [])


@pytest.mark.parametrize("anew", [False, True])
def test_rows_go_with_a_topic_that_is_deleted_after_the_vote(bench: ParticipantBench, *, anew: bool) -> None:
    """As if they had been there before. That is said once, the rest is readable, and what follows waits for nothing."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), Sent("u", 0, [b"2", b"3"]), Sent("u", 1, [b"4"]))
    bench.vote(N0, attempt)
    bench.delete("u", anew=anew)
    bench.kill()
    with capture_logs() as logs:
        for _ in range(2):
            assert bench.commit(N0, attempt) == [("t", 0, 0, 1), ("u", 0, 0, 0), ("u", 1, 0, 0)]
    assert [output.deleted for output in bench.participant.outputs(N0)] == [None, 2, 1]
    assert [(entry["topic"], entry["rows"]) for entry in logs if "went with" in entry["event"]] == [("u", 3)]
    following = bench.send(N1, Sent("t", 0, [b"5"]))
    assert bench.vote(N1, following, completed=0) == ""
    bench.commit(N1, following)
    bench.targets.add("u")
    bench.kill()
    assert (bench.bodies("t"), bench.bodies("u"), bench.bodies("u", 1)) == ([b"1", b"5"], [], [])


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("topic", ["t", "u"])
def test_a_topic_deleted_between_two_steps(bench: ParticipantBench, topic: str, *, anew: bool) -> None:
    """What was appended to it has gone, what was not is not; nothing of either is in the next one of its name."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), Sent("u", 0, [b"2"]))
    bench.vote(N0, attempt)
    steps = count(1)

    def after_the_first_step() -> None:
        if next(steps) == 1:
            bench.delete(topic, anew=anew)

    outputs = bench.commit(N0, attempt, each_step=after_the_first_step)
    assert sorted(outputs) == [(other, 0, 0, int(other != topic)) for other in ("t", "u")]
    for _ in range(2):
        assert (bench.bodies("t"), bench.bodies("u")) == ([b"1"] * (topic != "t"), [b"2"] * (topic != "u"))
        bench.lose_power()
        bench.commit(N0, attempt)


def test_a_topic_deleted_where_the_disk_was_full_in_between(bench: ParticipantBench) -> None:
    """A completion that was begun and could not go on is finished without what the topic took, by a start as well."""
    for outcome in ("again", "start"):
        batch = Batch(outcome, 1, 0)
        attempt = bench.send(batch, Sent("t", 0, [b"1"]), Sent("u", 0, [b"2"]))
        bench.vote(batch, attempt)
        bench.files.fail_at(3, OSError(ENOSPC, "full"), counted=("pwrite",))  # event, first messages, these
        with pytest.raises(NotWritable):
            bench.commit(batch, attempt)
        bench.files.heal()
        bench.delete("t", anew=True)
        if outcome == "start":
            bench.kill()
        assert bench.commit(batch, attempt)[0][:2] == ("u", 0)
        assert bench.bodies("t") == []
    assert bench.bodies("u") == [b"2", b"2"]


def test_rows_of_a_topic_deleted_before_rocketmq_wrote_the_store(bench: ParticipantBench) -> None:
    """It may have cut the log and continued it: where places tell no more, times do."""
    before = bench.send(N0, Sent("u", 0, [b"1"]))
    bench.vote(N0, before)
    bench.clock.advance(ms=1)
    bench.delete("u", anew=True)
    bench.clock.advance(ms=1)
    since = bench.send(Batch("other", 1, 0), Sent("u", 0, [b"2"]))
    bench.vote(Batch("other", 1, 0), since)
    bench.store.close()
    deletions = Deletions(bench.files.within("store"))
    end, deleted_ms, _ = deletions.get("u") or pytest.fail("no deletion")
    deletions.add("u", Deletion(end + 100_000, deleted_ms, only_ours_since=False))
    bench.start()
    bench.commit(N0, before)
    bench.commit(Batch("other", 1, 0), since)
    assert bench.bodies("u") == [b"2"]
