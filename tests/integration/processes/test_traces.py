"""The judge of SYNC_FLUSH is itself judged: traces in which all is well, and traces in which an answer is premature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.protocol.headers.bulk import BulkSendResponseHeader
from rmqspark.protocol.headers.produce import SendMessageResponseHeader
from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.protocol.records.record import blank_record, encode_record

from .durability import Acknowledgement, LogFiles, acknowledgements, premature
from .strace import parse

if TYPE_CHECKING:
    from pathlib import Path

SECOND_FILE = 1000
HOST = bytes(8)
CLIENT = "TCP:[127.0.0.1:10911->127.0.0.1:40000]"
OTHER = "TCP:[127.0.0.1:10911->127.0.0.1:40001]"
RECORD = bytes(encode_record(topic="t", body=b"x" * 19))
SIZE = len(RECORD)


class Trace:
    """A trace of a broker whose log has three records in its first file and two in its second."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "commitlog"
        self.directory.mkdir()
        first = RECORD * 3
        (self.directory / f"{0:020d}").write_bytes(first + blank_record(SECOND_FILE - len(first)) + bytes(10))
        (self.directory / f"{SECOND_FILE:020d}").write_bytes(RECORD * 2 + bytes(50))
        self.lines: list[str] = []

    def write(self, offset: int, records: int = 1, base: int = 0) -> None:
        data = RECORD * records
        self.add(1, f"pwrite64(5<{self._path(base)}>, {quoted(data)}, {len(data)}, {offset}) = {len(data)}")

    def sync(self, base: int = 0, result: str = "0", thread: int = 2) -> None:
        self.add(thread, f"fdatasync(5<{self._path(base)}>) = {result}")

    def fail_draft(self) -> None:
        path = self.directory.parent / "config" / "topics.json.tmp"
        self.add(2, f"fdatasync(6<{_escaped(path)}>) = -1 EIO (Input/output error) (INJECTED)")

    def begin_sync(self, base: int = 0) -> None:
        self.add(2, f"fdatasync(5<{self._path(base)}> <unfinished ...>")

    def end_sync(self, result: str = "0") -> None:
        self.add(2, f"<... fdatasync resumed>)     = {result}")

    def answer(self, *physical_offsets: int, connection: str = CLIENT) -> None:
        self.say(reply(*physical_offsets), connection)

    def say(self, data: bytes, connection: str = CLIENT) -> None:
        self.add(1, f"write(9<{connection}>, {quoted(data)}, {len(data)}) = {len(data)}")

    def uncopied(self, taken: int) -> None:
        outcome = f"[0] => [{taken}], 60) = {taken}" if taken >= 0 else "[60], 60) = -1 EAGAIN (Try again)"
        self.add(1, f"sendfile(9<{CLIENT}>, 5<{self._path(0)}>, {outcome}")

    def add(self, thread: int, text: str) -> None:
        self.lines.append(f"{thread}  {text}\n")

    @property
    def premature(self) -> list[tuple[int, ...]]:
        """The places of the records in whose answers a broker was rash."""
        calls = parse(self.lines)
        found = premature(calls, list(acknowledgements(calls)), LogFiles(self.directory))
        return [answer.physical_offsets for answer in found]

    def _path(self, base: int) -> str:
        return _escaped(self.directory / f"{base:020d}")


def _escaped(path: Path) -> str:
    return "".join(f"\\x{byte:02x}" for byte in str(path).encode())


def quoted(data: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in data) + '"'


def reply(*physical_offsets: int) -> bytes:
    ids = ",".join(offset_msg_id(HOST, physical_offset) for physical_offset in physical_offsets)
    return b"".join(encode_response(7, 0, SendMessageResponseHeader(msgId=ids, queueId=0, queueOffset=0)))


def bulk_reply(physical_offset: int, count: int) -> bytes:
    header = BulkSendResponseHeader(queueOffset=0, count=count, physicalOffset=physical_offset, storeTimestamp=1)
    return b"".join(encode_response(7, 0, header))


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return Trace(tmp_path)


def test_an_answer_behind_one_that_lies_in_a_file(trace: Trace) -> None:
    """What went from the log to the socket is a part of what was said, though no call was given its bytes."""
    head, body = b"".join(encode_response(8, 0, body=bytes(100))), 60
    trace.write(0)
    trace.say(head[:-100] + bytes(40))
    trace.uncopied(body)
    trace.uncopied(-1)
    trace.answer(0)
    assert trace.premature == [(0,)]


def test_written_synced_answered(trace: Trace) -> None:
    """One after the other, for a send and for a batch."""
    trace.write(0)
    trace.sync()
    trace.answer(0)
    trace.write(SIZE, 2)
    trace.begin_sync()
    trace.end_sync()
    trace.answer(SIZE, 2 * SIZE)
    assert trace.premature == []


def test_answered_before_the_sync(trace: Trace) -> None:
    """Also where the sync has begun, and where another record is safe."""
    trace.write(0)
    trace.sync()
    trace.write(SIZE)
    trace.answer(0)
    trace.answer(SIZE)
    trace.begin_sync()
    trace.answer(SIZE)
    trace.end_sync()
    trace.answer(SIZE)
    assert trace.premature == [(SIZE,), (SIZE,)]


def test_written_while_a_sync_was_under_way(trace: Trace) -> None:
    """A sync covers what was there when it began."""
    trace.begin_sync()
    trace.write(0)
    trace.end_sync()
    trace.answer(0)
    assert trace.premature == [(0,)]


