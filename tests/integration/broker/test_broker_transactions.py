"""Exactly-once transactions over real sockets: one broker, two brokers, and what happens when one of them is away."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs
from zlib_ng.zlib_ng import crc32

from rmqspark.broker.broker import Broker
from rmqspark.broker.config import BrokerConfig
from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import Busy, InvalidArgument
from rmqspark.fault_points import arm
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody, GroupLeasesBody, LeasedQueue
from rmqspark.protocol.bodies.txn import (
    AuditedBatches,
    HeldAttempt,
    InputRange,
    InputRanges,
    ManualDecision,
    OutputRange,
    TxnDecision,
    TxnState,
    TxnStates,
)
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import CreateTopicRequestHeader, TopicRequestHeader
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader, BulkReadResponseHeader
from rmqspark.protocol.headers.consume import (
    GroupLeasesRequestHeader,
    PullFlag,
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqspark.protocol.headers.txn import (
    TxnAbortRequestHeader,
    TxnAuditRequestHeader,
    TxnDecideRequestHeader,
    TxnDecideResponseHeader,
    TxnHalfRequestHeader,
    TxnInputsRequestHeader,
    TxnListRequestHeader,
    TxnPrepareRequestHeader,
    TxnPrepareResponseHeader,
    TxnReportInputRequestHeader,
    TxnResolveRequestHeader,
    TxnResolveResponseHeader,
    TxnStatusRequestHeader,
    TxnStatusResponseHeader,
)
from rmqspark.protocol.names import GROUP_OFFSET_TOPIC
from rmqspark.protocol.records.record import encode_record
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.store.config import StoreConfig
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.ports import Vote

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rmqspark.remoting.response import Response
    from rmqspark.txn.ports import Complete

T = "spark-q"
STORE = StoreConfig(mapped_file_size_commit_log=1 << 20, message_index_enable=False)


class Cluster:
    """Brokers on in-memory files, with a name server, that can be stopped and started."""

    def __init__(self, names: tuple[str, ...], stack: AsyncExitStack, namesrv: str) -> None:
        self.files = {name: MemoryFileSystem() for name in names}
        self.brokers: dict[str, Broker] = {}
        self._stack = stack
        self._namesrv = namesrv
        self._ends: dict[str, AsyncExitStack] = {}
        self._connections: dict[str, AsyncConnection] = {}

    async def start(self, name: str, **settings: Any) -> None:
        broker = Broker(
            BrokerConfig(broker_name=name, listen_port=0, namesrv_addr=self._namesrv, **settings),
            STORE,
            store_dir="store",
            files=self.files[name],
            clock=SystemClock(),
            entropy=SystemEntropy(),
        )
        end = self._ends[name] = await self._stack.enter_async_context(AsyncExitStack())
        self.brokers[name] = await end.enter_async_context(broker)

    async def stop(self, name: str) -> None:
        self._connections.pop(name, None)
        await self._ends[name].aclose()

    async def kill(self, name: str) -> None:
        """It writes nothing more."""
        files = self.files[name]
        files.stop_at(1)
        try:
            await self.stop(name)
        except* ProcessDied:
            pass
        files.kill()

    async def ask(self, broker: str, code: RequestCode, header: Any = None, body: bytes = b"") -> Response:
        connection = self._connections.get(broker)
        if connection is None or connection.closed:
            connection = self._connections[broker] = await AsyncConnection.open(self.brokers[broker].address)
        return await connection.call(code, header, body, timeout_ms=60_000)

    # --- what a sink does

    async def prepare(self, broker: str, run: str, version: int) -> TxnPrepareResponseHeader:
        header = TxnPrepareRequestHeader(T, run, version, 0, "attempt", "q")
        answer = await self.ask(broker, RequestCode.RMQ_TXN_PREPARE, header)
        return answer.raise_for_code().header(TxnPrepareResponseHeader)

    async def hold(self, broker: str, epoch: int, version: int, text: str) -> HeldAttempt:
        await self.ask(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header())
        record = bytes(encode_record(topic="out", body=text.encode()))
        header = TxnHalfRequestHeader(T, epoch, version, 0, "attempt", 0, "out", 0, 1, len(record), crc32(record))
        (await self.ask(broker, RequestCode.RMQ_TXN_HALF, header, record)).raise_for_code()
        return HeldAttempt(0, "attempt", 1, 1, len(record), crc32(record))

    async def decide(self, broker: str, run: str, epoch: int, version: int, decision: TxnDecision) -> Response:
        header = TxnDecideRequestHeader(T, run, epoch, version)
        return await self.ask(broker, RequestCode.RMQ_TXN_DECIDE, header, decision.encode(standard=True))

    async def rows(self, broker: str) -> int:
        header = BulkReadRequestHeader("out", 0, 0, 1 << 40, 100, 1 << 20)
        answer = await self.ask(broker, RequestCode.RMQ_BULK_READ, header)
        return answer.header(BulkReadResponseHeader).count

    async def write(self, coordinator: str, run: str, version: int, *targets: str) -> str:
        """One batch from the first request to the last; returns the outcome of DECIDE."""
        prepared = await self.prepare(coordinator, run, version)
        if prepared.outcome != "WRITE":
            return prepared.outcome
        held = {name: [await self.hold(name, prepared.epoch, version, f"{version}")] for name in targets}
        decision = TxnDecision("q", held, rows=len(targets), checksum="5")
        answer = await self.decide(coordinator, run, prepared.epoch, version, decision)
        return answer.raise_for_code().header(TxnDecideResponseHeader).outcome


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - of another thread's or task's doing
        await asyncio.sleep(0.02)


def topic_header() -> CreateTopicRequestHeader:
    return CreateTopicRequestHeader("out", "TBW102", 1, 1, 6, "SINGLE_TAG", 0, False)


def with_cluster(*names: str) -> Callable[[Callable[[Cluster], Awaitable[None]]], Callable[[], None]]:
    """Runs the test beside these brokers."""

    def decorate(talk: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
        def run() -> None:
            async def main() -> None:
                async with AsyncExitStack() as stack:
                    server = await stack.enter_async_context(
                        NameServer(NamesrvConfig(listen_port=0), clock=SystemClock())
                    )
                    cluster = Cluster(names, stack, server.address)
                    for name in names:
                        await cluster.start(name)
                    await talk(cluster)

            asyncio.run(main())

        run.__name__, run.__doc__ = talk.__name__, talk.__doc__
        return run

    return decorate


@with_cluster("a")
async def test_a_batch_is_written_and_read(cluster: Cluster) -> None:
    """Rows can be read when the commit is answered, not before; the same batch again adds nothing."""
    assert await cluster.write("a", "r1", 0, "a") == "COMMITTED"
    assert await cluster.rows("a") == 1
    assert await cluster.write("a", "r2", 0, "a") == "ALREADY_COMMITTED"
    assert await cluster.write("a", "r2", 1, "a") == "COMMITTED"
    assert await cluster.rows("a") == 2
    assert await cluster.write("a", "r2", 0, "a") == "STALE"


@with_cluster("a")
async def test_a_restarted_coordinator_remembers(cluster: Cluster) -> None:
    """Epochs and decisions are in its ledger."""
    await cluster.write("a", "r1", 0, "a")
    first = (await cluster.prepare("a", "r1", 1)).epoch
    await cluster.stop("a")
    await cluster.start("a")
    assert await cluster.write("a", "r1", 0, "a") == "ALREADY_COMMITTED"
    assert (await cluster.prepare("a", "r2", 1)).epoch == first + 1
    assert (await cluster.prepare("a", "r1", 1)).outcome == "FENCED"


@with_cluster("a", "b")
async def test_two_brokers_commit_together(cluster: Cluster) -> None:
    """And the one that was not asked first redirects."""
    assert await cluster.write("a", "r1", 0, "a", "b") == "COMMITTED"
    assert [await cluster.rows(name) for name in ("a", "b")] == [1, 1]
    redirect = await cluster.prepare("b", "r1", 1)
    assert (redirect.outcome, redirect.coordinator) == ("REDIRECT", "a")


@with_cluster("a", "b")
async def test_a_commit_waits_for_a_broker_that_is_away(cluster: Cluster) -> None:
    """Nothing is half done: the error names the broker, no row can be read anywhere; when it is back, all can."""
    prepared = await cluster.prepare("a", "r1", 0)
    held = {name: [await cluster.hold(name, prepared.epoch, 0, "0")] for name in ("a", "b")}
    await cluster.stop("b")
    answer = await cluster.decide("a", "r1", prepared.epoch, 0, TxnDecision("q", held, rows=2))
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert "b: " in (answer.remark or "")
    assert await cluster.rows("a") == 0
    await cluster.start("b")
    answer = await cluster.decide("a", "r1", prepared.epoch, 0, TxnDecision("q", held, rows=2))
    assert answer.header(TxnDecideResponseHeader).outcome == "COMMITTED"
    assert [await cluster.rows(name) for name in ("a", "b")] == [1, 1]


@with_cluster("a", "b")
async def test_an_id_is_not_adopted_while_its_owner_may_be_away(cluster: Cluster) -> None:
    """A broker that has seen another one asks it first, and says what to do when it cannot."""
    await cluster.write("a", "r1", 0, "a")
    coordination = cluster.brokers["b"]._parts.coordination
    await coordination._look_around()
    await cluster.stop("a")
    header = TxnPrepareRequestHeader(T, "r2", 0, 0, "attempt")
    answer = await cluster.ask("b", RequestCode.RMQ_TXN_PREPARE, header)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "'a' may own" in (answer.remark or "")
    await cluster.stop("b")
    await cluster.start("b", retired_brokers="a")
    assert (await cluster.prepare("b", "r2", 0)).outcome == "WRITE"


@with_cluster("a", "b")
async def test_a_broker_that_adopts_goes_on_above_the_epochs_of_the_one_that_is_gone(cluster: Cluster) -> None:
    """The rows of its first batch are taken by brokers that have seen many runs before."""
    for version, run in enumerate(("r1", "r2", "r3")):
        assert await cluster.write("a", run, version, "a", "b") == "COMMITTED"
    for name in ("a", "b"):
        await cluster.stop(name)
    await cluster.start("b", retired_brokers="a")
    assert await cluster.write("b", "r4", 3, "b") == "COMMITTED"
    assert await cluster.rows("b") == 4


@with_cluster("a")
async def test_a_question_of_the_driver_closes_what_is_open(cluster: Cluster) -> None:
    """After FENCED the commit that was on its way comes too late; after COMMITTED an abort does nothing."""
    prepared = await cluster.prepare("a", "r1", 0)
    held = {"a": [await cluster.hold("a", prepared.epoch, 0, "0")]}
    status = TxnStatusRequestHeader(T, prepared.epoch, 0, fence=True, run="r1")
    answer = await cluster.ask("a", RequestCode.RMQ_TXN_STATUS, status)
    assert answer.header(TxnStatusResponseHeader).outcome == "FENCED"
    late = await cluster.decide("a", "r1", prepared.epoch, 0, TxnDecision("q", held, rows=1))
    assert late.header(TxnDecideResponseHeader).outcome == "FENCED"
    assert await cluster.write("a", "r2", 0, "a") == "COMMITTED"
    abort = await cluster.ask("a", RequestCode.RMQ_TXN_ABORT, TxnAbortRequestHeader(T, "r2", prepared.epoch + 1, 0))
    assert abort.fields["outcome"] == "COMMITTED"


@with_cluster("a", "b")
async def test_a_driver_that_gives_up_is_told_what_its_coordinator_waits_for(cluster: Cluster) -> None:
    """And that nobody has taken over."""

    async def complete(request: Complete) -> list[OutputRange]:
        raise Busy("too much to do")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster.brokers["b"]._parts.resolver, "complete", complete)
        assert await cluster.write("a", "r1", 0, "b") == "COMMITTED"
        prepared = await cluster.prepare("a", "r1", 1)
        status = TxnStatusRequestHeader(T, prepared.epoch, 1, fence=True, run="r1")
        answer = await cluster.ask("a", RequestCode.RMQ_TXN_STATUS, status)
    told = answer.header(TxnStatusResponseHeader)
    assert (told.outcome, told.epoch) == ("FENCED", prepared.epoch)
    assert "b: an earlier version is not complete there yet" in (answer.remark or "")
    assert "too much to do" in (answer.remark or "")


@with_cluster("a")
async def test_a_version_that_the_clock_has_closed(cluster: Cluster) -> None:
    """Its driver is told so, and which setting it was, however it asks."""
    prepared = await cluster.prepare("a", "r1", 0)
    held = {"a": [await cluster.hold("a", prepared.epoch, 0, "0")]}
    cluster.brokers["a"]._parts.coordination.rounds.close_overdue(max_open_ms=0)
    late = await cluster.decide("a", "r1", prepared.epoch, 0, TxnDecision("q", held, rows=1))
    status = TxnStatusRequestHeader(T, prepared.epoch, 0, fence=True, run="r1")
    for answer in (late, await cluster.ask("a", RequestCode.RMQ_TXN_STATUS, status)):
        assert answer.fields["outcome"] == "FENCED"
        assert "transaction_max_open" in (answer.remark or "")


@with_cluster("a")
async def test_operators_see_and_decide(cluster: Cluster) -> None:
    """What is open can be given up by name, and what is decided stays decided."""
    await cluster.prepare("a", "r1", 0)

    async def resolve(decision: str, version: int = 0, who: str = "ada") -> str:
        header = TxnResolveRequestHeader(T, version, decision, who)
        answer = await cluster.ask("a", RequestCode.RMQ_TXN_RESOLVE, header)
        return answer.raise_for_code().header(TxnResolveResponseHeader).outcome

    async def told() -> TxnState:
        answer = await cluster.ask("a", RequestCode.RMQ_TXN_LIST, TxnListRequestHeader(10))
        (found,) = TxnStates.decode(answer.body).transactions
        return found

    async def state() -> tuple[str, str]:
        found = await told()
        return found.state, found.decidedBy

    assert await state() == ("version 0 is being written", "")
    assert (await resolve("COMMIT"), await resolve("COMMIT", 9)) == ("REFUSED", "REFUSED")
    for nobody in ("driver", "timeout"):
        with pytest.raises(InvalidArgument, match="by hand"):
            await resolve("ROLLBACK", who=nobody)
    assert await resolve("ROLLBACK") == "FENCED"
    assert await state() == ("version 0 was given up by ada", "ada")
    given_up_ms = (await told()).decidedAtMs
    assert 0 <= SystemClock().now_ms() - given_up_ms < 60_000
    assert await cluster.write("a", "r2", 0, "a") == "COMMITTED"
    assert await resolve("ROLLBACK") == "COMMITTED"
    assert await cluster.write("a", "r2", 1, "a") == "COMMITTED"
    assert await cluster.write("a", "r2", 2, "a") == "COMMITTED"  # version 0 is finished and forgotten now
    assert (await resolve("ROLLBACK"), await resolve("COMMIT")) == ("REFUSED", "REFUSED")
    assert await state() == ("version 2 is committed", "driver")
    await cluster.stop("a")
    await cluster.start("a")
    after = await told()
    assert after.manual == [ManualDecision(0, "ROLLBACK", "ada", given_up_ms)]
    assert after.decidedAtMs >= given_up_ms


@with_cluster("a", "b")
async def test_an_operator_commits_what_a_dead_driver_had_asked_for(cluster: Cluster) -> None:
    """A broker was away, and the driver is gone when it is back: with a word of ada's the rows are there, once."""
    prepared = await cluster.prepare("a", "r1", 0)
    held = {name: [await cluster.hold(name, prepared.epoch, 0, "0")] for name in ("a", "b")}
    await cluster.stop("b")
    decision = TxnDecision("q", held, rows=2)
    assert (await cluster.decide("a", "r1", prepared.epoch, 0, decision)).code == ResponseCode.SYSTEM_BUSY
    resolve = TxnResolveRequestHeader(T, 0, "COMMIT", "ada")
    assert (await cluster.ask("a", RequestCode.RMQ_TXN_RESOLVE, resolve)).code == ResponseCode.SYSTEM_BUSY
    await cluster.start("b")
    answer = await cluster.ask("a", RequestCode.RMQ_TXN_RESOLVE, resolve)
    assert answer.header(TxnResolveResponseHeader).outcome == "COMMITTED"
    assert [await cluster.rows(name) for name in ("a", "b")] == [1, 1]
    listed = await cluster.ask("a", RequestCode.RMQ_TXN_LIST, TxnListRequestHeader(10))
    (state,) = TxnStates.decode(listed.body).transactions
    assert state.manual == [ManualDecision(0, "COMMIT", "ada", state.decidedAtMs)]
    assert await cluster.write("a", "r2", 0, "a") == "ALREADY_COMMITTED"
    assert await cluster.rows("a") == 1


