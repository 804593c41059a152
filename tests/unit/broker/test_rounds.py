"""What a broker does by the clock goes by its settings as they are, and goes on after a round that failed."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from rmqspark.broker.rounds import _every


def test_an_interval_that_may_change_is_asked_for_each_time() -> None:
    """As that between two looks at pulls that wait, which is shorter while long polling is off."""

    async def scenario() -> None:
        asked, done = list[int](), list[int]()

        def interval_ms() -> int:
            asked.append(len(done))
            return 0

        def look() -> None:
            done.append(len(asked))
            if len(done) == 3:
                running.cancel()
            raise OSError("planned by the test")

        running = asyncio.create_task(_every(interval_ms, look))
        await asyncio.gather(running, return_exceptions=True)
        assert (asked[:3], done) == ([0, 1, 2], [1, 2, 3])

    asyncio.run(scenario())


def test_rounds_that_fail_alike_are_logged_once() -> None:
    """As on a disk that is full for hours, each second; and once more when they fail again, or otherwise."""

    async def scenario() -> None:
        ends = iter(["no room", "no room", "no room", "", "no room", "no memory"])

        def look() -> None:
            if end := next(ends, None):
                raise OSError(end)
            if end is None:
                running.cancel()

        running = asyncio.create_task(_every(0, look))
        with capture_logs() as logs:
            await asyncio.gather(running, return_exceptions=True)
        assert [entry["error"] for entry in logs] == ["no room", "no room", "no memory"]

    asyncio.run(scenario())
