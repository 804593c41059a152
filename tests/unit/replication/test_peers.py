"""Who is sent the log, and whose log is taken: over real sockets, with TLS and without."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, closing, suppress
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rmqspark.entropy import SystemEntropy
from rmqspark.remoting.access import Credentials, Tls
from rmqspark.remoting.tls.serving import ServerTls
from rmqspark.remoting.tls.settings import TlsServing
from rmqspark.replication.admission import _NOBODYS, NO_PROOF, NO_TLS, PROTOCOL, STRANGER, Admission, PeerCheck
from rmqspark.replication.hello import CHALLENGE, GREETING, challenge
from rmqspark.replication.introduction import Introduction, WayToMaster
from rmqspark.replication.proof import PROOF_BYTES
from rmqspark.replication.stream import report, transfer_head

from ..store.store_bench import StoreBench
from .pair import PATIENCE_S, QUICK, WHOLE, add, filled, following, on_loop, one_anywhere, serving, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.certificates import Authority

SERVERS = Credentials("servers", "their secret")
TOKEN = SystemEntropy().token
CHECK = PeerCheck("broker-a", {"servers": "their secret"}.get, TOKEN)


def coming_as(who: Credentials, name: str = "broker-a", tls: Tls | None = None, patience_s: float = 10) -> WayToMaster:
    return WayToMaster(tls, Introduction(name, 1, who, TOKEN, patience_s))


def encrypting(authority: Authority, *, enforcing: bool = True, need_client_auth: str = "none") -> ServerTls:
    cert, key = authority.issue()
    return ServerTls(TlsServing(cert, key, "", authority.path, need_client_auth, enforcing))


async def assert_copied(original: StoreBench, copy: StoreBench) -> None:
    await until(lambda: copy.store.end_offset == original.store.end_offset)
    copy.store.flush()
    assert copy.content("commitlog") == original.content("commitlog")


# --- who proves who he is


@on_loop
async def test_a_slave_that_proves_who_it_is_follows() -> None:
    """Also what comes later, and after its connection was cut."""
    original, copy, admission = filled(), StoreBench(), Admission(one_anywhere, check=CHECK)
    async with serving(original, WHOLE, admission) as master:
        for turn in range(2):
            async with following(copy, master.port, WHOLE, way=coming_as(SERVERS)):
                add(original, 3, f"turn{turn}")
                await assert_copied(original, copy)
                await until(lambda: master.slaves.confirmed_by(1) == original.store.end_offset)
                assert [slave.identity for slave in master.slaves] == ["broker id 1"]
            await until(lambda: not len(master.slaves))
    assert not admission.refused.total()


@pytest.mark.parametrize(
    ("way", "reason", "slave_says", "master_says"),
    [
        (coming_as(Credentials("servers", "guessed")), NO_PROOF, "told who this is", "the password is another"),
        (coming_as(Credentials("nobody", "guessed")), NO_PROOF, "told who this is", "no super user of that name"),
        (coming_as(Credentials("nobody", _NOBODYS)), NO_PROOF, "told who this is", "no super user of that name"),
        (coming_as(SERVERS, "broker-b"), STRANGER, "told who this is", "slave of 'broker-b'"),
        (WayToMaster(), NO_PROOF, "at once: its log says why", "does not say who it is"),
    ],
)
@on_loop
async def test_a_slave_that_proves_nothing_gets_nothing(
    way: WayToMaster, reason: str, slave_says: str, master_says: str
) -> None:
    """A wrong secret, none at all, or that of another broker's slave: it is told nothing, both logs say what is wrong,
    the master's once, and it is counted."""
    copy, admission = StoreBench(), Admission(one_anywhere, check=CHECK)
    with capture_logs() as logs:
        async with serving(filled(), WHOLE, admission) as master, following(copy, master.port, way=way) as slave:
            await until(lambda: admission.refused[reason] > 2)
            assert slave_says in slave.trouble
            assert not len(master.slaves)
    assert copy.store.end_offset == 0
    assert admission.refused.total() == admission.refused[reason]
    (told,) = [entry["reason"] for entry in logs if entry["event"] == "refused to send the log"]
    assert master_says in told
    assert "secret" not in str(logs)


