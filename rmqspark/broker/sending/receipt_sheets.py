"""Receipts by the hundred: answers to sends that succeeded, a row each (see `receipts.py` for one by one)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.protocol.commands.stencil import field_spot, find, opaque_spot, read_opaque
from rmqspark.protocol.records.message_id import offset_msg_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rmqspark.broker.sending.receipt_forms import Form
    from rmqspark.protocol.buffers.spans import Bytes, Positions

_HEADER_AT: Final = 8  # in a frame
_OFFSET_DIGITS: Final = 16  # of the physical offset, which a message id ends with
_HEX: Final = np.frombuffer(bytes(range(256)).hex().upper().encode(), "V2")
_FOUR_DIGITS: Final = (
    (np.arange(10_000)[:, None] // (1000, 100, 10, 1) % 10 + ord("0")).astype(np.uint8).view("V4").reshape(-1)
)
"""How each number below 10,000 is written."""


class ReceiptSheet(NamedTuple):
    """An answer, and where in it stand msgId, queueId, queueOffset, transactionId and opaque."""

    answer: Bytes
    places: Mapping[str, slice]

    @classmethod
    def of(
        cls,
        form: Form,
        host: bytes,
        serialize_type: int,
        queue_id: bytes,
        queue_offset: int,
        unique_key: bytes,
        opaque: bytes,
    ) -> ReceiptSheet | None:
        """The sheet of answers with values as long as these; None where these stand in an answer by chance, too."""
        header = form.header % (0, int(queue_id), queue_offset, unique_key, opaque)
        values = {
            "msgId": offset_msg_id(host, 0),
            "queueId": queue_id.decode(),
            "queueOffset": str(queue_offset),
            "transactionId": unique_key.decode(),
        }
        spots = {name: field_spot(serialize_type, name, value) for name, value in values.items()}
        spots["opaque"] = opaque_spot(header, serialize_type, read_opaque(serialize_type, opaque))
        places = find(header, spots)
        if places is None:
            return None
        answer = np.frombuffer(form.prefixes[len(header)] + header, np.uint8)
        return cls(
            answer, {name: slice(start + _HEADER_AT, stop + _HEADER_AT) for name, (start, stop) in places.items()}
        )

    def fill(
        self,
        physical_offsets: Positions,
        queue_offsets: Positions,
        queue_ids: NDArray[np.uint8],
        unique_keys: NDArray[np.uint8],
        opaques: NDArray[np.uint8],
    ) -> bytes:
        """The answers back to back. The last three are as they stand in the requests; queue offsets have as many
        digits as the one that the sheet was made of."""
        answers = np.empty((len(physical_offsets), len(self.answer)), np.uint8)
        answers[:] = self.answer
        places = self.places
        answers[:, places["queueId"]] = queue_ids
        answers[:, places["transactionId"]] = unique_keys
        answers[:, places["opaque"]] = opaques
        answers[:, places["queueOffset"]] = _digits(queue_offsets, places["queueOffset"])
        end = places["msgId"].stop
        answers[:, end - _OFFSET_DIGITS : end] = _hex(physical_offsets)
        return answers.tobytes()


def _digits(numbers: Positions, place: slice) -> NDArray[np.uint8]:
    """As many digits of each as there is place for: they have no more."""
    width = place.stop - place.start
    fours = np.empty((len(numbers), -(-width // 4)), "V4")
    for column in range(fours.shape[1] - 1, -1, -1):
        numbers, last = np.divmod(numbers, 10_000)
        fours[:, column] = _FOUR_DIGITS.take(last)
    return fours.view(np.uint8)[:, -width:]


def _hex(numbers: Positions) -> NDArray[np.uint8]:
    """16 digits of each."""
    as_bytes = numbers.astype(">i8").view(np.uint8)
    digits: NDArray[np.uint8] = _HEX.take(as_bytes).view(np.uint8).reshape(len(numbers), _OFFSET_DIGITS)
    return digits
