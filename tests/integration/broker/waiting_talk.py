"""What tests of delayed messages and of messages with a deliver time do alike."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.testing.memory_files import MemoryFileSystem

from .transaction_talk import all_of, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqspark.protocol.records.record import Record
    from rmqspark.testing.manual_clock import ManualClock

Wish = tuple[bytes, dict[str, str]]  # a body, and the properties that say when it is to come


async def there(bench: Any, client: Any, topic: str, queue_id: int = 0, count: int = 1) -> list[Record]:
    """What is in a queue, once so many messages are."""
    found: list[Record] = []

    async def is_there() -> bool:
        found[:] = await all_of(bench, client, topic, queue_id)
        return len(found) >= count

    await eventually(is_there)
    return found


async def comes_after(
    bench: Any, clock: ManualClock, ms: int, properties: dict[str, str], parked_in: tuple[str, int]
) -> tuple[Record, Record]:
    """A message comes in so many milliseconds and not before, and wakes a pull that waits in its queue; how it was
    parked, and how it came."""
    client, reader = await bench.connect(), await bench.connect()
    await client.create_topic("orders")
    wanted = properties | {"TAGS": "TagA", "UNIQ_KEY": "U1"}
    sent = await client.send("orders", b"later", wanted, e=2, h=7)
    assert (sent.code, sent.fields["queueId"], sent.fields["transactionId"]) == (0, "2", "U1")
    (parked,) = await all_of(bench, client, *parked_in)
    clock.advance(ms=ms - 1)
    waiting = asyncio.ensure_future(reader.pull("orders", queueId=2, subscription="TagA", wait_ms=60_000))
    await asyncio.sleep(0.25)  # rounds in which nothing may come
    assert not waiting.done()
    clock.advance(ms=1)
    (message,) = bench.records(await waiting)
    assert (message.body, message.queue_id, message.flag, message.sys_flag) == (b"later", 2, 7, 0)
    assert message.prepared_transaction_offset == parked.physical_offset + 1
    assert message.born_timestamp_ms == parked.born_timestamp_ms
    return parked, message


def restart_between(
    on_broker: Callable[..., Any],
    clock: ManualClock,
    sends: Iterable[Wish],
    waits: tuple[int, int],
    forgotten: str = "",
    **not_to_start_with: Any,
) -> list[list[bytes]]:
    """What is there when the first message has come, and, after a restart in which the broker's tables whose names
    begin so were lost, when the second has; `waits` are the seconds before each. With settings that no broker starts
    with, one has been tried with them in between."""
    files, found = MemoryFileSystem(), list[list[bytes]]()

    async def look(bench: Any, count: int) -> None:
        client = await bench.connect()
        if count == 1:
            for body, properties in sends:
                await client.send("orders", body, properties)
        clock.advance(seconds=waits[count - 1])
        found.append([record.body for record in await there(bench, client, "orders", count=count)])

    on_broker(lambda bench: look(bench, 1), clock=clock, files=files)
    for name in files.listdir("store/config"):
        if forgotten and name.startswith(forgotten):
            files.unlink(f"store/config/{name}")
    if not_to_start_with:
        with pytest.raises(InvalidArgument):
            on_broker(look, clock=clock, files=files, **not_to_start_with)
    on_broker(lambda bench: look(bench, 2), clock=clock, files=files)
    return found
