"""Messages as they are shown: names as the Spark columns; a body that is no UTF-8 is `bodyBase64`."""

from __future__ import annotations

import base64
from typing import Annotated

from pydantic import Field

from rmqspark.admin.values import Document, Offset, Time
from rmqspark.errors import InvalidArgument
from rmqspark.model import Message, ReceivedMessage


class MessageView(Document):
    """`bodyBytes` is how large the body is; where it is cut short, `body` is only its beginning."""

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: Offset
    msg_id: str
    offset_msg_id: str
    tags: str | None
    keys: list[str]
    body: str | None = None
    body_base64: str | None = None
    body_bytes: int
    properties: dict[str, str]
    born_timestamp: Time
    store_timestamp: Time
    reconsume_times: int
    flag: int

    @classmethod
    def of(cls, message: ReceivedMessage) -> MessageView:
        text, encoded = _body(message.body)
        return cls(
            topic=message.topic,
            broker_name=message.queue.broker_name,
            queue_id=message.queue.queue_id,
            queue_offset=message.queue_offset,
            msg_id=message.msg_id,
            offset_msg_id=message.offset_msg_id,
            tags=message.tags,
            keys=message.keys,
            body=text,
            body_base64=encoded,
            body_bytes=len(message.body),
            properties=message.properties,
            born_timestamp=message.born_timestamp_ms,
            store_timestamp=message.store_timestamp_ms,
            reconsume_times=message.reconsume_times,
            flag=message.flag,
        )

    def body_as_bytes(self) -> bytes:
        return (self.body or "").encode() if self.body_base64 is None else base64.b64decode(self.body_base64)


def _body(body: bytes) -> tuple[str | None, str | None]:
    try:
        return body.decode("utf-8"), None
    except UnicodeDecodeError:
        return None, base64.b64encode(body).decode("ascii")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidArgument(f"bodyBase64 is no base64: {error}.") from None


class NewMessage(Document):
    """A message to send: `body` as text, or `bodyBase64`."""

    body: str | None = Field(None, examples=['{"id": 42}'])
    body_base64: str | None = None
    tags: str | None = None
    keys: list[str] = Field(default_factory=list)
    properties: dict[str, str] = Field(default_factory=dict)
    flag: Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)] = 0
    delay_level: Annotated[int, Field(ge=0, le=18)] = 0
    shard: str | None = Field(None, description="Messages with the same one go to one queue, in order.")

    def message(self, topic: str) -> Message:
        """InvalidArgument where it has not exactly one body."""
        if (self.body is None) == (self.body_base64 is None):
            raise InvalidArgument("A message has a body or a bodyBase64, and not both.")
        return Message(
            topic,
            self._bytes(),
            tags=self.tags,
            keys=self.keys,
            properties=self.properties,
            flag=self.flag,
            delay_level=self.delay_level,
        )

    def _bytes(self) -> bytes:
        try:
            return (self.body or "").encode() if self.body_base64 is None else _decoded(self.body_base64)
        except UnicodeEncodeError as error:  # half of a pair, which JSON may escape
            raise InvalidArgument(
                f"The body is not valid Unicode: {error.reason}.", hint="What is no text goes into bodyBase64."
            ) from None


class ReceiptView(Document):
    """Where a message was stored."""

    msg_id: str
    offset_msg_id: str
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: Offset
    status: str
