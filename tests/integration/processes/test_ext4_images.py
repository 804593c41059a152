"""Power that fails under a real broker on a real ext4, as far as its journal and the kernel's own writing back go."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark.testing.history import History
from rmqspark.testing.history_checker import Checker

from .derived import assert_derived
from .ext4_disk import make_image, mounted, why_not
from .load import QUEUES, TOPIC, Doubt, Load
from .readers import scan
from .servers import BROKER, UpProcess, wait_until_stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ext4_disk import Ext4Disk

pytestmark = [pytest.mark.integration, pytest.mark.faults]
IMAGES, IMAGES_OF_A_SOAK = 2, 60
_DISK_BYTES = 256 << 20
_MOST_BETWEEN_LOSSES = 2_000  # acknowledged messages
_PATIENCE_S = 60


@pytest.fixture
def mountable(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where no image can be mounted."""
    if (reason := why_not(tmp_path_factory.mktemp("image"))) is not None:
        pytest.skip(reason)


class PowerLosses:
    """A broker whose machine loses its power under load, again and again, and everything that was ever sent to it."""

    def __init__(self, directory: Path, mode: str, seed: int) -> None:
        self.checker = Checker()
        self.history = History(self.checker.feed)
        self.count = 0
        self.incarnations: set[int] = set()
        self._directory = directory
        self._mode = mode
        self._rng = Random(seed)
        self._doubts: list[Doubt] = []

    def run(self, wanted: int) -> None:
        make_image(self._image(0), _DISK_BYTES)
        while self.count < wanted:
            with ExitStack() as machine:
                server, disk = self._start(machine)
                self._lose_power_under_load(server, disk)
            self.count += 1
            self._image(self.count - 1).unlink()
        with ExitStack() as machine:
            server, _ = self._start(machine)
            assert server.stop() == 0
            assert_derived(server.broker_files, self._directory / "copy")
        self.checker.finish()
        self._assert_lawful()

    def _start(self, machine: ExitStack) -> tuple[UpProcess, Ext4Disk]:
        """Starts the broker on what is left, and reads all of it."""
        disk = machine.enter_context(mounted(self._image(self.count), self._directory / f"disk-{self.count}"))
        server = machine.enter_context(UpProcess(self._directory, store=disk.path / "store"))
        forget_boot(server.broker_files / "abort")
        server.start("--flush-disk-type", self._mode, "--min-free-bytes", "1")
        if not self.count:
            server.create_topic(TOPIC, len(QUEUES))
        self.incarnations.add(server.incarnation)
        self.history.opened(BROKER, server.incarnation)
        scan(self.history, f"scan-{self.count}", server.namesrv, dict.fromkeys(QUEUES, 0))
        self._assert_lawful()
        return server, disk

    def _lose_power_under_load(self, server: UpProcess, disk: Ext4Disk) -> None:
        durable = self._mode == "SYNC_FLUSH"
        load = Load(self.history, server, str(self.count), self._rng.getrandbits(32), durable=durable)
        load.settle(self._doubts)
        goal = self.history.acknowledged + self._rng.randint(1, _MOST_BETWEEN_LOSSES)
        with load:
            assert self.history.wait_for(lambda: self.history.acknowledged >= goal, _PATIENCE_S), load.failure
            os.killpg(server.process.pid, signal.SIGSTOP)
            wait_until_stopped(server.process.pid)
            disk.copy(self._image(self.count + 1))
            server.kill()
        self._doubts = load.doubts

    def _image(self, number: int) -> Path:
        return self._directory / f"image-{number}"

    def _assert_lawful(self) -> None:
        assert not self.checker.violations, "\n".join(map(str, self.checker.violations[:20]))


def forget_boot(marker: Path) -> None:
    """A machine whose power failed boots anew, and this one has not: what the broker noted of it must be another's."""
    if marker.exists():
        this_boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
        marker.write_bytes(marker.read_bytes().replace(this_boot, b"0" * len(this_boot)))


@pytest.mark.usefixtures("mountable")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_power_losses_on_ext4(
    tmp_path: Path, mode: str, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """The next start finds what the kernel had written back and no more: in SYNC_FLUSH all that was acknowledged; in
    either mode each queue whole up to its end, nothing invented, and readers told where a tail is gone."""
    losses = PowerLosses(tmp_path, mode, seed)
    losses.run(amount(IMAGES, IMAGES_OF_A_SOAK, by=0.2))
    tell(
        f"--randomly-seed={seed}: {losses.count} power losses in {mode}; {losses.history.acknowledged} messages "
        f"acknowledged, {losses.history.unknown} unknown; incarnations up to {max(losses.incarnations)}"
    )
