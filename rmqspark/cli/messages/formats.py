"""Messages as text and text as messages: `%`-formats as kcat and rpk have them, JSON with the Spark columns' names."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from rmqspark.errors import DecodeError, InvalidArgument
from rmqspark.model import Message, ReceivedMessage
from rmqspark.protocol.records.properties import is_reserved, split_keys

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(r"%\{([^}]*)\}|%(.)|\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_VERBS: dict[str, Callable[[ReceivedMessage], str]] = {
    "t": lambda m: m.topic,
    "p": lambda m: str(m.queue.queue_id),
    "o": lambda m: str(m.queue_offset),
    "k": lambda m: " ".join(m.keys),
    "v": lambda m: m.body.decode("utf-8", "surrogateescape"),
    "d": lambda m: str(m.store_timestamp_ms),
    "h": lambda m: ",".join(f"{name}={value}" for name, value in m.properties.items()),
    "%": lambda m: "%",
}
_NAMED: dict[str, Callable[[ReceivedMessage], str]] = {
    "topic": _VERBS["t"],
    "queueId": _VERBS["p"],
    "queueOffset": _VERBS["o"],
    "keys": _VERBS["k"],
    "body": _VERBS["v"],
    "properties": _VERBS["h"],
    "storeTimestamp": _VERBS["d"],
    "brokerName": lambda m: m.queue.broker_name,
    "tags": lambda m: m.tags or "",
    "msgId": lambda m: m.msg_id,
    "offsetMsgId": lambda m: m.offset_msg_id,
    "bornTimestamp": lambda m: str(m.born_timestamp_ms),
    "reconsumeTimes": lambda m: str(m.reconsume_times),
    "flag": lambda m: str(m.flag),
}


def compile_format(template: str) -> Callable[[ReceivedMessage], str]:
    """Turns `%t %p %o %k %v %d %h %{tags}` with `\\n` escapes into a function of a message.

    A `%{name}` that is no field is looked up in the message's properties. Bytes of a body that are no UTF-8 are kept,
    as `surrogateescape` has them. Raises InvalidArgument for an unknown verb.
    """
    parts: list[Callable[[ReceivedMessage], str]] = []
    place = 0
    for match in _TOKEN.finditer(template):
        parts.append(_literal(template[place : match.start()]))
        parts.append(_verb(match))
        place = match.end()
    parts.append(_literal(template[place:]))
    return lambda message: "".join(part(message) for part in parts)


def as_object(message: ReceivedMessage) -> dict[str, Any]:
    """A message as JSON, with the names of the Spark columns; a body that is no UTF-8 is `bodyBase64`."""
    try:
        body = {"body": message.body.decode("utf-8")}
    except UnicodeDecodeError:
        body = {"bodyBase64": base64.b64encode(message.body).decode("ascii")}
    return {
        "topic": message.topic,
        "brokerName": message.queue.broker_name,
        "queueId": message.queue.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.msg_id,
        "tags": message.tags,
        "keys": " ".join(message.keys) or None,
        **body,
        "properties": message.properties,
        "bornTimestamp": message.born_timestamp_ms,
        "storeTimestamp": message.store_timestamp_ms,
        "reconsumeTimes": message.reconsume_times,
        "flag": message.flag,
    }


READ_COLUMNS: Final = (
    *("body", "value", "bodyBase64", "topic", "tags", "tag", "keys", "key", "properties", "shardingKey", "queueId"),
    *("delayLevel", "deliverTime", "flag", "storeTimestamp"),
)
"""What is taken from a row that has a body."""
BODIES: Final = frozenset({"body", "value", "bodyBase64"})
"""A row with none of these is a body itself."""
SOURCE_ONLY: Final = (
    *("brokerName", "queueOffset", "msgId", "offsetMsgId", "bornTimestamp", "reconsumeTimes"),
    "bodyBytes",  # in what the console saves, and REST answers
)
"""What an export has besides, and only a broker can say; left aside, as Spark's sink does."""


def from_object(topic: str, record: dict[str, Any]) -> Message:
    """A message from a JSON object or table row with `body`, `bodyBase64` or `value`; else the row is the body.

    `tags`, `keys` and `properties` are taken along where they are given; `tag` and `key`, as the options are called,
    too. What only the broker knows, names that RocketMQ reserves, and properties and keys that are null are left out.
    Raises InvalidArgument where one of them cannot be what it should.
    """
    if BODIES.isdisjoint(record):
        return Message(topic, _utf8(as_text(record)))
    raw = _body(record)
    if not raw:
        raise InvalidArgument("The body is empty; RocketMQ has no empty messages.")
    properties = record.get("properties") or {}
    if not isinstance(properties, dict):
        raise InvalidArgument("properties must be an object of names and values.")
    keys = _first(record, "keys", "key")
    if keys is None:
        keys = []
    if not isinstance(keys, str | list):
        raise InvalidArgument(f"keys must be text or a list, not {keys!r:.60}.")
    return Message(
        topic,
        raw,
        tags=None if (tags := _first(record, "tags", "tag")) is None else as_text(tags),
        keys=split_keys(keys) if isinstance(keys, str) else [as_text(key) for key in keys if key not in (None, "")],
        properties={
            str(name): as_text(value)
            for name, value in properties.items()
            if value is not None and not is_reserved(str(name))
        },
    )


