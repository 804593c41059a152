"""Sends by the hundred that say the same at different lengths: of topic, queue id, opaque and body.

What all say is compared in columns, and so is all that is as long in each of them. Where a value may be longer in one
than in another, the columns are laid anew behind it: a value ends at the first byte that cannot be part of it, and
there the next text must begin. A sheet is for headers in JSON, where nothing else tells how long a value is.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.broker.send_stencils import PLAIN
from rmqspark.broker.send_values import CLASSES, DIGIT, HEADER_AT, UNQUOTED, ByQuotes, numbers_of
from rmqspark.protocol.body_crcs import crcs_of, cut_bodies
from rmqspark.protocol.properties import Property
from rmqspark.protocol.record import HEAD_BYTES, MAGIC_V1, MAX_V1_TOPIC_BYTES, topic_field
from rmqspark.protocol.record_heads import HEAD
from rmqspark.protocol.spans import Spans, gather, gather_rows
from rmqspark.store.single_tables import SingleTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.broker.send_stencils import SendStencil
    from rmqspark.protocol.spans import Bytes, Positions

RAGGED: Final = {"topic": (UNQUOTED, MAX_V1_TOPIC_BYTES), "queue_id": (DIGIT, 4), "opaque": (DIGIT, 9)}
"""The values that may be as long as they like: what they are made of, and how long they are at most."""
_WORD_AT: Final = 4  # in a frame
_WORD_BYTES: Final = 8  # that are compared at once
_KEY_BYTES: Final = PLAIN.replace(b" ", b"")
_pack_length = Struct(">h").pack


class RaggedSends(NamedTuple):
    """Sends that were read: an item for each, of each column."""

    raw: bytes
    """What they were read from."""
    fixed: NDArray[np.uint8]
    """What is as long in all of them, as a table."""
    names: list[bytes]
    """Of the queues, to be split."""
    topic_bytes: Positions
    opaques: list[bytes]
    unique_keys: list[bytes]
    bodies: Spans
    """In `raw`."""


class _Piece(NamedTuple):
    """Columns of what is as long in all headers, and the name of the ragged value behind them, if there is one."""

    columns: slice
    value: str


class RaggedSheet:
    """Sends whose headers say what that of a stencil does, but for the values that may vary."""

    def __init__(self, stencil: SendStencil) -> None:
        self.constant = stencil.constant
        self.split_name = ByQuotes(stencil.places["topic"] < stencil.places["queue_id"])
        self._pieces: list[_Piece] = []
        self._places: dict[str, slice] = {}
        """Of the values that are as long in all of them, columns."""
        text, shared, begin = b"", b"", 0
        for between, name in zip(stencil.between, [*in_order(stencil), ""], strict=True):
            text, shared = text + between, shared + b"\xff" * len(between)
            if name and name not in RAGGED:
                start, stop = stencil.places[name]
                self._places[name] = slice(len(text), len(text) + stop - start)
                text, shared = text + bytes(stop - start), shared + bytes(stop - start)
            else:
                self._pieces.append(_Piece(slice(begin, len(text)), name))
                begin = len(text)
        self._text, self._shared = _words(text), _words(shared)
        self._keys = [place for name, place in self._places.items() if name != "born"]
        form = self.constant.properties
        properties_bytes = len(form % tuple(bytes(place.stop - place.start) for place in self._keys))
        self._tail = _pack_length(properties_bytes).replace(b"%", b"%%") + form
        self._tail_bytes = 2 + properties_bytes

    def read(self, raw: bytes, frames: Spans, longest_topic_bytes: int) -> RaggedSends | None:
        """What these frames say; None unless all are such sends, with values that may stand there. Whether there are
        such queues is left to whoever knows them."""
        data = np.frombuffer(raw, np.uint8)
        at = frames.starts + HEADER_AT
        body_at = at + gather(data, frames.starts + _WORD_AT, "u4").astype(np.int64)  # JSON is 0, the rest a length
        fixed, found = np.zeros((len(at), len(self._text) * _WORD_BYTES), np.uint8), {}
        for columns, value in self._pieces:
            width = columns.stop - columns.start
            fixed[:, columns] = gather_rows(data, at, width)
            at = at + width
            if value:
                members, longest = RAGGED[value]
                lengths = _lengths(
                    data, at, members, min(longest, longest_topic_bytes if value == "topic" else longest)
                )
                found[value] = Spans(at, lengths)
                at = at + lengths
        if (at != body_at).any() or ((fixed.view(np.uint64) ^ self._text) & self._shared).any():
            return None
        opaques = found["opaque"]
        unique_keys = _texts(fixed[:, self._places[Property.UNIQ_KEY]])
        if not (
            all(spans.lengths.all() for spans in found.values())
            and (data[opaques.starts] != ord("0")).all()
            and fixed[:, self._places["born"]].tobytes().isdigit()
            and b"".join(unique_keys).isalnum()
            and not self._of_keys(fixed).translate(None, _KEY_BYTES)
        ):
            return None
        first, last = sorted((found["topic"], found["queue_id"]), key=lambda spans: int(spans.starts[0]))
        names = _cut(raw, first.starts, last.ends)
        texts = names, found["topic"].lengths, _cut(raw, opaques.starts, opaques.ends), unique_keys
        return RaggedSends(raw, fixed, *texts, Spans(body_at, frames.ends - body_at))

    def table(
        self,
        sends: RaggedSends,
        targets: Sequence[tuple[str, int]],
        target_of: Sequence[int],
        born_hosts: NDArray[np.void],
    ) -> SingleTable:
        """The messages of sends, to be stored in queues (topic and id), each in that of its number."""
        rows, bodies = np.array(target_of), cut_bodies(np.frombuffer(sends.raw, np.uint8), sends.bodies)
        body_bytes = sends.bodies.lengths
        sizes: Positions = body_bytes + sends.topic_bytes + (HEAD_BYTES + 1 + self._tail_bytes)
        heads = np.zeros(len(rows), HEAD)
        heads["size"] = sizes
        heads["magic"] = MAGIC_V1
        heads["body_crc"] = crcs_of(bodies)
        heads["queue_id"] = np.array([queue_id for _, queue_id in targets])[rows]
        heads["flag"] = self.constant.flag
        heads["born_timestamp"] = numbers_of(sends.fixed[:, self._places["born"]])
        heads["born_host"] = born_hosts
        heads["reconsume_times"] = self.constant.reconsume_times
        heads["body_length"] = body_bytes
        fields = [topic_field(topic)[1] for topic, _ in targets]
        parts = [b""] * (4 * len(rows))
        parts[0::4] = heads.view(f"V{HEAD_BYTES}").tolist()
        parts[1::4] = bodies
        parts[2::4] = [fields[target] for target in target_of]
        parts[3::4] = self._tails(sends)
        records = np.frombuffer(bytearray().join(parts), np.uint8)
        keys = [
            sends.fixed[:, self._places[name]] for name in (Property.UNIQ_KEY, Property.KEYS) if name in self._places
        ]
        return SingleTable(targets, rows, records, sizes, self.constant.tags_code, keys)

    def _tails(self, sends: RaggedSends) -> list[bytes]:
        """Properties with their length in front."""
        tail = self._tail
        if len(self._keys) == 1:
            return [tail % unique_key for unique_key in sends.unique_keys]
        columns = [_texts(sends.fixed[:, place]) for place in self._keys]
        return [tail % values for values in zip(*columns, strict=True)]

    def _of_keys(self, fixed: NDArray[np.uint8]) -> bytes:
        """All KEYS in one."""
        place = self._places.get(Property.KEYS)
        return b"" if place is None else fixed[:, place].tobytes()


def in_order(stencil: SendStencil) -> list[str]:
    """The names of the values, as they follow each other."""
    return sorted(stencil.places, key=stencil.places.__getitem__)


def _words(text: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(text + bytes(-len(text) % _WORD_BYTES), np.uint64)


def _lengths(data: Bytes, starts: Positions, members: int, longest: int) -> Positions:
    """How many bytes from each start on are of these; 0 if that is more than `longest`."""
    is_end = CLASSES.take(gather_rows(data, starts, longest + 1)) & members == 0
    lengths: Positions = is_end.argmax(axis=1)
    return lengths


def _texts(columns: NDArray[np.uint8]) -> list[bytes]:
    texts: list[bytes] = np.ascontiguousarray(columns).view(f"V{columns.shape[1]}").ravel().tolist()
    return texts


def _cut(raw: bytes, starts: Positions, ends: Positions) -> list[bytes]:
    return [raw[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
