"""A slave follows its master: over real sockets, with stores on memory disks."""

from __future__ import annotations

import asyncio
import errno
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pytest
from structlog.testing import capture_logs

from rmqspark.broker.replica.copied_queues import CopiedQueues
from rmqspark.errors import Busy
from rmqspark.protocol.records.record import blank_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.replication.admission import PROTOCOL, STRANGER, Admission
from rmqspark.replication.session import Session
from rmqspark.replication.stream import (
    REPORT,
    TRANSFER_HEAD,
    ReportDecoder,
    Transfer,
    TransferDecoder,
    report,
    transfer_head,
)

from ..store.store_bench import SMALL, StoreBench
from .pair import PATIENCE_S, QUICK, WHOLE, add, ahead, filled, following, log_of, on_loop, serving, until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SYNC = replace(SMALL, flush_disk_type="SYNC_FLUSH")


@pytest.mark.parametrize("config", [SMALL, SYNC])
@on_loop
async def test_a_slave_has_what_its_master_has(config: object) -> None:
    """From the first byte on, over several files, and what comes while it is connected."""
    original, copy = filled(config=config), StoreBench(config)  # type: ignore[arg-type]
    async with serving(original, WHOLE) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
        add(original, 8, "later")
        await until(lambda: copy.store.end_offset == original.store.end_offset)
        await until(lambda: master.slaves.confirmed_by(1) == original.store.end_offset)
    copy.store.flush()
    assert copy.content("commitlog") == original.content("commitlog")
    assert copy.bodies("u", 0) == original.bodies("u", 0)


@on_loop
async def test_a_new_slave_gets_the_newest_file() -> None:
    """As from RocketMQ's master, unless the master is told to send all."""
    original, copy = filled(), StoreBench()
    async with serving(original) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
    assert copy.store.min_physical_offset == original.store.end_offset // 1024 * 1024
    assert log_of(original).endswith(log_of(copy))


@on_loop
async def test_a_slave_that_was_away_goes_on() -> None:
    """Connection after connection, and start after start, nothing is missing and nothing comes twice."""
    original, copy = filled(2), StoreBench()
    for turn in range(6):
        async with serving(original, WHOLE) as master, following(copy, master.port):
            await until(lambda: copy.store.end_offset == original.store.end_offset)
        add(original, 2, f"turn{turn}-")
        copy.kill() if turn % 2 else copy.reopen()
    assert log_of(original).startswith(log_of(copy))
    assert copy.store.end_offset > 0


@on_loop
async def test_a_stream_cut_at_any_byte_is_taken_up_again() -> None:
    """Whatever the slave had when the connection broke, it goes on from there."""
    original = filled(3)
    raw = log_of(original)
    async with serving(original, WHOLE) as master:
        for cut in range(1, len(frames(raw)), 37):
            copy = StoreBench()
            async with CutShort(raw, cut) as port, following(copy, port) as slave:
                await until(lambda slave=slave: slave.trouble != "")
            assert raw.startswith(log_of(copy) if copy.store.end_offset else b"")
            async with following(copy, master.port):
                await until(lambda copy=copy: copy.store.end_offset == len(raw))
            assert copy.content("commitlog") == original.content("commitlog")


def frames(raw: bytes, start: int = 0, size: int = 50) -> bytes:
    parts = (transfer_head(at, len(raw[at : at + size])) + raw[at : at + size] for at in range(start, len(raw), size))
    return b"".join(parts)


class CutShort:
    """A master that sends so many bytes of its stream, and hangs up."""

    def __init__(self, log: bytes, cut: int) -> None:
        self._log = log
        self._cut = cut

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            (start,) = REPORT.unpack(await reader.readexactly(REPORT.size))
            writer.write(frames(self._log, start)[: self._cut])
            await writer.drain()
        writer.close()


# --- logs that are not the same


NO_ROOM = b"x" * 400  # in what is left of the file: the first thing that differs is a blank record


@pytest.mark.parametrize("first", [b"lost", NO_ROOM])
@on_loop
async def test_a_tail_the_master_lost_is_cut_off(first: bytes) -> None:
    """The master lost its last messages in a power loss and took others: the slave has those others afterwards."""
    original, copy = await ahead(first, b"lost1", b"lost2", b"lost3")
    incarnation = copy.store.incarnation
    original.send("t", 0, b"n")  # small enough for what is left of the file
    add(original, 5, "new")
    async with serving(original, WHOLE) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
    copy.store.flush()
    assert copy.content("commitlog") == original.content("commitlog")
    assert copy.bodies("t", 0) == original.bodies("t", 0)
    assert copy.store.incarnation == incarnation + 1
    assert len(copy.content("cut")) == 1


