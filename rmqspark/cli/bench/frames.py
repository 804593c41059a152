"""Send requests that are encoded once and sent many times, with nothing changed but the unique ids.

A load generator shares its machine with the server it measures, so what it does for each message counts twice. The
requests are those of RocketMQ's clients; each message has an id of its own, as a key index fed with a single one would
be no ordinary load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.client.delivery import DEFAULT_TOPIC_QUEUES
from rmqspark.protocol.batch import BatchElement, encode_batch
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.command import encode_request
from rmqspark.protocol.headers import SendMessageRequestHeaderV2
from rmqspark.protocol.message_id import UNIQUE_ID_CHARACTERS
from rmqspark.protocol.names import AUTO_CREATE_TOPIC
from rmqspark.protocol.properties import Property, encode_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.model import MessageQueue

GROUP: Final = "rmq-bench"
_DIGITS: Final = 12  # of an id that count; the rest says which run it was
_PLACEHOLDER: Final = "@" * _DIGITS  # found nowhere else in a request


class SendFrame:
    """One request of `messages` messages, again and again. `next` is the same buffer every time."""

    def __init__(
        self, queue: MessageQueue, opaque: int, messages: int, body_bytes: int, run: str, born_timestamp_ms: int
    ) -> None:
        """`run` is 20 hex digits that all ids of a run begin with."""
        unique_id = run[: UNIQUE_ID_CHARACTERS - _DIGITS] + _PLACEHOLDER
        properties = encode_properties({Property.UNIQ_KEY: unique_id, Property.WAIT: "true"})
        body = b"x" * body_bytes
        is_batch = messages > 1
        header = SendMessageRequestHeaderV2(
            a=GROUP,
            b=queue.topic,
            c=AUTO_CREATE_TOPIC,
            d=DEFAULT_TOPIC_QUEUES,
            e=queue.queue_id,
            f=0,
            g=born_timestamp_ms,
            h=0,
            i=encode_properties({Property.WAIT: "true"}).decode() if is_batch else properties.decode(),
            j=0,
            k=False,
            m=is_batch,
            n=queue.broker_name,
        )
        code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
        if is_batch:
            unique = encode_properties({Property.UNIQ_KEY: unique_id})
            body = encode_batch([BatchElement(body, unique)] * messages)
        self._buffer = bytearray(b"".join(encode_request(code, opaque, header, body)))
        self._places = [slice(at, at + _DIGITS) for at in _places(self._buffer, _PLACEHOLDER.encode())]
        self.messages = messages

    def next(self, number: int) -> bytearray:
        """The request, its messages numbered from `number` on. Valid until the next call."""
        for place in self._places:
            self._buffer[place] = b"%012X" % number
            number += 1
        return self._buffer


def _places(buffer: bytearray, text: bytes) -> Iterator[int]:
    at = buffer.find(text)
    while at >= 0:
        yield at
        at = buffer.find(text, at + len(text))
