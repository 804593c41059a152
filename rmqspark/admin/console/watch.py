"""What all pages look at together: how the cluster is, every two seconds; rates and lag for charts, every ten."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import structlog
from anyio import to_thread

from rmqspark.admin.console.histories import Histories
from rmqspark.admin.reads import cluster, groups, queries
from rmqspark.client.cluster.silence import Silence
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from rmqspark.admin.desk import Desk
    from rmqspark.admin.schemas.cluster import ClusterView
    from rmqspark.admin.schemas.groups import GroupSummary
    from rmqspark.admin.schemas.queries import QuerySummary

log = structlog.get_logger("rmqspark.admin.console")

LOOK_EVERY_S: Final = 2.0
_MEASURED_EVERY: Final = 5  # looks
MOST_GROUPS: Final = 100
_T = TypeVar("_T")


class Watch:
    """Belongs to the event loop. `error` says why the newest look failed; `view` stays what the last good one saw.
    `groups` are the first `MOST_GROUPS`, as last measured, without what `silent` brokers know, which do not answer;
    None where they could not be."""

    def __init__(self, desk: Desk, is_watched: Callable[[], bool]) -> None:
        """`is_watched`: whether a page is open anywhere. Otherwise it looks only as often as charts need it."""
        self._cluster = desk.cluster
        self._is_watched = is_watched
        self._is_anybody_there = True
        self.view: ClusterView | None = None
        self.error: RmqError | None = None
        self._seen_at_ms = 0
        self._seen_monotonic_ms: int | None = None
        self.groups: list[GroupSummary] | None = None
        self.silent: dict[str, str] = {}
        self.histories = Histories()

    async def run(self) -> None:
        """Looks until it is cancelled."""
        for turn in itertools.count():
            is_measured = turn % _MEASURED_EVERY == 0
            if is_measured or self._is_watched():
                await self._look()
            if is_measured:
                await self.measure()
            await asyncio.sleep(LOOK_EVERY_S)

    @property
    def alarm(self) -> str:
        """What a banner says on every page; "" while all is well enough to be read."""
        if self.error is not None:
            return str(self.error)
        if self.view is None:
            return ""
        away = [each for each in self.view.problems if each.severity == "critical"]
        return "; ".join(f"{each.subject}: {each.problem}" for each in away)

    @property
    def seen_ago_ms(self) -> int | None:
        """How long ago the last good look was, whoever has set the clock since; None where there was none yet."""
        seen_ms = self._seen_monotonic_ms
        return None if seen_ms is None else self._cluster.clock.monotonic_ms() - seen_ms

    @property
    def is_blind(self) -> bool:
        """Whether nobody was there who could have told anything: what is read now may be empty for that reason only."""
        return self.error is not None or not self._is_anybody_there

    async def check(self) -> None:
        """Whether anybody is there, at this moment."""
        names = await self._ask(lambda: self._cluster.cluster_info().brokerAddrTable)
        self._is_anybody_there = bool(names)

    async def measure(self) -> None:
        """One more point in each chart; a gap where nobody can be asked, for a line through it would be made up."""
        if self.error is None:
            self._note_rates()
            await self._note_lag()
        else:
            self.histories.gap(self._cluster.clock.now_ms())

    async def _look(self) -> None:
        view = await self._ask(lambda: cluster.servers(self._cluster))
        if view is not None:
            clock = self._cluster.clock
            self.view, self._seen_at_ms, self._seen_monotonic_ms = view, clock.now_ms(), clock.monotonic_ms()
            self._is_anybody_there = bool(view.brokers)

    def _note_rates(self) -> None:
        brokers = self.view.brokers if self.view is not None else []
        self._note("in", [each.in_per_second for each in brokers])
        self._note("out", [each.out_per_second for each in brokers])

    def _note(self, name: str, rates: list[float | None]) -> None:
        known = [each for each in rates if each is not None]
        self.histories.note(name, self._seen_at_ms, sum(known) if known else None)

    async def _note_lag(self) -> None:
        silence = Silence()
        page = await self._measure(lambda: groups.groups(self._cluster, MOST_GROUPS, None, silence=silence))
        seen = await self._measure(lambda: queries.queries(self._cluster, silence))
        self.groups, self.silent = None if page is None else page.items, silence.reasons
        self._note_readers("group ", None if page is None else {each.group: each for each in page.items})
        self._note_readers("query ", None if seen is None else {each.query_id: each for each in seen})

    def _note_readers(self, kind: str, readers: Mapping[str, GroupSummary | QuerySummary] | None) -> None:
        """None where nobody answered."""
        now_ms = self._cluster.clock.now_ms()
        if readers is None:
            self.histories.gap(now_ms, kind)
        for name, reader in (readers or {}).items():
            self.histories.note(f"{kind}{name}", now_ms, _whole_lag(reader))

    async def _ask(self, read: Callable[[], _T]) -> _T | None:
        """Whether this can be read says how the cluster is."""
        try:
            answer = await to_thread.run_sync(read, abandon_on_cancel=True)
        except RmqError as error:
            self.error = error
            return None
        except Exception:  # a bug: it is logged, and the next look is tried; without it all charts would stop
            log.exception("the cluster could not be looked at")
            return None
        self.error = None
        return answer

    async def _measure(self, read: Callable[[], _T]) -> _T | None:
        """None where nobody answers: the look has seen that."""
        try:
            return await to_thread.run_sync(read, abandon_on_cancel=True)
        except RmqError:
            return None
        except Exception:  # a bug: it is logged, and measured again at the next look
            log.exception("lag could not be measured")
            return None


def _whole_lag(reader: GroupSummary | QuerySummary) -> int | None:
    """A sum over fewer brokers than before is a dip in a chart, and no news of the reader."""
    return None if reader.silent else reader.lag
