"""What the flusher tells of a disk that takes messages and no checkpoint."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from errno import ENOSPC

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.safekeeping.flusher import Flusher

from ..store.store_bench import SMALL, StoreBench

pytestmark = pytest.mark.faults


def test_a_checkpoint_that_the_disk_refuses_is_told_once_and_so_is_its_return() -> None:
    """Messages are taken and flushed meanwhile, so nobody else would notice that none expires any more."""
    bench = StoreBench(replace(SMALL, flush_interval_consume_queue=10**9))

    async def flush(body: bytes, refusal: OSError | None = None) -> None:
        bench.send("t", 0, body)
        if refusal is not None:
            bench.disk.fail_next("pwrite", refusal)
        await flusher.flushed(bench.store.end_offset)
        assert bench.store.flushed_offset == bench.store.end_offset

    async def told(*refusals: OSError | None) -> list[str]:
        with capture_logs() as logs:
            for refusal in refusals:
                await flush(b"message", refusal)
        return [entry["event"] for entry in logs]

    async def scenario() -> None:
        running = asyncio.create_task(flusher.run())
        assert await told(None) == []
        full = OSError(ENOSPC, "No space left on device")
        assert await told(full, full) == ["the checkpoint cannot be written, newer messages do not expire"]
        assert await told(None, None) == ["the checkpoint is written again"]
        flusher.close()
        await running

    flusher = Flusher(bench.store, bench.config)
    asyncio.run(scenario())
