"""Whatever a client sends instead of TLS, or in the middle of it: a session goes on, waits, or says what is wrong."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.remoting.access import Tls
from rmqspark.remoting.tls.contexts import client_context, server_context
from rmqspark.remoting.tls.session import TlsSession
from rmqspark.remoting.tls.settings import TlsServing
from rmqspark.remoting.tls.words import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.certificates import Authority

    Contexts = tuple[ssl.SSLContext, ssl.SSLContext]
    Changes = list[tuple[int, int]]

pytestmark = pytest.mark.property

CHANGES = st.lists(st.tuples(st.integers(0, 600), st.integers(1, 255)), max_size=4)


def changed(data: bytes, changes: Changes) -> bytes:
    """With some of its bytes turned into others."""
    mutable = bytearray(data)
    for at, mask in changes:
        mutable[at % len(mutable)] ^= mask
    return bytes(mutable)


def outcome(act: Callable[[], int]) -> int | str:
    """What it returns, or what is said of its error; any other than one of TLS is a bug."""
    try:
        return act()
    except ssl.SSLError as error:
        return told(error)


@pytest.fixture(scope="module")
def contexts(authority: Authority) -> Contexts:
    """A client's and a server's."""
    return client_context(Tls(authority.path)), server_context(TlsServing(*authority.issue()))


@given(changes=CHANGES, cut=st.integers(0, 600), rest=st.binary(max_size=100))
def test_handshakes_that_are_none(contexts: Contexts, changes: Changes, cut: int, rest: bytes) -> None:
    """A first word that was changed, cut off, or followed by something else."""
    client = TlsSession(contexts[0], server_side=False, host="localhost")
    server = TlsSession(contexts[1], server_side=True)
    client.shake_hands()
    server.feed(changed(client.to_send(), changes)[:cut] + rest)
    came_of_it = outcome(server.shake_hands)
    assert came_of_it is False or isinstance(came_of_it, str)
    assert came_of_it != ""
    assert len(server.to_send()) < 10_000


@given(changes=CHANGES, sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=3), rest=st.binary(max_size=50))
def test_records_that_are_none(contexts: Contexts, changes: Changes, sizes: list[int], rest: bytes) -> None:
    """What was encrypted comes as it was, or is refused: never anything else."""
    client = TlsSession(contexts[0], server_side=False, host="localhost")
    server = TlsSession(contexts[1], server_side=True)
    client.shake_hands()
    server.feed(client.to_send())
    server.shake_hands()
    client.feed(server.to_send())
    assert client.shake_hands()
    server.feed(client.to_send())
    assert server.shake_hands()
    plain = b"".join(bytes([number + 1]) * size for number, size in enumerate(sizes))
    server.feed(changed(client.encrypt(plain), changes) + rest)
    buffer = memoryview(bytearray(200_000))
    came_of_it = outcome(lambda: server.read_into(buffer))
    if isinstance(came_of_it, int):
        assert plain.startswith(bytes(buffer[:came_of_it]))
    else:
        assert came_of_it
