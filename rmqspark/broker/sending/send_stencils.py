"""Sends that say what one before them said, but for where they go, their time, id and keys: most that a client makes.

What all of them say is read once, the usual way, and kept beside the stencil of the header
(`protocol/commands/stencil.py`). That it shows the right values is proved when it is cut: the header is read once more
with others in their places, and must say just that.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from rmqspark.errors import HeaderError
from rmqspark.protocol.commands.command import JSON, RawCommand, decode_envelope
from rmqspark.protocol.commands.stencil import cut, field_spot, find, opaque_spot, other, property_spot, read_opaque
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.records.properties import Property

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.broker.sending.usual_properties import Outline
    from rmqspark.protocol.commands.command import Envelope
    from rmqspark.protocol.commands.stencil import Place, Spot

PLAIN: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ -_.:/@#"
"""What KEYS may be made of to vary: nothing that JSON would write in another way."""

_TOPIC, _QUEUE_ID, _BORN, _FLAG, _TEXT, _RECONSUME_TIMES = map(
    SendMessageRequestHeaderV2.__struct_fields__.index, "beghij"
)
_BORN_DIGITS: Final = 13  # so that none can be more than 64 bits hold
_OPAQUE_DIGITS: Final = 9  # in JSON at most, for 32 bits


class Constant(msgspec.Struct, frozen=True, gc=False):
    """What all sends say that a stencil fits."""

    properties: bytes
    """As they are stored, with %b for the unique key, or for both that and KEYS:"""
    both: Callable[[tuple[bytes, ...]], tuple[bytes, ...]] | None
    """The two as they follow each other there, of what was unpacked; None where there are no KEYS."""
    keys_at: int
    """Where KEYS are in it."""
    tags_code: int
    waits_for_flush: bool
    has_shard: bool
    flag: int
    reconsume_times: int


class SendStencil(NamedTuple):
    """A stencil, which of its values is which, and what is said besides."""

    unpack_from: Callable[[memoryview, int], tuple[bytes, ...]]
    between: tuple[bytes, ...]
    values: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]
    """Opaque, topic, queue id, born timestamp and unique key, of what was unpacked."""
    constant: Constant
    places: Mapping[str, Place]
    """Where the values stand: opaque, topic, queue_id, born, and the properties by their names."""


def stencil_of(raw: RawCommand, envelope: Envelope[Any], outline: Outline, brokers_own: bytes) -> SendStencil | None:
    """The stencil of a send that was found to be usual; None if there is something about it that may not vary."""
    header, kind, fields = bytes(raw.header), raw.serialize_type, envelope.extFields
    names = fields.__struct_fields__
    topic, queue_id, born, text = (getattr(fields, names[n]) for n in (_TOPIC, _QUEUE_ID, _BORN, _TEXT))
    properties = _varying(text)
    spots = {
        "opaque": opaque_spot(header, kind, envelope.opaque),
        "topic": field_spot(kind, names[_TOPIC], topic),
        "queue_id": field_spot(kind, names[_QUEUE_ID], str(queue_id)),
        "born": field_spot(kind, names[_BORN], str(born)),
        **{name: property_spot(kind, name, text[start:stop]) for name, (start, stop) in properties.items()},
    }
    places = find(header, spots)
    form = _form(text, properties.values())
    if places is None or not _may_vary(kind, spots) or not _is_proved(raw, envelope, spots, places, form, properties):
        return None
    in_order = sorted(places.values())
    at = {name: 2 * in_order.index(place) + 1 for name, place in places.items()}
    end = b"" if form.endswith(b"\x02") else b"\x02"
    return SendStencil(
        *cut(header, in_order),
        itemgetter(*(at[name] for name in ("opaque", "topic", "queue_id", "born", Property.UNIQ_KEY))),
        Constant(
            form + end + brokers_own.replace(b"%", b"%%"),
            itemgetter(*(at[name] for name in properties)) if Property.KEYS in at else None,
            at.get(Property.KEYS, 0),
            outline.tags_code,
            outline.waits_for_flush,
            outline.has_shard,
            getattr(fields, names[_FLAG]),
            getattr(fields, names[_RECONSUME_TIMES]) or 0,
        ),
        places,
    )


def _varying(text: str) -> dict[str, Place]:
    """Where the values of the properties are that vary, in the order they stand there."""
    places = {}
    for name in (Property.UNIQ_KEY, Property.KEYS):
        ahead, found, behind = text.partition(f"{name}\x01")
        if found:
            start = len(ahead) + len(found)
            places[name] = start, start + len(behind.partition("\x02")[0])
    return dict(sorted(places.items(), key=lambda item: item[1]))


def _form(text: str, places: Iterable[Place]) -> bytes:
    """The text with %b for the values that vary."""
    pieces, at = [], 0
    for start, stop in places:
        pieces.append(text[at:start])
        at = stop
    return b"%b".join(piece.encode().replace(b"%", b"%%") for piece in (*pieces, text[at:]))


def _may_vary(kind: int, spots: Mapping[str, Spot]) -> bool:
    """Whether the bounds and characters that values of these lengths are held to are all there is to hold them to."""
    opaque, born, keys = spots["opaque"].value, spots["born"].value, spots.get(Property.KEYS)
    return (
        (kind != JSON or len(opaque) <= _OPAQUE_DIGITS)
        and len(born) == _BORN_DIGITS
        and (keys is None or not keys.value.translate(None, PLAIN))
    )


def _is_proved(
    raw: RawCommand,
    envelope: Envelope[Any],
    spots: Mapping[str, Spot],
    places: Mapping[str, Place],
    form: bytes,
    properties: Iterable[str],
) -> bool:
    """Whether the header says other values when they are put into these places, and nothing else that is new."""
    others = {name: other(spot.value) for name, spot in spots.items()}
    if any(others[name] == spot.value for name, spot in spots.items() if name != "opaque"):
        return False
    header, fields = bytearray(raw.header), envelope.extFields
    for name, (start, stop) in places.items():
        header[start:stop] = others[name]
    try:
        read = decode_envelope(RawCommand(raw.serialize_type, memoryview(header), memoryview(b"")), type(fields))
    except HeaderError:
        return False
    names = fields.__struct_fields__
    said = {
        names[_TOPIC]: others["topic"].decode(),
        names[_QUEUE_ID]: int(others["queue_id"]),
        names[_BORN]: int(others["born"]),
        names[_TEXT]: (form % tuple(others[name] for name in properties)).decode(),
    }
    opaque = read_opaque(raw.serialize_type, others["opaque"])
    return read == replace(envelope, opaque=opaque, extFields=replace(fields, **said))
