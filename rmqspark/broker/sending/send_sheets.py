"""Sends of one stencil by the hundred: a table with a row for each frame, of which columns are read and records made.

A sheet knows, for sends that one stencil fits and that have bodies as long as each other, what is the same in all of
them and where the rest stands: in a frame, and in the record that is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqspark.broker.sending.send_values import HEADER_AT, LOOKED_UP, ByLength, are_of, classes_of, numbers_of, texts_of
from rmqspark.protocol.commands.command import JSON
from rmqspark.protocol.records.body_crcs import crcs_of
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import HEAD_BYTES, encode_unplaced
from rmqspark.protocol.records.record_heads import HEAD
from rmqspark.store.appending.single_tables import SingleTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rmqspark.broker.sending.send_stencils import Constant, SendStencil
    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.store.appending.targets import Targets


class SendSheet(NamedTuple):
    """See the module. Places are columns, of a frame or of a record."""

    places: Mapping[str, slice]
    body_at: int
    header: Bytes
    """A frame up to its body, with zeros where sends differ."""
    shared: Bytes
    """As long: 255 where they do not."""
    differing: Positions
    classes: Bytes
    """What must stand in each of the differing columns."""
    constant: Constant
    record: Bytes
    """A record that says nothing yet of what differs."""
    in_record: Mapping[str, slice]

    @classmethod
    def of(cls, stencil: SendStencil, frame: Bytes, body_at: int) -> SendSheet:
        """The sheet of all sends that are like this one."""
        places = {name: slice(start + HEADER_AT, stop + HEADER_AT) for name, (start, stop) in stencil.places.items()}
        header, shared = frame[:body_at].copy(), np.full(body_at, 255, np.uint8)
        differing: list[int] = []
        classes: list[int] = []
        for name, place in places.items():
            header[place] = shared[place] = 0
            if name not in LOOKED_UP:
                differing += range(place.start, place.stop)
                classes += classes_of(name, place.stop - place.start, is_json=int(frame[4]) == JSON)
        record, in_record = _record(stencil.constant, places, len(frame) - body_at)
        return cls(
            places,
            body_at,
            header,
            shared,
            np.array(differing),
            np.array(classes, np.uint8),
            stencil.constant,
            record,
            in_record,
        )

    def fits(self, frames: NDArray[np.uint8]) -> bool:
        """Whether all these frames are such sends, with values that may stand there; but for topic and queue id, which
        whoever knows the topics looks up (`names`)."""
        return not (((frames[:, : self.body_at] ^ self.header) & self.shared).any()) and are_of(
            self.classes, frames.take(self.differing, axis=1)
        )

    def names(self, frames: NDArray[np.uint8]) -> list[bytes]:
        """Topic and queue id of each, as they stand there, one behind the other."""
        return texts_of(np.concatenate([frames[:, self.places[name]] for name in LOOKED_UP], axis=1))

    @property
    def split_name(self) -> ByLength:
        """What takes a name apart."""
        place = self.places["topic"]
        return ByLength(place.stop - place.start)

    def table(
        self,
        frames: NDArray[np.uint8],
        targets: Targets,
        target_of: NDArray[np.intp],
        born_hosts: NDArray[np.void],
    ) -> SingleTable:
        """The messages of frames that fit, each to be stored in the queue of its number."""
        count, frame_bytes = frames.shape
        records = np.empty((count, len(self.record)), np.uint8)
        records[:] = self.record
        for name, place in self.in_record.items():
            records[:, place] = frames[:, self.places[name]]
        body_bytes = frame_bytes - self.body_at
        bodies = np.ascontiguousarray(frames[:, self.body_at :])
        records[:, HEAD_BYTES : HEAD_BYTES + body_bytes] = bodies
        heads = np.ndarray((count,), HEAD, records, 0, (len(self.record),))
        heads["body_crc"] = crcs_of(bodies.view(f"V{body_bytes}").ravel().tolist())
        heads["queue_id"] = targets.rows(target_of)["queue_id"]
        heads["born_timestamp"] = numbers_of(frames[:, self.places["born"]])
        heads["born_host"] = born_hosts
        keys = [frames[:, self.places[name]] for name in (Property.UNIQ_KEY, Property.KEYS) if name in self.in_record]
        sizes = np.full(count, len(self.record))
        return SingleTable(targets, target_of, records.reshape(-1), sizes, self.constant.tags_code, keys)


def _record(constant: Constant, places: Mapping[str, slice], body_bytes: int) -> tuple[Bytes, dict[str, slice]]:
    """The record of such a send, and where its topic and ids stand in it."""
    names = [name for name in places if name in {Property.UNIQ_KEY, Property.KEYS}]
    lengths = {name: places[name].stop - places[name].start for name in ("topic", *names)}

    def record(marked: str | None) -> Bytes:
        filled = {name: ("1" if name == marked else "0") * length for name, length in lengths.items()}
        properties = constant.properties % tuple(filled[name].encode() for name in names)
        body, flag, times = bytes(body_bytes), constant.flag, constant.reconsume_times
        return np.frombuffer(
            bytes(encode_unplaced(filled["topic"], body, properties, 0, flag, 0, 0, bytes(8), times)), np.uint8
        )

    blank = record(None)
    starts = {name: int(np.flatnonzero(blank != record(name))[0]) for name in lengths}
    return blank, {name: slice(start, start + lengths[name]) for name, start in starts.items()}
