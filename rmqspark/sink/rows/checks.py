"""Rows that no broker would take, or not as they are, refused by number before anything of their batch is sent.

The rules are those of our producer (`client.sending.outgoing`), but for tags: whatever a topic holds can be copied to
another. Columns are looked at as a whole; a row is looked for only where one is wrong. Texts are looked at as bytes:
those of Spark need not be Unicode, as those of Python are.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqspark.errors import InvalidMessage, InvalidName
from rmqspark.protocol.names import MAX_BODY_BYTES, check_row_target
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES, is_reserved
from rmqspark.protocol.records.unique_keys import UNIQUE_KEY_PAIR_BYTES
from rmqspark.sink.rows.delays import check_delays
from rmqspark.sink.rows.rows import PLAIN_COLUMNS, body_name, column
from rmqspark.sink.rows.unsendable import unsendable, without_queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.columns import Column

_BLANK = ord(" ")
_SEPARATORS = re.compile(b"[\x01\x02]")
_TEXTS = (*PLAIN_COLUMNS, "properties")
_NAME_BYTES = {name: len(property_name) + 1 for name, property_name in PLAIN_COLUMNS.items()}


def check_rows(batch: Any, first_row: int) -> None:
    """Raises InvalidMessage for a row that cannot be sent; `first_row` is the number of the batch's first."""
    check_bodies(batch, first_row)
    check_delays(batch, first_row)
    if "keys" in batch.schema.names:
        _check_keys(batch.column("keys"), first_row)
    if "properties" in batch.schema.names:
        _check_properties(batch.column("properties"), first_row)


def check_bodies(batch: Any, first_row: int) -> None:
    """The same of bodies alone."""
    name = body_name(batch)
    bodies = column(batch.column(name))
    lengths = bodies.spans().lengths
    if bodies.present is not None:
        raise _refusal(first_row + int(np.argmin(bodies.present)), name, "is null", "Filter such rows out.")
    if len(lengths) and int(lengths.min()) == 0:
        raise _refusal(first_row + int(lengths.argmin()), name, "is empty", "A message has at least one byte.")
    if len(lengths) and int(lengths.max()) > MAX_BODY_BYTES:
        story = f"has {int(lengths.max())} bytes, over the limit of {MAX_BODY_BYTES}"
        raise _refusal(first_row + int(lengths.argmax()), name, story, "Split it, or send where it is kept.")


def check_topics(topics: Any, first_row: int) -> None:
    """Raises InvalidMessage for a row that names no topic to send to. `topics` are dictionary-encoded."""
    if topics.null_count:
        row = int(np.argmin(topics.is_valid().to_numpy(zero_copy_only=False)))
        raise _refusal(first_row + row, "topic", "is null", "Filter such rows out.")
    for number, text in enumerate(_as_bytes(topics.dictionary).to_pylist()):
        name = _shown(text)
        try:
            check_row_target(name)
        except InvalidName as wrong:
            row = int((np.asarray(topics.indices) == number).argmax())
            raise _refusal(first_row + row, "topic", f"is {name!r}", str(wrong)) from wrong


def check_texts(batch: Any, first_row: int) -> None:
    """Raises InvalidMessage for a row whose texts are no properties of a record. That there is one is found where
    records are made, where rows may stand in another order; this looks at one after the other, so only then."""
    names = [name for name in _TEXTS if name in batch.schema.names]
    columns = [_as_bytes(batch.column(name)).to_pylist() for name in names]
    for number, row in enumerate(zip(*columns, strict=True)):
        sizes = {name: 0 for name in names}
        for name, value in zip(names, row, strict=True):
            for text in filter(None, _texts(value)):
                if _SEPARATORS.search(text):
                    story = f"contains byte 0x01 or 0x02: {_shown(text)!r:.80}"
                    raise _refusal(first_row + number, name, story, "RocketMQ separates properties with these two.")
                sizes[name] += len(text) + 1
        named = sum(_NAME_BYTES.get(name, 0) for name, size in sizes.items() if size)
        if sum(sizes.values()) + named > MAX_PROPERTIES_BYTES - UNIQUE_KEY_PAIR_BYTES:
            largest = max(names, key=sizes.__getitem__)
            story = f"has {sizes[largest]} bytes; all properties of a record have room for {MAX_PROPERTIES_BYTES}"
            raise _refusal(first_row + number, largest, story, "Put large values into the body.")


