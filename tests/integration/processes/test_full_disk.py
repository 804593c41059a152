"""A real disk that runs full under a broker, and has room again."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.producer import Producer
from rmqspark.errors import NotWritable
from rmqspark.testing.history import History, content_to_send
from rmqspark.testing.history_checker import Checker

from .derived import assert_derived
from .load import ONE_TRY, QUEUES, TOPIC, Load
from .messages import messages
from .readers import read_to_ends, scan
from .servers import BROKER, UpProcess
from .small_disk import small_disk, why_not

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.faults]
_DISK_BYTES, _TAKEN_BYTES = 24 << 20, 12 << 20
_MESSAGES = 1000
_PATIENCE_S = 60


@pytest.fixture
def mountable(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where no disk can be made."""
    if (reason := why_not(tmp_path_factory.mktemp("disk"))) is not None:
        pytest.skip(reason)


@pytest.mark.slow_first
@pytest.mark.usefixtures("mountable")
@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_full_disk_refuses_and_recovers(tmp_path: Path, mode: str, seed: int, tell: Callable[[str], None]) -> None:
    """Sends are refused and leave nothing behind, reads go on, and with room they are taken again, all in one life."""
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", _DISK_BYTES) as disk, UpProcess(tmp_path, store=disk.path / "store") as server:
        full = FullDisk(server, mode, seed)
        disk.take(_TAKEN_BYTES)
        full.start()
        server.create_topic(TOPIC, len(QUEUES))
        with full.load("filling"):
            assert full.history.wait_for(lambda: full.history.refused > 0, _PATIENCE_S), "the disk does not run full"
        disk.fill()
        refusal = full.send_until_refused()
        assert re.search(
            "No space left on device|The disk is full", str(refusal)
        )  # the latter, if cleaning comes first
        # A few may be acknowledged and not be readable yet: they are in the log, and their queue has no room.
        read_to_ends(full.history, "full", server.namesrv, dict.fromkeys(QUEUES, 0))
        stored = full.history.acknowledged

        disk.free()
        full.send_until_taken()
        with full.load("freed"):
            goal = stored + _MESSAGES
            assert full.history.wait_for(lambda: full.history.acknowledged >= goal, _PATIENCE_S)
        full.scan("freed")
        assert server.is_alive
        assert server.stop() == 0
        full.start()
        full.scan("started again")
        assert server.stop() == 0
        full.judge()
        assert_derived(server.broker_files, tmp_path / "copy")
        refused, acknowledged = full.history.refused, full.history.acknowledged
        tell(f"--randomly-seed={seed}: {stored} messages until full, {refused} refused, {acknowledged} in all")


@pytest.mark.usefixtures("mountable")
def test_a_kill_on_a_full_disk(tmp_path: Path, seed: int) -> None:
    """A start says that there is no room; with room everything that was acknowledged is there."""
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", _DISK_BYTES) as disk, UpProcess(tmp_path, store=disk.path / "store") as server:
        full = FullDisk(server, "ASYNC_FLUSH", seed)
        disk.take(_TAKEN_BYTES)
        full.start()
        server.create_topic(TOPIC, len(QUEUES))
        with full.load("filling"):
            assert full.history.wait_for(lambda: full.history.refused > 0, _PATIENCE_S), "the disk does not run full"
        disk.fill()
        full.send_until_refused()
        server.kill()
        with pytest.raises(AssertionError, match="Error: .*No space left on device"):
            full.start()
        disk.free()
        full.start()
        full.scan("started again")
        assert server.stop() == 0
        full.judge()


class FullDisk:
    """A broker on a small disk, and what its clients did."""

    def __init__(self, server: UpProcess, mode: str, seed: int) -> None:
        self.server = server
        self.checker = Checker()
        self.history = History(self.checker.feed)
        self._mode = mode
        self._rng = Random(seed)
        self._probes = messages(TOPIC, "probe", self._rng)

    def start(self) -> None:
        self.server.start("--flush-disk-type", self._mode, "--min-free-bytes", "1")
        self.history.opened(BROKER, self.server.incarnation)

    def load(self, name: str) -> Load:
        seed, durable = self._rng.getrandbits(32), self._mode == "SYNC_FLUSH"
        return Load(self.history, self.server, name, seed, durable=durable, expected=NotWritable)

    def send_until_refused(self) -> NotWritable:
        """Sends one by one until there is no room for the next."""
        while (refusal := self._send()) is None:
            pass
        return refusal

    def send_until_taken(self) -> None:
        """Sends one by one until one is taken."""
        while self._send() is not None:
            pass

    def _send(self) -> NotWritable | None:
        message = next(self._probes)
        number = self.history.sending("probe", [content_to_send(message)])
        with Producer(self.server.namesrv, config=ONE_TRY) as producer:
            try:
                receipt = producer.send(message, queue=QUEUES[0])
            except NotWritable as refusal:
                self.history.not_sent(number, refusal)
                return refusal
        self.history.sent(number, receipt, durable=self._mode == "SYNC_FLUSH")
        return None

    def scan(self, reader: str) -> None:
        scan(self.history, reader, self.server.namesrv, dict.fromkeys(QUEUES, 0))

    def judge(self) -> None:
        self.checker.finish()
        assert not self.checker.violations, "\n".join(map(str, self.checker.violations[:20]))
