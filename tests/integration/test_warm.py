"""Processes that are forked and killed, as tests see them."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

from .warm import Started

ROUNDS, THREADS = 100, 4


def asked_until_it_ended(process: Started) -> int:
    while (code := process.poll()) is None:
        pass
    return code


def test_threads_ask_whether_it_goes_on_while_one_waits_for_its_end() -> None:
    """As the clients of a load do while its server is killed: each hears how it ended."""
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in range(ROUNDS):
            told, telling = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with telling:
                telling.send(b"4711")
                process = Started(told, BytesIO())
                asking = [threads.submit(asked_until_it_ended, process) for _ in range(THREADS)]
                telling.send(b"-9")
                assert process.wait(60) == -9
            assert [each.result() for each in asking] == [-9] * THREADS
