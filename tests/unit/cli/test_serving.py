"""What servers do around serving: here, what their log lines are written as."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from rmqspark.cli.servers.serving import Libraries, configure_logs

if TYPE_CHECKING:
    from collections.abc import Iterator


class Writes(io.RawIOBase):
    """A standard error that keeps each write of the process apart."""

    def __init__(self, *, is_terminal: bool) -> None:
        self.done: list[bytes] = []
        self._is_terminal = is_terminal

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.done.append(bytes(data))
        return len(data)


def standard_error(writes: Writes, *, is_buffered: bool) -> io.TextIOWrapper:
    """As Python makes it; not buffered with PYTHONUNBUFFERED."""
    if is_buffered:
        return io.TextIOWrapper(io.BufferedWriter(writes), encoding="utf-8", line_buffering=True)
    return io.TextIOWrapper(writes, encoding="utf-8", write_through=True)  # type: ignore[arg-type]


@pytest.fixture
def configured() -> Iterator[None]:
    was_configured, before = structlog.is_configured(), structlog.get_config()
    yield
    structlog.reset_defaults()  # else every cluster of this worker would log to standard output
    if was_configured:
        structlog.configure(**before)


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("is_buffered", [False, True])
@pytest.mark.usefixtures("configured")
def test_a_line_is_written_at_once(is_terminal: bool, is_buffered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that share a standard error, as brokers of one `rmq up` do, never write into each other's lines."""
    writes = Writes(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", standard_error(writes, is_buffered=is_buffered))
    configure_logs()
    log = structlog.get_logger()
    log.info("broker started", broker="broker-a")
    log.error("it is over", reason="x" * 2 * io.DEFAULT_BUFFER_SIZE)
    assert [written.count(b"\n") for written in writes.done] == [1, 1]
    assert all(written.endswith(b"\n") for written in writes.done)
    if not is_terminal:
        assert [json.loads(written)["event"] for written in writes.done] == ["broker started", "it is over"]


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("is_buffered", [False, True])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EPIPE, errno.EIO])
@pytest.mark.usefixtures("configured")
def test_a_line_that_cannot_be_written_is_all_that_is_lost(
    is_terminal: bool, is_buffered: bool, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of the log is full, whoever collects it starts anew, a terminal is gone: servers go on."""
    writes = Writes(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", standard_error(writes, is_buffered=is_buffered))
    configure_logs()
    log = structlog.get_logger()
    with monkeypatch.context() as trouble:
        trouble.setattr(Writes, "write", refusing(error))
        log.info("broker expired", reason="x" * 2 * io.DEFAULT_BUFFER_SIZE)
        log.warning("broker expired")
    log.info("broker started")
    assert b"broker started" in b"".join(writes.done)


def refusing(error: int) -> Any:
    def write(self: Writes, data: bytes) -> int:
        raise OSError(error, os.strerror(error))

    return write


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.usefixtures("configured")
def test_nobody_writes_on_the_terminal_but_the_log(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a name, a reason or an error has in it: a line is a line, reads as it is, and moves no cursor (S18)."""
    writes = Writes(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", standard_error(writes, is_buffered=False))
    configure_logs()
    log = structlog.get_logger()
    for canary in ("\x9b2J", "\x1b[2J and more", "\u202egnp", "\x1b]0;owned\x07", "a\nforged level=info", "\x85\u2028"):
        log.info("told", client=canary, clients=[canary], error=ValueError(canary))
        assert len(writes.done) == 1
        line = writes.done.pop().decode()
        assert line.endswith("\n")
        shown = re.sub(r"\x1b\[\d*m", "", line[:-1])  # the renderer's own colours
        assert shown.isprintable()
    library = logging.getLogger("a library")
    monkeypatch.setattr(library, "handlers", [Libraries()])
    try:
        raise ValueError("\x9b2J\x1b]0;owned\x07")
    except ValueError:
        log.exception("failed")
        library.exception("%s", "\x9b2J\x1b]0;owned\x07")
    assert len(writes.done) == 2
    assert re.sub(r"\x1b\[\d*m|\n", "", b"".join(writes.done).decode()).isprintable()
