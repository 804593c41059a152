"""Sends of one stencil by the hundred: a table with a row for each frame, of which columns are read and records made.

A sheet knows, for sends that one stencil fits and that have bodies as long as each other, what is the same in all of
them and where the rest stands: in a frame, and in the record that is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.broker.send_stencils import PLAIN
from rmqspark.protocol.body_crcs import crcs_of
from rmqspark.protocol.command import JSON
from rmqspark.protocol.properties import Property
from rmqspark.protocol.record import HEAD_BYTES, encode_unplaced
from rmqspark.protocol.record_heads import HEAD
from rmqspark.store.single_tables import SingleTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rmqspark.broker.send_stencils import Constant, SendStencil
    from rmqspark.protocol.spans import Bytes, Positions

HEADER_AT: Final = 8  # in a frame
_LOOKED_UP: Final = ("topic", "queue_id")
_ANYTHING, _DIGIT, _FIRST_DIGIT, _ID, _KEY = 0, 1, 2, 4, 8
_CLASSES: Final = np.zeros(256, np.uint8)
"""Of each byte, what it may be."""
for _class, _members in (
    (_DIGIT, b"0123456789"),
    (_FIRST_DIGIT, b"123456789"),
    (_ID, bytes(byte for byte in range(256) if bytes([byte]).isalnum())),
    (_KEY, PLAIN.replace(b" ", b"")),
):
    _CLASSES[list(_members)] |= _class
_POWERS: Final = 10 ** np.arange(18, -1, -1)


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
            if name not in _LOOKED_UP:
                differing += range(place.start, place.stop)
                classes += _classes(name, place.stop - place.start, is_json=int(frame[4]) == JSON)
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
        values = _CLASSES.take(frames.take(self.differing, axis=1))
        return not (((frames[:, : self.body_at] ^ self.header) & self.shared).any()) and bool(
            ((values & self.classes) == self.classes).all()
        )

    def names(self, frames: NDArray[np.uint8]) -> list[bytes]:
        """Topic and queue id of each, as they stand there, one behind the other."""
        parts = [frames[:, self.places[name]] for name in _LOOKED_UP]
        names = np.concatenate(parts, axis=1)
        found: list[bytes] = names.view(f"V{names.shape[1]}").ravel().tolist()
        return found

    @property
    def topic_bytes(self) -> int:
        """How long the topic is, in a name."""
        place = self.places["topic"]
        length: int = place.stop - place.start
        return length

    def table(
        self,
        frames: NDArray[np.uint8],
        targets: Sequence[tuple[str, int]],
        target_of: NDArray[np.intp],
        born_hosts: NDArray[np.void],
    ) -> SingleTable:
        """The messages of frames that fit, to be stored in queues (topic and id), each in that of its number."""
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
        heads["queue_id"] = np.array([queue_id for _, queue_id in targets])[target_of]
        heads["born_timestamp"] = _numbers(frames[:, self.places["born"]])
        heads["born_host"] = born_hosts
        keys = [frames[:, self.places[name]] for name in (Property.UNIQ_KEY, Property.KEYS) if name in self.in_record]
        topics = frames[:, self.places["topic"]]
        return SingleTable(targets, target_of, records, self.constant.tags_code, topics, keys)


def _classes(name: str, width: int, *, is_json: bool) -> list[int]:
    """What the bytes of a value must be, which is what `UsualSends.take_alike` holds it to, or less."""
    if name == "opaque" and not is_json:
        return [_ANYTHING] * width
    if name == "opaque":
        return [_FIRST_DIGIT] + [_DIGIT] * (width - 1)
    return [{"born": _DIGIT, Property.UNIQ_KEY: _ID, Property.KEYS: _KEY}[name]] * width


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


def _numbers(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The number that each row writes in digits."""
    numbers: NDArray[np.int64] = np.einsum("ij,j->i", digits - np.uint8(ord("0")), _POWERS[-digits.shape[1] :])
    return numbers
