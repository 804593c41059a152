"""Reading a buffer full of records, all of them at once.

What one record looks like is written in `record.py`; here every field of all records is one NumPy array, and every
variable part one array of spans into the buffer. Nothing is copied but numbers. Fields are read as `head_columns.py`
says. Nothing inside a record is believed before `check()` has seen it (`record_parts.py`), and every span comes out of
that check.
"""

from __future__ import annotations

from functools import cached_property
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.spans import Spans, as_bytes, equal_to
from rmqspark.protocol.java_hash import java_hash_spans
from rmqspark.protocol.records import record as layout
from rmqspark.protocol.records.body_crcs import body_crcs, crcs_of, cut_bodies
from rmqspark.protocol.records.head_columns import HeadColumns
from rmqspark.protocol.records.record import MIN_RECORD_BYTES, SysFlag
from rmqspark.protocol.records.record_parts import Parts, blame, divided, equal_parts
from rmqspark.protocol.records.record_properties import RecordProperties

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.protocol.records.property_pairs import PropertyMaps
    from rmqspark.protocol.records.record import Buffer


class RecordBatch:
    """Records of one buffer, read as columns. Sizes and positions may come from outside: they are checked too.

    Columns are NumPy arrays with one element per record, times in milliseconds. Spans point into `buffer`.
    """

    def __init__(self, buffer: Buffer | Bytes, positions: Positions, sizes: NDArray[np.int32 | np.int64]) -> None:
        """Records at `positions`. Raises RecordError unless each lies within the buffer and has room for a head."""
        self.buffer: Final[Bytes] = as_bytes(buffer)
        self.positions: Final[Positions] = positions
        self.sizes: Final[Positions] = sizes.astype(np.int64, copy=False)
        if len(positions) != len(sizes):
            raise RecordError(f"{len(sizes)} sizes for {len(positions)} records.")
        if len(sizes):
            if int(sizes.min()) < MIN_RECORD_BYTES:
                raise RecordError(f"A record of {int(sizes.min())} bytes; the smallest has {MIN_RECORD_BYTES}.")
            if int(positions.min()) < 0 or int((positions + self.sizes).max()) > len(self.buffer):
                raise RecordError(f"A record reaches beyond the {len(self.buffer)} bytes of its buffer.")

    @classmethod
    def from_sizes(cls, buffer: Buffer | Bytes, sizes: NDArray[np.int32 | np.int64]) -> RecordBatch:
        """Records that follow each other and fill the buffer. Raises RecordError where their sizes do not."""
        ends = np.cumsum(sizes, dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        if total != len(buffer):
            raise RecordError(f"The records take {total} bytes, their buffer has {len(buffer)}.")
        return cls(buffer, ends - sizes, sizes)

    @classmethod
    def scan(cls, buffer: Buffer | Bytes) -> RecordBatch:
        """Records that follow each other and fill the buffer, found by their own sizes. Raises RecordError."""
        return cls.from_sizes(buffer, _chain_of_sizes(as_bytes(buffer)))

    @classmethod
    def made(cls, buffer: Bytes, size: int, body_bytes: int, topic_bytes: int, properties_bytes: int) -> RecordBatch:
        """Records of version 1, all of one size, that have just been made here and fill the buffer: where the parts of
        each are is known, and not checked."""
        positions = np.arange(0, len(buffer), size)
        batch = cls(buffer, positions, np.full(len(positions), size))
        batch._parts = Parts.alike(batch._heads, body_bytes, topic_bytes, properties_bytes)
        return batch

    def __len__(self) -> int:
        return len(self.sizes)

    def where(self, wanted: NDArray[np.bool_]) -> RecordBatch:
        """The records that are wanted, where they are; this very batch if all of them are."""
        return self if wanted.all() else RecordBatch(self.buffer, self.positions[wanted], self.sizes[wanted])

    def check(self, *, check_crc: bool = False) -> None:
        """Verifies sizes, magics and every length inside; with `check_crc` the checksums of the bodies too.

        Raises RecordError for the first bad record, in the words of `check_record`.
        """
        bodies = self._parts.bodies
        if check_crc:
            self._check_crcs(body_crcs(self.buffer, bodies))

    def checked_bodies(self) -> list[bytes]:
        """Verifies all that `check` can, and hands out the bodies, which are cut out for their checksums anyway."""
        bodies = self._parts.bodies
        cut = cut_bodies(self.buffer, bodies) if len(self) else []
        self._check_crcs(crcs_of(cut))
        return cut

    # --- fields ---

    @property
    def body_crcs(self) -> NDArray[np.uint32]:
        """The stored checksums."""
        return self._heads.field("body_crc", np.uint32)

    @property
    def queue_ids(self) -> NDArray[np.int32]:
        return self._heads.field("queue_id", np.int32)

    @property
    def flags(self) -> NDArray[np.int32]:
        """The users' flags."""
        return self._heads.field("flag", np.int32)

    @property
    def queue_offsets(self) -> NDArray[np.int64]:
        return self._patchable("queue_offset")

    @property
    def physical_offsets(self) -> NDArray[np.int64]:
        return self._patchable("physical_offset")

    @property
    def sys_flags(self) -> NDArray[np.int32]:
        """See `SysFlag`; the bodies are as stored, compressed ones too."""
        return self._heads.sys_flags

    @property
    def born_timestamps_ms(self) -> NDArray[np.int64]:
        return self._heads.field("born_timestamp", np.int64)

    @property
    def store_timestamps_ms(self) -> NDArray[np.int64]:
        return self._patchable("store_timestamp", self._heads.born_host_shift)

    @property
    def reconsume_times(self) -> NDArray[np.int32]:
        return self._field_behind_hosts("reconsume_times", np.int32, self._heads.hosts_shift)

    @property
    def prepared_transaction_offsets(self) -> NDArray[np.int64]:
        return self._field_behind_hosts("prepared_offset", np.int64, self._heads.hosts_shift)

    # --- spans ---

    @property
    def born_hosts(self) -> Spans:
        """Host fields, 8 or 20 bytes long."""
        return Spans(self.positions + layout.BORN_HOST_AT, 8 + self._heads.wider(SysFlag.BORN_HOST_V6))

    @property
    def store_hosts(self) -> Spans:
        """Host fields, 8 or 20 bytes long."""
        starts = self.positions + layout.STORE_HOST_AT + self._heads.born_host_shift
        return Spans(starts, 8 + self._heads.wider(SysFlag.STORE_HOST_V6))

    @property
    def bodies(self) -> Spans:
        return self._parts.bodies

    @property
    def topics(self) -> Spans:
        return self._parts.topics

    @property
    def properties(self) -> Spans:
        """Encoded, as stored."""
        return self._parts.properties

    def property_spans(self, name: bytes) -> Spans:
        """The value of one property in every record; length -1 where it is absent."""
        return self._properties.find(name)

    def has_any_property(self, names: Sequence[bytes]) -> bool:
        """Whether any record has a property of one of these names. Cheap where none has."""
        return self._properties.has_any(names)

    def property_columns(self) -> dict[bytes, Spans] | None:
        """The values of each property in every record, where all records are laid out alike; else None."""
        return self._properties.columns()

    def property_pairs(self) -> PropertyMaps:
        """All properties of all records: what a map column is built from."""
        return self._properties.maps()

    def tags_codes(self) -> NDArray[np.int64]:
        """What a consume queue stores for each record: the Java hash of TAGS, 0 where there are none."""
        return java_hash_spans(self.buffer, *self.property_spans(b"TAGS")).astype(np.int64)

    def is_all_of_topic(self, topic: bytes) -> bool:
        """Whether every record is of this topic."""
        starts, lengths = self.topics
        if self._equal_parts is not None:  # then one speaks for all
            return self.buffer[int(starts[0]) : int(starts[0] + lengths[0])].tobytes() == topic
        # Lengths first: only then is there room for the name at every start.
        return bool((lengths == len(topic)).all() and equal_to(self.buffer, starts, topic).all())

    # --- how ---

    @cached_property
    def _properties(self) -> RecordProperties:
        return RecordProperties(self.buffer, self._parts.properties)

    @cached_property
    def _heads(self) -> HeadColumns:
        return HeadColumns(self.buffer, self.positions, self.sizes)

    def _patchable(self, name: str, shift: Positions | int = 0) -> NDArray[Any]:
        """A field that `patch` writes. It is read where it lies: the heads may have been copied before."""
        if self._heads.size_of_all or not isinstance(shift, int):
            return self._field_behind_hosts(name, np.int64, shift)
        return self._heads.gathered(name, np.int64, 0)

    def _field_behind_hosts(self, name: str, dtype: type[np.integer[Any]], shift: Positions | int) -> NDArray[Any]:
        """A field that IPv6 hosts move by `shift`; room for a moved head is part of the check."""
        if not isinstance(shift, int):
            self.check()
        return self._heads.field(name, dtype, shift)

    @cached_property
    def _parts(self) -> Parts:
        """The variable parts, checked."""
        return self._equal_parts or divided(self._heads)

    @cached_property
    def _equal_parts(self) -> Parts | None:
        return equal_parts(self._heads)

    def _check_crcs(self, crcs: NDArray[np.uint32]) -> None:
        wrong = (crcs != self._heads.table["body_crc"]) & (self.bodies.lengths > 0)
        if wrong.any():
            blame(self._heads, wrong, check_crc=True)


def _chain_of_sizes(buffer: Bytes) -> NDArray[np.int64]:
    """The sizes of records that follow each other: one look if all are equal, a walk if not."""
    total = len(buffer)
    first = int.from_bytes(buffer[:4].tobytes(), "big", signed=True)
    if first >= MIN_RECORD_BYTES and total % first == 0:
        sizes = np.ndarray((total // first,), ">i4", buffer, 0, (first,)).astype(np.int64)
        if (sizes == first).all():
            return sizes
    return np.fromiter(_walk(buffer.tobytes()), np.int64)


def _walk(raw: bytes) -> Iterator[int]:
    size_at = Struct(">i").unpack_from
    at, total = 0, len(raw)
    while at <= total - MIN_RECORD_BYTES:
        (size,) = size_at(raw, at)
        if not MIN_RECORD_BYTES <= size <= total - at:
            raise RecordError(f"At byte {at}: a record of {size} bytes where {total - at} are left.")
        yield size
        at += size
    if at < total:
        raise RecordError(f"At byte {at}: {total - at} bytes are too few for a record.")
