"""The JSON that RocketMQ speaks: fastjson 1.x, which is not quite JSON.

Two liberties matter. Map keys that are numbers are written bare, `{0:"10.0.0.1:10911"}`; map keys that are message
queues are written as objects, `{{"brokerName":"b","queueId":0,"topic":"T"}:7}`. Readers besides accept control
characters inside strings, single quotes, bare words as keys, number suffixes and whatever follows the value
(spec: requests, section 1).

`loads` reads all of that; the strict and much faster msgspec is tried first by those who call it. `dumps` writes
fastjson's dialect, or on demand the standard JSON that RocketMQ answers to newer clients.
"""

from __future__ import annotations

import re
from functools import cache
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Final, NoReturn, get_type_hints

import msgspec

from rmqspark.errors import BodyError
from rmqspark.message_queue import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_DEPTH: Final = 64

_SPACE = re.compile(r"[\s\x00-\x20]*+")
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_SINGLE_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*+)'", re.DOTALL)
# No possessive groups here: before Python 3.11.5 they keep what they began to match in vain, the "e" of "1e" for one.
_NUMBER = re.compile(r"(-?[0-9]++(\.[0-9]*+)?([eE][+-]?[0-9]++)?)[LSBFD]?")
_WORD = re.compile(r"""[^\s:,{}\[\]"']++""")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LITERALS = {"true": True, "false": False, "null": None}
_SURROGATE = re.compile("[\ud800-\udfff]")


def loads(data: bytes | bytearray | memoryview, *, max_values: int | None = None) -> Any:
    """Reads one value in fastjson's dialect; what follows it is ignored.

    Maps become dicts with str keys, or MessageQueue keys where the text has objects for keys. Members that are null
    are left out, since to fastjson null and absent are the same. Raises BodyError; nests at most MAX_DEPTH deep.
    `max_values` bounds the members and elements of all levels together: each costs microseconds and dozens of bytes,
    of which a text from a stranger may have very many.
    """
    text = str(data, "utf-8", "replace")
    return _Reader(text, len(text) if max_values is None else max_values).value(0)


