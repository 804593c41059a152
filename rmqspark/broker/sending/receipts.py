"""What the sender of a message is told.

A receipt differs from the next in five values, and encoding it through header struct and JSON encoder costs more than
all the rest of a send. So where the answer is plain success it is filled into a form (`receipt_forms.py`); everything
else takes the common way. A test holds the two against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.sending.at_most import MOST_SHEETS, AtMost
from rmqspark.broker.sending.receipt_forms import BinaryForm, Form, Prefixes, json_forms, pack_prefix
from rmqspark.broker.sending.receipt_sheets import ReceiptSheet
from rmqspark.errors import FlushTimeout, RmqError
from rmqspark.protocol.commands.command import JSON, ROCKETMQ
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.protocol.commands.stencil import read_opaque
from rmqspark.protocol.faults import to_response
from rmqspark.protocol.headers.produce import SendMessageResponseHeader
from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.request import SERIALIZE_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rmqspark.broker.sending.batches import Batch
    from rmqspark.broker.sending.intake import Admitted
    from rmqspark.protocol.records.offset_ids import StoredRun
    from rmqspark.remoting.request import Request
    from rmqspark.store.appending.single_tables import StoredTable

_NO_ID: Final = "0"
"""What RocketMQ's clients can read."""


class Receipts:
    """Answers sends. The extra fields are on every answer to a send, refusals included (spec: requests, section 4)."""

    def __init__(self, *, region_id: str, trace_on: bool) -> None:
        self._extra = {"MSG_REGION": region_id, "TRACE_ON": "true" if trace_on else "false"}
        self.set_store_host(bytes(8))

    def set_store_host(self, host: bytes) -> None:
        """The host field that message ids of this store begin with."""
        self._host = host
        self._form, self._form_of_batch = json_forms(self._extra, host)
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
            told = zip(queue_ids, unique_keys, queue_offsets, physical_offsets, strict=True)
            replies = [
                self.reply_to(queue_id, key.decode(), queue_offset, physical_offset, error)
                for queue_id, key, queue_offset, physical_offset in told
            ]
            return [encode_reply(*each, serialize_type) for each in zip(replies, opaques, strict=True)]
        form, prefixes = self._forms[serialize_type]
        filled = zip(physical_offsets, queue_ids, queue_offsets, unique_keys, opaques, strict=True)
        return [prefixes[len(header := form % values)] + header for values in filled]

    def give(
        self, request: Request[Any], message: Admitted, queue_offset: int, physical_offset: int, error: RmqError | None
    ) -> None:
        """Answers the send of a message stored at these offsets; `error` says in what its safety falls short."""
        queue_id, transaction_id = message.told_queue_id, message.transaction_id
        encoded_id = transaction_id.encode("ascii", "replace")
        is_plain = encoded_id.isalnum() and message.recall_handle is None
        if error is None and is_plain and request.serialize == "JSON":
            head = self._form % (physical_offset, queue_id, queue_offset, encoded_id, b"%d" % request.opaque)
            request.reply_encoded(pack_prefix(len(head) + 4, len(head)) + head)
        else:
            request.answer(self.reply_to_send(message, queue_offset, physical_offset, error))

    def reply_to_send(
        self, message: Admitted, queue_offset: int, physical_offset: int, error: RmqError | None
    ) -> Reply:
        """The same, not given yet."""
        msg_id = offset_msg_id(self._host, physical_offset)
        queue_id, unique_key, handle = message.told_queue_id, message.transaction_id, message.recall_handle
        return self._reply(queue_id, unique_key, queue_offset, msg_id, error, handle)

    def give_batch(
        self,
        request: Request[Any],
        batch: Batch,
        queue_offset: int,
        stored: StoredRun,
        error: RmqError | None,
    ) -> None:
        """Answers the send of a batch, its messages stored one behind the other in its queue."""
        encoded_id = batch.transaction_id.encode("ascii", "replace")
        if error is None and (not encoded_id or encoded_id.isalnum()) and request.serialize == "JSON":
            values = (stored.ids(self._host), batch.origin.queue_id, queue_offset, encoded_id, b"%d" % request.opaque)
            head = self._form_of_batch % values
            request.reply_encoded(pack_prefix(len(head) + 4, len(head)) + head)
        else:
            request.answer(self.reply_to_batch(batch, queue_offset, stored, error))

    def reply_to_batch(self, batch: Batch, queue_offset: int, stored: StoredRun, error: RmqError | None) -> Reply:
        """The same, not given yet."""
        msg_ids = stored.ids(self._host).decode()
        return self._reply(batch.origin.queue_id, batch.transaction_id, queue_offset, msg_ids, error)

    def reply_to(
        self, queue_id: int, transaction_id: str, queue_offset: int, physical_offset: int, error: RmqError | None
    ) -> Reply:
        """The answer to the send of a message stored at these offsets, not given yet."""
        msg_id = offset_msg_id(self._host, physical_offset)
        return self._reply(queue_id, transaction_id, queue_offset, msg_id, error)

    def _reply(
        self,
        queue_id: int,
        transaction_id: str,
        queue_offset: int,
        msg_ids: str,
        error: RmqError | None,
        recall_handle: str | None = None,
    ) -> Reply:
        """The answer to a send or batch stored under `msg_ids`, the first message at `queue_offset`."""
        if error is not None and not isinstance(error, FlushTimeout):
            return self.refusal(error)
        header = SendMessageResponseHeader(
            msgId=msg_ids,
            queueId=queue_id,
            queueOffset=queue_offset,
            transactionId=transaction_id,
            recallHandle=recall_handle,
        )
        if error is None:
            return Reply(header, extra=self._extra)
        return Reply(header, code=to_response(error)[0], remark=error.message, extra=self._extra)

    def of_reply(self, message: Admitted) -> Reply:
        """The answer to who replied with a message that is not stored: it went to who asked."""
        return self._reply(message.queue_id, message.transaction_id, 0, _NO_ID, None)

    def refusal(self, error: RmqError) -> Reply:
        """The answer to a send that was not stored."""
        code, remark = to_response(error)
        return Reply(code=code, remark=remark, extra=self._extra)


def encode_reply(reply: Reply, opaque: bytes, serialize_type: int) -> bytes:
    """The frame that answers a request with this opaque, as it stands in that one's header."""
    response = encode_response(
        read_opaque(serialize_type, opaque),
        reply.code,
        reply.header,
        remark=reply.remark,
        extra=reply.extra,
        serialize=SERIALIZE_NAMES[serialize_type],
    )
    return b"".join(response)
