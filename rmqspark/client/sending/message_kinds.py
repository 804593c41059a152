"""What kinds of values a message is made of: a slip is told by the name of the argument, not from deep inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqspark.client.arguments import is_whole
from rmqspark.errors import InvalidMessage
from rmqspark.model import Message


def check_kinds(message: Message, shard: str | None) -> None:
    """Raises InvalidMessage naming the first argument of the wrong kind and what it should be."""
    check_message(message)
    _require("topic", "text", message.topic, isinstance(message.topic, str))
    _require("tags", "one tag, as text, or None", message.tags, isinstance(message.tags, str | None))
    _require("keys", "a list of texts", message.keys, _is_keys(message.keys))
    if message.properties != {}:
        _require("properties", "a mapping of text to text", message.properties, _is_text_map(message.properties))
    _require("flag", "an integer of 32 bits", message.flag, is_whole(message.flag, bits=32))
    _require("delay_level", "an integer", message.delay_level, is_whole(message.delay_level))
    _require("deliver_time_ms", "an integer", message.deliver_time_ms, is_whole(message.deliver_time_ms))
    _require("delay_ms", "an integer", message.delay_ms, is_whole(message.delay_ms))
    _require("wait_stored", "True or False", message.wait_stored, isinstance(message.wait_stored, bool))
    _require("shard", "text or None", shard, isinstance(shard, str | None))


def check_message(message: object) -> None:
    """Raises InvalidMessage for a body, say, where a message is meant."""
    if not isinstance(message, Message):
        raise InvalidMessage(
            f"{message!r:.80} is no message.", hint='Make one: Message("orders", b"..."), from rmqspark import Message.'
        )


def check_messages(messages: object) -> None:
    """Raises InvalidMessage for what is no sequence, such as one message alone, or a generator."""
    if not isinstance(messages, Sequence):
        raise InvalidMessage(f"A batch is a list of messages, not {messages!r:.80}.")


def check_body_kind(body: object) -> None:
    """Raises InvalidMessage for a body that is no bytes, most of all for text."""
    if not isinstance(body, bytes | bytearray | memoryview):
        raise InvalidMessage(f"A message body is bytes, not {type(body).__name__}.", hint="Encode text: body.encode().")


def _require(name: str, wanted: str, given: object, fits: bool) -> None:
    if not fits:
        raise InvalidMessage(f"{name} is {given!r:.80}, but must be {wanted}.", hint=_hint(name, given))


def _hint(name: str, given: object) -> str:
    if name in ("shard", "tags") and isinstance(given, int):
        return f'Write it as text: {name}="{given}".'
    if name == "keys" and isinstance(given, int):
        return f'Write each key as text: keys=["{given}"].'
    return ""


def _is_keys(keys: object) -> bool:
    if keys is None or isinstance(keys, str):
        return True
    return isinstance(keys, Sequence) and not isinstance(keys, bytes) and all(isinstance(key, str) for key in keys)


def _is_text_map(properties: object) -> bool:
    return isinstance(properties, Mapping) and all(
        isinstance(name, str) and isinstance(value, str) for name, value in properties.items()
    )