@with_cluster("a")
async def test_an_audit_shows_what_went_in_and_what_came_out(cluster: Cluster) -> None:
    """Input ranges reported by tasks, the decision, the output ranges; and the group's offsets have moved."""
    read = InputRange("group", "out", "a", 0, 0, 1)
    assert await cluster.write("a", "r1", 0, "a") == "COMMITTED"
    report = TxnReportInputRequestHeader("q", 1)
    for _ in range(2):  # a task that runs again
        body = InputRanges([read]).encode(standard=True)
        (await cluster.ask("a", RequestCode.RMQ_TXN_REPORT_INPUT, report, body)).raise_for_code()
    answer = await cluster.ask("a", RequestCode.RMQ_TXN_INPUTS, TxnInputsRequestHeader("q", 1))
    assert InputRanges.decode(answer.body).inputs == [read]

    prepared = await cluster.prepare("a", "r1", 1)
    held = {"a": [await cluster.hold("a", prepared.epoch, 1, "1")]}
    await cluster.decide("a", "r1", prepared.epoch, 1, TxnDecision("q", held, rows=1, checksum="7", inputs=[read]))
    while True:
        answer = await cluster.ask("a", RequestCode.RMQ_TXN_AUDIT, TxnAuditRequestHeader(10, queryId="q"))
        batches = AuditedBatches.decode(answer.body).batches
        if all(batch.completed for batch in batches):
            break
        await asyncio.sleep(0.05)
    assert [(batch.version, batch.rows, batch.checksum) for batch in batches] == [(0, 1, "5"), (1, 1, "7")]
    assert [batch.outputs for batch in batches] == [[OutputRange("out", "a", 0, n, n + 1)] for n in (0, 1)]
    assert (batches[1].inputs, batches[1].decidedBy) == ([read], "driver")
    offset = await cluster.ask("a", RequestCode.QUERY_CONSUMER_OFFSET, offset_header())
    assert offset.fields["offset"] == "1"


