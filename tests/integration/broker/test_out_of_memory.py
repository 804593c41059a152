"""A broker whose memory runs out in the middle of a request: it refuses, stays up, and keeps what it promised."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import structlog

import rmqspark.broker
import rmqspark.store
from rmqspark.errors import ConnectionLost
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader
from rmqspark.protocol.headers.consume import QueryMessageRequestHeader
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.remoting.response import Response

pytestmark = [pytest.mark.integration, pytest.mark.faults]
_SCOPE: Final = tuple(str(Path(package.__file__).parent) for package in (rmqspark.broker, rmqspark.store))
_EVENT_LOOP: Final = Path(asyncio.__file__).parent
_STRIDE: Final = 4  # a share of the calls; a soak takes every one
_BULK = BulkReadRequestHeader("orders", 0, 0, 1 << 40, 1000, 1 << 20)
_QUERY = QueryMessageRequestHeader("orders", "k", 32, 0, 1 << 62)
_QUIET: Final = {"flush_interval_commit_log": 60_000}  # so that the calls are those of the request


class Scarcity:
    """Raises MemoryError instead of the `count`-th call within broker and store, for which there is no frame any more;
    `met` is the function it met. What the event loop itself calls is left out: nobody could hear of it."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.met = ""

    def __call__(self, frame: Any, event: str, _argument: object) -> None:
        is_ours = event == "call" and frame.f_code.co_filename.startswith(_SCOPE)
        if is_ours and Path(frame.f_back.f_code.co_filename).parent != _EVENT_LOOP:
            self._left -= 1
            if self._left == 0:
                self.met = frame.f_code.co_qualname
                raise MemoryError("planned by the test")


@contextmanager
def scarce(count: int) -> Iterator[Scarcity]:
    before, scarcity = sys.gettrace(), Scarcity(count)
    sys.settrace(scarcity)
    try:
        yield scarcity
    finally:
        sys.settrace(before)


class Trials:
    """One kind of request, again and again, each time with memory for a few calls more."""

    def __init__(self, kind: str, stride: int) -> None:
        self.kind = kind
        self.injected = self.restarts = 0
        self.acknowledged: list[bytes] = []
        self.sent: list[bytes] = []
        self._stride = stride
        self._next = 1

    async def run(self, bench: Any) -> bool:
        """Goes on until the broker takes no more messages, or all calls have been met: then True."""
        client = await bench.connect()
        await client.create_topic("orders")
        while True:
            number, self._next = self._next, self._next + self._stride
            bodies = [
                b"%s-%d-%d" % (self.kind.encode(), number, part) for part in range(2 if self.kind == "batch" else 1)
            ]
            with scarce(number) as scarcity:
                try:
                    answer = await self._request(bench, client, bodies)
                except ConnectionLost:  # it was stored, and for its answer there was no memory
                    answer, client = None, await bench.connect()
            self._note(bodies, answer, scarcity.met)
            if not scarcity.met:
                return True
            self.injected += 1
            after = b"%s-after-%d" % (self.kind.encode(), number)
            goes_on = await client.send("orders", after, {"KEYS": "k"})
            if goes_on.code == ResponseCode.SERVICE_NOT_AVAILABLE:
                assert "by half" in goes_on.remark
                assert (await client.pull("orders")).code in (
                    0,
                    ResponseCode.PULL_NOT_FOUND,
                    ResponseCode.PULL_OFFSET_MOVED,
                )
                self.restarts += 1
                return False
            assert goes_on.code == 0, (scarcity.met, goes_on.remark)
            self.sent.append(after)
            self.acknowledged.append(after)

    async def check(self, bench: Any) -> None:
        """Everything acknowledged is there once, in its place, and nothing is there twice."""
        client, found = await bench.connect(), []
        while (answer := await client.pull("orders", len(found))).code == 0:
            for record in bench.records(answer):
                assert record.queue_offset == len(found)
                found.append(record.body)
        assert len(found) == len(set(found))
        assert set(self.acknowledged) <= set(found) <= set(self.sent)
        assert [body for body in found if body in set(self.acknowledged)] == self.acknowledged

    async def _request(self, bench: Any, client: Any, bodies: list[bytes]) -> Response:
        match self.kind:
            case "send":
                return await client.send("orders", bodies[0], {"UNIQ_KEY": "u", "KEYS": "k"})
            case "batch":
                batch = encode_batch([BatchElement(body, b"KEYS\x01k\x02") for body in bodies])
                return await client.ask(RequestCode.SEND_BATCH_MESSAGE, bench.send_header("orders", m=True), batch)
            case "pull":
                return await client.pull("orders")
            case "bulk read":
                return await client.ask(RequestCode.RMQ_BULK_READ, _BULK)
            case "query":
                return await client.ask(RequestCode.QUERY_MESSAGE, _QUERY)
            case _:
                return await client.create_topic("other")

    def _note(self, bodies: list[bytes], answer: Response | None, met: str) -> None:
        if answer is not None and met:
            assert answer.code in (0, ResponseCode.SYSTEM_ERROR), (met, answer.remark)
        if self.kind in ("send", "batch"):
            self.sent += bodies
            self.acknowledged += bodies if answer is not None and answer.code == 0 else []


@pytest.mark.parametrize("kind", ["send", "batch", "pull", "bulk read", "query", "topic"])
def test_memory_that_runs_out_at_any_call(
    on_broker: Callable[..., Any], kind: str, amount: Callable[[int, int], int], tell: Callable[[str], None]
) -> None:
    """MemoryError at the first, second, third call of the broker's own code: an answer says so, the next request is
    served, or where a message is stored by half, all further ones are refused until a start."""
    files, trials = MemoryFileSystem(), Trials(kind, _STRIDE // amount(1, _STRIDE))
    with structlog.testing.capture_logs():  # each is logged with its story, which takes longer than all the rest
        while not on_broker(trials.run, files=files, store=_QUIET):
            pass
        on_broker(trials.check, files=files)
    tell(f"{trials.injected} calls of {kind} without memory, {trials.restarts} restarts")
    assert trials.injected >= 3
