"""What is asked, and what follows, before a queue of a shared group goes to the next member."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.shared_groups.orphaned_leases import OrphanedLeases
from rmqspark.errors import Busy, NotSupported, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import LeasedQueue, LeasedQueues
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.response import Response

from ..store.store_bench import StoreBench
from .test_coordinating import OnDisk, leases_of
from .test_slave_role import tables_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from rmqspark.broker.state.locks import QueueLocks

FIRST, SECOND = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
LEASE_MS = 60_000


class Bench:
    """Two queues of six messages each, leased to a member of group g that has died. Coordinator c may have decided what
    it had read."""

    def __init__(self, *, retired: tuple[str, ...] = (), coordinator: str = "c") -> None:
        self.bench = StoreBench()
        for queue in (FIRST, SECOND):
            self.bench.send("orders", queue.queue_id, *[b"%d" % number for number in range(6)])
        self.tables = tables_of(self.bench)
        self.answer: Exception | dict[MessageQueue, int] = {}
        self.asked: list[tuple[str, str, list[int]]] = []
        self.answers_as = ""  # another name than its own
        self.brokers: list[str] = []
        self.is_listed = True  # by a name server
        self.own_name, self.retired = "broker-a", frozenset(retired)
        peers: Any = self
        self.leases = leases_of(self.bench, self.tables, OnDisk(self.bench))
        self.orphaned = OrphanedLeases(
            self.bench.store,
            self.tables,
            self.leases,
            peers,
            lambda: self.brokers,
            self.decided_here,
            self.bench.clock,
        )
        leases = self.locks.take("g", "m", [FIRST, SECOND], self.now_ms)
        self.locks.await_word("g", leases, coordinator)

    def lease(self, group: str, coordinator: str) -> None:
        """The first queue to a member of another group, which dies, too."""
        leases = self.locks.take(group, "m", [FIRST], self.now_ms)
        self.locks.await_word(group, leases, coordinator)

    @property
    def locks(self) -> QueueLocks:
        return self.tables.locks

    @property
    def now_ms(self) -> int:
        return self.bench.clock.monotonic_ms()

    async def refresh(self) -> bool:
        return self.is_listed

    async def call(self, broker: str, code: int, header: Any, body: bytes, *, timeout_ms: int) -> Response:
        assert code == RequestCode.RMQ_TXN_GROUP_OFFSETS
        queues = [MessageQueue(each.topic, each.brokerName, each.queueId) for each in LeasedQueues.decode(body).queues]
        told = LeasedQueues(await self.decided_here(header.consumerGroup, queues, broker))
        return Response(0, 1, None, 479, {"brokerName": self.answers_as or broker}, told.encode())

    async def decided_here(
        self, group: str, queues: Collection[MessageQueue], broker: str = "broker-a"
    ) -> list[LeasedQueue]:
        self.asked.append((broker, group, [queue.queue_id for queue in queues]))
        if isinstance(self.answer, Exception):
            raise self.answer
        return [LeasedQueue(*queue, offset=offset, topicDeleted=0) for queue, offset in self.answer.items()]

    def round(self, answer: Exception | dict[MessageQueue, int] | None = None) -> None:
        self.answer = {} if answer is None else answer
        asyncio.run(self.orphaned.run_round())

    def given(self) -> list[int]:
        """The queues that another member gets now."""
        return [queue.queue_id for queue in self.locks.take("g", "other", [FIRST, SECOND], self.now_ms)]

    def committed(self, queue: MessageQueue) -> int | None:
        return self.tables.offsets.committed("g", queue.topic, queue.queue_id)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nobody_is_asked_while_a_lease_lasts(bench: Bench) -> None:
    """Its member may be there."""
    bench.round()
    assert bench.asked == []
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    assert bench.given() == []
    bench.round()
    assert bench.asked == [("c", "g", [0, 1])]
    assert bench.given() == [0, 1]


def test_the_group_goes_on_where_it_was_decided(bench: Bench) -> None:
    """Never back, for its member may have said more itself; nor in queues that were not asked about."""
    bench.tables.offsets.commit("g", "orders", SECOND.queue_id, 5)
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    bench.round({FIRST: 4, SECOND: 3, MessageQueue("orders", "broker-a", 2): 1})
    assert [bench.committed(queue) for queue in (FIRST, SECOND)] == [4, 5]
    assert bench.tables.offsets.committed("g", "orders", 2) is None


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("away", address="c"),
        Busy("It is being decided."),
        NotSupported("another server is there"),
    ],
)
def test_who_does_not_say_is_asked_again(bench: Bench, error: Exception) -> None:
    """Until then nobody else has the queues, and the log says once for whom they wait."""
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    with capture_logs() as logs:
        bench.round(error)
        bench.round(error)
    assert bench.given() == []
    assert [(entry["coordinator"], entry["group"]) for entry in logs] == [("c", "g")]
    bench.round({FIRST: 2})
    assert (bench.given(), bench.committed(FIRST)) == ([0, 1], 2)
    bench.round()
    assert len(bench.asked) == 3


@pytest.mark.parametrize(
    ("error", "story"),
    [
        (Unreachable("away", address="c"), "retired_brokers"),
        (NotSupported("request type 30023 not supported"), "the version of rmqspark"),
    ],
)
def test_it_is_said_what_would_help(bench: Bench, error: Exception, story: str) -> None:
    """Who has gone back to an earlier version is not gone for good: another broker would take its transactional ids."""
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    with capture_logs() as logs:
        bench.round(error)
    assert [story in entry["hint"] for entry in logs] == [True]
    assert ("retired_brokers" in logs[0]["hint"]) is isinstance(error, Unreachable)


def test_another_broker_at_its_address_is_not_believed(bench: Bench) -> None:
    """It knows nothing of what was decided, and says so. Addresses change hands."""
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    bench.answers_as = "d"
    bench.round()
    assert bench.given() == []
    bench.answers_as = ""
    bench.round({FIRST: 3})
    assert (bench.given(), bench.committed(FIRST)) == ([0, 1], 3)


def test_what_this_broker_decides_itself_is_waited_for_too() -> None:
    """Its slave is away, say, and the decision not told to anybody; it asks nobody else."""
    bench = Bench(coordinator="broker-a")
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    bench.round(Busy("It is being decided."))
    assert bench.given() == []
    bench.round()
    assert (bench.given(), bench.asked) == ([0, 1], [("broker-a", "g", [0, 1])] * 2)


def test_one_group_does_not_wait_for_another(bench: Bench) -> None:
    """What a member of the one has read is being decided by the same coordinator."""
    other = MessageQueue("orders", "broker-a", 2)
    leases = bench.locks.take("h", "m", [other], bench.now_ms)
    bench.locks.await_word("h", leases, "c")
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    decided = bench.decided_here

    async def busy(group: str, queues: Collection[MessageQueue], broker: str = "") -> list[LeasedQueue]:
        if group == "g":
            raise Busy("It is being decided.")
        return await decided(group, queues, broker)

    bench.decided_here = busy  # type: ignore[method-assign]
    bench.round()
    assert bench.given() == []
    assert bench.locks.take("h", "other", [other], bench.now_ms).keys() == {other}


def test_who_is_away_is_asked_once(bench: Bench) -> None:
    """Not for each group: each question may take seconds, in which no other broker is asked."""
    leases = bench.locks.take("h", "m", [SECOND], bench.now_ms)
    bench.locks.await_word("h", leases, "c")
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    with capture_logs() as logs:
        bench.round(Unreachable("away", address="c"))
    assert bench.asked == [("c", "g", [0, 1])]
    assert [entry["group"] for entry in logs] == ["g", "h"]
    bench.round()
    assert bench.asked[1:] == [("c", "g", [0, 1]), ("c", "h", [1])]
    assert bench.given() == [0, 1]


def test_nothing_is_moved_in_a_topic_that_was_made_anew(bench: Bench) -> None:
    """What was decided is about the one before."""
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    bench.bench.store.deletions.is_remade = lambda topic, deleted_ms: deleted_ms is not None  # type: ignore[method-assign]
    bench.round({FIRST: 3})
    assert (bench.given(), bench.committed(FIRST)) == ([0, 1], None)


def test_who_is_gone_for_good_is_not_asked() -> None:
    """An operator has said so."""
    bench = Bench(retired=("c",))
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    bench.round()
    assert (bench.asked, bench.given()) == ([], [0, 1])


def test_a_member_that_comes_back_meanwhile_keeps_its_queues(bench: Bench) -> None:
    """The answer comes after it has gone on."""
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    real = bench.call

    async def late(*args: Any, **kwargs: Any) -> Response:
        bench.locks.take("g", "m", [FIRST], bench.now_ms)
        return await real(*args, **kwargs)

    bench.call = late  # type: ignore[method-assign]
    bench.round({FIRST: 2})
    assert bench.given() == [1]
    assert bench.committed(FIRST) == 2
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    assert bench.given() == [1]


def test_a_coordinator_that_is_silent_is_asked_once_a_round(bench: Bench) -> None:
    """However many groups wait for it, for each question takes seconds; each of them is told of."""
    bench.lease("h", "c")
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    with capture_logs() as logs:
        bench.round(Unreachable("away", address="c"))
    assert [group for _, group, _ in bench.asked] == ["g"]
    assert [entry["group"] for entry in logs] == ["g", "h"]
    bench.round()
    assert [group for _, group, _ in bench.asked] == ["g", "g", "h"]


def test_who_waits_for_one_coordinator_does_not_wait_for_another(bench: Bench) -> None:
    """That may be frozen, and keep whoever asks it waiting."""
    bench.lease("h", "d")
    bench.bench.clock.advance(ms=LEASE_MS + 1)
    real, answered = bench.call, asyncio.Event()

    async def call(broker: str, *args: Any, **kwargs: Any) -> Response:
        if broker == "c":
            await asyncio.wait_for(answered.wait(), 10)
        answer = await real(broker, *args, **kwargs)
        answered.set()
        return answer

    bench.call = call  # type: ignore[method-assign]
    bench.round()
    assert bench.given() == [0, 1]
    assert bench.locks.take("h", "other", [FIRST], bench.now_ms).keys() == {FIRST}


def test_a_slave_that_was_made_the_master_asks_everybody_first(bench: Bench) -> None:
    """It does not know whose word is missing. Where a group has never been nobody has decided anything."""
    bench.tables.topics.put(TopicConfig(topicName="orders", readQueueNums=2, writeQueueNums=2, perm=6), 0)
    bench.tables.offsets.commit("g", "orders", FIRST.queue_id, 1)
    bench.locks.begin_term(1)
    bench.brokers = ["broker-a", "c", "d"]

    def place_of_next(group: str) -> list[int]:
        return [held.offset for held in bench.leases.take(group, "other", 9, [LeasedQueue(*FIRST)])]

    assert (place_of_next("new"), place_of_next("g")) == ([-1], [])
    bench.round(Unreachable("away", address="broker-a"))
    assert (bench.asked, place_of_next("g")) == ([("broker-a", "g", [0, 1])], [])
    bench.round({FIRST: 4})
    assert bench.asked[1:] == [(broker, "g", [0, 1]) for broker in bench.brokers]
    assert place_of_next("g") == [4]


def test_everybody_has_been_asked_once_a_name_server_says_who_that_is(bench: Bench) -> None:
    """Before, one that has decided something may be one of which nothing was heard yet."""
    bench.tables.topics.put(TopicConfig(topicName="orders", readQueueNums=2, writeQueueNums=2, perm=6), 0)
    bench.tables.offsets.commit("g", "orders", FIRST.queue_id, 1)
    bench.locks.begin_term(1)
    bench.is_listed = False
    assert bench.leases.take("g", "other", 9, [LeasedQueue(*FIRST)]) == []
    with capture_logs() as logs:
        bench.round()
        bench.round()
    assert [(entry["reason"], entry["hint"]) for entry in logs] == [
        ("No name server answers.", "Is a name server running? Ask rmq doctor.")
    ]
    assert bench.leases.take("g", "other", 9, [LeasedQueue(*FIRST)]) == []
    bench.is_listed = True
    bench.round()
    assert len(bench.leases.take("g", "other", 9, [LeasedQueue(*FIRST)])) == 1


def test_a_broker_of_another_kind_has_decided_nothing(bench: Bench) -> None:
    """RocketMQ's, say, that is in the same cluster: nobody waits for it."""
    bench.tables.topics.put(TopicConfig(topicName="orders", readQueueNums=2, writeQueueNums=2, perm=6), 0)
    bench.tables.offsets.commit("g", "orders", FIRST.queue_id, 1)
    bench.locks.begin_term(1)
    bench.brokers = ["stock"]
    assert bench.leases.take("g", "other", 9, [LeasedQueue(*FIRST)]) == []
    bench.round(NotSupported("What is that?"))
    assert len(bench.leases.take("g", "other", 9, [LeasedQueue(*FIRST)])) == 1
