"""From the system calls of a broker: whether each send was on disk when its answer began to go out.

A record counts as on disk when an fsync of its file returned 0 that had begun after the write of the record had ended.
Once an fsync has failed, of whatever file, no later one counts: the kernel may have marked pages clean that never
reached the disk (reliability, G6). Only a draft, as tables have, is none of the store before its fsync returned 0, and
else is written as a whole again.
"""

from __future__ import annotations

from functools import partial
from math import inf
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.record import MAGIC_BLANK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from .strace import Call

WRITES = ("pwrite64", "pwritev", "pwritev2")
SYNCS = ("fsync", "fdatasync")
UNCOPIED = "sendfile"
REPLIES = ("write", "writev", "sendto", "sendmsg", UNCOPIED)
TRACED = (*WRITES, *SYNCS, *REPLIES)
_SIZE_AND_MAGIC = Struct(">iI")


def is_draft(path: str) -> bool:
    """Whether it is put in its place when it is on disk, and thrown away where it could not be written."""
    return path.endswith(".tmp")


class Acknowledgement(NamedTuple):
    """A broker's answer that records are stored: one at each of these offsets, or `rows` from the only one on."""

    begun: int  # when its first byte was handed to the system
    physical_offsets: tuple[int, ...]
    rows: int = 1

    @property
    def messages(self) -> int:
        return len(self.physical_offsets) * self.rows


def acknowledgements(calls: Iterable[Call]) -> Iterator[Acknowledgement]:
    """The answers to sends among all that was written to connections."""
    streams: dict[str, _Stream] = {}
    for call in calls:
        if call.name in REPLIES and call.target.startswith("TCP"):
            yield from streams.setdefault(call.target, _Stream()).feed(call)


class _Stream:
    """What the broker says on one connection."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self._begun = 0  # when the frame began that is not whole yet

    def feed(self, call: Call) -> Iterator[Acknowledgement]:
        begun = self._begun if self._decoder.buffered_bytes else call.begun
        for frame in self._decoder.feed(_said(call)):
            command = decode_command(split_frame(frame))
            if command.is_response and command.code == ResponseCode.SUCCESS:
                yield from _acknowledged(begun, command.fields)
            begun = call.begun
        self._begun = begun


def _said(call: Call) -> bytes:
    """What went out. Of a file's bytes that is messages, in the answer to a read, and any others will do."""
    return bytes(max(0, call.result or 0)) if call.name == UNCOPIED else call.data


def _acknowledged(begun: int, fields: dict[str, str]) -> Iterator[Acknowledgement]:
    if "physicalOffset" in fields:  # a bulk's
        yield Acknowledgement(begun, (int(fields["physicalOffset"]),), int(fields["count"]))
    elif "msgId" in fields and "queueOffset" in fields:
        offsets = tuple(parse_offset_msg_id(msg_id)[1] for msg_id in fields["msgId"].split(","))
        yield Acknowledgement(begun, offsets)


def premature(
    calls: Sequence[Call], acknowledged: Iterable[Acknowledgement], log: LogFiles
) -> Iterator[Acknowledgement]:
    """Those that began to go out before all their records were on disk."""
    disk = _Disk()
    moments: list[tuple[float, int, Callable[[], Acknowledgement | None]]] = []
    for call in calls:
        if call.name in WRITES and call.ended < inf:
            moments.append((call.ended, 1, partial(disk.wrote, call)))
        if call.name in SYNCS and call.ended < inf:
            moments.append((call.begun, 0, partial(disk.begins_sync, call)))
            moments.append((call.ended, 1, partial(disk.ends_sync, call)))
    for answer in acknowledged:
        moments.append((answer.begun, 0, partial(disk.judge, answer, log)))
    for _, _, happen in sorted(moments, key=lambda moment: moment[:2]):
        if (found := happen()) is not None:
            yield found


class _Disk:
    """How far each file is on disk, as time goes by."""

    def __init__(self) -> None:
        self._written: dict[str, int] = {}
        self._synced: dict[str, int] = {}
        self._covered: dict[int, int] = {}  # by the beginning of a sync
        self._has_failed = False

    def wrote(self, call: Call) -> None:
        if call.result is not None and call.result > 0:
            self._written[call.target] = max(self._written.get(call.target, 0), call.offset + call.result)

    def begins_sync(self, call: Call) -> None:
        self._covered[call.begun] = self._written.get(call.target, 0)

    def ends_sync(self, call: Call) -> None:
        if call.result != 0:
            self._has_failed |= not is_draft(call.target)
        elif not self._has_failed:
            self._synced[call.target] = max(self._synced.get(call.target, 0), self._covered[call.begun])

    def judge(self, answer: Acknowledgement, log: LogFiles) -> Acknowledgement | None:
        late = any(self._synced.get(path, 0) < end for path, end in log.ends(answer))
        return answer if late else None


class LogFiles:
    """The commit log as it is after all: which records there are, in which files."""

    def __init__(self, directory: Path) -> None:
        self._ends: list[tuple[str, int]] = []  # of all records, in their order: the file, and where in it they end
        self._numbers: dict[int, int] = {}  # by physical offset
        for path in sorted(directory.iterdir()):
            self._walk(path, path.read_bytes())

    def _walk(self, path: Path, content: bytes) -> None:
        at = 0
        while at + _SIZE_AND_MAGIC.size <= len(content):
            size, magic = _SIZE_AND_MAGIC.unpack_from(content, at)
            if size == 0 or magic == MAGIC_BLANK:
                return
            self._numbers[int(path.name) + at] = len(self._ends)
            at += size
            self._ends.append((str(path), at))

    def ends(self, answer: Acknowledgement) -> Iterator[tuple[str, int]]:
        """The file of each of its records, and where in it the record ends."""
        for physical_offset in answer.physical_offsets:
            number = self._numbers[physical_offset]
            yield from self._ends[number : number + answer.rows]
