"""Both clients with TLS, against our server and against servers that are not what they should be."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.patience import may_pass
from rmqspark.errors import ConnectionLost, HandshakeFailed, InvalidArgument, RmqError, Unreachable
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.access import Access, Tls
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.remoting.limits import Limits
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Request, Route
from rmqspark.remoting.tls.settings import TlsServing

from .conftest import PATIENCE_S
from .tls_talk import connect, serving, trusting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.certificates import Authority

    from .conftest import Serve

pytestmark = pytest.mark.integration

CODE = RequestCode.GET_MAX_OFFSET
ROUTES = {CODE: Route(None, lambda request: Reply(body=bytes(request.body)))}


def ask_blocking(address: str, access: Access) -> bytes:
    connection = connect(address, access)
    try:
        return bytes(connection.call(CODE, body=b"hello", timeout_ms=60_000).body)
    finally:
        connection.close()


async def _ask(address: str, access: Access) -> bytes:
    connection = await AsyncConnection.open(address, timeout_ms=60_000, access=access)
    try:
        return bytes((await connection.call(CODE, body=b"hello", timeout_ms=60_000)).body)
    finally:
        await connection.close()


def ask_asyncio(address: str, access: Access) -> bytes:
    return asyncio.run(_ask(address, access))


def ask_uvloop(address: str, access: Access) -> bytes:
    return uvloop.run(_ask(address, access))


both = pytest.mark.parametrize("ask", [ask_blocking, ask_asyncio, ask_uvloop])


@both
def test_a_server_that_is_trusted(ask: Any, serve: Serve, authority: Authority) -> None:
    """By its address or its name, whichever is called and in its certificate."""
    served = serve(ROUTES, tls=serving(authority))
    assert ask(served.address, trusting(authority)) == b"hello"
    assert ask(f"localhost:{served.port}", trusting(authority)) == b"hello"


@both
@pytest.mark.parametrize(
    ("names", "expired", "words"),
    [
        (("elsewhere.example",), False, r"another host .* Tls.check_host to false"),
        (("127.0.0.1",), True, r"certificate has expired\. Renew it"),
    ],
)
def test_certificates_that_do_not_fit(
    ask: Any, serve: Serve, authority: Authority, names: Any, expired: bool, words: str
) -> None:
    """Another host's, one of yesterday: the error says which it is and what mends it."""
    served = serve(ROUTES, tls=TlsServing(*authority.issue(*names, expired=expired)))
    with pytest.raises(HandshakeFailed, match=words) as caught:
        ask(served.address, trusting(authority))
    assert caught.value.address == served.address
    assert not caught.value.retriable
    assert ask(served.address, trusting(authority, auth_server=False)) == b"hello"
    if not expired:
        assert ask(served.address, trusting(authority, check_host=False)) == b"hello"


@both
def test_an_authority_that_is_not_known(ask: Any, serve: Serve, authority: Authority, stranger: Authority) -> None:
    """Neither ours nor one the system trusts will do; whoever wants to may look away."""
    served = serve(ROUTES, tls=serving(stranger))
    for access in (trusting(authority), trusting(authority, check_host=False), Access(tls=Tls())):
        with pytest.raises(HandshakeFailed, match=r"is not trusted .* with Tls.trust_cert_path"):
            ask(served.address, access)
    assert ask(served.address, Access(tls=Tls(auth_server=False))) == b"hello"


def test_neither_name_servers_nor_brokers_that_are_not_trusted(
    serve: Serve, authority: Authority, stranger: Authority
) -> None:
    """The hint is what to do about the handshake, not how to start one; and nobody waits for them to be back."""
    served = serve(ROUTES, tls=serving(stranger))
    with ClusterClient(served.address, access=trusting(authority)) as cluster:
        asks = {
            "No name server answers": cluster.topics,
            "Broker 'b'": cluster.broker_at("b", served.address).capabilities,
        }
        for who, ask in asks.items():
            with pytest.raises(HandshakeFailed, match=f"{who} .* with Tls.trust_cert_path") as caught:
                ask()
            assert not may_pass(caught.value)


def test_a_name_server_that_is_away_may_be_back_though_another_is_not_trusted(
    serve: Serve, authority: Authority, stranger: Authority
) -> None:
    """So that is worth another try."""
    served = serve(ROUTES, tls=serving(stranger))
    with ClusterClient(f"{served.address};127.0.0.1:1", access=trusting(authority)) as cluster:
        with pytest.raises(Unreachable, match="No name server answers") as caught:
            cluster.topics()
        assert may_pass(caught.value)


