"""Topics that messages wait for, and that no table on disk knew when the broker was killed.

Who makes a topic is told that the table cannot be written; who sends to it then is told that all is well.
"""

from __future__ import annotations

import copy
import errno
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import TopicRequestHeader
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

from .half_batch_talk import bodies, complete, half, hand_out, held, hold, vote
from .transaction_talk import COMMIT, all_of, end, send_half
from .waiting_talk import there

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.integration


def over_a_kill(
    on_broker: Callable[..., Any],
    before: Callable[[Any, Any], Awaitable[Any]],
    after: Callable[[Any, Any, Any], Awaitable[None]],
    clock: ManualClock | None = None,
) -> None:
    """What `before` sends to `orders` is what the log says of that topic, and nothing else does; `after` hears what it
    has returned."""
    files, killed = MemoryFileSystem(), list[tuple[MemoryFileSystem, Any]]()

    async def send(bench: Any) -> None:
        client = await bench.connect()
        files.fail_next("rename", OSError(errno.ENOSPC, "No space left on device"))
        assert (await client.create_topic("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        told = await before(bench, client)
        killed.append((copy.deepcopy(files), told))

    async def look(bench: Any) -> None:
        await after(bench, await bench.connect(), told)

    on_broker(send, files=files, clock=clock)
    ((files_then, told),) = killed
    files_then.kill()
    on_broker(look, files=files_then, clock=clock)


@pytest.mark.parametrize("property_name", ["DELAY", "TIMER_DELAY_SEC"])
def test_a_message_that_waited_comes(on_broker, property_name: str) -> None:
    """Its topic has the queue that it was sent to, and takes more."""
    clock = ManualClock()

    async def before(bench: Any, client: Any) -> None:
        assert (await client.send("orders", b"later", {property_name: "1"}, e=2)).code == 0

    async def after(bench: Any, client: Any, told: None) -> None:
        clock.advance(seconds=3)
        assert [record.body for record in await there(bench, client, "orders", 2)] == [b"later"]
        assert (await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader("orders"))).code == 0

    over_a_kill(on_broker, before, after, clock)


def test_a_half_message_can_be_committed(on_broker) -> None:
    """It waits for its producer."""

    async def after(bench: Any, client: Any, sent: Any) -> None:
        answer = await end(client, sent, COMMIT)
        assert answer.code == 0, answer.remark
        assert [record.body for record in await all_of(bench, client, "orders", 2)] == [b"half"]

    over_a_kill(on_broker, lambda bench, client: send_half(client), after)


def test_a_half_batch_can_be_completed(on_broker) -> None:
    """It waits for its coordinator, who may have decided before the kill."""
    request = half(b"row")

    async def before(bench: Any, client: Any) -> None:
        hand_out(bench, epoch=1)
        await hold(client, request)
        assert not await vote(client, held(request))

    async def after(bench: Any, client: Any, told: None) -> None:
        answer = await complete(client, held(request))
        assert answer.code == 0, answer.remark
        assert await bodies(bench, client) == [b"row"]

    over_a_kill(on_broker, before, after)
