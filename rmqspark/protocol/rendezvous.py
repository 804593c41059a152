"""Which broker is chosen for a key: the same for everybody who knows the same names (rendezvous hashing).

A broker that joins or leaves moves only the keys that it wins or held.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def chosen(key: str, broker_names: Iterable[str]) -> str:
    """The name with the highest hash together with `key`, whatever order they come in; ValueError if there is none."""
    return max(broker_names, key=lambda name: (_weight(key, name), name))


def _weight(key: str, name: str) -> int:
    digest = blake2b(f"{key}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
