"""A disk that takes its time, and a process that is frozen for a while: nothing is promised too early, nothing lost."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.producer import Producer
from rmqspark.model import SendStatus
from rmqspark.testing.history import History, content_to_send
from rmqspark.testing.history_checker import Checker

from . import strace
from .durability import TRACED, LogFiles, acknowledgements, premature
from .load import ONE_TRY, QUEUES, TOPIC, Load
from .messages import messages
from .readers import scan
from .servers import BROKER, UpProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.model import Message

pytestmark = [pytest.mark.integration, pytest.mark.faults]
PAUSES, PAUSES_OF_A_SOAK = 2, 20
ROUNDS, ROUNDS_OF_A_SOAK = 12, 600
MORE_ROUNDS = 200  # where others keep even a sound fsync from being done in time
_PAUSE_S = (0.2, 2.0)
_BETWEEN_PAUSES = 2_000  # acknowledged messages, at most
_AT_ONCE = 8
_SLOW_US, _PATIENT_MS = 300_000, 150  # an fdatasync of a slow disk, and how long a send waits for one
_SLOW_FROM = 8  # fdatasyncs of a thread; those of the start are before
_PATIENCE_S = 60


@pytest.mark.timeout(3600)
def test_a_frozen_broker_goes_on(
    tmp_path: Path, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """SIGSTOP under load: when it wakes, all of its clients go on where they were, and nothing is lost or doubled."""
    rng, checker, wanted = Random(seed), Checker(), amount(PAUSES, PAUSES_OF_A_SOAK, by=0.2)
    history, in_flight = History(checker.feed), 0
    with UpProcess(tmp_path) as server:
        server.start("--flush-disk-type", rng.choice(["ASYNC_FLUSH", "SYNC_FLUSH"]), "--min-free-bytes", "1")
        server.create_topic(TOPIC, len(QUEUES))
        history.opened(BROKER, server.incarnation)
        with Load(history, server, "load", rng.getrandbits(32), durable=False) as load:
            for _ in range(wanted):
                goal = history.acknowledged + rng.randint(1, _BETWEEN_PAUSES)
                assert history.wait_for(lambda goal=goal: history.acknowledged >= goal, _PATIENCE_S), load.failure
                with server.frozen():
                    at = history.acknowledged
                    history.wait_for(lambda: False, rng.uniform(*_PAUSE_S))
                    in_flight += history.under_way
                assert history.wait_for(lambda at=at: history.acknowledged > at, _PATIENCE_S), load.failure
            assert load.failure is None
        scan(history, "scan", server.namesrv, dict.fromkeys(QUEUES, 0))
        assert server.stop() == 0
    judge(checker)
    assert history.unknown == history.refused == 0
    tell(f"--randomly-seed={seed}: {wanted} pauses with {in_flight} under way, {history.acknowledged} acknowledged")


@pytest.mark.skipif(strace.why_not() is not None, reason=str(strace.why_not()))
@pytest.mark.timeout(3600)
def test_a_slow_disk_is_admitted(
    tmp_path: Path, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """Each second fsync takes longer than a send waits: FLUSH_DISK_TIMEOUT, never OK before it is on disk; and a kill
    meanwhile takes nothing that was OK."""
    trace, checker, rng = tmp_path / "trace", Checker(), Random(seed)
    history, statuses = History(checker.feed), Counter[str]()
    slow = ("-e", f"inject=fdatasync:delay_enter={_SLOW_US}:when={_SLOW_FROM}+2")
    with UpProcess(tmp_path, strace.command(trace, TRACED, *slow)) as server:
        waits = ("--sync-flush-timeout", str(_PATIENT_MS))
        server.start("--flush-disk-type", "SYNC_FLUSH", "--min-free-bytes", "1", *waits)
        server.create_topic(TOPIC, len(QUEUES))
        history.opened(BROKER, server.incarnation)
        source = messages(TOPIC, "letter", rng)
        with Producer(server.namesrv, config=ONE_TRY) as producer:
            wanted = amount(ROUNDS, ROUNDS_OF_A_SOAK, by=0.2)
            for number in count():
                if number >= wanted and (statuses[SendStatus.OK.value] or number >= wanted + MORE_ROUNDS):
                    break
                statuses.update(send_some(history, producer, [next(source) for _ in range(_AT_ONCE)]))
        server.kill()
    with trace.open() as lines:
        calls = strace.parse(lines)
    assert list(premature(calls, acknowledgements(calls), LogFiles(server.broker_files / "commitlog"))) == []
    with UpProcess(tmp_path) as server:
        server.start("--min-free-bytes", "1")
        history.opened(BROKER, server.incarnation)
        scan(history, "scan", server.namesrv, dict.fromkeys(QUEUES, 0))
    judge(checker)
    trace.unlink()  # it is large
    tell(f"--randomly-seed={seed}: {dict(statuses)}")
    assert set(statuses) == {SendStatus.OK.value, SendStatus.FLUSH_DISK_TIMEOUT.value}


def send_some(history: History, producer: Producer, some: list[Message]) -> list[str]:
    """Sends them side by side; how the broker answered each."""
    numbers = [history.sending("writer", [content_to_send(message)]) for message in some]
    futures = [producer.send_async(message, queue=QUEUES[0]) for message in some]
    receipts = [future.result() for future in futures]
    for number, receipt in zip(numbers, receipts, strict=True):
        history.sent(number, receipt, durable=True)
    return [receipt.status.value for receipt in receipts]


def judge(checker: Checker) -> None:
    checker.finish()
    assert not checker.violations, "\n".join(map(str, checker.violations[:20]))