@on_loop
async def test_a_slave_that_is_ahead_is_cut_back() -> None:
    """The master lost its last messages and nothing came since: the slave does not wait until it would be too late."""
    original, copy = await ahead(b"lost")
    shared = original.store.end_offset
    async with serving(original, WHOLE) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == shared)
        await until(lambda: master.slaves.confirmed_by(1) == shared)
    assert log_of(copy) == log_of(original)


@pytest.mark.faults
@on_loop
async def test_a_tail_that_the_disk_does_not_let_go_is_tried_again() -> None:
    """A slave on a full disk keeps running, says what is wrong, and cuts the tail off when there is room."""
    original, copy = await ahead(b"lost")
    copy.store.checkpoint()
    for _ in range(2):
        copy.disk.fail_next("pwrite", OSError(errno.ENOSPC, "no room for what is kept"))
    troubles: set[str] = set()
    async with serving(original, WHOLE) as master, following(copy, master.port) as slave:
        await until(lambda: troubles.add(slave.trouble) or copy.store.end_offset == original.store.end_offset)
    assert any("no room" in each for each in troubles)
    assert log_of(copy) == log_of(original)


@on_loop
async def test_a_tail_that_may_be_the_only_copy_stays() -> None:
    """Where the master waited for slaves, what it lost was acknowledged: an operator decides."""
    original, copy = await ahead(b"kept0", b"kept1", b"kept2")
    before = log_of(copy)
    add(original, 1, "new")
    async with serving(original, WHOLE) as master, following(copy, master.port, refusal_to_cut="Acked.") as slave:
        await until(lambda: "Acked." in slave.trouble)
    assert log_of(copy) == before


async def followed_by_another() -> tuple[StoreBench, StoreBench, StoreBench]:
    """A master that has lost its last messages and taken others; another one, which has all that the slave of both has;
    and that slave."""
    original, copy = await ahead(b"kept0", b"kept1", b"kept2")
    other = filled(8)
    for body in (b"kept0", b"kept1", b"kept2"):
        other.send("t", 0, body)
    assert log_of(other) == log_of(copy)
    add(original, 1, "new")
    return original, other, copy


@on_loop
async def test_nothing_is_cut_off_for_a_master_that_is_followed_no_more() -> None:
    """Name servers tell of another one while it is asked whether it waits for slaves: that one may have it all."""
    original, other, copy = await followed_by_another()
    async with (
        serving(other, WHOLE) as right,
        serving(original, WHOLE) as wrong,
        following(copy, wrong.port, instead=f"127.0.0.1:{right.port}") as slave,
    ):
        await until(lambda: slave.is_connected)
    assert log_of(copy) == log_of(other)
    assert copy.content("cut") == {}


@on_loop
async def test_nothing_is_cut_off_for_a_master_that_is_left_while_its_log_is_compared() -> None:
    """Name servers tell of another one while the log of the one before still comes: that one may have it all."""
    original, other, copy = await followed_by_another()
    with capture_logs() as logs:
        async with (
            serving(other, WHOLE) as right,
            Waiting(log_of(original)) as wrong,
            following(copy, wrong.port, refusal_to_cut="Acked.") as slave,
        ):
            await wrong.was_asked.wait()
            slave.follow(f"127.0.0.1:{right.port}")
            wrong.may_answer.set()
            await until(lambda: slave.is_connected)
    assert "Acked." not in str(logs), "nobody is asked about a tail that the one of today may have"
    assert log_of(copy) == log_of(other)
    assert copy.content("cut") == {}


@on_loop
async def test_no_log_is_taken_of_a_master_that_is_left_while_it_is_compared() -> None:
    """Also where it has what this slave has: tables and users come from the other one from then on."""
    other, copy = filled(8), StoreBench()
    async with serving(other, WHOLE) as right, following(copy, right.port):
        await until(lambda: copy.store.end_offset == other.store.end_offset)
    async with serving(other, WHOLE) as right, Waiting(log_of(other)) as wrong, following(copy, wrong.port) as slave:
        await wrong.was_asked.wait()
        slave.follow(f"127.0.0.1:{right.port}")
        wrong.may_answer.set()
        await until(lambda: slave.is_connected)
        assert len(right.slaves) == 1


