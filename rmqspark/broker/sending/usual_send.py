"""A plain message on its way into the log, and its sender's answer; `usual_sends.py` says which those are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.sending.receipts import Receipts, encode_reply
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import encode_unplaced
from rmqspark.store.appending.singles import Places, Single
from rmqspark.store.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.errors import RmqError
    from rmqspark.remoting.reply import Reply
    from rmqspark.remoting.request import Connection


SHARD: Final = f"{Property.SHARDING_KEY}\x01".encode()
"""In properties of messages that have a sharding key."""


class UsualSend(Single, gc=False):
    """One usual send on its way into the log: the message, and whom to answer."""

    waits_for_flush: bool
    unique_key: bytes  # letters and digits
    opaque: bytes  # as it stands in the header
    connection: Connection
    serialize_type: int
    receipts: Receipts

    @property
    def has_shard(self) -> bool:
        return SHARD in self.properties

    @property
    def draft(self) -> Draft:
        """The same message for the common way into the store."""
        record = encode_unplaced(
            self.topic,
            self.body,
            self.properties,
            self.queue_id,
            self.flag,
            0,
            self.born_timestamp_ms,
            self.born_host,
            self.reconsume_times,
        )
        return Draft(self.topic, self.queue_id, record, self.tags_code, self.index_keys)

    def let_go(self) -> None:
        self.body = self.properties = b""

    def finish(self, queue_offset: int, physical_offset: int, error: RmqError | None) -> None:
        if error is None:
            finish_all([self], Places([queue_offset], [physical_offset]))
        else:
            unique_key = self.unique_key.decode()
            self._answer(self.receipts.reply_to(self.queue_id, unique_key, queue_offset, physical_offset, error))

    def refuse(self, error: RmqError) -> None:
        self._answer(self.receipts.refusal(error))

    def _answer(self, reply: Reply) -> None:
        self.connection.answer(encode_reply(reply, self.opaque, self.serialize_type), 1)


def finish_all(sends: Sequence[UsualSend], places: Places) -> None:
    """Finishes sends that have succeeded, those of a connection that follow each other with one answer.

    One loop, for the reason that `store/appending/singles.py` gives.
    """
    first = sends[0]
    connection, serialize_type = first.connection, first.serialize_type
    form, prefixes = first.receipts.forms[serialize_type]
    answers: list[bytes] = []
    for send, queue_offset, physical_offset in zip(sends, *places, strict=True):
        if send.connection is not connection or send.serialize_type != serialize_type:
            connection.answer(b"".join(answers), len(answers) // 2)
            connection, serialize_type, answers = send.connection, send.serialize_type, []
            form, prefixes = send.receipts.forms[serialize_type]
        header = form % (physical_offset, send.queue_id, queue_offset, send.unique_key, send.opaque)
        answers += (prefixes[len(header)], header)
    connection.answer(b"".join(answers), len(answers) // 2)
