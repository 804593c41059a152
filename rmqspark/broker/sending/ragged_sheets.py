"""Sends by the hundred that say the same at different lengths: of topic, queue id, opaque and body.

What all say is compared in columns, and so is all that is as long in each of them; where a value is longer in one than
in another, the columns behind it are laid anew. How long values are follows from few looks at them: the length of the
header is known, topic and queue id stand side by side (a *name*) and are looked up together, and an opaque, which is
digits, has a known text in front of it or behind. A sheet is for headers in JSON, where nothing else tells how long a
value is.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.broker.sending.send_stencils import PLAIN
from rmqspark.broker.sending.send_values import HEADER_AT, LOOKED_UP, Between, numbers_of, texts_of
from rmqspark.protocol.buffers.spans import Spans, sliding
from rmqspark.protocol.records.body_crcs import crcs_of, cut_bodies
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import HEAD_BYTES, MAGIC_V1
from rmqspark.protocol.records.record_heads import HEAD
from rmqspark.store.appending.single_tables import SingleTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.broker.sending.send_stencils import SendStencil
    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.store.appending.targets import Targets

RAGGED: Final = frozenset({*LOOKED_UP, "opaque"})
"""The values that may be as long as they like."""
_MOST_OPAQUE_DIGITS: Final = 9
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
    """Of the queues, to be looked up."""
    opaques: list[bytes]
    unique_keys: list[bytes]
    bodies: Spans
    """In `raw`."""


class RaggedSheet:
    """Sends whose headers say what that of a stencil does, but for the values that may vary.

    Name and opaque, whichever is first, leave three pieces of a header that are as long in all of them.
    """

    def __init__(self, stencil: SendStencil) -> None:
        """The stencil's topic and queue id stand side by side."""
        self.constant = stencil.constant
        names = in_order(stencil)
        first, second = sorted(LOOKED_UP, key=names.index)
        self.split_name = Between(stencil.between[names.index(second)], first == "topic")
        self._is_opaque_first = names.index("opaque") < names.index(first)
        self._places: dict[str, slice] = {}
        """Of the values that are as long in all of them, columns."""
        self._pieces: list[slice] = []
        """Columns."""
        text, shared, begin = b"", b"", 0
        for between, name in zip(stencil.between, [*names, ""], strict=True):
            if name == second:
                continue
            text, shared = text + between, shared + b"\xff" * len(between)
            if name and name not in RAGGED:
                start, stop = stencil.places[name]
                self._places[name] = slice(len(text), len(text) + stop - start)
                text, shared = text + bytes(stop - start), shared + bytes(stop - start)
            else:
                self._pieces.append(slice(begin, len(text)))
                begin = len(text)
        self._text, self._shared, self._fixed_bytes = _words(text), _words(shared), len(text)
        self._keys = [place for name, place in self._places.items() if name != "born"]
        form = self.constant.properties
        properties_bytes = len(form % tuple(bytes(place.stop - place.start) for place in self._keys))
        self._tail = _pack_length(properties_bytes).replace(b"%", b"%%") + form
        self._tail_bytes = 2 + properties_bytes
        self._head = np.zeros((), HEAD)
        self._head["magic"] = MAGIC_V1
        self._head["flag"] = self.constant.flag
        self._head["reconsume_times"] = self.constant.reconsume_times

    def read(self, raw: bytes, frames: Spans) -> RaggedSends | None:
        """What these frames say; None unless all are such sends, with bodies and with values that may stand there.
        Whether there are such queues is left to whoever knows them."""
        data, headers = np.frombuffer(raw, np.uint8), _headers(raw, frames)
        bodies = Spans(headers.ends, frames.ends - headers.ends)
        if int(bodies.lengths.min()) <= 0 or int(headers.lengths.min()) < self._fixed_bytes + 2:
            return None
        names, opaques = self._find_ragged(data, headers)
        if int(names.lengths.min()) <= 0 or not opaques.lengths.all() or (data[opaques.starts] == ord("0")).any():
            return None
        fixed = self._gather_fixed(data, headers, opaques.ends if self._is_opaque_first else names.ends)
        if ((fixed.view(np.uint64) ^ self._text) & self._shared).any():
            return None
        unique_keys = texts_of(fixed[:, self._places[Property.UNIQ_KEY]])
        if not self._may_stand_there(fixed, unique_keys):
            return None
        return RaggedSends(raw, fixed, _cut(raw, names), _cut(raw, opaques), unique_keys, bodies)

    def _find_ragged(self, data: Bytes, headers: Spans) -> tuple[Spans, Spans]:
        """Names and opaques, of no or less than no bytes where there can be none."""
        ahead, between, behind = (piece.stop - piece.start for piece in self._pieces)
        width = _MOST_OPAQUE_DIGITS + 1
        starts, ends = headers.starts + ahead, headers.ends - behind
        if self._is_opaque_first:
            lengths = _digits_ahead(_rows(data, starts, width))
            opaques = Spans(starts, lengths)
            starts = opaques.ends + between
        else:
            lengths = _digits_ahead(_rows(data, ends - width, width)[:, ::-1])
            opaques = Spans(ends - lengths, lengths)
        return Spans(starts, headers.lengths - self._fixed_bytes - lengths), opaques

    def _gather_fixed(self, data: Bytes, headers: Spans, middle_at: Positions) -> NDArray[np.uint8]:
        """The three pieces of each, in one row."""
        fixed = np.zeros((len(middle_at), len(self._text) * _WORD_BYTES), np.uint8)
        ahead, middle, behind = self._pieces
        last_at = headers.ends - (behind.stop - behind.start)
        for columns, at in ((ahead, headers.starts), (middle, middle_at), (behind, last_at)):
            fixed[:, columns] = _rows(data, at, columns.stop - columns.start)
        return fixed

    def _may_stand_there(self, fixed: NDArray[np.uint8], unique_keys: list[bytes]) -> bool:
        """Whether the values that are as long in all of them are what `UsualSends.take_alike` takes, or less."""
        keys_at = self._places.get(Property.KEYS)
        keys = b"" if keys_at is None else fixed[:, keys_at].tobytes()
        return (
            fixed[:, self._places["born"]].tobytes().isdigit()
            and b"".join(unique_keys).isalnum()
            and not keys.translate(None, _KEY_BYTES)
        )

    def table(
        self, sends: RaggedSends, targets: Targets, numbers: Sequence[int], born_hosts: NDArray[np.void]
    ) -> SingleTable:
        """The messages of sends, each to be stored in the queue of its number."""
        target_of = np.array(numbers)
        target, body_bytes = targets.rows(target_of), sends.bodies.lengths
        bodies = cut_bodies(np.frombuffer(sends.raw, np.uint8), sends.bodies)
        sizes: Positions = body_bytes + target["topic_bytes"] + (HEAD_BYTES + 1 + self._tail_bytes)
        heads = np.full(len(numbers), self._head)
        heads["size"] = sizes
        heads["body_crc"] = crcs_of(bodies)
        heads["queue_id"] = target["queue_id"]
        heads["born_timestamp"] = numbers_of(sends.fixed[:, self._places["born"]])
        heads["born_host"] = born_hosts
        heads["body_length"] = body_bytes
        parts = [b""] * (4 * len(numbers))
        parts[0::4] = heads.view(f"V{HEAD_BYTES}").tolist()
        parts[1::4] = bodies
        parts[2::4] = map(targets.topic_fields.__getitem__, numbers)
        parts[3::4] = self._tails(sends)
        records = np.frombuffer(bytearray().join(parts), np.uint8)
        keys = [
            sends.fixed[:, self._places[name]] for name in (Property.UNIQ_KEY, Property.KEYS) if name in self._places
        ]
        return SingleTable(targets, target_of, records, sizes, self.constant.tags_code, keys)

    def _tails(self, sends: RaggedSends) -> list[bytes]:
        """Properties with their length in front."""
        tail = self._tail
        if len(self._keys) == 1:
            return [tail % unique_key for unique_key in sends.unique_keys]
        columns = [texts_of(sends.fixed[:, place]) for place in self._keys]
        return [tail % values for values in zip(*columns, strict=True)]


