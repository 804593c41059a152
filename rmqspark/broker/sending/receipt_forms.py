"""Receipts with gaps: the answer to a send that succeeded, but for the values in which one differs from the next.

A gap is filled by `%`, which costs less than any other way to make bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.protocol.codes import VERSION, Language
from rmqspark.protocol.commands.binary_header import OPAQUE_AT, BinaryHeader, encode_binary_header
from rmqspark.protocol.commands.command import RESPONSE_FLAG

if TYPE_CHECKING:
    from collections.abc import Mapping

pack_prefix: Final = Struct(">II").pack
"""Frame length; serialization type and header length; as in protocol/commands/command.py."""
_INT32: Final = Struct(">i")
_length: Final = _INT32.pack
_MSG_ID_CHARACTERS: Final = 32
_MOST_FORMS: Final = 4096  # of binary answers
_FORM_FROM_QUEUE: Final = (
    b'","queueId":"%%d","queueOffset":"%%d","transactionId":"%%b"},'
    b'"flag":1,"language":"JAVA","opaque":%%b,"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION
)


class Prefixes(dict[int, bytes]):
    """What is ahead of a header in a response without a body, by the header's length; made when it is asked for."""

    def __init__(self, serialize_type: int) -> None:
        super().__init__()
        self._kind = serialize_type << 24

    def __missing__(self, length: int) -> bytes:
        prefix = self[length] = pack_prefix(length + 4, self._kind | length)
        return prefix


class Form(NamedTuple):
    """`header % values` is the header of an answer, the values being physical offset, queue id, queue offset, id and
    opaque as it stands in a header."""

    header: bytes | BinaryForm
    prefixes: Prefixes


class BinaryForm(dict[tuple[int, int, int], bytes]):
    """The form of a binary header, where every value stands behind its length: a form of bytes for each queue id,
    length of the queue offset and length of the id, made when it is asked for."""

    def __init__(self, extra: Mapping[str, str], host: bytes) -> None:
        head = encode_binary_header(BinaryHeader(0, Language.JAVA, VERSION, 0, RESPONSE_FLAG, None, {}))
        values = [(_named(name), value.encode()) for name, value in extra.items()]
        fields = b"".join(name + _length(len(value)) + value for name, value in values)
        fields += _named("msgId") + _length(_MSG_ID_CHARACTERS) + host.hex().upper().encode()
        self._head, self._fields = head, fields

    def __mod__(self, values: tuple[int, int, int, bytes, bytes]) -> bytes:
        physical_offset, queue_id, queue_offset, unique_id, opaque = values
        offset = b"%d" % queue_offset
        return self[queue_id, len(offset), len(unique_id)] % (opaque, physical_offset, offset, unique_id)

    def __missing__(self, key: tuple[int, int, int]) -> bytes:
        queue_id, offset_length, id_length = key
        if len(self) == _MOST_FORMS:
            self.clear()
        head, fields = self._head, self._fields
        queue = b"%d" % queue_id
        fields_behind = (
            _named("queueId") + _length(len(queue)) + queue + _named("queueOffset") + _length(offset_length),
            _named("transactionId") + _length(id_length),
        )
        length = len(fields) + _MSG_ID_CHARACTERS // 2 + offset_length + id_length + sum(map(len, fields_behind))
        parts = (
            head[:OPAQUE_AT],
            head[OPAQUE_AT + _INT32.size : -_INT32.size] + _length(length) + fields,
            *fields_behind,
        )
        form = b"%b%%b%b%%016X%b%%b%b%%b" % tuple(part.replace(b"%", b"%%") for part in parts)
        self[key] = form
        return form


def json_forms(extra: Mapping[str, str], host: bytes) -> tuple[bytes, bytes]:
    """JSON headers. The values of the first are those of a `Form`; of the second, for batches, the ids of all messages
    come first."""
    fields = ",".join(f'"{name}":"{value}"' for name, value in extra.items())
    head = f'{{"code":0,"extFields":{{{fields},"msgId":"'.replace("%", "%%").encode()
    return head + host.hex().upper().encode() + b"%016X" + _FORM_FROM_QUEUE, head + b"%b" + _FORM_FROM_QUEUE


def _named(name: str) -> bytes:
    return len(name).to_bytes(2, "big") + name.encode()
