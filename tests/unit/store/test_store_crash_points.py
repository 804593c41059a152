"""A process killed, or a machine without power, in the middle of any operation of a store at work."""

from __future__ import annotations

import itertools

import pytest

from rmqspark.store.config import StoreConfig
from rmqspark.testing.disk_faults import ProcessDied

from .store_bench import SMALL, StoreBench

pytestmark = pytest.mark.faults

QUEUES = [("t", 0), ("t", 1), ("u", 0)]


class Work:
    """Sends, flushes and closings in a fixed order; knows what was sent, answered and promised to be on disk."""

    def __init__(self, config: StoreConfig) -> None:
        self.bench = StoreBench(config)
        self.sent: dict[tuple[str, int], list[bytes]] = {queue: [] for queue in QUEUES}
        self.answered = dict.fromkeys(QUEUES, 0)
        self.promised = dict.fromkeys(QUEUES, 0)

    def run(self) -> None:
        for number in range(12):
            queue = QUEUES[number % 3]
            bodies = [b"%02d-%d" % (number, part) * (1 + number * 5 % 17) for part in range(1 + number % 4)]
            self.sent[queue] += bodies
            if number % 2:
                self.bench.send_bulk(*queue, *bodies)
            else:
                self.bench.send(*queue, *bodies)
            self.answered = {key: len(messages) for key, messages in self.sent.items()}
            if number % 4 == 1:
                self.bench.store.flush()
                self.promised = self.answered
            if number == 6:
                self.bench.store.checkpoint()
                self.promised = self.answered
            if number == 9:
                self.bench.reopen()
                self.promised = self.answered

    def check(self, at_least: dict[tuple[str, int], int]) -> None:
        """What is there is what was sent, in order from the first on, and not less than was promised; and it goes on
        from there."""
        for queue, messages in self.sent.items():
            found = self.bench.bodies(*queue)
            assert found == messages[: len(found)]
            assert len(found) >= at_least[queue]
            self.bench.send(*queue, b"more")
            self.bench.store.flush()
            assert self.bench.bodies(*queue) == [*found, b"more"]
            for body in found[-1:]:
                records = self.bench.store.query(queue[0], body.decode(), 0, 1 << 60, 64)
                assert any(body in record for record in records)
        assert self.bench.store.damage == ()


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("after_bytes", [0, 100, 600])
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_every_crash_point(mode: str, after_bytes: int, power: bool) -> None:
    """Killed, nothing that was answered is missing; without power, nothing that was flushed. Nothing is invented."""
    config = StoreConfig(**{**SMALL.__dict__, "flush_disk_type": mode})
    for count in itertools.count(1, 3):
        work = Work(config)
        work.bench.disk.stop_at(count, after_bytes=after_bytes)
        try:
            work.run()
        except ProcessDied:
            pass
        else:
            break
        if power:
            work.bench.lose_power(count * 7 + after_bytes)
            work.check(work.promised)
        else:
            work.bench.kill()
            work.check(work.answered if mode == "ASYNC_FLUSH" else work.promised)
    assert count > 60