class Waiting:
    """A master that sends its log when it is told to."""

    def __init__(self, log: bytes) -> None:
        self._log = log
        self.was_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (start,) = REPORT.unpack(await reader.readexactly(REPORT.size))
        self.was_asked.set()
        await self.may_answer.wait()
        writer.write(frames(self._log, start))
        await reader.read()
        writer.close()


@on_loop
async def test_a_master_that_does_not_say_yet_whether_it_waits_is_asked_again_soon() -> None:
    """One that has just come back: what is for an operator to decide takes a minute, this does not."""
    original, copy = await ahead(b"lost")
    troubles: set[str] = set()
    async with serving(original, WHOLE) as master, following(copy, master.port, not_known_at_first=2) as slave:
        await until(lambda: troubles.add(slave.trouble) or copy.store.end_offset == original.store.end_offset)
    assert "not known" in troubles


@on_loop
async def test_nothing_is_confirmed_that_is_not_on_disk() -> None:
    """A slave in SYNC_FLUSH confirms what it flushed, also what it had from before."""
    original, copy = filled(config=SYNC), StoreBench(SYNC)
    copy.store.replica.append(log_of(original)[:700])
    assert copy.store.flushed_offset < copy.store.end_offset
    async with serving(original, WHOLE) as master, following(copy, master.port):
        while master.slaves.confirmed_by(1) < original.store.end_offset:
            assert master.slaves.confirmed_by(1) <= copy.store.flushed_offset
            await asyncio.sleep(0)


@on_loop
async def test_only_whole_records_are_confirmed() -> None:
    """Half a record that came is no word of a slave's that it has something."""
    raw = log_of(filled(2))
    ends = {0, *(int(end) for end in np.cumsum(RecordBatch.scan(raw).sizes))}
    reports: list[int] = []

    async def half_by_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = ReportDecoder()
        if copy.store.end_offset == 0:  # the first time, not when the slave comes again
            for at in range(0, len(raw), 40):
                writer.write(transfer_head(at, len(raw[at : at + 40])) + raw[at : at + 40])
                reports.extend(decoder.feed(await reader.read(100)))
            await until(lambda: copy.store.end_offset == len(raw))
        writer.close()

    copy = StoreBench()
    server = await asyncio.start_server(half_by_half, "127.0.0.1", 0)
    async with following(copy, server.sockets[0].getsockname()[1], QUICK._replace(heartbeat_s=0.001)) as slave:
        await until(lambda: slave.trouble != "")
    server.close()
    assert len(set(reports)) > 3
    assert set(reports) <= ends


@on_loop
async def test_what_waits_for_its_end_is_not_copied_with_each_chunk() -> None:
    """A blank record is as large as a file, and comes a little at a time."""
    copy = StoreBench(replace(SMALL, mapped_file_size_commit_log=8 << 20))
    start = blank_record(8 << 20) + bytes(4 << 20)
    chunk, allocated = bytes(4096), 0
    async with following(copy, port=1) as slave:
        session = Session(slave, slave.master, None)
        session._take([Transfer(0, start)])
        tracemalloc.start()
        try:
            for number in range(32):
                before, _ = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                session._take([Transfer(len(start) + number * len(chunk), chunk)])
                allocated += tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
    assert allocated < 32 << 20, "a quarter of what 32 copies are: it has to grow now and then"


@on_loop
async def test_the_log_of_another_master_is_refused() -> None:
    """A slave that is pointed at a stranger changes nothing, and says why."""
    stranger, copy = filled(12, word="x"), filled(12, word="y")
    before = copy.content("commitlog")
    async with serving(stranger) as master, following(copy, master.port) as slave:
        await until(lambda: "not proven" in slave.trouble)
        assert not slave.is_connected
    assert copy.content("commitlog") == before


@on_loop
async def test_a_master_that_begins_anew_costs_the_slave_nothing() -> None:
    """An operator emptied the master's store: the only copy there is stays as it is."""
    fresh, copy = filled(1, word="x"), filled(12)
    before = copy.content("commitlog")
    async with serving(fresh) as master, following(copy, master.port) as slave:
        await until(lambda: "not proven" in slave.trouble)  # its last word, after all windows
    assert copy.content("commitlog") == before


