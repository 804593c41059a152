"""Tasks that fail by what strangers send: the log is not theirs to fill."""

from __future__ import annotations

import asyncio
import gc

from structlog.testing import capture_logs

from rmqspark.admin.mishaps import Mishaps


async def handled(message: dict[str, str]) -> str:
    if "id" not in message:
        raise ValueError(f"no id: {message}")
    return message["client"]


def test_each_kind_is_told_once() -> None:
    """However often it happens, and whatever the message says."""

    async def asked() -> None:
        asyncio.get_running_loop().set_exception_handler(Mishaps().tell)
        for number in range(5):
            for message in ({str(number): "\x1b[2J"}, {"id": "x"}):
                task = asyncio.ensure_future(handled(message))
                await asyncio.wait([task])
                del task
                gc.collect()

    with capture_logs() as logs:
        asyncio.run(asked())
    assert [type(entry["exc_info"]) for entry in logs] == [ValueError, KeyError]
    assert {entry["what"] for entry in logs} == {"Task exception was never retrieved"}
