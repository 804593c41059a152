"""What the sender of a message is told.

A receipt differs from the next in five values, and encoding it through header struct and JSON encoder costs more than
all the rest of a send. So where the answer is plain success in JSON it is filled into a form; everything else takes the
common way. A test holds the two against each other.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.broker.at_most import MOST_SHEETS, AtMost
from rmqspark.broker.receipt_sheets import ReceiptSheet
from rmqspark.errors import FlushTimeout, RmqError
from rmqspark.protocol.binary_header import OPAQUE_AT, BinaryHeader, encode_binary_header
from rmqspark.protocol.codes import VERSION, Language, ResponseCode
from rmqspark.protocol.command import JSON, RESPONSE_FLAG, ROCKETMQ, encode_response
from rmqspark.protocol.faults import to_response
from rmqspark.protocol.headers_produce import SendMessageResponseHeader
from rmqspark.protocol.message_id import offset_msg_id
from rmqspark.protocol.offset_ids import offset_msg_ids
from rmqspark.protocol.stencil import read_opaque
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.request import SERIALIZE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rmqspark.broker.batches import Batch
    from rmqspark.broker.intake import Admitted
    from rmqspark.protocol.spans import Positions
    from rmqspark.remoting.request import Request
    from rmqspark.store.single_tables import StoredTable

_pack_prefix: Final = Struct(">II").pack
"""Frame length; serialization type and header length; as in protocol/command.py."""
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
        prefix = self[length] = _pack_prefix(length + 4, self._kind | length)
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


def _named(name: str) -> bytes:
    return len(name).to_bytes(2, "big") + name.encode()


class Receipts:
    """Answers sends. The extra fields are on every answer to a send, refusals included (spec: requests, section 4)."""

    def __init__(self, *, region_id: str, trace_on: bool) -> None:
        self._extra = {"MSG_REGION": region_id, "TRACE_ON": "true" if trace_on else "false"}
        self.set_store_host(bytes(8))

    def set_store_host(self, host: bytes) -> None:
        """The host field that message ids of this store begin with."""
        self._host = host
        fields = ",".join(f'"{name}":"{value}"' for name, value in self._extra.items())
        head = f'{{"code":0,"extFields":{{{fields},"msgId":"'.replace("%", "%%").encode()
        self._form = head + host.hex().upper().encode() + b"%016X" + _FORM_FROM_QUEUE
        self._form_of_batch = head + b"%b" + _FORM_FROM_QUEUE
        self._forms = (
            Form(self._form, Prefixes(JSON)),
            Form(BinaryForm(self._extra, host), Prefixes(ROCKETMQ)),
        )
        self._sheets: AtMost[tuple[int, ...], ReceiptSheet] = AtMost(MOST_SHEETS)

    @property
    def forms(self) -> tuple[Form, Form]:
        """The answers to a send that succeeded, for an id of letters and digits, by how its header is serialized."""
        return self._forms

    def sheet(
        self, serialize_type: int, queue_id: bytes, queue_offset: int, unique_key: bytes, opaque: bytes
    ) -> ReceiptSheet | None:
        """Answers to sends that succeeded, with values as long as these; None where there is none for them."""
        key = serialize_type, len(queue_id), len(str(queue_offset)), len(unique_key), len(opaque)
        sheet = self._sheets.get(key)
        if sheet is None:
            values = queue_id, queue_offset, unique_key, opaque
            sheet = ReceiptSheet.of(self._forms[serialize_type], self._host, serialize_type, *values)
            if sheet is not None:
                self._sheets.keep(key, sheet)
        return sheet

    def each(
        self,
        serialize_type: int,
        queue_ids: Sequence[int],
        unique_keys: Sequence[bytes],
        opaques: Sequence[bytes],
        places: StoredTable,
        error: RmqError | None,
    ) -> list[bytes]:
        """The answers to sends of messages stored at these places; ids, of letters and digits, and opaques as they
        stand in them. `error` says in what their safety falls short."""
        queue_offsets, physical_offsets = places.queue_offsets.tolist(), places.physical_offsets.tolist()
        if error is not None:
            told = zip(queue_ids, unique_keys, opaques, queue_offsets, physical_offsets, strict=True)
            return [self._encoded(serialize_type, *values, error) for values in told]
        form, prefixes = self._forms[serialize_type]
        filled = zip(physical_offsets, queue_ids, queue_offsets, unique_keys, opaques, strict=True)
        return [prefixes[len(header := form % values)] + header for values in filled]

    def _encoded(
        self,
        serialize_type: int,
        queue_id: int,
        unique_key: bytes,
        opaque: bytes,
        queue_offset: int,
        physical_offset: int,
        error: RmqError,
    ) -> bytes:
        reply = self.reply_to(queue_id, unique_key.decode(), queue_offset, physical_offset, error)
        response = encode_response(
            read_opaque(serialize_type, opaque),
            reply.code,
            reply.header,
            remark=reply.remark,
            extra=reply.extra,
            serialize=SERIALIZE_NAMES[serialize_type],
        )
        return b"".join(response)

    def give(
        self, request: Request[Any], message: Admitted, queue_offset: int, physical_offset: int, error: RmqError | None
    ) -> None:
        """Answers the send of a message stored at these offsets; `error` says in what its safety falls short."""
        queue_id, transaction_id = message.queue_id, message.transaction_id
        encoded_id = transaction_id.encode("ascii", "replace")
        if error is None and encoded_id.isalnum() and request.serialize == "JSON":
            head = self._form % (physical_offset, queue_id, queue_offset, encoded_id, b"%d" % request.opaque)
            request.reply_encoded(_pack_prefix(len(head) + 4, len(head)) + head)
        else:
            request.answer(self.reply_to(queue_id, transaction_id, queue_offset, physical_offset, error))

    def give_batch(
        self,
        request: Request[Any],
        batch: Batch,
        queue_offset: int,
        physical_offsets: Positions,
        error: RmqError | None,
    ) -> None:
        """Answers the send of a batch, its messages stored at `physical_offsets`, one behind the other in its queue."""
        encoded_id = batch.transaction_id.encode("ascii", "replace")
        if error is None and (not encoded_id or encoded_id.isalnum()) and request.serialize == "JSON":
            msg_ids = offset_msg_ids(self._host, physical_offsets).encode()
            values = (msg_ids, batch.origin.queue_id, queue_offset, encoded_id, b"%d" % request.opaque)
            head = self._form_of_batch % values
            request.reply_encoded(_pack_prefix(len(head) + 4, len(head)) + head)
        else:
            request.answer(self.reply_to_batch(batch, queue_offset, physical_offsets, error))

    def reply_to_batch(
        self, batch: Batch, queue_offset: int, physical_offsets: Positions, error: RmqError | None
    ) -> Reply:
        """The same, not given yet."""
        msg_ids = offset_msg_ids(self._host, physical_offsets)
        return self._reply(batch.origin.queue_id, batch.transaction_id, queue_offset, msg_ids, error)

    def reply_to(
        self, queue_id: int, transaction_id: str, queue_offset: int, physical_offset: int, error: RmqError | None
    ) -> Reply:
        """The answer to the send of a message stored at these offsets, not given yet."""
        msg_id = offset_msg_id(self._host, physical_offset)
        return self._reply(queue_id, transaction_id, queue_offset, msg_id, error)

    def _reply(
        self, queue_id: int, transaction_id: str, queue_offset: int, msg_ids: str, error: RmqError | None
    ) -> Reply:
        """The answer to a send or batch stored under `msg_ids`, the first message at `queue_offset`."""
        if error is not None and not isinstance(error, FlushTimeout):
            return self.refusal(error)
        header = SendMessageResponseHeader(
            msgId=msg_ids,
            queueId=queue_id,
            queueOffset=queue_offset,
            transactionId=transaction_id,
        )
        if error is None:
            return Reply(header, extra=self._extra)
        return Reply(header, code=ResponseCode.FLUSH_DISK_TIMEOUT, remark=error.message, extra=self._extra)

    def refusal(self, error: RmqError) -> Reply:
        """The answer to a send that was not stored."""
        code, remark = to_response(error)
        return Reply(code=code, remark=remark, extra=self._extra)