def _first(record: dict[str, Any], *names: str) -> Any:
    """What the first of these columns has that is not empty; None where all are. 0 and false are something."""
    return next((value for name in names if (value := record.get(name)) is not None and value != ""), None)


def _body(record: dict[str, Any]) -> bytes:
    """Of a table with a column for text and one for bytes, each row has one of them empty or null."""
    for name in ("bodyBase64", "body", "value"):
        body = record.get(name)
        if body is None or body in ("", b""):
            continue
        if name == "bodyBase64":
            return _from_base64(body)
        return body if isinstance(body, bytes) else _utf8(as_text(body))
    return b""


def as_text(value: object) -> str:
    """Text as it is, anything else as JSON spells it: who reads it may not be Python."""
    if isinstance(value, dict | list | bool):
        return json.dumps(_finite(value), ensure_ascii=False, default=_plain)
    return value if isinstance(value, str) else _plain(_finite(value))


def _finite(value: Any) -> Any:
    """Numbers that JSON does not have, as Spark writes them and reads them: "NaN", "Infinity", "-Infinity"."""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if isinstance(value, dict):
        return {name: _finite(member) for name, member in value.items()}
    return [_finite(member) for member in value] if isinstance(value, list) else value


def _plain(value: object) -> str:
    """What JSON has no word for: times and decimals as one writes them; bytes as text, or else in Base64."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(value).decode("ascii")


def _utf8(body: str) -> bytes:
    try:
        return body.encode()
    except UnicodeEncodeError as error:  # half of a pair, which JSON may escape
        raise InvalidArgument(
            f"The body is not valid Unicode at {body[error.start]!r}.",
            hint="What is no text goes into bodyBase64.",
        ) from None


def _from_base64(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True)  # type: ignore[arg-type]  # whatever stood in the JSON
    except (TypeError, ValueError):
        raise InvalidArgument(f"bodyBase64 {text!r:.60} is not Base64.") from None


def compile_input(template: str) -> Callable[[str, str], Message]:
    """The reverse for `rmq send --format`: `%k:%v` cuts a line into key and body. Verbs: %k %v %{tags} and literals.

    A `\\n` at the end may stand or not: a line comes without its end, and so one format serves `rmq consume`, too.
    A body gets back the bytes that `surrogateescape` has kept.
    """
    pattern, names, place = "", [], 0
    tokens = list(_TOKEN.finditer(template))
    if tokens and tokens[-1][3] == "n" and tokens[-1].end() == len(template):
        template = template[: tokens.pop().start()]
    for match in tokens:
        name = {"k": "keys", "v": "body"}.get(match[2] or "", match[1] or "")
        if match[3] is None and name not in ("keys", "body", "tags"):
            raise InvalidArgument(f"--format {match.group()} cannot be sent.", hint="Use %k, %v, %{tags} and literals.")
        pattern += re.escape(template[place : match.start()])
        if match[3] is not None:
            pattern += re.escape(_ESCAPES.get(match[3], match[3]))
        else:
            names.append(name)
            pattern += "(.*)" if name == "body" else "(.*?)"
        place = match.end()
    shape = re.compile(pattern + re.escape(template[place:]), re.DOTALL)

    def parse(topic: str, line: str) -> Message:
        match = shape.fullmatch(line)
        if match is None:
            raise DecodeError(f"{line[:60]!r} does not have the shape of --format {template!r}.")
        record: dict[str, Any] = dict(zip(names, match.groups(), strict=True))
        if "body" in record:
            record["body"] = record["body"].encode("utf-8", "surrogateescape")
        return from_object(topic, record)

    return parse


def _literal(text: str) -> Callable[[ReceivedMessage], str]:
    return lambda _: text


def _verb(match: re.Match[str]) -> Callable[[ReceivedMessage], str]:
    name, verb, escape = match.groups()
    if escape is not None:
        return _literal(_ESCAPES.get(escape, escape))
    if name is not None:
        return _NAMED.get(name) or (lambda message: message.properties.get(name, ""))
    if verb not in _VERBS:
        raise InvalidArgument(f"--format does not know %{verb}.", hint="It knows %t %p %o %k %v %d %h %% and %{name}.")
    return _VERBS[verb]