@on_loop
async def test_a_master_without_a_log_says_that_its_slave_may_have_the_only_one() -> None:
    """Its store was lost: who goes by its log does not empty the slave's, too."""
    with capture_logs() as logs:
        async with serving(StoreBench()) as master, following(filled(1), master.port):
            await until(lambda: _reasons(logs))
    assert "Make it the master where it has what counts" in _reasons(logs)[0]


def _reasons(logs: Iterable[Mapping[str, Any]]) -> list[str]:
    return [each["reason"] for each in logs if each["event"] == "hung up on a slave"]


# --- a master whose first messages have expired


async def behind(rounds: int) -> tuple[StoreBench, StoreBench]:
    """A master that has let go of all but its newest file, and a slave that was not there for the last rounds."""
    original, copy = filled(12), StoreBench()
    async with serving(original, WHOLE) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
    add(original, rounds, "later")
    original.expire()
    return original, copy


@on_loop
async def test_a_slave_goes_on_where_only_the_begin_of_its_tail_has_expired() -> None:
    """It asks for more than the master still has; of what there is a part is its own, and goes before the rest."""
    original, copy = await behind(0)
    add(original, 5, "later")
    assert 0 < original.store.min_physical_offset < copy.store.end_offset
    async with serving(original) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
    assert log_of(copy).endswith(log_of(original))


@on_loop
async def test_a_slave_whose_messages_have_all_expired_goes_on_behind_them() -> None:
    """Its log ends with a file, the next is there and empty, and is all that is left: it has not a byte, and yet may
    not begin with its master's newest file, as a new slave does."""
    original, copy = filled(12), StoreBench()
    two_files = SMALL.mapped_file_size_commit_log * 2
    async with CutShort(log_of(original)[:two_files], 1 << 20) as port, following(copy, port):
        await until(lambda: copy.store.end_offset == two_files)
    copy.disk.set_budget(0)
    async with serving(original, WHOLE) as master, following(copy, master.port):
        await until(lambda: copy.files.exists(f"commitlog/{two_files:020d}"))
    copy.disk.set_budget(None)
    copy.kill()
    copy.expire()
    assert copy.store.min_physical_offset == copy.store.end_offset == two_files
    async with serving(original) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
    assert copy.store.min_physical_offset == two_files
    assert log_of(original).endswith(log_of(copy))
    assert original.bodies("u", 0)[-1:] == copy.bodies("u", 0)[-1:]


@on_loop
async def test_a_slave_says_when_what_it_lacks_has_expired() -> None:
    """It changes nothing, and names what there is to do."""
    original, copy = await behind(20)
    before = copy.content("commitlog")
    async with serving(original) as master, following(copy, master.port) as slave:
        await until(lambda: "has expired" in slave.trouble)
        assert "Empty this slave's store" in slave.trouble
        assert not slave.is_connected
    assert copy.content("commitlog") == before


def test_a_slave_that_has_all_of_the_log_knows_where_queues_begin() -> None:
    """One that has heard of nothing earlier on its master, since the last start."""
    copy = filled(12)
    copy.expire()
    begin = copy.store.min_physical_offset
    assert copy.store.queues.min_offset("u", 0) > 0
    for heard_of in (None, begin - 1):
        if heard_of is not None:
            copy.store.replica.master_begins_at(heard_of)
        with pytest.raises(Busy, match="may have begun later"):
            CopiedQueues(copy.store, is_slave=True).require_begin("u", 0)
    copy.store.replica.master_begins_at(begin)
    CopiedQueues(copy.store, is_slave=True).require_begin("u", 0)
    copy.reopen()
    with pytest.raises(Busy, match="may have begun later"):
        CopiedQueues(copy.store, is_slave=True).require_begin("u", 0)
    CopiedQueues(copy.store, is_slave=False).require_begin("u", 0)  # a master's is no copy


@on_loop
async def test_nothing_is_cut_off_where_the_first_byte_that_is_left_differs() -> None:
    """What the master's log had before that has expired proves nothing."""
    _, copy = await behind(0)
    stranger = filled(12, word="x")
    stranger.expire()
    before = copy.content("commitlog")
    assert 0 < stranger.store.min_physical_offset < copy.store.end_offset
    async with serving(stranger) as master, following(copy, master.port) as slave:
        await until(lambda: "not proven" in slave.trouble)
    assert copy.content("commitlog") == before


# --- who may do what