def pull_header() -> PullMessageRequestHeader:
    return PullMessageRequestHeader("group", "out", 0, 0, 1, PullFlag.SUBSCRIPTION, 0, 0, 0, "*")


def offset_header() -> QueryConsumerOffsetRequestHeader:
    return QueryConsumerOffsetRequestHeader("group", "out", 0, setZeroIfNotFound=False)


@with_cluster("a", "b")
async def test_two_coordinators_are_refused_by_name(cluster: Cluster) -> None:
    """Nobody writes on while two brokers both believe."""
    await cluster.write("a", "r1", 0, "a")
    other = cluster.brokers["b"]._parts.coordination
    other.journal.record(other.ledger.prepare(T, "r9", 5, "q", 0).events)
    with capture_logs() as logs:
        for _ in range(2):
            second = TxnPrepareRequestHeader(T, "r2", 1, 0, "attempt")
            answer = await cluster.ask("a", RequestCode.RMQ_TXN_PREPARE, second)
            assert answer.code == ResponseCode.TRANSACTION_FAILED
            assert "'a' and 'b' both coordinate" in (answer.remark or "")
    assert [log["event"] for log in logs if log["log_level"] != "info"] == ["two coordinators"]
    assert await cluster.rows("a") == 1


@with_cluster("a", "b")
async def test_two_coordinators_that_both_believe_find_out(cluster: Cluster) -> None:
    """Runs that both know well go on under neither of them: what is prepared cannot be decided."""
    prepared = await cluster.prepare("a", "r1", 0)
    held = {"a": [await cluster.hold("a", prepared.epoch, 0, "0")]}
    coordinations = [cluster.brokers[name]._parts.coordination for name in ("a", "b")]
    other = coordinations[1]
    other.journal.record(other.ledger.prepare(T, "r9", 0, "q", 0).events)
    assert (await cluster.prepare("b", "r9", 0)).outcome == "WRITE"
    with capture_logs() as logs:
        for coordination in coordinations:
            await coordination.owners.look_for_others()
        for _ in range(2):
            answer = await cluster.decide("a", "r1", prepared.epoch, 0, TxnDecision("q", held, rows=1))
            assert answer.code == ResponseCode.TRANSACTION_FAILED
            assert "'a' and 'b' both coordinate" in (answer.remark or "")
            again = TxnPrepareRequestHeader(T, "r9", 0, 0, "attempt")
            answer = await cluster.ask("b", RequestCode.RMQ_TXN_PREPARE, again)
            assert "'b' and 'a' both coordinate" in (answer.remark or "")
    assert [log["event"] for log in logs if log["log_level"] != "info"] == ["two coordinators"] * 2
    assert await cluster.rows("a") == 0