@on_loop
async def test_what_was_heard_once_is_worth_nothing_later() -> None:
    """Whoever has listened to a slave, and says the same, is sent away."""
    heard, admission = bytearray(), Admission(one_anywhere, check=CHECK)
    original, copy = filled(), StoreBench()
    async with serving(original, WHOLE, admission) as master:
        async with listening_in(master.port, heard) as port, following(copy, port, WHOLE, way=coming_as(SERVERS)):
            await assert_copied(original, copy)
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        writer.write(heard)
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        writer.close()
        await until(lambda: admission.refused[NO_PROOF] == 1)
    assert len(answer) == CHALLENGE.size


@asynccontextmanager
async def listening_in(port: int, heard: bytearray) -> AsyncIterator[int]:
    """Passes on what two say to each other, and keeps what the one says who called."""
    ended = asyncio.Event()

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, back, heard), pass_on(there, writer, bytearray()))
        ended.set()

    server = await asyncio.start_server(between, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await ended.wait()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
    with suppress(ConnectionError), closing(writer):
        while chunk := await reader.read(1 << 16):
            kept += chunk
            writer.write(chunk)


@on_loop
async def test_a_hello_that_breaks_off_counts_for_nothing() -> None:
    """Wherever it does."""
    heard, admission = bytearray(), Admission(one_anywhere, check=CHECK)
    async with serving(filled(), WHOLE, admission) as master:
        async with listening_in(master.port, heard) as port, following(StoreBench(), port, way=coming_as(SERVERS)):
            await until(lambda: len(master.slaves) == 1)
        await until(lambda: not len(master.slaves))
        for cut in range(1, len(GREETING) + 60 + PROOF_BYTES, 7):
            reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
            writer.write(heard[:cut])
            writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                await reader.read()
            writer.close()
            assert not len(master.slaves)


GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    bytes(4096),
    GREETING + bytes(4096),
    GREETING + b"\xff" * 200_000,  # of names as long as they can be
    GREETING + bytes(40) + b"\x00\x02\x00\x00\xff\xff" + bytes(PROOF_BYTES),  # a name that is no text
    GREETING[:5],
    b"\x16\x03\x01\xff\xff" + bytes(100),
]


