"""How a slave and its master say who they are, before the stream begins (docs/wire-format.md, Replication). Pure.

The slave asks to be asked, the master sends random bytes, the slave says which broker it is and in whose name it comes,
and both prove that they know that user's password. RocketMQ's have nothing like it. There the stream begins at once,
with a place in the log; what the slave sends first here is -1, by which a master of RocketMQ's begins nothing and takes
nothing for confirmed, and nothing else is sent before it has answered.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from rmqspark.errors import FrameError
from rmqspark.replication.proof import is_proof, proof

if TYPE_CHECKING:
    from collections.abc import Sequence

GREETING: Final = b"\xff" * 8
CHALLENGE: Final = Struct(
    ">8s"  # says that one follows
    "32s"  # the master's random bytes
)
_HELLO: Final = Struct(
    ">32s"  # the slave's random bytes
    "q"  # its broker id
    "H"  # bytes of the broker name that follows
    "H"  # bytes of the access key behind it
)
_CHALLENGES: Final = b"\xffRMQHA\x00\x01"
_MOST_NAME_BYTES: Final = 4096  # a user's has at most 1,024 characters
_SLAVE, _MASTER = b"slave", b"master"
HELLO_HEAD_BYTES: Final = _HELLO.size


def challenge(nonce: bytes) -> bytes:
    """The master's answer to GREETING."""
    return CHALLENGE.pack(_CHALLENGES, nonce)


def challenged_with(data: bytes) -> bytes:
    """The master's random bytes. Raises FrameError for another answer."""
    magic, nonce = CHALLENGE.unpack(data)
    if magic != _CHALLENGES:
        raise FrameError("The master does not ask who this is.", hint="ha_authentication_enabled has to be alike.")
    return bytes(nonce)


class Hello(NamedTuple):
    """What a slave says of itself. `nonce`: its own random bytes."""

    broker_name: str
    broker_id: int
    access_key: str
    nonce: bytes

    def encode(self) -> bytes:
        name, key = self.broker_name.encode(), self.access_key.encode()
        return _HELLO.pack(self.nonce, self.broker_id, len(name), len(key)) + name + key

    @staticmethod
    def bytes_behind(head: bytes) -> int:
        """How many come behind the first HELLO_HEAD_BYTES. Raises FrameError for more than there are names for: nobody
        has proven anything yet."""
        _, _, name_bytes, key_bytes = _HELLO.unpack(head)
        if max(name_bytes, key_bytes) > _MOST_NAME_BYTES:
            raise FrameError("It says who it is at great length.")
        return int(name_bytes) + int(key_bytes)

    @classmethod
    def decode(cls, head: bytes, rest: bytes) -> Self:
        """Raises FrameError."""
        nonce, broker_id, name_bytes, _ = _HELLO.unpack(head)
        try:
            return cls(rest[:name_bytes].decode(), broker_id, rest[name_bytes:].decode(), nonce)
        except UnicodeDecodeError:
            raise FrameError("It says who it is, and not in UTF-8.") from None


class Acquaintance(NamedTuple):
    """What the two have said to each other, and what each has to prove of it, the slave first."""

    master_nonce: bytes
    hello: Hello

    def slave_proof(self, secret: str) -> bytes:
        return proof(secret, _SLAVE, *self._said)

    def master_proof(self, secret: str) -> bytes:
        return proof(secret, _MASTER, *self._said)

    def is_slave(self, given: bytes, secret: str) -> bool:
        return is_proof(given, secret, _SLAVE, *self._said)

    def is_master(self, given: bytes, secret: str) -> bool:
        return is_proof(given, secret, _MASTER, *self._said)

    @property
    def _said(self) -> Sequence[bytes]:
        return challenge(self.master_nonce), self.hello.encode()