@both
def test_a_server_without_tls(ask: Any, serve: Serve, authority: Authority) -> None:
    """It closes; the error asks whether TLS is on there."""
    with pytest.raises(Unreachable, match=r"Is TLS on there \(tls_server_mode\)"):
        ask(serve(ROUTES).address, trusting(authority))


@both
def test_a_server_that_demands_tls(ask: Any, serve: Serve, authority: Authority) -> None:
    """It closes; the error says what it may be."""
    with pytest.raises(ConnectionLost, match="as by a server that demands TLS"):
        ask(serve(ROUTES, tls=serving(authority, enforcing=True)).address, Access())


def test_name_servers_that_demand_tls_need_not_be_started(serve: Serve, authority: Authority) -> None:
    """They are there: the hint says how to speak TLS, as a broker's does."""
    address = serve(ROUTES, tls=serving(authority, enforcing=True)).address
    with ClusterClient(address, access=Access()) as client, pytest.raises(Unreachable, match="demands TLS") as caught:
        client.cluster_info()
    assert caught.value.hint.startswith("If so, say RMQ_TLS_ENABLE=true")


@both
def test_a_server_that_wants_a_certificate(ask: Any, serve: Serve, authority: Authority) -> None:
    """Only after the handshake does it say so, if it comes to that."""
    tls = serving(authority, trust_cert_path=authority.path, need_client_auth="require")
    with pytest.raises(ConnectionLost, match="certificate"):
        ask(serve(ROUTES, tls=tls).address, trusting(authority))


def test_name_servers_that_want_a_certificate_need_not_be_started(
    serve: Serve, authority: Authority, stranger: Authority
) -> None:
    """They are there: the hint says where a certificate is named, where there is none, and where it is another's."""
    tls = serving(authority, trust_cert_path=authority.path, need_client_auth="require")
    address = serve(ROUTES, tls=tls).address
    others = stranger.issue()
    for shown in (Tls(authority.path), Tls(authority.path, others.cert_path, others.key_path)):
        with ClusterClient(address, access=Access(tls=shown)) as client, pytest.raises(Unreachable) as caught:
            client.cluster_info()
        assert "Tls.cert_path" in caught.value.hint


@both
def test_files_of_ours_that_cannot_be_used(ask: Any) -> None:
    """Nobody is called with them."""
    with pytest.raises(InvalidArgument, match="Tls.trust_cert_path /nowhere cannot be read"):
        ask("127.0.0.1:1", Access(tls=Tls("/nowhere")))


@both
@pytest.mark.parametrize("host", ["a..b", ".a", "x" * 70 + ".local", "\u00e9..b", "a\0b"])
def test_what_cannot_be_a_host_is_unreachable(ask: Any, authority: Authority, host: str) -> None:
    """With TLS as without, for any broker may register such a name."""
    with pytest.raises(Unreachable, match="cannot be the name of a host|not known"):
        ask(f"{host}:9876", trusting(authority))


@contextmanager
def peer(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of one connection, which does with it what a test says; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connected, _ = listener.accept()
            with connected:
                behave(connected)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@both
def test_a_peer_that_speaks_something_else(ask: Any, authority: Authority) -> None:
    """As a web server, which answers what it does not understand."""

    def behave(connected: socket.socket) -> None:
        connected.recv(1 << 16)
        connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connected.recv(1 << 16)

    with peer(behave) as address, pytest.raises(HandshakeFailed, match="the other side speaks no TLS"):
        ask(address, trusting(authority))


def test_a_peer_that_says_nothing(authority: Authority) -> None:
    """The handshake has the time of connecting, and no more."""
    over = threading.Event()

    def behave(connected: socket.socket) -> None:
        assert over.wait(PATIENCE_S)

    async def open_async(address: str) -> None:
        await AsyncConnection.open(address, timeout_ms=50, access=trusting(authority))

    for attempt in (
        lambda address: BlockingConnection(address, connect_timeout_ms=50, access=trusting(authority)),
        lambda address: asyncio.run(open_async(address)),
    ):
        over.clear()
        with peer(behave) as address:
            with pytest.raises(Unreachable, match="in time"):
                attempt(address)
            over.set()


@pytest.mark.faults
def test_threads_share_an_encrypted_connection(serve: Serve, authority: Authority) -> None:
    """A mebibyte each way for many threads at once, and small requests between: every one gets its own answer."""
    connection = connect(serve(ROUTES, tls=serving(authority)).address, trusting(authority))

    def ask_many(number: int) -> None:
        for turn in range(10):
            body = b"%07d/" % (number * 100 + turn) * (1 if number % 2 else 131_072)
            assert connection.call(CODE, body=body, timeout_ms=60_000).body == body

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(ask_many, number) for number in range(8)]:
            done.result(60)
    connection.close()