@with_cluster("a", "b")
async def test_a_coordinator_that_the_other_one_left_goes_on(cluster: Cluster) -> None:
    prepared = await cluster.prepare("a", "r1", 0)
    held = {"a": [await cluster.hold("a", prepared.epoch, 0, "0")]}
    other = cluster.brokers["b"]._parts.coordination
    other.journal.record(other.ledger.prepare(T, "r9", 0, "q", 0).events)
    owners = cluster.brokers["a"]._parts.coordination.owners
    await owners.look_for_others()
    await cluster.stop("b")
    cluster.files["b"].wipe()
    await cluster.start("b")
    decision = TxnDecision("q", held, rows=1)
    assert (await cluster.decide("a", "r1", prepared.epoch, 0, decision)).code == ResponseCode.TRANSACTION_FAILED
    await owners.look_for_others()
    assert (await cluster.decide("a", "r1", prepared.epoch, 0, decision)).code == ResponseCode.SUCCESS
    assert await cluster.rows("a") == 1


@with_cluster("a")
async def test_clients_neither_read_nor_write_the_ledger(cluster: Cluster) -> None:
    """It is in no listing, and its topic cannot be read, sent to, or created."""
    await cluster.write("a", "r1", 0, "a")
    topics = await cluster.ask("a", RequestCode.GET_TOPIC_NAME_LIST)
    listing = await cluster.ask("a", RequestCode.GET_ALL_TOPIC_CONFIG)
    assert b"TXN_LEDGER" not in bytes(topics.body) + bytes(listing.body)
    header = BulkReadRequestHeader("RMQ_SYS_TXN_LEDGER_TOPIC", 0, 0, 10, 10, 1 << 20)
    assert (await cluster.ask("a", RequestCode.RMQ_BULK_READ, header)).code == ResponseCode.TOPIC_NOT_EXIST


