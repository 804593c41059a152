"""A slave takes over its master's tables: topics, groups, consumer offsets, how far delays are delivered, users.

They are not in the log, so a slave asks for them every few seconds, as RocketMQ's does (SlaveSynchronize): what it has
may be that old when the master is gone. Left out: message request modes (there is no POP), the timer wheel's metrics,
resets that a reader was not told of yet. A table that does not come leaves the one there was. Delays that the master
delivered to where this log has not come yet are not taken for delivered, nor half messages for ended that ended there,
nor topics for deleted that were deleted there. Nothing at all is taken while this log may be another than the
master's: one whose disk was lost, or put back, has other tables, and those here may be the only ones left. Nor of a
broker of another name: addresses change hands, and this slave may be made the master just then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from rmqspark.errors import BodyError, NotSupported, RmqError, Unreachable
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable, DelayOffsetTable, SubscriptionGroupTable
from rmqspark.protocol.bodies.client import CapabilitiesBody
from rmqspark.protocol.bodies.route import KVTable, TopicConfigTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.cluster import GetAllTopicConfigRequestHeader
from rmqspark.protocol.names import CHECK_GROUP
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.settings import parse_file
from rmqspark.store.deletions import Deletion
from rmqspark.whole_numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import msgspec

    from rmqspark.broker.replica.account_sync import AccountSync
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock
    from rmqspark.remoting.access import Access
    from rmqspark.remoting.response import Response
    from rmqspark.store.message_store import MessageStore

    Ask = Callable[..., Awaitable[Response]]

_TIMEOUT_MS: Final = 5_000

log = structlog.get_logger("rmqspark.broker")


class _Word(NamedTuple):
    """What a master says that rests on its log up to `log_end`: how far half messages have ended, in the form of its
    offsets, and, of a stock one, how far delays are delivered."""

    log_end: int
    halves: ConsumerOffsetTable
    delays: DelayOffsetTable | None


class TableSync:
    """Asks whoever `master` is, host:port as clients reach it; empty while none is known."""

    def __init__(
        self,
        broker_name: str,
        tables: BrokerTables,
        store: MessageStore,
        is_copy: Callable[[], bool],
        clock: Clock,
        access: Access,
        accounts: AccountSync | None = None,
    ) -> None:
        """`is_copy` says whether the log is known to be the master's; `accounts` is None where there are no users."""
        self._broker_name = broker_name
        self._tables = tables
        self._replica = store.replica
        self._lineage = store.lineage
        self._deletions = store.deletions
        self._is_copy = is_copy
        self._access = access
        self._clock = clock
        self._connection: AsyncConnection | None = None
        self._accounts = accounts
        self._trouble = ""
        self._users_trouble = ""
        self._word: _Word | None = None  # until this log has come as far
        self._committed = set(tables.offsets.pairs())  # of which the master had offsets
        self.master = ""

    async def run_round(self) -> None:
        """All tables once, of whoever is the master when it begins. Topics are on disk then: after a kill a start would
        have those whose messages it finds, with the queues that have some. Raises NotWritable."""
        master, known = self.master, self._tables.topics.version
        if not master or not self._may_follow:
            self._word = None
            return
        try:
            ask = partial(_answer, await self._connected(master))
            await self._take_all(ask)
        except RmqError as error:
            await self.close()
            if str(error) != self._trouble:
                log.warning("the master's tables did not come, trying on", master=master, reason=str(error))
            self._trouble = str(error)
        else:
            self._trouble = ""
            await self._take_accounts(ask, master)
        if self._tables.topics.version != known:
            await self._tables.save()

    @property
    def _may_follow(self) -> bool:
        """An empty log is nobody else's, and an idle master may not have said yet that it has none, either."""
        return self._is_copy() or self._replica.is_empty

    async def _take_accounts(self, ask: Ask, master: str) -> None:
        """The rest goes on without them: a stock master has none to give, and passwords take TLS."""
        if self._accounts is None:
            return
        trouble = ""
        try:
            await self._accounts.take(ask, master)
        except RmqError as error:
            trouble = str(error)
        if trouble and trouble != self._users_trouble:
            log.warning("users and rights do not follow from the master", master=master, reason=trouble)
        self._users_trouble = trouble

    async def master_role(self) -> str:
        """What the master's settings call it; "" while it does not say. May be asked while a round is under way."""
        if not self.master:
            return ""
        try:
            connection = await AsyncConnection.open(self.master, access=self._access)
            try:
                answer = await _answer(connection, RequestCode.GET_BROKER_CONFIG)
            finally:
                await connection.close()
            settings = parse_file(bytes(answer.body).decode("utf-8", "replace"))
        except RmqError:
            return ""
        return str(settings.get("broker_role", ""))

    async def close(self) -> None:
        """Ends the connection; the next round makes another. What was said over it holds no more: a master that has
        been started again may have lost the end of its log, and have others' messages there by now."""
        connection, self._connection, self._word = self._connection, None, None
        if connection is not None and not connection.closed:
            await connection.close()

    async def _connected(self, master: str) -> AsyncConnection:
        connection = self._connection
        if connection is None or connection.closed or connection.address != master:
            await self.close()
            connection = self._connection = await AsyncConnection.open(master, access=self._access)
        return connection

    async def _take_all(self, ask: Ask) -> None:
        tables, now_ms = self._tables, self._clock.now_ms()
        topics_header = GetAllTopicConfigRequestHeader(deletions=True)
        topics = TopicConfigTable.decode((await ask(RequestCode.GET_ALL_TOPIC_CONFIG, topics_header)).body)
        if topics.brokerName not in (None, self._broker_name):
            raise Unreachable(f"Broker {topics.brokerName!r} answers where the master was.", address=self.master)
        if self._is_copy():
            self._delete(topics.deletions or {})
        tables.topics.follow(topics, tables.groups, now_ms)
        offsets, of_halves = _apart(ConsumerOffsetTable.decode((await ask(RequestCode.GET_ALL_CONSUMER_OFFSET)).body))
        committed = tables.offsets.follow(offsets)
        text = (await ask(RequestCode.GET_ALL_DELAY_OFFSET)).body
        delays = DelayOffsetTable.decode(text) if text else None
        if delays is not None and delays.logOffset is not None:
            if self._is_copy() and delays.logOffset <= self._replica.end_offset:
                tables.delays.follow(delays, now_ms)
            delays = None
        groups = SubscriptionGroupTable.decode((await ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
        tables.groups.follow(groups, now_ms)
        if not self._is_copy():
            self._word = None
            return
        self._forget_what_went(committed)
        begin, end = _log_bounds((await ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body)
        self._replica.master_begins_at(begin)
        self._believe(_Word(end, of_halves, delays))
        await self._take_identity(ask)

    def _delete(self, told: Mapping[str, tuple[int, int, bool]]) -> None:
        """Before the tables of the same moment and later are taken: they may know the next topic of a name. Raises
        OSError."""
        for topic in self._deletions.follow({topic: Deletion(*each) for topic, each in told.items()}):
            self._tables.forget_topic(topic)
        self._tables.known_deletion_ms = self._deletions.newest_ms
        self._deletions.finish_all()

    def _forget_what_went(self, committed: set[tuple[str, str]]) -> None:
        """What the master had and has no more it deleted. What groups committed here stays. Raises OSError."""
        topics = self._tables.topics
        if gone := self._committed - committed:
            self._tables.offsets.forget_pairs(gone)
        self._committed.difference_update(gone)  # in place, so that there are not all names twice
        self._committed.update(committed)
        self._replica.remove_expired(lambda topic: topics.get(topic) is not None or topics.is_system(topic))

    def _believe(self, told: _Word) -> None:
        """Once the log has come to where the master's had. One word is waited for at a time: under load this log is
        always a little behind the newest."""
        waiting = self._word or told
        is_here = waiting.log_end <= self._replica.end_offset
        if is_here:
            self._tables.offsets.follow(waiting.halves)
            if waiting.delays is not None:
                self._tables.delays.follow(waiting.delays, self._clock.now_ms())
        self._word = None if is_here else waiting

    async def _take_identity(self, ask: Ask) -> None:
        """Who remembers offsets of the master finds the same store here. A stock master has no such identity."""
        try:
            master = CapabilitiesBody.decode((await ask(RequestCode.RMQ_CAPABILITIES)).body)
        except NotSupported:
            self._lineage.keep()
            return
        if self._is_copy():
            self._adopt(master)

    def _adopt(self, master: CapabilitiesBody) -> None:
        try:
            self._lineage.adopt(master.storeId, master.incarnation)
        except ValueError as error:
            raise BodyError(f"The master says of its store what cannot be: {error}.") from error


def _apart(offsets: ConsumerOffsetTable) -> tuple[ConsumerOffsetTable, ConsumerOffsetTable]:
    """Those of all groups but the one that keeps how far half messages have ended, and of that one."""
    table = offsets.offsetTable
    of_halves = {key: queues for key, queues in table.items() if key.partition("@")[2] == CHECK_GROUP}
    others = {key: queues for key, queues in table.items() if key not in of_halves}
    return ConsumerOffsetTable(others), ConsumerOffsetTable(of_halves)


def _log_bounds(body: bytes | bytearray | memoryview) -> tuple[int, int]:
    """Where a broker's log begins and ends, by its figures. Raises BodyError."""
    table = KVTable.decode(body).table
    return _place(table, "begins", "commitLogMinOffset"), _place(table, "ends", "commitLogMaxOffset")


def _place(table: Mapping[str, str], what: str, key: str) -> int:
    text = table.get(key, "")
    place = whole_number(text)
    if place is None:
        raise BodyError(f"The master says that its log {what} at {text[:40]!r}.")
    return place


async def _answer(connection: AsyncConnection, code: RequestCode, header: msgspec.Struct | None = None) -> Response:
    return (await connection.call(code, header, timeout_ms=_TIMEOUT_MS)).raise_for_code()
