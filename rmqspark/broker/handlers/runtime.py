"""GET_BROKER_RUNTIME_INFO (28): a broker's figures, as mqadmin's clusterList and brokerStatus read them.

RocketMQ's AdminBrokerProcessor.prepareRuntimeInfo; spec: requests, section 7, details of 28. Every key is there, since
mqadmin shows zeros for a broker that lacks one. What this broker does not have (thread pools, page cache lock,
transient pool) is 0, or the capacity of nothing; what it does not measure is 0 too and listed below. A slave delivers
nothing that waits, and says nothing of how far that is. One is ours: refusesMessages says why the store takes none now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark import __version__
from rmqspark.protocol.bodies.route import KVTable
from rmqspark.protocol.codes import VERSION, RequestCode
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.delays.delay_table import DelayTable
    from rmqspark.broker.delays.timed_messages import TimedMessages
    from rmqspark.broker.stats import BrokerStats
    from rmqspark.clock import Clock, SteadyClock
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields
    from rmqspark.store.message_store import MessageStore

_POOLS: Final = ("send", "pull", "litePull", "query", "ack")
_NOT_HERE: Final = {
    "dispatchMaxBuffer": "0",
    "pageCacheLockTimeMills": "0",
    "startAcceptSendRequestTimeStamp": "0",
    "remainTransientStoreBufferNumbs": "0",
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "0",
    **{f"{pool}ThreadPoolQueue{what}": "0" for pool in _POOLS for what in ("Size", "Capacity", "HeadWaitTimeMills")},
}
_NOT_MEASURED: Final = {
    "putMessageEntireTimeMax": "0",
    "getMessageEntireTimeMax": "0",
    "putMessageDistributeTime": "",
    "putLatency99": "0.0",
    "putLatency999": "0.0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}


class RuntimeHandlers:
    """Reads counters, the store's extent, and how far what waits is delivered: `timed` is None on a slave, which
    follows its master's `delays`."""

    def __init__(
        self,
        store: MessageStore,
        stats: BrokerStats,
        delays: DelayTable,
        timed: TimedMessages | None,
        clock: Clock,
        steady: SteadyClock,
    ) -> None:
        self._store = store
        self._stats = stats
        self._delays = delays
        self._timed = timed
        self._clock = clock
        self._steady = steady

    def routes(self) -> Routes:
        return {RequestCode.GET_BROKER_RUNTIME_INFO: Route(None, self.runtime)}

    def runtime(self, request: Request[NoFields]) -> Reply:
        del request
        told = self._counters() | self._extent() | self._delayed() | self._timers()
        return Reply(body=KVTable(_NOT_HERE | _NOT_MEASURED | told).encode())

    def _counters(self) -> dict[str, str]:
        stats = self._stats
        puts = stats.puts
        return {
            "bootTimestamp": str(stats.boot_ms),
            "runtime": _duration(self._steady.now_ms() - stats.boot_ms),
            "brokerActive": "true",
            "brokerVersionDesc": f"V5_3_3 (rmqspark {__version__})",
            "brokerVersion": str(VERSION),
            "putMessageTimesTotal": str(puts),
            "putMessageFailedTimes": str(stats.failed_puts),
            "putMessageSizeTotal": str(stats.put_bytes),
            "putMessageAverageSize": str(stats.put_bytes / puts if puts else 0.0),
            "putTps": self._rates("puts"),
            "getFoundTps": self._rates("gets_found"),
            "getMissTps": self._rates("gets_missed"),
            "getTotalTps": self._rates("gets_found", "gets_missed"),
            "getTransferredTps": self._rates("transferred"),
            "msgPutTotalYesterdayMorning": str(stats.yesterday_morning.puts),
            "msgPutTotalTodayMorning": str(stats.today_morning.puts),
            "msgPutTotalTodayNow": str(puts),
            "msgGetTotalYesterdayMorning": str(stats.yesterday_morning.transferred),
            "msgGetTotalTodayMorning": str(stats.today_morning.transferred),
            "msgGetTotalTodayNow": str(stats.transferred),
        }

    def _extent(self) -> dict[str, str]:
        store = self._store.figures()
        disk, end = store.disk, store.end_physical_offset
        ratio = str(1 - disk.free_bytes / disk.total_bytes if disk.total_bytes else 0.0)
        return {
            "commitLogMinOffset": str(store.min_physical_offset),
            "commitLogMaxOffset": str(end),
            "commitLogDiskRatio": ratio,
            "commitLogDiskRatio_commitlog": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": f"Total : {_gib(disk.total_bytes)}, Free : {_gib(disk.free_bytes)}.",
            "dispatchBehindBytes": str(end - store.readable_physical_offset),
            "remainHowManyDataToFlush": f"{end - store.flushed_physical_offset} B",
            "earliestMessageTimeStamp": str(store.earliest_timestamp_ms),
            "refusesMessages": store.refusal,
        }

    def _delayed(self) -> dict[str, str]:
        """Of each delay level that has had messages, the first one that waits and where its queue ends."""
        queues, told = self._store.queues, {}
        for queue_id in queues.queue_ids(SCHEDULE_TOPIC):
            low, high = queues.bounds(SCHEDULE_TOPIC, queue_id)
            first = max(low, self._delays.next_offsets.get(queue_id + 1, low))
            told[f"scheduleMessageOffset_{queue_id + 1}"] = f"{first},{high}"
        return told

    def _timers(self) -> dict[str, str]:
        """Of messages that wait for a time: seconds that deliveries are behind, how many were sent and not looked at,
        and how many wait."""
        timed, now_ms = self._timed, self._clock.now_ms()
        behind = (0, 0, 0) if timed is None else (timed.behind_s(now_ms), timed.unread, timed.waiting)
        return dict(zip(("timerReadBehind", "timerOffsetBehind", "timerCongestNum"), map(str, behind), strict=True))

    def _rates(self, *names: str) -> str:
        """Sums of counters per second over 10 s, 1 min and 10 min."""
        windows = zip(*(self._stats.per_second(name) for name in names), strict=True)
        return " ".join(str(sum(window)) for window in windows)


def _duration(elapsed_ms: int) -> str:
    seconds = elapsed_ms // 1000
    days, rest = divmod(seconds, 86_400)
    return f"[ {days} days, {rest // 3600} hours, {rest % 3600 // 60} minutes, {rest % 60} seconds ]"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f} GiB"