@pytest.mark.parametrize("size", [1, 65_536, 1_000_000, 8 << 20])
def test_encrypted_bodies_of_any_size(serve: Serve, authority: Authority, size: int) -> None:
    """They come back as they were, in one piece or in several."""
    connection = connect(serve(ROUTES, tls=serving(authority)).address, trusting(authority))
    body = os.urandom(1024) * (size // 1024) + b"z" * (size % 1024)
    third = len(body) // 3
    for parts in (body, [body[:third], memoryview(body)[third:], b""]):
        assert bytes(connection.call(CODE, body=parts, timeout_ms=60_000).body) == body
    connection.close()


@pytest.mark.faults
def test_the_server_goes_under_load(serve: Serve, authority: Authority) -> None:
    """What is under way ends, answered or lost, and the connection is closed then."""
    parked: list[Request[Any]] = []
    routes = {CODE: Route(None, lambda request: parked.append(request))}
    served = serve(routes, limits=Limits(close_timeout_ms=100), tls=serving(authority))
    connection = connect(served.address, trusting(authority))
    futures = [connection.submit(CODE, timeout_ms=60_000) for _ in range(50)]
    served.wait_until(lambda: len(parked) == 50)
    for request in parked[:25]:
        served.run(request.reply)
    closing = served.start_closing()
    assert [future.result(60).code for future in futures[:25]] == [0] * 25
    for future in futures[25:]:
        with pytest.raises(ConnectionLost):
            future.result(60)
    closing.result(60)
    assert connection.closed
    connection.close()


@pytest.mark.faults
def test_a_connection_cut_within_its_bytes(authority: Authority) -> None:
    """A cable that is pulled ends what waits, as without TLS."""
    server_side = TlsServing(*authority.issue())

    def behave(connected: socket.socket) -> None:
        from rmqspark.remoting.tls.contexts import server_context

        with server_context(server_side).wrap_socket(connected, server_side=True) as encrypted:
            encrypted.recv(1 << 16)
            encrypted.sendall(b"\x00\x00\x10\x00half a frame")
            encrypted.shutdown(socket.SHUT_RDWR)

    with peer(behave) as address:
        connection = connect(address, trusting(authority))
        with pytest.raises(ConnectionLost, match="ends within a frame"):
            connection.call(CODE, timeout_ms=60_000)
        assert connection.closed
        connection.close()


def test_a_forked_process_leaves_the_connection_alone(serve: Serve, authority: Authority) -> None:
    """The child finds it closed, and closes its copy without a word to the server; the parent goes on."""
    connection = connect(serve(ROUTES, tls=serving(authority)).address, trusting(authority))
    assert connection.call(CODE, body=b"before", timeout_ms=60_000).body == b"before"
    child = os.fork()
    if child == 0:
        try:
            connection.close()
            connection.call(CODE, timeout_ms=1_000)
        except RmqError:
            os._exit(0 if connection.closed else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert connection.call(CODE, body=b"after", timeout_ms=60_000).body == b"after"
    connection.close()


def test_closing_says_goodbye(authority: Authority) -> None:
    """A server can tell a client that ends from a cable that is pulled."""
    heard: list[bytes] = []

    def behave(connected: socket.socket) -> None:
        from rmqspark.remoting.tls.contexts import server_context

        context = server_context(TlsServing(*authority.issue()))
        with context.wrap_socket(connected, server_side=True, suppress_ragged_eofs=False) as encrypted:
            while chunk := encrypted.recv(1 << 16):
                heard.append(chunk)
            heard.append(b"goodbye")

    with peer(behave) as address:
        connection = connect(address, trusting(authority))
        connection.send_oneway(CODE)
        connection.close()
    assert heard[-1] == b"goodbye"