@pytest.mark.parametrize("words", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("encrypts", [True, False])
@on_loop
async def test_garbage_ends_the_connection_and_nothing_else(authority: Authority, words: bytes, encrypts: bool) -> None:
    """Whatever it is; a slave is served as before."""
    tls = encrypting(authority, enforcing=False) if encrypts else None
    original, admission = filled(2), Admission(one_anywhere, tls=tls, check=CHECK)
    async with serving(original, WHOLE, admission) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        with suppress(ConnectionError):
            writer.write(words)
            writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                while await reader.read(1 << 16):
                    assert not len(master.slaves)
        writer.close()
        async with following(copy := StoreBench(), master.port, WHOLE, way=coming_as(SERVERS)):
            await assert_copied(original, copy)


@on_loop
async def test_a_stranger_does_not_fill_the_log() -> None:
    """Whatever it says, the log hears of it once, and each time is counted."""
    admission = Admission(one_anywhere, check=CHECK)
    with capture_logs() as logs:
        async with serving(filled(2), WHOLE, admission) as master:
            for count in range(1, 4):
                _, writer = await asyncio.open_connection("127.0.0.1", master.port)
                writer.write(GARBAGE[4])
                await until(lambda: admission.refused[PROTOCOL] == count)  # noqa: B023
                writer.close()
    (told,) = [entry["reason"] for entry in logs if entry["log_level"] == "warning"]
    assert "UTF-8" in told


@on_loop
async def test_who_was_admitted_and_is_refused_again_is_told_of_again() -> None:
    """That is news: something has changed since."""
    users: dict[str, str] = {}
    admission = Admission(one_anywhere, check=CHECK._replace(secret_of=users.get))
    with capture_logs() as logs:
        async with serving(filled(2), WHOLE, admission) as master:
            for turn in range(2):
                users.clear()
                async with following(StoreBench(), master.port, way=coming_as(SERVERS)):
                    await until(lambda turn=turn: admission.refused[NO_PROOF] > 3 * turn + 2)
                    users["servers"] = SERVERS.secret_key
                    await until(lambda: len(master.slaves) == 1)
                await until(lambda: not len(master.slaves))
    assert [each["event"] for each in logs].count("refused to send the log") == 2


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([], "RocketMQ's cannot"),
        ([bytes(CHALLENGE.size)], "does not ask who this is"),
        ([challenge(bytes(32)), bytes(PROOF_BYTES)], "does not prove that it is"),
    ],
)
@on_loop
async def test_the_log_of_who_proves_nothing_is_not_taken(answers: list[bytes], reason: str) -> None:
    """A master that never answers, as RocketMQ's, one that says something else, and one that knows no secret."""
    heard: list[bytes] = []

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError), closing(writer):
            heard.append(await reader.read(1 << 16))
            for answer in answers:
                writer.write(answer)
                await reader.read(1 << 16)
            writer.write(transfer_head(0, 4) + b"evil")
            await reader.read(1 << 16)

    copy = StoreBench()
    server = await asyncio.start_server(impostor, "127.0.0.1", 0)
    port, patience_s = server.sockets[0].getsockname()[1], 0.1 if not answers else 10.0
    async with following(copy, port, way=coming_as(SERVERS, patience_s=patience_s)) as slave:
        await until(lambda: slave.trouble != "")
        assert reason in slave.trouble
        assert not slave.is_connected
    server.close()
    assert heard[0] == GREETING
    assert copy.store.end_offset == 0


@on_loop
async def test_a_slave_that_has_proven_who_it_is_is_still_not_believed_everything() -> None:
    """What it was never sent it cannot confirm."""
    admission = Admission(one_anywhere, check=CHECK)
    async with serving(filled(), WHOLE, admission) as master:
        stream = await coming_as(SERVERS).open(f"127.0.0.1:{master.port}")
        await until(lambda: len(master.slaves) == 1)
        stream.write(report(1) + report(1 << 62))
        async with asyncio.timeout(PATIENCE_S):
            while await stream.read(1 << 16):
                assert master.slaves.confirmed_by(1) < 1 << 30
        stream.close()
        await until(lambda: admission.refused[PROTOCOL] == 1)
        assert not len(master.slaves)


@on_loop
async def test_who_is_known_no_more_is_sent_no_more() -> None:
    """A user that is disabled, or given another password, costs its slave the connection that it has."""
    users = {"servers": SERVERS.secret_key}
    admission = Admission(one_anywhere, check=CHECK._replace(secret_of=users.get))
    original, copy = filled(), StoreBench()
    async with (
        serving(original, WHOLE, admission) as master,
        following(copy, master.port, QUICK, way=coming_as(SERVERS)) as slave,
    ):
        await assert_copied(original, copy)
        end = copy.store.end_offset
        users["servers"] = "another"
        await until(lambda: "told who this is" in slave.trouble)
        add(original, 3, "later")
        refused = admission.refused[NO_PROOF]
        await until(lambda: admission.refused[NO_PROOF] > refused + 1)
        assert not len(master.slaves)
        assert copy.store.end_offset == end


@on_loop
async def test_where_nobody_is_asked_a_slave_that_wants_to_be_is_told_so() -> None:
    """Users are on at the slave alone: both say what is wrong, and nothing is copied."""
    with capture_logs() as logs:
        async with serving(filled()) as master, following(StoreBench(), master.port, way=coming_as(SERVERS)) as slave:
            await until(lambda: slave.trouble != "")
            assert "told who this is" in slave.trouble
    assert any("nobody is asked for it here" in str(entry.get("reason")) for entry in logs)


