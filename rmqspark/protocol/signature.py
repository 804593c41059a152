"""How a request says who sends it: an HMAC over its fields and its body, made with a key that both sides know.

RocketMQ's AclClientRPCHook signs what a client asks, AclUtils says what is signed, AclSigner how (spec: remoting,
section 8). Code, opaque, flag and remark are not signed, and answers are not either.
"""

from __future__ import annotations

import hmac
from binascii import b2a_base64
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rmqspark.protocol.commands.command import Buffer

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE: Final = "Signature"

Sign: TypeAlias = "Callable[[dict[str, str], Buffer | Sequence[Buffer]], None]"
"""Adds to the fields of a request, which has this body, what says who sends it."""


def signature(fields: Mapping[str, str], body: Buffer | Sequence[Buffer], secret_key: str) -> str:
    """What the field Signature must be in a request with these fields, itself left out, and this body, in one piece or
    in several, which are not joined.

    Signed are the values of the fields, in the order that Java gives their names, and the body. As in Java, half a
    surrogate pair counts as a question mark.
    """
    return _of(_keyed(secret_key), fields, body)


def signer(access_key: str, secret_key: str, security_token: str = "") -> Sign:
    """Signs requests in this name. Without a token none is said, which is not the same as an empty one."""
    who = {ACCESS_KEY: access_key} | ({SECURITY_TOKEN: security_token} if security_token else {})
    keyed = _keyed(secret_key)  # a copy of it costs half of what a new one does

    def sign(fields: dict[str, str], body: Buffer | Sequence[Buffer]) -> None:
        fields.update(who)
        fields[SIGNATURE] = _of(keyed.copy(), fields, body)

    return sign


def _keyed(secret_key: str) -> hmac.HMAC:
    return hmac.new(_utf8(secret_key), None, "sha1")


def _of(keyed: hmac.HMAC, fields: Mapping[str, str], body: Buffer | Sequence[Buffer]) -> str:
    signed = "".join([fields[name] for name in _in_java_order(fields) if name != SIGNATURE])
    keyed.update(_utf8(signed))
    for part in (body,) if isinstance(body, (bytes, bytearray, memoryview)) else body:
        keyed.update(part)
    return b2a_base64(keyed.digest(), newline=False).decode()


def _in_java_order(names: Mapping[str, str]) -> list[str]:
    """By UTF-16 code units. For the names of RocketMQ's headers, all ASCII, that is Python's order too."""
    if "".join(names).isascii():
        return sorted(names)
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")
