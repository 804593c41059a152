"""Memory that runs out while messages are brought to the disk: nobody is told too much, and reads go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rmqspark.protocol.codes import ResponseCode
from rmqspark.store.flush import Flusher, FlushPlan
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.integration, pytest.mark.faults]
SYNC = {"flush_disk_type": "SYNC_FLUSH"}


def without_memory(*_: object, **__: object) -> None:
    raise MemoryError("planned by the test")


@pytest.mark.parametrize(
    ("owner", "step"), [(Flusher, "begin"), (FlushPlan, "run"), (Flusher, "finish")], ids=["begin", "run", "finish"]
)
def test_a_flush_that_runs_out_of_memory(
    on_broker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, owner: type, step: str
) -> None:
    """Whoever waits for it is refused, and so is every later message, for nobody can say how far it came; reads go on;
    a start serves all that was acknowledged."""
    files = MemoryFileSystem()

    async def live(bench: Any) -> None:
        client = await bench.connect()
        await client.create_topic("orders", queues=1)
        assert (await client.send("orders", b"kept")).code == 0
        with monkeypatch.context() as scarce, capture_logs() as logs:
            scarce.setattr(owner, step, without_memory)
            for _ in range(2):
                refused = await client.send("orders", b"in doubt")
                assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
                assert "Memory ran out" in refused.remark
        (story,) = [each["event"] for each in logs if each["log_level"] == "error"]
        assert story == "a flush ended for want of memory, no more messages are taken"
        assert (await client.send("orders", b"too late")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert [record.body for record in bench.records(await client.pull("orders"))] == [b"kept"]

    async def look(bench: Any) -> None:
        client = await bench.connect()
        found = [record.body for record in bench.records(await client.pull("orders"))]
        assert found in ([b"kept"], [b"kept", b"in doubt"])
        assert (await client.send("orders", b"again")).code == 0

    on_broker(live, files=files, store=SYNC)
    on_broker(look, files=files, store=SYNC)


def test_an_answer_that_there_is_no_memory_for(on_broker: Callable[..., Any]) -> None:
    """Whoever else waited for the same flush, or for a later one, is told all the same."""

    async def live(bench: Any) -> None:
        client = await bench.connect()
        await client.create_topic("orders", queues=1)
        flusher, told = bench.broker._parts.flusher, list[object]()
        with capture_logs() as logs:
            flusher.when_flushed(0, without_memory)
            flusher.when_flushed(0, told.append)
            assert (await client.send("orders", b"kept")).code == 0
        assert [each["event"] for each in logs] == ["there is no memory to answer who waited for a flush"]
        assert told == [None]

    on_broker(live, store=SYNC)
