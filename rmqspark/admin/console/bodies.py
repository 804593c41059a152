"""A body to be read: as JSON, as text, in hex. It stays text, whatever it says. Pure."""

from __future__ import annotations

import json
import re
from codecs import getincrementaldecoder
from dataclasses import dataclass
from typing import Final

from rmqspark.display import OBEYED

MOST_SHOWN: Final = 4 << 10  # characters, until somebody asks for all
MOST_EVER: Final = 256 << 10  # what a browser can be given
_ROW: Final = 16
_LONGEST_PREVIEW: Final = 120
_LARGEST_INDENTED: Final = 2 << 20
_HIDING: Final = re.compile(rf"[{OBEYED}\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to read a body; `left_out` is what of it is not shown, in characters of this shape."""

    name: str
    text: str
    left_out: int = 0


def shapes(body: bytes, *, all_of_it: bool = False) -> list[Shape]:
    """The best one first: JSON where it is JSON, text where it is UTF-8, and hex always."""
    most = MOST_EVER if all_of_it else MOST_SHOWN
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return [_hex(body, most)]
    pretty = _pretty(text) if len(body) <= MOST_EVER else None
    found = [] if pretty is None else [_cut("JSON", pretty, most)]
    return [*found, _cut("Text", text, most), _hex(body, most)]


def preview(body: bytes) -> str:
    """Its beginning, on one line."""
    head = body[: _LONGEST_PREVIEW * 4]
    try:
        text = getincrementaldecoder("utf-8")().decode(head, final=len(head) == len(body))
    except UnicodeDecodeError:
        return f"{body[:24].hex(' ')} …" if len(body) > 24 else body.hex(" ")
    line = " ".join(visible(text).split())
    return line if len(line) <= _LONGEST_PREVIEW and len(head) == len(body) else f"{line[:_LONGEST_PREVIEW]} …"


def visible(text: str) -> str:
    """Control characters, and those that turn the direction of writing, as codes: they would hide what is there."""
    return _HIDING.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _pretty(text: str) -> str | None:
    """Numbers stay as they are written. None for what is no JSON, or is none to be read by people."""
    try:
        document = json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_Number)
        return _Indented().text_of(document) if isinstance(document, (dict, list)) else None
    except (ValueError, RecursionError):
        return None


class _Number(str):
    __slots__ = ()


class _Indented:
    """One document, set in. ValueError where it grows beyond all reason, as it does with a few brackets too many."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def text_of(self, document: object) -> str:
        self._write(document, 0)
        return "".join(self._pieces)

    def _write(self, value: object, depth: int) -> None:
        if not isinstance(value, (dict, list)) or not value:
            self._put(str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False))
            return
        pad = "  " * (depth + 1)
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        pairs = value.items() if isinstance(value, dict) else ((None, each) for each in value)
        self._put(opening)
        for number, (name, each) in enumerate(pairs):
            self._put(f"{',' if number else ''}\n{pad}")
            if name is not None:
                self._put(f"{json.dumps(name, ensure_ascii=False)}: ")
            self._write(each, depth + 1)
        self._put(f"\n{'  ' * depth}{closing}")

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > _LARGEST_INDENTED:
            raise ValueError("too large")


def _hex(body: bytes, most: int) -> Shape:
    shown = body[: most // 4]
    rows = [
        f"{at:08x}  {shown[at : at + _ROW].hex(' '):<47}  {_ascii(shown[at : at + _ROW])}"
        for at in range(0, len(shown), _ROW)
    ]
    return Shape("Hex", "\n".join(rows), len(body) - len(shown))


def _ascii(piece: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)


def _cut(name: str, text: str, most: int) -> Shape:
    """Cut first: a look at each character of four megabytes would take a second of everybody's."""
    return Shape(name, visible(text[:most]), max(0, len(text) - most))
