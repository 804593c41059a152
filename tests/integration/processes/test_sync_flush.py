"""SYNC_FLUSH as the kernel sees it: no answer goes out before the fsync that covers its message has returned."""

from __future__ import annotations

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.errors import NotWritable
from rmqspark.testing.history import History, content_to_send
from rmqspark.testing.history_checker import Checker

from . import strace
from .durability import TRACED, LogFiles, acknowledgements, is_draft, premature
from .load import ONE_TRY, QUEUES, TOPIC, Load
from .messages import bulk_of, messages
from .readers import scan
from .servers import BROKER, UpProcess, broker_of

if TYPE_CHECKING:
    from collections.abc import Callable

WHY_NOT = strace.why_not()
pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]
SYNC_FLUSH = ("--flush-disk-type", "SYNC_FLUSH", "--min-free-bytes", "1")
_MESSAGES, _MESSAGES_OF_A_SOAK = 2_000, 20_000
_FAILED_FSYNCS, _FAILED_FSYNCS_OF_A_SOAK = 3, 30
_AT_A_TIME = 3
_STARTED, _LATEST = 8, 24  # fdatasyncs of a thread; before the first of these a topic may still be being created
_AGAIN = 20  # fdatasyncs later, should that have been one of a table
_PATIENCE_S = 60


def test_every_answer_follows_the_fsync_of_its_message(
    tmp_path: Path, amount: Callable[[int, int], int], seed: int, tell: Callable[[str], None]
) -> None:
    """Single sends, batches and bulks: what is acknowledged was written, and then synced, and then answered."""
    trace, history = tmp_path / "trace", History()
    with UpProcess(tmp_path, strace.command(trace, TRACED)) as server:
        server.start(*SYNC_FLUSH)
        server.create_topic(TOPIC, len(QUEUES))
        goal = amount(_MESSAGES, _MESSAGES_OF_A_SOAK)
        with Load(history, server, "load", seed, durable=True):
            while (at := history.acknowledged) < goal:
                assert history.wait_for(lambda at=at: history.acknowledged > at, _PATIENCE_S), "the load came to a halt"
        assert server.stop() == 0
    with trace.open() as lines:
        calls = strace.parse(lines)
    answers = list(acknowledgements(calls))
    trace.unlink()  # it is large
    assert sum(answer.messages for answer in answers) == history.acknowledged
    assert list(premature(calls, answers, LogFiles(server.broker_files / "commitlog"))) == []
    syncs = sum(call.name == "fdatasync" and "commitlog" in call.target for call in calls)
    tell(f"--randomly-seed={seed}: {history.acknowledged} messages in {len(answers)} answers after {syncs} fdatasyncs")


@pytest.mark.slow_first
@pytest.mark.timeout(3600)
def test_after_a_failed_fsync_nothing_is_acknowledged(
    tmp_path: Path, amount: Callable[[int, int], int], seed: int, tell: Callable[[str], None]
) -> None:
    """A disk that fails once: no answer that counts on it, no more writes, reads as before, all of it after a start."""
    rng = Random(seed)
    rounds = range(amount(_FAILED_FSYNCS, _FAILED_FSYNCS_OF_A_SOAK))
    chances, directories = [Random(rng.getrandbits(32)) for _ in rounds], [tmp_path / str(number) for number in rounds]
    with ThreadPoolExecutor(_AT_A_TIME) as threads:  # for each waits long, for a pull that nothing wakes any more
        outcomes = list(threads.map(fail_fsync, directories, chances))
    where = ", ".join(f"{count} of {kind}" for kind, count in Counter(outcome.file for outcome in outcomes).items())
    acknowledged, more = (sum(outcome[field] for outcome in outcomes) for field in (1, 2))
    tell(
        f"--randomly-seed={seed}: failed fdatasyncs: {where}; {acknowledged} messages acknowledged, {more} more stored"
    )


class Outcome(NamedTuple):
    """Of which kind of file an fdatasync failed, and what was there after the next start."""

    file: str
    acknowledged: int
    more: int


def fail_fsync(directory: Path, rng: Random) -> Outcome:
    """One broker whose n-th fdatasync returns EIO: of each thread, for strace counts no other way. Should it be that of
    a table the broker goes on, and says so where it is stopped just then."""
    directory.mkdir()
    trace, fails_at = directory / "trace", rng.randint(_STARTED, _LATEST)
    checker = Checker()
    history = History(checker.feed)
    injected = ("-e", f"inject=fdatasync:error=EIO:when={fails_at}+{_AGAIN}")
    with UpProcess(directory, strace.command(trace, TRACED, *injected)) as server:
        server.start(*SYNC_FLUSH)
        server.create_topic(TOPIC, len(QUEUES))
        history.opened(BROKER, server.incarnation)
        load = Load(
            history,
            server,
            "load",
            rng.getrandbits(32),
            durable=True,
            expected=NotWritable,
            doubtful=(NotWritable,),  # what waited for that very fsync is in the log, and may be there after a start
        )
        with load:
            assert history.wait_for(lambda: history.unknown > 0, _PATIENCE_S)
        assert_refused(history, server.namesrv, rng)
        scan(history, "after the failure", server.namesrv, dict.fromkeys(QUEUES, 0))
        code = server.stop()
    with trace.open() as lines:
        calls = strace.parse(lines)
    targets = [call.target for call in calls if call.name == "fdatasync" and call.result == -1]
    failed = [target for target in targets if not is_draft(target)]
    assert failed, "no fdatasync was made to fail"
    assert code == 0 or len(targets) > len(failed)
    assert list(premature(calls, acknowledgements(calls), LogFiles(server.broker_files / "commitlog"))) == []
    with UpProcess(directory) as server:
        server.start(*SYNC_FLUSH)
        history.opened(BROKER, server.incarnation)
        ends = scan(history, "after a start", server.namesrv, dict.fromkeys(QUEUES, 0))
    checker.finish()
    assert not checker.violations, "\n".join(map(str, checker.violations[:20]))
    more = sum(ends.values()) - history.acknowledged
    assert 0 <= more <= history.unknown
    shutil.rmtree(directory)  # traces are large
    return Outcome(Path(failed[0]).relative_to(server.broker_files).parts[0], history.acknowledged, more)


def assert_refused(history: History, namesrv: str, rng: Random) -> None:
    """A single send, a batch and a bulk: none is taken, and none will ever be seen."""
    source = messages(TOPIC, "late", rng)
    with Producer(namesrv, config=ONE_TRY) as producer, ClusterClient(namesrv, timeout_ms=60_000) as cluster:
        single, batch, rows = next(source), [next(source) for _ in range(9)], [next(source) for _ in range(99)]
        ways = [
            ([single], lambda: producer.send(single, queue=QUEUES[0])),
            (batch, lambda: producer.send_batch(batch, queue=QUEUES[1])),
            (rows, lambda: bulk_of(rows, QUEUES[2], "A" * 20, 1).submit(broker_of(cluster)).result()),
        ]
        for sent, send in ways:
            number = history.sending("late", list(map(content_to_send, sent)))
            with pytest.raises(NotWritable) as refusal:
                send()
            history.not_sent(number, refusal.value)
