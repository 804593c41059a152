"""The server with TLS: what it keeps to without holds with it, and a failed handshake costs nobody else anything."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rmqspark.errors import ConnectionLost, HandshakeFailed, InvalidArgument
from rmqspark.remoting.access import Access, Tls
from rmqspark.remoting.limits import Limits
from rmqspark.remoting.router import Router
from rmqspark.remoting.server import RemotingServer
from rmqspark.remoting.tls.contexts import client_context
from rmqspark.remoting.tls.session import TlsSession
from rmqspark.remoting.tls.settings import TlsServing

from .conftest import RawClient
from .test_remoting_server import (  # noqa: F401 - collected here once more, with the fixtures of this file
    ECHO,
    assert_serves,
    routes,
    test_a_slow_reader_is_not_read,
    test_big_bodies_both_ways,
    test_cut_within_a_frame,
    test_garbage_ends_its_connection_only,
    test_idle,
    test_incomplete_frames_have_a_budget,
    test_many_that_do_not_read_are_bounded_together,
    test_oneway_is_never_answered,
    test_pipelined_answers_keep_their_order,
    test_requests_cut_anywhere,
    test_slow_frame,
    test_small_requests_behind_big_ones,
    test_too_many_oneway_requests_that_wait,
    test_too_many_requests_under_way,
    test_two_hundred_connections,
)
from .tls_talk import EncryptedRawClient, connect, serving, trusting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.certificates import Authority

    from .conftest import Serve, Served

pytestmark = pytest.mark.integration


@pytest.fixture
def serve(serve: Serve, authority: Authority) -> Serve:
    """As the one without TLS, and with it unless a test says how."""

    def start(routes: Any, **options: Any) -> Served:
        return serve(routes, **{"tls": serving(authority), **options})

    return start


@pytest.fixture
def raw_client(authority: Authority) -> Iterator[Callable[..., RawClient]]:
    """As the one without TLS."""
    with ExitStack() as stack:

        def connect(address: str, **options: Any) -> RawClient:
            client = EncryptedRawClient(address, Tls(authority.path), **options)
            stack.callback(client.socket.close)
            return client

        yield connect


@contextmanager
def plain(address: str) -> Iterator[RawClient]:
    """A raw client without TLS."""
    client = RawClient(address)
    with client.socket:
        yield client


def client_hello(authority: Authority) -> bytes:
    """The first that a client says."""
    session = TlsSession(client_context(Tls(authority.path)), server_side=False, host="localhost")
    session.shake_hands()
    return session.to_send()


def test_permissive_serves_both(serve: Serve, raw_client: Any) -> None:
    """A server with a certificate serves clients with TLS, and those without as before."""
    served = serve(routes())
    assert_serves(served, raw_client)
    with plain(served.address) as client:
        assert_serves(served, lambda _: client)
        client.request(ECHO, 6, b"x" * 1_000_000)
        assert len(client.receive()[1]) == 1_000_000


def test_enforcing_sends_away_who_does_without(serve: Serve, raw_client: Any, authority: Authority) -> None:
    """The log says why, and so does our client, as far as it can know."""
    served = serve(routes(), tls=serving(authority, enforcing=True))
    assert_serves(served, raw_client)
    with capture_logs() as logs:
        connection = connect(served.address, Access())
        with pytest.raises(ConnectionLost, match=r"as by a server that demands TLS \(tls_enable\)"):
            connection.call(ECHO, timeout_ms=60_000)
        connection.close()
    assert "which is demanded here (tls_server_mode)" in logs[0]["reason"]


@pytest.mark.parametrize("auth", ["optional", "require"])
def test_certificates_of_clients(serve: Serve, authority: Authority, stranger: Authority, auth: str) -> None:
    """One by the authority that is trusted is good, one by another never is; none at all where none is required."""
    tls = serving(authority, trust_cert_path=authority.path, need_client_auth=auth)
    served = serve(routes(), tls=tls)

    def ask(access: Access) -> bytes:
        connection = connect(served.address, access)
        try:
            return bytes(connection.call(ECHO, body=b"hello", timeout_ms=60_000).body)
        finally:
            connection.close()

    def showing(whose: Authority) -> Access:
        cert, key = whose.issue("client")
        return trusting(authority, cert_path=cert, key_path=key)

    assert ask(showing(authority)) == b"hello"
    with capture_logs() as logs:
        with pytest.raises(ConnectionLost, match="certificate"):
            ask(showing(stranger))
        served.wait_until(lambda: logs)
    assert "the certificate is not trusted" in logs[0]["reason"]
    if auth == "optional":
        assert ask(trusting(authority)) == b"hello"
        return
    with capture_logs() as logs:
        with pytest.raises(ConnectionLost, match="certificate"):
            ask(trusting(authority))
        served.wait_until(lambda: logs)
    assert "the client shows no certificate" in logs[0]["reason"]


@pytest.mark.faults
def test_garbage_after_the_handshake(serve: Serve, raw_client: Any) -> None:
    """Bytes that nobody encrypted end their connection, and no other."""
    served = serve(routes())
    offender = raw_client(served.address)
    with capture_logs() as logs:
        offender.socket._socket.sendall(b"\x17\x03\x03\x00\x40" + b"?" * 64)
        assert offender.is_closed_by_server()
    assert logs[0]["reason"].startswith("TLS: ")
    assert_serves(served, raw_client)


@pytest.mark.faults
@pytest.mark.parametrize("garbage", [b"\x16" * 100, b"\x16\x03\x01\x00\x05hello"])
def test_garbage_instead_of_a_handshake(serve: Serve, raw_client: Any, garbage: bytes) -> None:
    """What only begins as TLS does is cut off."""
    served = serve(routes())
    with plain(served.address) as offender, capture_logs() as logs:
        offender.socket.sendall(garbage)
        while not offender.is_closed_by_server():  # it is told why first
            pass
        served.wait_until(lambda: logs)
    assert logs[0]["reason"].startswith("TLS: ")
    assert_serves(served, raw_client)


@pytest.mark.faults
@pytest.mark.parametrize("share", [0, 1, 50, 200])
def test_who_does_not_end_the_handshake_is_closed_in_time(
    serve: Serve, raw_client: Any, authority: Authority, share: int
) -> None:
    """Nothing, one byte, half a handshake: a first frame has its time, and others are served meanwhile."""
    hello = client_hello(authority)
    assert len(hello) > 200
    served = serve(routes(), limits=Limits(first_frame_timeout_ms=1_000))
    with plain(served.address) as offender, capture_logs() as logs:
        offender.socket.sendall(hello[:share])
        assert_serves(served, raw_client)
        assert offender.is_closed_by_server()
    assert [entry["reason"] for entry in logs] == ["no whole frame in time"]


@pytest.mark.faults
def test_a_handshake_counts_as_a_connection(serve: Serve, raw_client: Any, authority: Authority) -> None:
    """Those who never end one take no more places than others would, and give them back."""
    served = serve(routes(), limits=Limits(max_connections_per_address=3))
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(plain(served.address)).socket.sendall(client_hello(authority)[:100])
        served.wait_until(lambda: served.server.connection_count == 3)
        with capture_logs() as logs, plain(served.address) as another:
            assert another.is_closed_by_server()
        assert "from this address" in logs[0]["reason"]
    served.wait_until(lambda: served.server.connection_count == 0)
    assert_serves(served, raw_client)


def test_a_new_certificate_is_shown_without_a_restart(serve: Serve, authority: Authority) -> None:
    """As soon as it and its key are there; connections that are open stay so."""
    certificate = authority.issue("elsewhere")
    served = serve(routes(), tls=TlsServing(*certificate))
    with pytest.raises(HandshakeFailed, match="made out to another host"):
        connect(served.address, trusting(authority))
    old = connect(served.address, trusting(authority, check_host=False))
    other_key = authority.issue().key_path
    with open(certificate.key_path) as file:
        key = file.read()
    with capture_logs() as logs:
        with open(certificate.key_path, "w") as file, open(other_key) as other:
            file.write(other.read())
        served.run(served.server._tls.look)
        with open(certificate.key_path, "w") as file:
            file.write(key)
        authority.replace(certificate, "127.0.0.1")
        served.run(served.server._tls.look)
        served.run(served.server._tls.look)
    assert [entry["event"] for entry in logs] == [
        "the new certificate cannot be used, going on with the old one",
        "certificate read again",
    ]
    new = connect(served.address, trusting(authority))
    for connection in (old, new):
        assert connection.call(ECHO, body=b"x", timeout_ms=60_000).body == b"x"
        connection.close()


def test_it_does_not_start_without_its_certificate() -> None:
    """The error names the setting and the file."""
    with pytest.raises(InvalidArgument, match="tls_server_cert_path /nowhere cannot be read"):
        RemotingServer(Router([routes()]), host="127.0.0.1", port=0, tls=TlsServing("/nowhere"))


@pytest.mark.faults
def test_it_closes_in_the_middle_of_a_handshake(serve: Serve, authority: Authority) -> None:
    """A server that stops waits for nobody who has not said anything yet."""
    served = serve(routes())
    with plain(served.address) as client:
        client.socket.sendall(client_hello(authority)[:100])
        served.wait_until(lambda: served.server.connection_count == 1)
        served.start_closing().result(60)
        assert client.is_closed_by_server()


@pytest.mark.faults
def test_closing_says_goodbye(serve: Serve, raw_client: Any) -> None:
    """A server that stops ends its connections in order: nothing looks cut off."""
    served = serve(routes())
    client = raw_client(served.address)
    client.request(ECHO)
    client.receive()
    served.start_closing().result(60)
    assert client.is_closed_by_server()
    assert client.socket._channel._session.ended