@with_cluster("a")
async def test_forged_requests_are_refused_by_name(cluster: Cluster) -> None:
    """An epoch nobody was given, a version from the future, an id nobody prepared: and the honest driver goes on."""
    prepared = await cluster.prepare("a", "r1", 0)
    held = {"a": [await cluster.hold("a", prepared.epoch, 0, "0")]}
    decision = TxnDecision("q", held, rows=1)
    forged = (
        (T, prepared.epoch + 8, 0, "was never handed out"),
        (T, prepared.epoch, 7, "never prepared here"),
        ("another", 1, 0, "Nobody has prepared"),
    )
    with capture_logs() as logs:
        for name, epoch, version, word in forged * 2:
            header = TxnDecideRequestHeader(name, "r1", epoch, version)
            answer = await cluster.ask("a", RequestCode.RMQ_TXN_DECIDE, header, decision.encode(standard=True))
            assert (answer.code, word in (answer.remark or "")) == (ResponseCode.TRANSACTION_FAILED, True)
    refused = [(log["transactional_id"], log["error"]) for log in logs if log["event"] == "refused"]
    assert refused == [(T, "ForgedEpoch"), (T, "UnknownTransaction"), ("another", "UnknownTransaction")]
    bad_names = TxnPrepareRequestHeader("a\x01b", "r1", 0, 0, "attempt")
    assert (await cluster.ask("a", RequestCode.RMQ_TXN_PREPARE, bad_names)).code == ResponseCode.INVALID_PARAMETER
    twice = TxnDecision("q", {"a": [*held["a"], *held["a"]]}, rows=2)
    answer = await cluster.decide("a", "r1", prepared.epoch, 0, twice)
    assert answer.code == ResponseCode.TRANSACTION_FAILED
    answer = await cluster.decide("a", "r1", prepared.epoch, 0, decision)
    assert answer.header(TxnDecideResponseHeader).outcome == "COMMITTED"
    assert await cluster.rows("a") == 1


