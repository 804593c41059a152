"""A slave that tries on: how often, what it tells of it, and what it knows of its master."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import Self

import pytest
from structlog.testing import capture_logs

from rmqspark.replication.stream import REPORT, transfer_head

from ..store.store_bench import SMALL, StoreBench
from .pair import QUICK, WHOLE, add, ahead, filled, following, log_of, on_loop, serving, until

SYNC = replace(SMALL, flush_disk_type="SYNC_FLUSH")
ROOMY = replace(SMALL, mapped_file_size_commit_log=1 << 16)
LONG = QUICK._replace(heartbeat_s=1000, retry_s=1000)
AT_ONCE = QUICK._replace(heartbeat_s=1000, retry_s=0)
ELSEWHERE = transfer_head(1 << 40, 0)
"""Of a log that begins far behind this slave's end."""


class Impostor(ABC):
    """What answers in a master's place; when it is left, all its connections have ended."""

    def __init__(self) -> None:
        self._served: list[asyncio.Task[None] | None] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await asyncio.gather(*filter(None, self._served))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._served.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until it hangs up."""


class Curt(Impostor):
    """Answers each slave with the same few bytes, and hangs up."""

    def __init__(self, answer: bytes = b"") -> None:
        super().__init__()
        self.answer = answer
        self.tries = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tries += 1
        await reader.readexactly(REPORT.size)
        writer.write(self.answer)

    async def serve_others(self, count: int) -> None:
        """One after the other, each to its end: whoever tries again at once has done so by then."""
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(bytes(REPORT.size))
            await reader.read()
            writer.close()
            await writer.wait_closed()
            self.tries -= 1


@pytest.mark.parametrize(("settings", "answer"), [(LONG, b""), (AT_ONCE, ELSEWHERE)])
@on_loop
async def test_a_slave_does_not_hammer_at_its_master(settings: object, answer: bytes) -> None:
    """It rests between two tries; longer, whatever is set, where only an operator can help."""
    copy = filled(2)
    async with Curt(answer) as master, following(copy, master.port, settings) as slave:  # type: ignore[arg-type]
        await until(lambda: slave.trouble != "")
        await master.serve_others(20)
    assert master.tries <= 2, "that it was told of this master ends its first rest"


@on_loop
async def test_a_slave_that_rests_hears_of_another_master() -> None:
    """It goes there at once: a rest is for a master that may come back."""
    original, copy = filled(2), StoreBench()
    async with serving(original, WHOLE) as right, Curt() as wrong, following(copy, wrong.port, LONG) as slave:
        await until(lambda: slave.trouble != "")
        await wrong.serve_others(20)
        slave.follow(f"127.0.0.1:{right.port}")
        await until(lambda: copy.store.end_offset == original.store.end_offset)
        assert slave.trouble == ""


@on_loop
async def test_a_log_with_false_checksums_is_copied() -> None:
    """Who gave them costs the others nothing: the slave asks again at once, and not for each of them."""
    original, copy = StoreBench(ROOMY), StoreBench(ROOMY)
    original.send("t", 0, b"first")
    original.send_falsely("u", 0, [b"%d" % row for row in range(50)], range(0, 50, 3))
    original.send("t", 0, b"last")
    original.store.flush()
    with capture_logs() as logs:
        async with serving(original, LONG._replace(transfer_bytes=1 << 20)) as right, following(copy, right.port, LONG):
            await until(lambda: copy.store.end_offset == original.store.end_offset)
    assert log_of(copy) == log_of(original)
    assert copy.bodies("t", 0) == [b"first", b"last"]
    assert [entry["event"] for entry in logs].count("asking the master once more") == 1


@on_loop
async def test_a_tail_that_stays_is_not_compared_all_the_time() -> None:
    """Until an operator has decided, which takes him longer than a moment."""
    original, copy = await ahead(b"kept")
    shared = log_of(original)
    ends = transfer_head(len(shared), 0) * 2  # nothing comes any more
    async with Curt(transfer_head(1, len(shared) - 1) + shared[1:] + ends) as master:
        async with following(copy, master.port, AT_ONCE, refusal_to_cut="Acked.") as slave:
            await until(lambda: "Acked." in slave.trouble)
            await master.serve_others(20)
        assert master.tries <= 2


@on_loop
async def test_what_is_wrong_is_told_once() -> None:
    """Not with each try; something else that is wrong is told, and the first again when it comes back."""
    with capture_logs() as logs:
        async with Curt() as master, following(filled(2), master.port, AT_ONCE):
            await until(lambda: master.tries > 3)
            master.answer = transfer_head(-1, 0)
            tries = master.tries
            await until(lambda: master.tries > tries + 3)
            master.answer = b""
            tries = master.tries
            await until(lambda: master.tries > tries + 3)
    told = [each["reason"] for each in logs if each["event"] == "not connected to the master, trying on"]
    at_once = "the master hung up at once: its log says why"
    assert told == [at_once, "A master sends 0 bytes of the log for -1.", at_once]


@on_loop
async def test_what_a_slave_knows_of_its_master() -> None:
    """That its log is the master's, when it heard of it last, when it told it something, and that it is gone."""
    original, copy = filled(2), StoreBench()
    async with serving(original, WHOLE) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
    copy.files.unlink("following")  # as of a master that was away
    copy.reopen()
    served = serving(original, WHOLE)
    async with following(copy, (await served.__aenter__()).port) as slave:
        assert copy.store.lineage.is_doubtful
        assert (slave.heard_ms, slave.reported_ms) == (0, 0)
        await until(lambda: slave.is_connected)
        now_ms = copy.clock.now_ms()
        assert not copy.store.lineage.is_doubtful
        assert (slave.heard_ms, slave.reported_ms) == (now_ms, now_ms)
        copy.clock.advance(ms=1_000)
        await until(lambda: slave.heard_ms == slave.reported_ms == now_ms + 1_000)
        await served.__aexit__(None, None, None)
        await until(lambda: not slave.is_connected)


