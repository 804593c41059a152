"""What a request is signed with (RocketMQ's AclSigner and AclUtils; spec: remoting, section 8). Pure."""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Buffer: TypeAlias = bytes | bytearray | memoryview

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"


def signature(fields: Mapping[str, str], body: Buffer | Sequence[Buffer], secret_key: str) -> str:
    """HMAC-SHA1 over the values of all fields but Signature, in the order of their keys, and the body; base64.

    The fields have the access key among them. Parts of a body are hashed one by one.
    """
    names = sorted((name for name in fields if name != SIGNATURE), key=_java_order)
    digest = hmac.new(_utf8(secret_key), _utf8("".join([fields[name] for name in names])), "sha1")
    for part in (body,) if isinstance(body, bytes | bytearray | memoryview) else body:
        digest.update(part)
    return b64encode(digest.digest()).decode()


def _java_order(name: str) -> bytes:
    """Strings of Java are compared by their UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # half a character is a question mark, in Java, too
