"""Power loss of a real broker at any of its system calls: each state that its disk may be in is opened and judged."""

from __future__ import annotations

from math import inf
from pathlib import PurePath
from random import Random
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import RmqError
from rmqspark.protocol.records.record import PHYSICAL_OFFSET_AT, encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.history import History
from rmqspark.testing.manual_clock import ManualClock

from . import strace
from .crash_states import REPLAYED, ROOT, UNKNOWN, Changes
from .durability import REPLIES, LogFiles, acknowledgements
from .load import QUEUES, TOPIC, Load
from .servers import SMALL_FILES, UpProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.testing.memory_files import MemoryFileSystem

WHY_NOT = strace.why_not()
pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]
STATES, STATES_OF_A_SOAK = 60, 4_000
_MESSAGES = 400
_LOG_FILE_BYTES = 1 << 20  # so that a load fills some
_MOST = 1 << 30
_CHANCES = 100
_PATIENCE_S = 60
_LONG = Struct(">q")


class Message(NamedTuple):
    """As it is stored: where in the log it ends, and its bytes."""

    end: int
    record: bytes


class Traced:
    """A life of a broker as system calls, and what was in its store at the end of it."""

    def __init__(self, calls: list[strace.Call], directory: Path, mode: str) -> None:
        self.changes = Changes(calls, directory)
        self.config = StoreConfig(
            **{**SMALL_FILES, "mapped_file_size_commit_log": _LOG_FILE_BYTES, "flush_disk_type": mode}
        )
        log = LogFiles(directory / "commitlog")
        answers = acknowledgements(calls) if mode == "SYNC_FLUSH" else ()
        self._promises = [(answer.begun, max(map(_end_in_log, log.ends(answer)))) for answer in answers]
        self._queues = self._messages_of(self._open(self.changes.replay(inf)))

    def judge(self, moment: int, changes: Changes, seed: int) -> None:
        """Opens what a power loss at that moment may leave: a beginning of all that was sent, in each queue, with all
        that was acknowledged before; and it goes on from there."""
        store = self._open(changes.crash(moment, SystemEntropy(seed)))
        end = store.end_offset
        promised = max((end for answered, end in self._promises if answered < moment), default=0)
        assert end >= promised, f"the log ends at {end}, and what is behind was acknowledged up to {promised}"
        expected = [[message for message in queue if message.end <= end] for queue in self._queues]
        assert self._messages_of(store) == expected
        for queue, messages in zip(QUEUES, expected, strict=True):
            record = encode_record(topic=TOPIC, queue_id=queue.queue_id, body=b"and on")
            (appended,) = store.append([Draft(TOPIC, queue.queue_id, record, 0, ())])
            assert appended.queue_offset == len(messages)
        store.close()

    def convicts(self, changes: Changes, moment: int, seed: int) -> bool:
        """Whether such a state is not lawful."""
        try:
            self.judge(moment, changes, seed)
        except (AssertionError, RmqError):  # an offset that is gone, say
            return True
        return False

    def moments_of_answers(self) -> list[int]:
        """Of each answer that acknowledges something, when its first byte was sent."""
        return [answered for answered, _ in self._promises]

    def _open(self, disk: MemoryFileSystem) -> MessageStore:
        return MessageStore.open(ROOT, self.config, files=disk, clock=ManualClock(), entropy=SystemEntropy(0))

    def _messages_of(self, store: MessageStore) -> list[list[Message]]:
        found = []
        for queue in QUEUES:
            end = store.queues.max_offset(TOPIC, queue.queue_id)
            chunk = store.read_bulk(TOPIC, queue.queue_id, 0, end, max_count=_MOST, max_bytes=_MOST)
            assert chunk.next_offset == end
            ends = np.cumsum(chunk.sizes).tolist()
            found.append([_message(chunk.body[end - size : end]) for end, size in zip(ends, chunk.sizes, strict=True)])
        return found


def _message(record: memoryview) -> Message:
    (physical_offset,) = _LONG.unpack_from(record, PHYSICAL_OFFSET_AT)
    return Message(physical_offset + len(record), bytes(record))


def _end_in_log(place: tuple[str, int]) -> int:
    path, end = place
    return int(PurePath(path).name) + end


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """A start, some load, and an orderly end."""
    directory, history = tmp_path_factory.mktemp("traced"), History()
    trace = directory / "trace"
    with UpProcess(directory, strace.command(trace, (*REPLAYED, *UNKNOWN, *REPLIES))) as server:
        sizes = ("--mapped-file-size-commit-log", str(_LOG_FILE_BYTES))
        server.start("--flush-disk-type", request.param, "--min-free-bytes", "1", *sizes)
        server.create_topic(TOPIC, len(QUEUES))
        with Load(history, server, "load", 1, durable=request.param == "SYNC_FLUSH"):
            assert history.wait_for(lambda: history.acknowledged >= _MESSAGES, _PATIENCE_S)
        assert server.stop() == 0
    with trace.open() as lines:
        traced = Traced(strace.parse(lines), server.broker_files, request.param)
    trace.unlink()  # it is large
    assert contents(traced.changes.replay(inf)) == contents_on_disk(server.broker_files), "the trace is not the whole"
    return traced


def contents(disk: MemoryFileSystem, path: str = ROOT) -> dict[str, bytes]:
    """Of every file by its path."""
    found = {}
    for name in disk.listdir(path):
        below = f"{path}/{name}"
        if disk.is_directory(below):
            found |= contents(disk, below)
        else:
            file = disk.open(below)
            found[below.removeprefix(f"{ROOT}/")] = file.pread(file.size(), 0)
    return found


def contents_on_disk(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.slow_first
@pytest.mark.timeout(3600)
def test_power_losses_at_system_calls(
    traced: Traced, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """Whatever the disk kept of what was not synced: what was acknowledged is there, nothing is in another's place."""
    rng, moments = Random(seed), [*traced.changes.moments(), *traced.moments_of_answers()]
    states = amount(STATES, STATES_OF_A_SOAK)
    for _ in range(states):
        moment, chance = rng.choice(moments) + rng.randint(0, 1), rng.getrandbits(32)
        try:
            traced.judge(moment, traced.changes, chance)
        except AssertionError as error:
            raise AssertionError(f"at line {moment} of the trace, chance {chance} (seed {seed}): {error}") from error
    tell(f"--randomly-seed={seed}: {states} states of {len(traced.changes)} changes in {traced.config.flush_disk_type}")


@pytest.mark.parametrize("missing", ["fdatasync", "fsync"])
@pytest.mark.parametrize("traced", ["SYNC_FLUSH"], indirect=True)
def test_a_broker_that_does_not_sync_is_convicted(traced: Traced, missing: str, seed: int) -> None:
    """The same trace without the syncs of contents, or of names: some state has lost what was acknowledged."""
    rng, rash = Random(seed), traced.changes.without(missing)
    moments = traced.moments_of_answers()
    assert any(traced.convicts(rash, rng.choice(moments) + 1, rng.getrandbits(32)) for _ in range(_CHANCES))
