"""Spark queries, as their listeners and tasks tell the brokers about them.

What a listener reports goes to one broker (`txn.input_keeper`), what tasks read to two (`input_keepers`), which differ
from task to task; whoever lists queries asks every broker of ours, and puts together what they say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rmqspark.client.cluster.silence import RollCall, remembered
from rmqspark.client.spark.txn import INPUTS_TIMEOUT_MS, LIST_TIMEOUT_MS, able_brokers, input_keeper
from rmqspark.errors import InvalidArgument, NoPermission, NotFound, RequestTimeout, Unreachable
from rmqspark.protocol.bodies.queries import KnownQuery, QueryReport, QueryTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.queries import QueryListRequestHeader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.protocol.bodies.txn import InputRange


SILENT_MS = 60_000  # a listener says something every ten seconds or so
PAST_MS = 10 * 60_000  # nobody waits for a query that is not heard of for so long, and not known to run
_NEVER_MS = 1 << 62
STATES = ("running", "silent", "unknown", "failed", "stopped")  # as they concern an operator


@dataclass(frozen=True, slots=True)
class SeenQuery:
    """A query, how long ago a broker last heard of it, and how long ago its listener told one something."""

    known: KnownQuery
    silent_ms: int
    told_ms: int = _NEVER_MS

    @classmethod
    def by(cls, known: KnownQuery, now_ms: int) -> Self:
        """As a broker knows it, `now_ms` by whose clock: those of two brokers may differ by minutes."""
        told_ms = _NEVER_MS if known.report is None else max(0, now_ms - known.report.reportedAt)
        return cls(known, min(told_ms, max(0, now_ms - known.heardAt)), told_ms)

    @property
    def state(self) -> str:
        """What its listener said last: running, stopped or failed. `silent` where it said running and then no more: a
        driver that was killed cannot say so. `unknown` without a listener."""
        if self.known.report is None:
            return "unknown"
        is_silent = self.known.report.state == "running" and self.silent_ms > SILENT_MS
        return "silent" if is_silent else self.known.report.state

    @property
    def is_past(self) -> bool:
        """Whether it has ended in order, or has no listener to say so, and was last heard of long ago."""
        return self.state in ("unknown", "stopped") and self.silent_ms > PAST_MS

    @property
    def may_live(self) -> bool:
        return self.state in ("running", "unknown") and self.silent_ms <= SILENT_MS


def report_query(client: ClusterClient, report: QueryReport) -> None:
    """RMQ_QUERY_REPORT, to one of those that answer. Stock brokers keep no such thing and are not asked to."""
    keeper = input_keeper(client, report.queryId)
    try:
        if keeper.capabilities().transactions:
            keeper.call(RequestCode.RMQ_QUERY_REPORT, None, report.encode(standard=True), timeout_ms=INPUTS_TIMEOUT_MS)
    except (Unreachable, RequestTimeout):
        client.outages.add(keeper.name)
        raise


def seen_queries(
    client: ClusterClient, query_id: str | None = None, *, on_silent: OnSilent | None = None
) -> list[SeenQuery]:
    """RMQ_QUERY_LIST of all brokers, by name and id. A broker that does not answer is told to `on_silent` and left out,
    unless none does; without that it is an error."""
    found: dict[str, SeenQuery] = {}
    for table in _tables(client, query_id, RollCall(client, on_silent)):
        for known in table.queries:
            seen = SeenQuery.by(known, table.now)
            other = found.get(known.queryId)
            found[known.queryId] = seen if other is None else together(seen, other)
    return sorted(found.values(), key=lambda seen: (name_of(seen.known), seen.known.queryId))


def _tables(client: ClusterClient, query_id: str | None, roll: RollCall) -> Iterator[QueryTable]:
    header = QueryListRequestHeader(query_id)
    for broker in able_brokers(client, roll):
        with roll.hears(broker.name):
            yield QueryTable.decode(broker.call(RequestCode.RMQ_QUERY_LIST, header, timeout_ms=LIST_TIMEOUT_MS).body)


def by_state(queries: Iterable[SeenQuery]) -> list[SeenQuery]:
    """Those that run first; of each state the one heard of last first."""
    return sorted(queries, key=lambda seen: (STATES.index(seen.state), seen.silent_ms, seen.known.queryId))


def together(one: SeenQuery, other: SeenQuery) -> SeenQuery:
    """What two brokers know of the same query: the newest report of its listener, and what its newest batch reads."""
    told = min(one, other, key=lambda seen: seen.told_ms)
    newest = max(one.known.batchId, other.known.batchId)
    heard_ms = max(one.known.heardAt, other.known.heardAt)
    read = [piece for each in (one.known, other.known) if each.batchId == newest for piece in each.inputs]
    known = KnownQuery(told.known.queryId, told.known.report, told.known.history, newest, heard_ms, _farthest(read))
    return SeenQuery(known, min(one.silent_ms, other.silent_ms), told.told_ms)


def _farthest(read: list[InputRange]) -> list[InputRange]:
    """One range for each queue, though two brokers may have told of it."""
    by_end = sorted(read, key=lambda piece: piece.toOffset)
    return list({(piece.group, piece.topic, piece.brokerName, piece.queueId): piece for piece in by_end}.values())


def seen_query(client: ClusterClient, query: str, *, on_silent: OnSilent | None = None) -> SeenQuery:
    """As `find_query`; NotFound, too, where no broker has heard of it."""
    silence = remembered(on_silent)
    found = find_query(client, query, on_silent=silence)
    if found is None:
        if silence is not None:
            silence.insist()
        raise NotFound(
            f"No broker has heard of a query {query!r}.",
            hint="It takes a query's name or group, its id, or how that begins (4 letters or more): rmq spark list. "
            "One is heard of when it runs a micro-batch.",
        )
    return found


def find_query(client: ClusterClient, query: str, *, on_silent: OnSilent | None = None) -> SeenQuery | None:
    """The query with this id, or this name, or whose id begins so, or that reads for this group, which is known without
    a listener, too. Of several the one that lives; NotFound where that does not decide it. None where there is none.
    InvalidArgument for an empty name, which a query without a name would answer to. `on_silent` as for
    `seen_queries`."""
    check_named(query)
    silence = remembered(on_silent)
    fitting = seen_queries(client, query, on_silent=silence) or only_living(
        [seen for seen in seen_queries(client, on_silent=silence) if _may_be_called(seen.known, query)]
    )
    if len(fitting) > 1:
        ids = ", ".join(seen.known.queryId for seen in fitting)
        raise NotFound(f"{query!r} may be any of {len(fitting)} queries.", hint=f"Name it by its id: {ids}")
    return fitting[0] if fitting else None


def check_named(query: str) -> None:
    if not query.strip():
        raise InvalidArgument("The query's name is empty.", hint="Name a query, its id or its group: rmq spark list.")


def only_living(fitting: list[SeenQuery]) -> list[SeenQuery]:
    """Those that may live, if there are any: a query that was started with a new checkpoint has a new id, and the one
    before it is remembered under the same name."""
    return [seen for seen in fitting if seen.may_live] or fitting


def readers_of(client: ClusterClient, group: str, *, on_silent: OnSilent | None = None) -> list[str]:
    """The queries that read for a group and may live, each by its name, or by its id where that is not known. They are
    no members: a query has no connection that lasts. None for who may see the group, and not the cluster's queries.
    `on_silent` as for `seen_queries`."""
    try:
        seen = seen_queries(client, on_silent=on_silent)
    except NoPermission:
        return []
    return [
        name_of(each.known) or each.known.queryId for each in seen if each.may_live and group in _groups(each.known)
    ]


def name_of(known: KnownQuery) -> str:
    """The name the user gave; only a listener tells it."""
    return known.report.name if known.report is not None else ""


def _may_be_called(known: KnownQuery, query: str) -> bool:
    begins_so = len(query) >= _SHORTEST_ID and known.queryId.startswith(query)
    return begins_so or name_of(known) == query or query in _groups(known)


def _groups(known: KnownQuery) -> set[str]:
    """What a listener reports takes the place of what tasks say they read."""
    report = known.report or QueryReport()
    return {piece.group for piece in known.inputs} | {queue.group for queue in report.queues} | {*report.groups}


_SHORTEST_ID = 4  # letters of an id that may stand for it
