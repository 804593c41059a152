"""How a slave and its master prove who they are before passwords go from one to the other. Pure.

A request's signature says neither what is asked for nor when (`protocol/signature.py`): one that was overheard could be
sent again, as another request. So a copy of the users takes more: both give random bytes, and prove with them that they
know the password of who asks. The master's proof is about what it answers, too.
"""

from __future__ import annotations

from typing import NamedTuple

from rmqspark.replication.proof import is_proof, proof

_ASKS, _ANSWERS = b"asks for users", b"answers users"


class Exchange(NamedTuple):
    """What both have said so far."""

    slave_nonce: bytes
    master_nonce: bytes

    def slave_proof(self, secret: str) -> bytes:
        return proof(secret, _ASKS, *self)

    def is_slave(self, given: bytes, secret: str) -> bool:
        return is_proof(given, secret, _ASKS, *self)

    def master_proof(self, secret: str, body: bytes) -> bytes:
        return proof(secret, _ANSWERS, *self, body)

    def is_master(self, given: bytes, secret: str, body: bytes) -> bool:
        return is_proof(given, secret, _ANSWERS, *self, body)


def from_hex(text: str | None) -> bytes:
    """What a field says in hexadecimal; nothing for what is no such text."""
    try:
        return bytes.fromhex(text or "")
    except ValueError:
        return b""