@with_cluster("a")
async def test_a_group_follows_forward_and_not_beyond_the_end(cluster: Cluster) -> None:
    """What a decision says it has read moves no group back, nor behind messages that do not exist."""
    assert await cluster.write("a", "r1", 0, "a") == "COMMITTED"
    assert await cluster.write("a", "r1", 1, "a") == "COMMITTED"

    async def group_after(version: int, end: int) -> str:
        prepared = await cluster.prepare("a", "r1", version)
        held = {"a": [await cluster.hold("a", prepared.epoch, version, "x")]}
        decision = TxnDecision("q", held, rows=1, inputs=[InputRange("group", "out", "a", 0, 0, end)])
        answer = await cluster.decide("a", "r1", prepared.epoch, version, decision)
        assert answer.header(TxnDecideResponseHeader).outcome == "COMMITTED"
        return (await cluster.ask("a", RequestCode.QUERY_CONSUMER_OFFSET, offset_header())).fields["offset"]

    assert await group_after(2, end=2) == "2"
    assert await group_after(3, end=1) == "2"
    assert await group_after(4, end=1 << 40) in ("4", "5")  # what was there when it was decided


@with_cluster("a")
async def test_a_group_does_not_follow_in_a_topic_made_anew(cluster: Cluster) -> None:
    """A batch may have read the one before: the group's next reader would pass over as many messages."""
    assert await cluster.write("a", "r1", 0, "a") == "COMMITTED"
    (await cluster.ask("a", RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("out"))).raise_for_code()
    assert await cluster.write("a", "r1", 1, "a") == "COMMITTED"
    look = BulkReadRequestHeader("out", 0, 0, 1, 1, 1)
    deleted_ms = (await cluster.ask("a", RequestCode.RMQ_BULK_READ, look)).header(BulkReadResponseHeader).topicDeleted
    assert deleted_ms

    async def group_after(version: int, known_ms: int) -> str | None:
        prepared = await cluster.prepare("a", "r1", version)
        held = {"a": [await cluster.hold("a", prepared.epoch, version, "x")]}
        read = InputRange("group", "out", "a", 0, 0, 1, topicDeleted=known_ms)
        decided = await cluster.decide(
            "a", "r1", prepared.epoch, version, TxnDecision("q", held, rows=1, inputs=[read])
        )
        assert decided.header(TxnDecideResponseHeader).outcome == "COMMITTED"
        return (await cluster.ask("a", RequestCode.QUERY_CONSUMER_OFFSET, offset_header())).fields.get("offset")

    assert await group_after(2, deleted_ms - 1) is None
    assert await group_after(3, deleted_ms) == "1"


