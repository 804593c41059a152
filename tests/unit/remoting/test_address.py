"""Addresses, both ways."""

from __future__ import annotations

import errno
import os

import pytest

from rmqspark.errors import InvalidArgument, PortInUse
from rmqspark.remoting.address import cannot_listen, format_address, is_loopback, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("10.0.0.5:10911", "10.0.0.5", 10911), ("broker-a.local:1", "broker-a.local", 1), ("[::1]:9876", "::1", 9876)],
)
def test_both_ways(text: str, host: str, port: int) -> None:
    """An address is read as it is written."""
    assert parse_address(text) == (host, port)
    assert format_address(host, port) == text


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "::1:9876", "host:٣", "host:+1"])
def test_refused(text: str) -> None:
    """What is no address is refused with the form that is right."""
    with pytest.raises(InvalidArgument, match="host:port"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_loopback(host: str, loopback: bool) -> None:
    """Only what this machine alone can reach counts as loopback."""
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.EADDRINUSE, PortInUse, "Port 80 on ::1 is in use"),
        (errno.EACCES, InvalidArgument, r"Cannot listen on \[::1\]:80: Permission denied"),
    ],
)
def test_a_port_is_called_in_use_only_where_it_is(number: int, kind: type[Exception], words: str) -> None:
    """Another may be one that only root may have, or on an address that is another machine's."""
    error = cannot_listen(OSError(number, os.strerror(number)), "::1", 80, "--port")
    with pytest.raises(kind, match=words):
        raise error
