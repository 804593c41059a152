"""Send requests that are encoded once and sent many times, with nothing changed but the unique ids.

A load generator shares its machine with the server it measures, so what it does for each message counts twice. The
requests are those of RocketMQ's clients; each message has an id of its own, as a key index fed with a single one would
be no ordinary load. An id is the number of the run, of the request, and of the message in its request; only the second
changes, so one `bytes.replace` makes the next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.client.sending.delivery import DEFAULT_TOPIC_QUEUES
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES
from rmqspark.protocol.headers.fields import to_fields
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.names import AUTO_CREATE_TOPIC
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.protocol.records.properties import Property, encode_properties
from rmqspark.protocol.signature import SIGNATURE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.model import MessageQueue
    from rmqspark.protocol.commands.command import Buffer
    from rmqspark.protocol.signature import Sign

GROUP: Final = "rmq-bench"
_REQUEST: Final = "@" * 8  # stands for the request's number; found nowhere else in it
_SIGNATURE: Final = b"#" * 28  # of a signature, which is 20 bytes in Base64
_PROPERTIES: Final = "i"


class SendFrame:
    """One request of `messages` messages, which is sent again and again."""

    def __init__(
        self,
        queue: MessageQueue,
        opaque: int,
        messages: int,
        body_bytes: int,
        run: str,
        born_timestamp_ms: int,
        sign: Sign | None = None,
    ) -> None:
        """`run` are the 20 hex digits that all ids of a run begin with. What `sign` says depends on all of a request:
        each is signed anew. InvalidArgument where it is larger than servers read."""
        unique = [encode_properties({Property.UNIQ_KEY: f"{run}{_REQUEST}{n:04X}"}) for n in range(messages)]
        wait = encode_properties({Property.WAIT: "true"})
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
            i=(wait if is_batch else unique[0] + wait).decode(),
            j=0,
            k=False,
            m=is_batch,
            n=queue.broker_name,
        )
        code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
        if is_batch:
            body = encode_batch(BatchElement(body, properties) for properties in unique)
        self._sign, self._body, self._fields = sign, b"" if sign is None else bytes(body), to_fields(header)
        leave_room = None if sign is None else _leave_room(sign)
        self._template = b"".join(encode_request(code, opaque, header, body, sign=leave_room))
        if len(self._template) > MAX_FRAME_BYTES:
            raise InvalidArgument(
                f"A send of {messages} messages of {body_bytes:,} bytes has {len(self._template):,} bytes; servers "
                f"hang up on more than {MAX_FRAME_BYTES:,}.",
                hint="Take a smaller --batch or --size.",
            )
        self.messages = messages

    def numbered(self, request: int) -> bytes:
        """The request with that number, which is at most 32 bits."""
        number = b"%08X" % request
        whole = self._template.replace(_REQUEST_BYTES, number)
        return whole if self._sign is None else whole.replace(_SIGNATURE, self._signature(self._sign, number))

    def _signature(self, sign: Sign, number: bytes) -> bytes:
        fields = {**self._fields, _PROPERTIES: self._fields[_PROPERTIES].replace(_REQUEST, number.decode())}
        sign(fields, self._body.replace(_REQUEST_BYTES, number))
        return fields[SIGNATURE].encode()


def _leave_room(sign: Sign) -> Sign:
    """Signs as it does, but for the signature: something as long, found nowhere else."""

    def say_who(fields: dict[str, str], body: Buffer | Sequence[Buffer]) -> None:
        sign(fields, body)
        fields[SIGNATURE] = _SIGNATURE.decode()

    return say_who


_REQUEST_BYTES: Final = _REQUEST.encode()