# --- TLS


@pytest.mark.parametrize("enforcing", [True, False])
@on_loop
async def test_the_log_goes_over_tls(authority: Authority, enforcing: bool) -> None:
    """The same bytes arrive, with a hello and without; where TLS is not demanded a slave without is served, too."""
    original, way = filled(), coming_as(SERVERS, tls=Tls(authority.path))
    admission = Admission(one_anywhere, tls=encrypting(authority, enforcing=enforcing), check=CHECK)
    heard, copy = bytearray(), StoreBench()
    async with serving(original, WHOLE._replace(transfer_bytes=30_000), admission) as master:
        async with listening_in(master.port, heard) as port, following(copy, port, WHOLE, way=way):
            add(original, 3, "later")
            await assert_copied(original, copy)
        if not enforcing:
            async with following(plain := StoreBench(), master.port, WHOLE, way=coming_as(SERVERS)):
                await assert_copied(original, plain)
    assert heard[:1] == b"\x16"
    assert b"servers" not in heard
    assert not admission.refused.total()


@pytest.mark.parametrize("trusts", ["stranger", "plain master", "plain slave"])
@on_loop
async def test_who_does_not_agree_on_tls_says_why(authority: Authority, stranger: Authority, trusts: str) -> None:
    """A certificate of another authority, TLS on one side alone: nothing is copied, and both logs say what is wrong."""
    tls = None if trusts == "plain master" else encrypting(authority)
    way = WayToMaster(None if trusts == "plain slave" else Tls((stranger if trusts == "stranger" else authority).path))
    admission, copy = Admission(one_anywhere, tls=tls), StoreBench()
    with capture_logs() as logs:
        async with serving(filled(), QUICK, admission) as master, following(copy, master.port, way=way) as slave:
            await until(lambda: slave.trouble != "" and admission.refused.total() > 0)
            trouble = slave.trouble
    in_masters_log = str([entry.get("reason") for entry in logs if "slave" in entry or "host" in entry])
    words = {
        "stranger": ("is not trusted", "the other side gave up"),
        "plain master": ("TLS", "speaks TLS, and there is none here"),
        "plain slave": ("its log says why", "does without TLS, which is demanded here"),
    }
    slave_says, master_says = words[trusts]
    assert slave_says in trouble
    assert master_says in in_masters_log
    assert admission.refused[PROTOCOL if trusts == "plain master" else NO_TLS] > 0
    assert copy.store.end_offset == 0


@on_loop
async def test_a_slave_that_speaks_tls_to_a_master_without_is_told_of_in_these_words(authority: Authority) -> None:
    """Also where the master would ask who it is: that it does not say that is not what is wrong."""
    admission = Admission(one_anywhere, check=CHECK)
    with capture_logs() as logs:
        way = coming_as(SERVERS, tls=Tls(authority.path))
        async with serving(filled(), QUICK, admission) as master, following(StoreBench(), master.port, way=way):
            await until(lambda: admission.refused[NO_TLS] > 0)
    (told,) = [entry["reason"] for entry in logs if entry["event"] == "refused to send the log"]
    assert "speaks TLS, and there is none here" in told


@on_loop
async def test_a_slave_shows_a_certificate_where_one_is_wanted(authority: Authority) -> None:
    """With one it is served; without, both say what is missing."""
    original, admission = filled(), Admission(one_anywhere, tls=encrypting(authority, need_client_auth="require"))
    cert, key = authority.issue("broker-a")
    async with serving(original, WHOLE, admission) as master:
        way = WayToMaster(Tls(authority.path, cert, key))
        async with following(copy := StoreBench(), master.port, WHOLE, way=way):
            await assert_copied(original, copy)
        way = WayToMaster(Tls(authority.path))
        async with following(empty := StoreBench(), master.port, WHOLE, way=way) as slave:
            await until(lambda: "wants a certificate" in slave.trouble)
        assert empty.store.end_offset == 0
        await until(lambda: admission.refused[NO_TLS] > 0)