@on_loop
async def test_what_comes_is_confirmed_at_once() -> None:
    """A sender may wait for it; and that the two logs are the same is told once, not with all that comes."""
    original, copy = StoreBench(), StoreBench()
    with capture_logs() as logs:
        async with (
            serving(original, WHOLE) as master,
            following(copy, master.port, QUICK._replace(heartbeat_s=1000)) as slave,
        ):
            await until(lambda: slave.is_connected)  # with a log that is as empty as its own
            for _ in range(3):
                add(original, 1)
                await until(lambda: master.slaves.confirmed_by(1) == original.store.end_offset)
    assert [each["event"] for each in logs].count("the log is the master's, going on from its end") == 1


LARGE = replace(SMALL, mapped_file_size_commit_log=1 << 18)


@pytest.mark.parametrize("new", [(), (b"n" * 30_000,) * 3])
@on_loop
async def test_a_tail_longer_than_what_is_compared_at_first_is_cut_off(new: tuple[bytes, ...]) -> None:
    """Where the master's log ends before that, or has other messages in all of it, more is compared."""
    original, copy = await ahead(*(b"lost" * 8_000,) * 3, config=LARGE)
    for body in new:
        original.send("t", 0, body)
    original.store.flush()
    async with serving(original, WHOLE) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
    assert log_of(copy) == log_of(original)


@pytest.mark.parametrize("place", [5, 500])
@on_loop
async def test_transfers_that_do_not_follow_each_other_are_not_taken(place: int) -> None:
    """What would be compared with them lies elsewhere: nothing is cut off, nothing appended."""
    copy = filled(8)
    raw = log_of(copy)
    answer = transfer_head(1, 10) + raw[1:11] + transfer_head(place, 10) + b"x" * 10
    async with Curt(answer) as master, following(copy, master.port) as slave:
        await until(lambda: slave.trouble != "")
    assert slave.trouble == f"The master sends its log from {place} on, not from 11."
    assert log_of(copy) == raw


@on_loop
async def test_what_rests_on_a_tail_is_forgotten_before_the_tail_goes() -> None:
    """A slave that dies in between has lost nothing by it."""
    original, copy = await ahead(b"lost")
    whole, ends = copy.store.end_offset, []

    async def forget() -> None:
        ends.append(copy.store.end_offset)

    async with serving(original, WHOLE) as master, following(copy, master.port, forget_tail=forget):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
    assert ends == [whole]


class Silent(Impostor):
    """Hears reports, and says nothing but `first`."""

    def __init__(self, first: bytes = b"") -> None:
        super().__init__()
        self._first = first
        self.reports: list[int] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._first)
        while True:
            self.reports += REPORT.unpack(await reader.readexactly(REPORT.size))


@on_loop
async def test_a_master_that_says_nothing_is_given_up() -> None:
    """After a while, in which it hears that its slave is there: one with nothing yet says so."""
    settings = LONG._replace(heartbeat_s=0.02, housekeeping_s=0.5)
    async with Silent() as master, following(StoreBench(), master.port, settings) as slave:
        await until(lambda: slave.trouble != "")
    assert slave.trouble == "nothing came from the master for 0.5 s"
    assert len(master.reports) > 2
    assert set(master.reports) == {0}


@on_loop
async def test_a_slave_reports_no_more_often_than_its_master_wants() -> None:
    """Where it has nothing to tell."""
    async with Silent() as master, Curt() as other:
        async with following(StoreBench(), master.port, QUICK._replace(heartbeat_s=1000)):
            await until(lambda: master.reports != [])
            await other.serve_others(20)
        assert master.reports == [0]


@on_loop
async def test_nothing_is_confirmed_that_is_not_on_disk_while_it_is_compared() -> None:
    """What a slave has from before it makes safe first: a report says that it is."""
    copy, raw = StoreBench(SYNC), log_of(filled(config=SYNC))
    copy.store.replica.append(raw[:700])
    assert copy.store.flushed_offset < 300
    async with Silent(transfer_head(1, 300) + raw[1:301]) as master, following(copy, master.port):
        await until(lambda: 301 in master.reports)
        assert copy.store.flushed_offset >= 301
