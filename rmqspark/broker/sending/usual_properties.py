"""What a broker must know of the properties of a single message, where they are as most clients send them.

Messages of one producer tend to say the same but for their id and keys. So the values of these two are taken out, and
what is left, the *outline*, is looked at once and remembered: a few cuts then stand for parsing all pairs. Whatever is
unusual has no outline and goes the common way (`intake.py`); a test holds the two against each other.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from rmqspark.broker.sending.drafting import NOT_AT_ONCE, waits_for_flush
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import Property, parse_properties

BROKERS_NAMES: Final = frozenset({Property.MSG_REGION, Property.TRACE_ON, Property.CLUSTER, Property.POP_CK})
"""What a broker says of a message, whatever its sender says."""

_UNIQUE: Final = f"{Property.UNIQ_KEY}\x01"
_KEYS: Final = f"{Property.KEYS}\x01"
_UNUSUAL: Final = BROKERS_NAMES | {*NOT_AT_ONCE, Property.UNIQ_KEY, Property.KEYS}
_AHEAD_OF_A_PAIR: Final = ("", "\x02")
_LONGEST_CHARACTERS: Final = 512  # the remembered ones take memory


class Outline(msgspec.Struct, frozen=True, gc=False):
    """What properties say but for their id and keys; nothing in it concerns delays, transactions or what is the
    broker's to say."""

    tags_code: int
    waits_for_flush: bool
    has_shard: bool


def read_usual(text: str) -> tuple[Outline, tuple[str, ...]] | None:
    """Reads properties as they stand in a header; None where they have to be looked at pair by pair.

    Beside the outline: what the message can be queried by, first its UNIQ_KEY.
    """
    if len(text) > _LONGEST_CHARACTERS or not text.isascii():
        return None
    keys = ""
    if _KEYS in text:
        before, _, behind = text.partition(_KEYS)
        keys, _, behind = behind.partition("\x02")
        if not keys or before[-1:] not in _AHEAD_OF_A_PAIR:
            return None
        text = f"{before}{_KEYS}\x02{behind}"
    before, _, behind = text.partition(_UNIQUE)
    unique_key, _, behind = behind.partition("\x02")
    outline = _outline(before, behind)
    if outline is None or not unique_key or "\x01" in unique_key:
        return None
    return outline, (unique_key, *filter(None, keys.split(" "))) if keys else (unique_key,)


@lru_cache(maxsize=1024)
def _outline(before: str, behind: str) -> Outline | None:
    """Looks at the properties before and behind the id; keys, if there are any, have had their value taken out."""
    text = f"{before}{_UNIQUE}\x02{behind}"
    segments = text.split("\x02")
    properties = parse_properties(text)  # the two without a value are not among them
    is_one = segments.count(_UNIQUE) == 1 and before[-1:] in _AHEAD_OF_A_PAIR
    if not is_one or segments.count(_KEYS) != (_KEYS in text) or not _UNUSUAL.isdisjoint(properties):
        return None
    has_shard = Property.SHARDING_KEY in properties
    return Outline(tags_code(properties.get(Property.TAGS)), waits_for_flush(properties), has_shard)
