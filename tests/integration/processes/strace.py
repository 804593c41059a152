"""What strace writes, as calls: `strace -f -yy -xx -s BYTES -o FILE`.

One line is a call, or its beginning (`<unfinished ...>`) or its end (`<... NAME resumed>`) where another thread came
between. The number of a line is the time: of what strace saw of several threads it says that it is in this order.
strace writes a call down when it begins; if it is killed before anything else happens, the last line stays as it is.
Strings are hexadecimal, so that no quote or bracket of theirs is mistaken for strace's own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_MOST_STRING_BYTES = 1 << 24
_LINE = re.compile(r"(?P<thread>\d+) +(?P<rest>.*)")
_BEGUN = re.compile(r"(?P<name>\w+)\((?P<arguments>.*?)(?P<unfinished> <unfinished \.\.\.>)?$")
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<arguments>.*)")
_RESULT = re.compile(r"\)\s+= (?P<result>-?\d+|\?)(?:[ <].*)?$")
_DESCRIPTOR = re.compile(r"\d+<(?P<target>.*?[^-])>")  # a connection is written A->B
_STRING = re.compile(r'"(?P<hex>(?:\\x[0-9a-f]{2})*)"(?P<cut>\.\.\.)?')
_OFFSET = re.compile(r", (\d+)$")


class Call(NamedTuple):
    """A system call. `begun` and `ended` are line numbers; one that never returned has no result and no end."""

    thread: int
    name: str
    arguments: str
    begun: int
    ended: float
    result: int | None

    @property
    def target(self) -> str:
        """What its first argument, a descriptor, stands for: a path, or the two ends of a connection."""
        found = _DESCRIPTOR.match(self.arguments)
        target = found["target"] if found else ""
        return _unhex(target).decode() if target.startswith("\\x") else target

    @property
    def paths(self) -> list[str]:
        """The names it was given."""
        return [_unhex(name["hex"]).decode() for name in _STRING.finditer(self.arguments)]

    @property
    def data(self) -> bytes:
        """The bytes it was given, of all its buffers; for writes, those that were written."""
        pieces = list(_STRING.finditer(self.arguments))
        assert not any(piece["cut"] for piece in pieces), f"strace has cut a string short: {self.arguments[:200]}"
        return b"".join(_unhex(piece["hex"]) for piece in pieces)[: self.result]

    @property
    def offset(self) -> int:
        """Where in its file a pwrite64, pwritev or pwritev2 writes."""
        arguments = self.arguments.rpartition(",")[0] if self.name == "pwritev2" else self.arguments  # its flags
        found = _OFFSET.search(arguments)
        assert found, f"{self.name} without an offset: {self.arguments[-200:]}"
        return int(found[1])


def parse(lines: Iterable[str]) -> list[Call]:
    """The calls in the order of their beginnings; signals and ends of threads are left out.

    Of a last line without an end, wherever it breaks off, only the beginning of a call counts.
    """
    calls: dict[int, Call] = {}
    open_calls: dict[int, Call] = {}
    for number, line in enumerate(lines):
        found, is_whole = _LINE.match(line.rstrip("\n")), line.endswith("\n")
        assert found or not is_whole, f"line {number} is no line of strace: {line[:200]}"
        if not found:
            break
        thread, rest = int(found["thread"]), found["rest"]
        if resumed := _RESUMED.match(rest):
            if is_whole:
                begun = open_calls.pop(thread)
                calls[begun.begun] = _ended(begun, begun.arguments + resumed["arguments"], number)
        elif call := _BEGUN.match(rest):
            begun = Call(thread, call["name"], call["arguments"], number, inf, None)
            has_ended = is_whole and not call["unfinished"]
            calls[number] = _ended(begun, begun.arguments, number) if has_ended else begun
            if not has_ended:
                open_calls[thread] = begun
    return [calls[number] for number in sorted(calls)]


def _ended(call: Call, text: str, number: int) -> Call:
    found = _RESULT.search(text)
    assert found, f"a call without a result: {text[-200:]}"
    result = None if found["result"] == "?" else int(found["result"])
    return call._replace(arguments=text[: found.start()], ended=number, result=result)


def _unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def command(output: Path, calls: Sequence[str], *options: str) -> list[str]:
    """The words to put before a command so that its calls of these names are written to `output`."""
    traced = f"trace={','.join(calls)}"
    return ["strace", "-f", "-yy", "-xx", "-s", str(_MOST_STRING_BYTES), "-o", str(output), "-e", traced, *options]


def why_not() -> str | None:
    """Why strace cannot be used here; None where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    return f"strace cannot trace here: {tried.stderr.strip()[-200:]}" if tried.returncode else None