def in_order(stencil: SendStencil) -> list[str]:
    """The names of the values, as they follow each other."""
    return sorted(stencil.places, key=stencil.places.__getitem__)


def can_be_read(stencil: SendStencil) -> bool:
    """Whether there can be a sheet of a stencil."""
    first, second = sorted(map(in_order(stencil).index, LOOKED_UP))
    return second == first + 1


def _words(text: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(text + bytes(-len(text) % _WORD_BYTES), np.uint64)


def _headers(raw: bytes, frames: Spans) -> Spans:
    """Where the headers of frames are, if they are in JSON: of others the word in front says more than a length, so
    they are too long."""
    words = sliding(np.frombuffer(raw, np.uint8), ">u4")[frames.starts + _WORD_AT]
    return Spans(frames.starts + HEADER_AT, words.astype(np.int64))


def _rows(data: Bytes, starts: Positions, width: int) -> NDArray[np.uint8]:
    """`width` bytes from each start, all of them there."""
    return sliding(data, f"V{width}")[starts].view(np.uint8).reshape(len(starts), width)


def _digits_ahead(rows: NDArray[np.uint8]) -> Positions:
    """How many digits each row begins with; 0 where it is nothing else."""
    lengths: Positions = (rows - np.uint8(ord("0")) > 9).argmax(axis=1)
    return lengths


def _cut(raw: bytes, spans: Spans) -> list[bytes]:
    return [raw[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]
