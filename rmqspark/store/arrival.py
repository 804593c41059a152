"""What bytes of a master's log are, before a slave writes any of them: records, a blank record, or damage.

Each record is checked as recovery would, its checksum too. What cannot be believed may have been damaged on its way, or
be so with the master. Of the latter is what comes twice the same (`doubt.py`) and is followed by a record: that much is
damage here as it would be to the master's own recovery, in the log and in no queue. Until something follows nobody
knows where it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import structlog

from rmqspark.errors import RecordError
from rmqspark.protocol.records.record import BLANK_BYTES, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, SIZE_MAGIC
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.recovery.scan import LONGEST_HEAD_BYTES, fits_its_body, next_record, whole_records

if TYPE_CHECKING:
    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.store.doubt import Doubt

log = structlog.get_logger("rmqspark.store")

_OF_RECORDS: Final = (MAGIC_V1, MAGIC_V2)
MOST_RECORD_BYTES: Final = 32 << 20
MOST_BLANK_BYTES: Final = 256 << 20  # what found no room in a file in one piece: a batch of the smallest messages, say
_NEAR_DAMAGE_BYTES: Final = 64 << 10  # where there may be more of it: what is looked at, and looked at again behind it
MOST_DAMAGE_BYTES: Final = 16 << 20  # more than the largest bulk: each chunk that comes has all of it looked at again
_OTHER_FILES: Final = "Set mapped_file_size_commit_log to what the master has."


class Piece(NamedTuple):
    """Of a log: records, if it has a `batch`; else a blank record, or damage."""

    data: bytes
    batch: RecordBatch | None = None
    is_damage: bool = False


class Arrival:
    """Bytes that lie at the physical offset `begin`, where a file has `room` bytes left; `beyond` is what has come of
    the next file. What cannot be believed goes into `doubt`."""

    def __init__(self, view: memoryview, beyond: memoryview, begin: int, room: int, doubt: Doubt) -> None:
        self._view = view
        self._beyond = beyond
        self._begin = begin
        self._room = room
        self._doubt = doubt

    def first(self) -> Piece | None:
        """What they begin with; None where more of it has to come. A piece owns its bytes.

        Raises RecordError where no log has what they begin with; it is `Doubtful` the first time, for what is the
        master's comes again.
        """
        sizes = self._whole_records()
        if len(sizes):
            return self._records(sizes)
        if len(self._view) < BLANK_BYTES:
            if len(self._view) == self._room:
                raise RecordError(f"A file of the log ends at {self._begin} without a blank record.")
            return None
        size, magic = SIZE_MAGIC.unpack_from(self._view)
        if magic == MAGIC_BLANK and size == self._room <= MOST_BLANK_BYTES:
            return Piece(bytes(self._view)) if len(self._view) == size else None
        return None if self._may_become_record(size, magic) else self._misfit(size, magic)

    def _whole_records(self) -> Positions:
        if self._doubt.reaches(self._begin):
            near = whole_records(self._view[:_NEAR_DAMAGE_BYTES])
            if len(near):
                return near
        return whole_records(self._view)

    def _may_become_record(self, size: int, magic: int) -> bool:
        """Whether one of this size begins here of which not all has come: what is damaged says any size."""
        if magic not in _OF_RECORDS or not MIN_RECORD_BYTES <= size <= min(self._room, MOST_RECORD_BYTES):
            return False
        return len(self._view) < LONGEST_HEAD_BYTES or fits_its_body(self._view, size)

    def _misfit(self, size: int, magic: int) -> Piece | None:
        """Where neither a record nor a blank one begins, or one that has no room here: that is of files of another
        length if it is sound. None where not all of it has come."""
        what = f"no record (size {size}, magic {magic:#x}) where the file has room for {self._room} bytes"
        if magic == MAGIC_BLANK or self._is_cut_by_file(size, magic):
            raise RecordError(f"At {self._begin} the master sends {what}.", hint=_OTHER_FILES)
        return self._damage(RecordError(f"At {self._begin} the master sends {what}."))

    def _is_cut_by_file(self, size: int, magic: int) -> bool:
        """Whether a sound record begins in this file and ends in the next, as far as that has come."""
        if magic not in _OF_RECORDS or not self._room < size <= MOST_RECORD_BYTES:
            return False
        whole = bytes(self._view) + bytes(self._beyond[: size - len(self._view)])
        return len(whole) == size and _is_record(whole, self._begin)

    def _records(self, sizes: Positions) -> Piece | None:
        """Those before the first that cannot be believed, if there are any."""
        try:
            return self._checked(sizes)
        except RecordError as error:
            good = self._count_good(sizes)
            return self._checked(sizes[:good]) if good else self._damage(error)

    def _damage(self, why_not: RecordError) -> Piece | None:
        """What comes in front of the next record, where that came before as it comes now; None where it is known here
        already, and nothing has followed yet."""
        data = bytes(self._view)
        size = next_record(data, self._begin)
        if not size and len(data) == self._room and self._goes_on_beyond():
            size = len(data)
        if size and self._doubt.confirms(self._begin, data[:size]):
            if self._doubt.is_about(self._begin):  # else it is more of the same
                log.warning("the master's log is damaged, taken as it is", at=self._begin, bytes=size)
            return Piece(data[:size], is_damage=True)
        if not size and self._doubt.is_about(self._begin) and len(data) <= MOST_DAMAGE_BYTES:
            return None
        raise self._doubt.about(why_not, self._begin, data)

    def _goes_on_beyond(self) -> bool:
        """Whether a record that can be believed is in the next file, be it the first one there."""
        before = bytes(self._view[-1:])
        return next_record(before + bytes(self._beyond), self._begin + len(self._view) - 1) > 0

    def _checked(self, sizes: Positions) -> Piece:
        """The first records, which have these sizes. Raises RecordError unless all can be believed."""
        data = bytes(self._view[: int(sizes.sum())])
        return Piece(data, _believed(data, sizes, self._begin))

    def _count_good(self, sizes: Positions) -> int:
        """How many records from the first on can be believed. It takes the longer the more these are."""
        good, bad = 0, 1
        while bad <= len(sizes) and self._are_good(sizes[:bad]):
            good, bad = bad, 2 * bad
        bad = min(bad, len(sizes) + 1)
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if self._are_good(sizes[:middle]) else (good, middle)
        return good

    def _are_good(self, sizes: Positions) -> bool:
        try:
            self._checked(sizes)
        except RecordError:
            return False
        return True


def _believed(data: bytes, sizes: Positions, begin: int) -> RecordBatch:
    """Records that lie at the physical offset `begin`. Raises RecordError unless all can be believed."""
    batch = RecordBatch.from_sizes(data, sizes)
    try:
        batch.check(check_crc=True)
    except RecordError as error:
        raise RecordError(f"From {begin} on the master sends what is damaged: {error.message}") from error
    if (batch.physical_offsets != batch.positions + begin).any():
        raise RecordError(f"From {begin} on the master sends records that belong elsewhere.")
    return batch


def _is_record(data: bytes, begin: int) -> bool:
    try:
        _believed(data, np.array([len(data)]), begin)
    except RecordError:
        return False
    return True