@with_cluster("a", "b")
async def test_groups_on_other_brokers_follow_too(cluster: Cluster) -> None:
    """Also a group that the other broker has never heard of."""
    assert await cluster.write("a", "r1", 0, "b") == "COMMITTED"
    prepared = await cluster.prepare("a", "r1", 1)
    held = {"b": [await cluster.hold("b", prepared.epoch, 1, "1")]}
    read = InputRange("group", "out", "b", 0, 0, 1)
    await cluster.decide("a", "r1", prepared.epoch, 1, TxnDecision("q", held, rows=1, inputs=[read]))
    while True:
        offset = await cluster.ask("b", RequestCode.QUERY_CONSUMER_OFFSET, offset_header())
        if offset.code == 0:
            break
        await asyncio.sleep(0.05)
    assert offset.fields["offset"] == "1"


@with_cluster("a", "b")
async def test_a_shared_group_has_moved_when_its_batch_is_answered(cluster: Cluster) -> None:
    """On another broker, too, and there in the log: who takes the queue over goes by it, whoever dies next."""
    assert await cluster.write("a", "r1", 0, "b") == "COMMITTED"
    asked = GroupLeasesRequestHeader("group", "m")
    answer = await cluster.ask(
        "b", RequestCode.RMQ_GROUP_LEASES, asked, GroupLeasesBody(take=[LeasedQueue("out", "b", 0)]).encode()
    )
    told = GroupLeasesAnswerBody.decode(answer.body)
    prepared = await cluster.prepare("a", "r1", 1)
    held = {"a": [await cluster.hold("a", prepared.epoch, 1, "1")]}
    read = InputRange("group", "out", "b", 0, 0, 1, "m", told.held[0].lease, "run", told.run)
    answer = await cluster.decide("a", "r1", prepared.epoch, 1, TxnDecision("q", held, rows=1, inputs=[read]))
    assert answer.header(TxnDecideResponseHeader).outcome == "COMMITTED"
    assert (await cluster.ask("b", RequestCode.QUERY_CONSUMER_OFFSET, offset_header())).fields["offset"] == "1"
    store = cluster.brokers["b"].store
    assert store.queues.bounds(GROUP_OFFSET_TOPIC, 0) == (0, 1)
    assert store.flushed_offset == store.end_offset


@with_cluster("a", "b")
async def test_what_was_voted_for_is_not_given_up_while_its_coordinator_is_away(cluster: Cluster) -> None:
    """Also by a broker that had never heard of that one, when no name server lists it any more."""
    other = cluster.brokers["b"]._parts.coordination
    other._peers_due_ms = 1 << 60  # it does not look around by itself
    prepared = await cluster.prepare("a", "r1", 0)
    held = {"b": [await cluster.hold("b", prepared.epoch, 0, "0")]}
    arm("after_vote", "raise")
    answer = await cluster.decide("a", "r1", prepared.epoch, 0, TxnDecision("q", held, rows=1))
    assert answer.code != ResponseCode.SUCCESS
    await cluster.stop("a")
    assert (await other.status_of(T, prepared.epoch, 0)).answer.outcome == "UNKNOWN"
    await cluster.stop("b")
    await cluster.start("b")
    assert (await cluster.brokers["b"]._parts.coordination.status_of(T, prepared.epoch, 0)).answer.outcome == "UNKNOWN"