class _Reader:
    """Recursive descent over the text; `at` is the next character."""

    def __init__(self, text: str, max_values: int) -> None:
        self._text = text
        self._at = 0
        self._values_left = max_values

    def value(self, depth: int) -> Any:
        match self._peek():
            case "{":
                return self._object(depth + 1)
            case "[":
                return self._array(depth + 1)
            case '"':
                return self._string(_DOUBLE_QUOTED)
            case "'":
                return self._string(_SINGLE_QUOTED)
            case _:
                return self._scalar()

    def _object(self, depth: int) -> dict[str | MessageQueue, Any]:
        members: dict[str | MessageQueue, Any] = {}
        for _ in self._items(depth, "}"):
            key = self._key(depth)
            if self._peek() != ":":
                self._fail("a colon")
            self._at += 1
            value = self.value(depth)
            if value is not None:
                members[key] = value
        if members.keys() == {"$ref"}:
            raise BodyError("JSON refers to another part of itself ($ref), which is not followed.")
        return members

    def _array(self, depth: int) -> list[Any]:
        return [self.value(depth) for _ in self._items(depth, "]")]

    def _items(self, depth: int, closing: str) -> Iterable[None]:
        """Stops at each item between the bracket here and `closing`; stray commas are forgiven, as fastjson does."""
        if depth > MAX_DEPTH:
            raise BodyError(f"JSON is nested more than {MAX_DEPTH} deep.")
        self._at += 1
        while (character := self._peek()) != closing:
            if character == ",":
                self._at += 1
                continue
            self._values_left -= 1
            if self._values_left < 0:
                raise BodyError("JSON has more values than are allowed here.")
            yield
            if self._peek() not in (",", closing):
                self._fail(f"a comma or {closing}")
        self._at += 1

    def _key(self, depth: int) -> str | MessageQueue:
        match self._peek():
            case "{":
                return self._queue_key(self._object(depth + 1))
            case '"':
                return self._string(_DOUBLE_QUOTED)
            case "'":
                return self._string(_SINGLE_QUOTED)
            case _:
                return self._take(_WORD, "a key")

    def _queue_key(self, members: dict[str | MessageQueue, Any]) -> MessageQueue:
        topic, broker, queue_id = members.get("topic"), members.get("brokerName"), members.get("queueId")
        if not (isinstance(topic, str) and isinstance(broker, str) and isinstance(queue_id, int)):
            self._fail("a message queue as key")
        return MessageQueue(topic, broker, queue_id)

    def _string(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            self._fail("the end of a string")
        self._at = found.end()
        raw = found[1]
        return _unescape(raw) if "\\" in raw else raw

    def _scalar(self) -> int | float | bool | None:
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return self._number(number[1], integral=number[2] is None and number[3] is None)
        word = self._take(_WORD, "a value")
        if word not in _LITERALS:
            self._fail("a value")
        return _LITERALS[word]

    def _number(self, digits: str, *, integral: bool) -> int | float:
        if len(digits) > 64:
            self._fail("a number of a sensible length")
        return int(digits) if integral else float(digits)

    def _take(self, pattern: re.Pattern[str], expected: str) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            self._fail(expected)
        self._at = found.end()
        return found[0]

    def _peek(self) -> str:
        """The next character that is not space; empty at the end."""
        space = _SPACE.match(self._text, self._at)
        if space is not None:
            self._at = space.end()
        return self._text[self._at : self._at + 1]

    def _fail(self, expected: str) -> NoReturn:
        raise BodyError(f"JSON has no {expected.removeprefix('a ')} at character {self._at}.")


def _unescape(raw: str) -> str:
    text = _ESCAPE.sub(_unescape_one, raw)
    if _SURROGATE.search(text):  # pairs become one character; what stands alone is no character at all
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _unescape_one(escape: re.Match[str]) -> str:
    four_digits, two_digits, letter = escape.groups()
    if letter is None:
        return chr(int(four_digits or two_digits, 16))
    return _ESCAPED.get(letter, letter)


def dumps(value: Any, *, standard: bool = False) -> bytes:
    """Writes structs, maps, lists and scalars as RocketMQ does: members by name, those that are None left out.

    `standard` is what newer clients are answered: number keys quoted, keys sorted, non-ASCII escaped. A map with
    message queues for keys has no standard form and is written as fastjson does in both.
    """
    return _Writer(standard=standard).text(value).encode("utf-8", "replace")


class _Writer:
    def __init__(self, *, standard: bool) -> None:
        self._standard = standard
        self._quote: Callable[[str], str] = encode_basestring_ascii if standard else encode_basestring

    def text(self, value: Any) -> str:
        match value:
            case str():
                return self._quote(value)
            case msgspec.Struct() if not self._standard and _is_plain(type(value)):
                return _sorting_encoder.encode(value).decode()
            case msgspec.Struct():
                fields = sorted(value.__struct_encode_fields__)
                return self._members((self._quote(name), getattr(value, name)) for name in fields)
            case dict():
                keys = sorted(value) if self._standard else value
                return self._members((self._key(key), value[key]) for key in keys)
            case MessageQueue(topic, broker, queue_id):
                return self._queue(topic, broker, queue_id)
            case list() | tuple() | set() | frozenset():
                return f"[{','.join(map(self.text, value))}]"
            case _:
                return msgspec.json.encode(value).decode()

    def _members(self, members: Iterable[tuple[str, Any]]) -> str:
        written = ",".join(f"{key}:{self.text(value)}" for key, value in members if value is not None)
        return f"{{{written}}}"

    def _key(self, key: str | int | MessageQueue) -> str:
        match key:
            case str():
                return self._quote(key)
            case MessageQueue(topic, broker, queue_id):
                return self._queue(topic, broker, queue_id)
            case _:
                return f'"{key}"' if self._standard else str(key)

    def _queue(self, topic: str, broker: str, queue_id: int) -> str:
        return f'{{"brokerName":{self._quote(broker)},"queueId":{queue_id},"topic":{self._quote(topic)}}}'


_PLAIN: Final = (str, int, float, bool, dict[str, str], list[str], list[int])
_sorting_encoder = msgspec.json.Encoder(order="sorted")


@cache
def _is_plain(kind: type[msgspec.Struct]) -> bool:
    """Whether fastjson and JSON agree about such structs, so that msgspec may write them, in C.

    They do where no member can be None, no map has other keys than strings, and no struct is inside.
    """
    return all(annotation in _PLAIN for annotation in get_type_hints(kind).values())