def test_a_write_that_had_not_ended_when_the_sync_began(trace: Trace) -> None:
    """It may have come too late."""
    trace.write(0)
    whole = trace.lines.pop().rstrip("\n")
    trace.lines.append(whole.replace(f") = {SIZE}", " <unfinished ...>\n"))
    trace.begin_sync()
    trace.add(1, f"<... pwrite64 resumed>) = {SIZE}")
    trace.end_sync()
    trace.answer(0)
    assert trace.premature == [(0,)]


def test_another_file_was_synced(trace: Trace) -> None:
    """Each file of the log has its own syncs."""
    trace.write(0)
    trace.write(0, base=SECOND_FILE)
    trace.sync(base=SECOND_FILE)
    trace.answer(SECOND_FILE)
    trace.answer(0)
    assert trace.premature == [(0,)]


def test_a_sync_that_failed(trace: Trace) -> None:
    """Neither it nor any after it says that something is on disk; what was there before still is."""
    trace.write(0)
    trace.sync()
    trace.write(SIZE)
    trace.sync(result="-1 EIO (Input/output error) (INJECTED)")
    trace.sync()
    trace.answer(0)
    trace.answer(SIZE)
    assert trace.premature == [(SIZE,)]


def test_a_draft_whose_sync_failed(trace: Trace) -> None:
    """Of a table, which stays as it was: that says nothing of the log."""
    trace.write(0)
    trace.fail_draft()
    trace.sync()
    trace.answer(0)
    assert trace.premature == []


def test_a_bulk_over_two_files(trace: Trace) -> None:
    """Its last record lies in the second."""
    trace.write(0, 3)
    trace.sync()
    trace.write(0, 2, base=SECOND_FILE)
    trace.say(bulk_reply(SIZE, 3))
    trace.sync(base=SECOND_FILE)
    trace.say(bulk_reply(SIZE, 3))
    calls = parse(trace.lines)
    assert [answer.messages for answer in acknowledgements(calls)] == [3, 3]
    assert trace.premature == [(SIZE,)]


def test_answers_cut_anywhere(trace: Trace) -> None:
    """An answer counts from its first byte on, in whatever pieces it and its neighbours went out."""
    both = reply(0) + reply(SIZE)
    half = len(reply(0)) + 10
    trace.say(both[:5])
    trace.say(reply(2 * SIZE), OTHER)
    trace.write(0)
    trace.say(both[5:half])
    trace.say(both[half:])
    answers = list(acknowledgements(parse(trace.lines)))
    assert answers == [
        Acknowledgement(1, (2 * SIZE,)),
        Acknowledgement(0, (0,)),
        Acknowledgement(3, (SIZE,)),
    ]


def test_several_buffers_of_one_call(trace: Trace) -> None:
    """pwritev2 to the log, sendmsg to a client; and of a short write only what was written."""
    vector = f"[{{iov_base={quoted(RECORD[:9])}, iov_len=9}}, {{iov_base={quoted(RECORD[9:])}, iov_len={SIZE - 9}}}]"
    trace.add(1, f"pwritev2(5</log>, {vector}, 2, 77, 0) = {SIZE}")
    trace.add(1, f"sendmsg(9<{CLIENT}>, {{msg_name=NULL, msg_iov={vector}, msg_iovlen=2, msg_flags=0}}, 0) = {SIZE}")
    trace.add(1, f"pwritev(5</log>, {vector}, 2, 99) = 9")
    log, sent, short = parse(trace.lines)
    assert (log.name, log.offset, log.data, log.target) == ("pwritev2", 77, RECORD, "/log")
    assert (sent.name, sent.data, sent.target) == ("sendmsg", RECORD, CLIENT)
    assert (short.offset, short.data) == (99, RECORD[:9])


def test_what_is_no_call_is_passed_over(trace: Trace) -> None:
    """Signals, ends of threads, and calls that a kill cut off."""
    trace.add(1, "--- SIGTERM {si_signo=SIGTERM, si_code=SI_USER} ---")
    trace.begin_sync()
    trace.add(1, "+++ killed by SIGKILL +++")
    trace.add(2, "+++ killed by SIGKILL +++")
    (call,) = parse(trace.lines)
    assert (call.name, call.result) == ("fdatasync", None)
    assert trace.premature == []


def test_a_trace_may_break_off_in_a_call(trace: Trace) -> None:
    """strace is killed with what it traces: a call that its last line does not end has begun, and not returned."""
    trace.write(0)
    trace.sync()
    written, sync = trace.lines
    for size in range(len(sync)):
        _, *calls = parse([written, sync[:size]])
        assert [(call.name, call.result) for call in calls] == [("fdatasync", None)] * ("(" in sync[:size])


def test_a_trace_may_break_off_in_the_end_of_a_call(trace: Trace) -> None:
    """Nor has one whose end, written on a line of its own, is not whole."""
    trace.begin_sync()
    trace.end_sync()
    begun, resumed = trace.lines
    for size in range(len(resumed)):
        (call,) = parse([begun, resumed[:size]])
        assert (call.name, call.result) == ("fdatasync", None)


def test_an_answer_at_which_a_trace_breaks_off_is_judged(trace: Trace) -> None:
    """It may have gone out."""
    trace.write(0)
    trace.answer(0)
    trace.lines[-1] = trace.lines[-1].rpartition(") = ")[0]
    assert len(trace.premature) == 1


def test_a_string_that_strace_cut_short_is_no_evidence(trace: Trace) -> None:
    """The judge refuses it instead of guessing."""
    trace.add(1, f'write(9<{CLIENT}>, "\\x00"..., 5) = 5')
    with pytest.raises(AssertionError, match="cut a string short"):
        list(acknowledgements(parse(trace.lines)))