@on_loop
async def test_strangers_are_not_sent_the_log() -> None:
    """Who is not registered as a slave gets nothing but the end of its connection."""

    async def none_anywhere(_: str) -> int:
        return 0

    async with serving(filled(2), admission=Admission(none_anywhere)) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(report(0))
        with suppress(ConnectionResetError):
            assert await reader.read(100) == b""
        assert master.admission.refused[STRANGER] == 1
        writer.close()


@pytest.mark.parametrize("words", [report(1) + report(1 << 62), report(-1), report(1 << 40)])
@on_loop
async def test_a_forged_report_ends_the_connection_and_counts_for_nothing(words: bytes) -> None:
    """Nobody is told that a slave has what it never got (reliability, G9)."""
    async with serving(filled(2)) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        await until(lambda: len(master.slaves) == 1)
        writer.write(words)
        async with asyncio.timeout(PATIENCE_S):
            while await reader.read(1 << 16):
                assert master.slaves.confirmed_by(1) < 1 << 30
        await until(lambda: len(master.slaves) == 0)
        assert master.admission.refused[PROTOCOL] == 1, "it is not its silence that ends it"
        writer.close()


@on_loop
async def test_who_is_hung_up_on_again_and_again_is_told_of_once() -> None:
    """A slave that speaks otherwise, or has more than its master, tries every few seconds for as long as it runs."""
    fresh, copy = filled(1), filled(12)
    with capture_logs() as logs:
        async with serving(fresh) as master:
            for tries in range(1, 4):
                reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
                writer.write(report(copy.store.end_offset))
                with suppress(ConnectionResetError):
                    assert await reader.read(100) == b""
                await until(lambda tries=tries: master.admission.refused[PROTOCOL] == tries)
                writer.close()
            async with following(StoreBench(), master.port):
                await until(lambda: master.slaves.confirmed_by(1) == fresh.store.end_offset)
    assert [entry["event"] for entry in logs if "slave" in entry][:2] == ["hung up on a slave", "a slave connected"]


@on_loop
async def test_who_says_nothing_is_not_kept() -> None:
    """A connection that never reports is ended after a while; another that does is served meanwhile."""
    original, copy = filled(2), StoreBench()
    async with serving(original, QUICK._replace(housekeeping_s=0.3)) as master, following(copy, master.port):
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read(100) == b""
        writer.close()
        await until(lambda: copy.store.end_offset == original.store.end_offset)


@on_loop
async def test_a_slave_that_reports_often_hears_that_its_master_lives() -> None:
    """However short the time between two reports is, where there is nothing to send the master says so."""
    original = filled(2)
    end = original.store.end_offset
    async with serving(original, QUICK._replace(heartbeat_s=0.5)) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)

        async def report_often() -> None:
            while True:
                writer.write(report(end))
                await asyncio.sleep(0.02)

        reporting = asyncio.create_task(report_often())
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readexactly(TRANSFER_HEAD.size) == transfer_head(end, 0)
        reporting.cancel()
        writer.close()


@on_loop
async def test_only_what_is_on_disk_is_sent_in_sync_flush() -> None:
    """What a power loss may take from the master is on no slave."""
    original = filled(1, SYNC)
    on_disk = original.store.end_offset
    original.send("t", 0, b"in the page cache")
    async with serving(original) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(report(1))
        sent = await transfers_until_heartbeat(reader)
        assert sent[-1] == Transfer(on_disk, b"")
        original.store.flush()
        sent = await transfers_until_heartbeat(reader)
        assert sent[-1] == Transfer(original.store.end_offset, b"")
        writer.close()


@on_loop
async def test_transfers_never_cross_files() -> None:
    """RocketMQ's slave has a place for what lies in one file."""
    original = filled(12)
    async with serving(original, WHOLE._replace(transfer_bytes=300)) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(report(0))
        sent = await transfers_until_heartbeat(reader)
        writer.close()
    assert b"".join(each.data for each in sent) == log_of(original)
    for offset, data in sent[:-1]:
        assert len(data) <= 300
        assert offset // 1024 == (offset + len(data) - 1) // 1024


async def transfers_until_heartbeat(reader: asyncio.StreamReader) -> list[Transfer]:
    decoder, found = TransferDecoder(), []
    async with asyncio.timeout(PATIENCE_S):
        while not (found and not found[-1].data):
            found += decoder.feed(await reader.read(TRANSFER_HEAD.size * 10))
    return found