@with_cluster("a")
async def test_nothing_expires_before_what_let_it_go_is_on_disk(cluster: Cluster) -> None:
    """A completed batch needs its halves no more, unless a power loss takes the completion with it."""
    assert await cluster.write("a", "r1", 0, "a") == "COMMITTED"
    broker = cluster.brokers["a"]
    store = broker._parts.flusher._store
    await broker._parts.expiry.run()
    assert store.flushed_offset == store.end_offset


@with_cluster("a")
async def test_what_is_voted_for_while_a_round_of_retention_waits_for_the_disk_is_kept(cluster: Cluster) -> None:
    """And so is what the round found needed before: what let that go meanwhile may not be on disk."""
    prepared = await cluster.prepare("a", "r1", 0)
    held = await cluster.hold("a", prepared.epoch, 0, "0")
    broker = cluster.brokers["a"]
    store, journal, kept = broker._parts.flusher._store, broker._parts.coordination.journal, []

    async def vote_meanwhile(end_offset: int) -> None:
        journal.start.physical_offset = store.end_offset
        assert (await broker._parts.resolver.vote(Vote(T, prepared.epoch, 0, [held]))).yes

    def expire(now_ms: int, *, keep_from: int, spare_from: int | None, at_any_hour: bool) -> None:
        kept.append(keep_from)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "expire", expire)
        patched.setattr(broker._parts.expiry, "_disk", SimpleNamespace(flushed=vote_meanwhile))
        journal.start.physical_offset = needed_before = store.end_offset
        await broker._parts.expiry.run()
        needed_by_vote = broker._parts.resolver.needed_offset()
        assert needed_by_vote is not None
        assert needed_by_vote < needed_before
        assert kept == [needed_by_vote]
        journal.start.physical_offset = 0
        await broker._parts.expiry.run()
        assert kept == [needed_by_vote, 0]


@with_cluster("a")
async def test_groups_follow_a_decision_whose_coordinator_died_at_once(cluster: Cluster) -> None:
    """Whoever takes the group over does not read again what the batch has read."""
    assert await cluster.write("a", "r1", 0, "a") == "COMMITTED"
    read = InputRange("group", "out", "a", 0, 0, 1)
    prepared = await cluster.prepare("a", "r1", 1)
    held = {"a": [await cluster.hold("a", prepared.epoch, 1, "1")]}
    arm("after_decide", "raise")
    answer = await cluster.decide("a", "r1", prepared.epoch, 1, TxnDecision("q", held, rows=1, inputs=[read]))
    assert answer.code != ResponseCode.SUCCESS
    await cluster.stop("a")
    await cluster.start("a")
    offset = await cluster.ask("a", RequestCode.QUERY_CONSUMER_OFFSET, offset_header())
    assert offset.fields["offset"] == "1"


@pytest.mark.parametrize("is_reported", [False, True])
@pytest.mark.parametrize("reader", ["a", "b"])
def test_groups_stay_behind_a_decision_that_is_finished_over_a_kill(reader: str, is_reported: bool) -> None:
    """Their offsets are on the disk before the coordinator forgets what was read, on whichever broker that was, and
    whether or not the source itself has reported it before, which is on no disk."""

    @with_cluster("a", "b")
    async def test(cluster: Cluster) -> None:
        assert await cluster.write("a", "r1", 0, "a", "b") == "COMMITTED"
        read = InputRange("group", "out", reader, 0, 0, 1)
        prepared = await cluster.prepare("a", "r1", 1)
        held = {"a": [await cluster.hold("a", prepared.epoch, 1, "1")]}
        if is_reported:
            await cluster.ask(reader, RequestCode.PULL_MESSAGE, pull_header())
            report = UpdateConsumerOffsetRequestHeader("group", "out", 0, 1)
            (await cluster.ask(reader, RequestCode.UPDATE_CONSUMER_OFFSET, report)).raise_for_code()
        await cluster.decide("a", "r1", prepared.epoch, 1, TxnDecision("q", held, rows=1, inputs=[read]))
        ledger = cluster.brokers["a"]._parts.coordination.ledger
        await until(lambda: not ledger.require(T).pending)
        for name in ("a", "b"):
            await cluster.kill(name)
            await cluster.start(name)
        offset = await cluster.ask(reader, RequestCode.QUERY_CONSUMER_OFFSET, offset_header())
        assert offset.fields["offset"] == "1"

    test()