def check_queue_ids(batch: Any, first_row: int, topic: str | None, queue_count: Callable[[str], int]) -> None:
    """Raises InvalidQueue for a row whose column names a queue that its topic, the one given or its own, does not have.
    As with texts that is found where rows may stand in another order, and looked for only then."""
    topics = repeat(topic) if topic is not None else batch.column("topic").to_pylist()
    for number, (name, queue_id) in enumerate(zip(topics, batch.column("queueId").to_pylist(), strict=False)):
        if queue_id is None or not 0 <= queue_id < queue_count(name):
            raise without_queue(first_row + number, queue_id, name, queue_count(name))


def _texts(value: Any) -> list[bytes]:
    """Those of one row that become part of its properties."""
    if isinstance(value, bytes):
        return [value]
    pairs = [item if isinstance(item, tuple) else (item,) for item in value or ()]
    return [text for pair in pairs if None not in pair and not is_reserved(_shown(pair[0])) for text in pair]


def _as_bytes(array: Any) -> Any:
    """A column of texts, or of lists or maps of them, with the bytes of each."""
    return array.cast(_of_bytes(array.type))


def _of_bytes(kind: Any) -> Any:
    if pa.types.is_map(kind):
        return pa.map_(_of_bytes(kind.key_type), _of_bytes(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_of_bytes(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_of_bytes(kind.value_type))
    return pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()


def _shown(text: bytes) -> str:
    """With question marks where it is no Unicode, which are in no name that may be sent to."""
    return text.decode(errors="replace")


def _check_keys(keys: Any, first_row: int) -> None:
    """A key with a blank would be read as two. A string is what a topic holds: several keys, blanks between them."""
    if not pa.types.is_list(keys.type) and not pa.types.is_large_list(keys.type):
        return
    items = keys.flatten()  # without what lies under null rows
    texts = column(items)
    blanks = np.flatnonzero(texts.values[int(texts.offsets[0]) : int(texts.offsets[-1])] == _BLANK)
    if not len(blanks):
        return
    blank_items = np.searchsorted(texts.offsets, blanks + int(texts.offsets[0]), "right") - 1
    for item in blank_items.tolist():
        if items[item].is_valid:  # Arrow leaves open what lies under a null
            lengths = [0 if row is None else len(row) for row in _as_bytes(keys).to_pylist()]
            row = int(np.searchsorted(np.cumsum(lengths), item, "right"))
            key = _shown(items[item].as_buffer().to_pybytes())
            story = f"has a key with a blank in it, {key!r}, which would be read as two"
            raise _refusal(first_row + row, "keys", story, "Give each key as its own entry.")


def _check_properties(maps: Any, first_row: int) -> None:
    """An empty name or value is none in a record. So is a null value, as null is in any column; names that RocketMQ
    reserves are left out."""
    first, end = int(maps.offsets[0].as_py()), int(maps.offsets[-1].as_py())
    names, values = column(maps.keys), column(maps.items)
    empty = np.flatnonzero((_is_empty(names) | _is_empty(values))[first:end]) + first
    for entry in empty.tolist():
        name = _shown(maps.keys[entry].as_buffer().to_pybytes())
        row = int(np.searchsorted(np.asarray(maps.offsets), entry, "right")) - 1
        if maps[row].is_valid and maps.items[entry].is_valid and not is_reserved(name):
            story = f"has the property {name!r} with an empty name or value, which would vanish on the way"
            raise _refusal(first_row + row, "properties", story, "Leave it out, or make its value null.")


def _is_empty(texts: Column) -> NDArray[np.bool_]:
    is_empty: NDArray[np.bool_] = np.diff(texts.offsets) == 0
    return is_empty if texts.present is None else is_empty & texts.present


def _refusal(row: int, name: str, story: str, hint: str) -> InvalidMessage:
    return unsendable(row, f"column {name!r} {story}", hint)
