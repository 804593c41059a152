"""The three things that are measured: sending, reading what was sent, and the way from one end to the other."""

from __future__ import annotations

from array import array
from time import perf_counter_ns, process_time
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.cli.bench.cpu import ServerCpu
from rmqspark.cli.bench.figures import Latencies, StageFigures
from rmqspark.cli.bench.frames import GROUP, SendFrame
from rmqspark.cli.bench.load import Lane, LoadResult, SendLoad
from rmqspark.cli.bench.steady import SteadySender
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import NoPermission
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.signing import signer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.clock import Clock
    from rmqspark.model import MessageQueue
    from rmqspark.remoting.access import Access

    Stopped = Callable[[], bool]

_WARM_UP_SHARE: Final = 5  # a fifth of the time, at most a second, is not counted
_POLL_MS: Final = 200
_FETCH_MESSAGES: Final = 50_000
_FILL_BATCH, _FILL_DEPTH, _FILL_BYTES = 32, 4, 1 << 20
_FILL_BYTES_UNDER_WAY: Final = 64 << 20


class Plan(NamedTuple):
    """What is asked for. `messages`, where given, beats `seconds`."""

    seconds: float
    messages: int | None
    body_bytes: int
    connections: int
    depth: int
    batch: int
    rate: int  # messages a second from end to end


class Bench:
    """Measures one topic. `addresses` are those of the brokers, by name; `queues` can be read, and `writable` be sent
    to; `is_stopped` says that it is enough."""

    def __init__(
        self,
        namesrv: str,
        addresses: dict[str, str],
        queues: Sequence[MessageQueue],
        writable: Sequence[MessageQueue],
        plan: Plan,
        clock: Clock,
        is_stopped: Stopped,
        access: Access = OPEN,
    ) -> None:
        self._namesrv = namesrv
        self._addresses = addresses
        self._queues = queues
        self._writable = writable
        self._plan = plan
        self._clock = clock
        self._is_stopped = is_stopped
        self._access = access
        self._cpu = ServerCpu(addresses.values())

    @property
    def server_pids(self) -> list[int]:
        return self._cpu.pids

    @property
    def _warm_up_ns(self) -> int:
        return int(1e9 * min(1.0, self._plan.seconds / _WARM_UP_SHARE))

    # --- sending

    def produce(self) -> StageFigures:
        """Sends over many connections, each with its own queue, and a number of requests under way. Raises what keeps
        all of them from being stored."""
        plan = self._plan
        load = SendLoad(self._lanes(plan), plan.batch)
        try:
            if not plan.messages:
                warm_up_ns = self._warm_up_ns
                load.run(plan.depth, lambda messages, ns: ns >= warm_up_ns or self._is_stopped())
            used = self._cpu.seconds()
            result = load.run(plan.depth, self._is_enough)
            server_us = _per_message(used, self._cpu.seconds(), result.messages)
        finally:
            load.close()
        _check_some_are_stored(result)
        return StageFigures(
            "producer",
            result.messages,
            result.seconds,
            plan.body_bytes,
            Latencies.of(result.latencies_ns),
            server_us,
            _per_message(0.0, result.cpu_seconds, result.messages),
            result.refused,
            str(result.refusal or ""),
            {"connections": plan.connections, "depth": plan.depth, "batch": plan.batch},
        )

    def fill(self, backlog: int) -> None:
        """Sends until the topic has so many messages, as quickly as batches allow: something to be read."""
        with PullConsumer(self._namesrv, access=self._access) as consumer:
            missing = backlog - sum(consumer.max_offset(queue) for queue in self._queues)
        if missing <= 0:
            return
        plan = fill_plan(self._plan, missing)
        load = SendLoad(self._lanes(plan), plan.batch)
        try:
            _check_some_are_stored(load.run(plan.depth, lambda messages, ns: messages >= missing or self._is_stopped()))
        finally:
            load.close()

    def _lanes(self, plan: Plan) -> list[Lane]:
        if not self._writable:
            raise NoPermission(
                f"No queue of topic {self._queues[0].topic!r} can be sent to.",
                hint="Its write permission is off, or the master of its broker is down: rmq topic describe tells.",
            )
        born_ms, sign = self._clock.now_ms(), signer_of(self._access)
        lanes: list[Lane] = []
        for number in range(plan.connections):
            queue = self._writable[number % len(self._writable)]
            run = f"{born_ms:012X}{number:08X}"
            frames = [
                SendFrame(queue, 1 + opaque, plan.batch, plan.body_bytes, run, born_ms, sign)
                for opaque in range(plan.depth)
            ]
            lanes.append(Lane(self._addresses[queue.broker_name], frames, self._access.tls))
        return lanes

    def _is_enough(self, messages: int, nanoseconds: int) -> bool:
        plan = self._plan
        is_over = messages >= plan.messages if plan.messages else nanoseconds >= plan.seconds * 1e9
        return is_over or self._is_stopped()

    # --- reading

    def consume(self) -> StageFigures:
        """Reads the topic from its beginning through one PullConsumer; the time of each poll that gave something.

        Another one has read for a while before, so that what a process does once is not counted: importing what reading
        needs takes as long as reading 100,000 messages. What a consumer does once is.
        """
        warm_up_ns = self._warm_up_ns
        self._read(lambda messages, ns: ns >= warm_up_ns or self._is_stopped())
        used = self._cpu.seconds()
        result = self._read(self._is_enough)
        server_us = _per_message(used, self._cpu.seconds(), result.messages)
        return StageFigures(
            "consumer",
            result.messages,
            result.seconds,
            result.body_bytes // max(1, result.messages),
            Latencies.of(result.latencies_ns),
            server_us,
            _per_message(0.0, result.cpu_seconds, result.messages),
        )

    def _read(self, is_enough: Callable[[int, int], bool]) -> LoadResult:
        """Reads until `is_enough(messages, nanoseconds)`, at most to where the topic ended at the beginning."""
        polls_ns = array("q")
        messages = body_bytes = 0
        with PullConsumer(self._namesrv, access=self._access, max_poll_messages=_FETCH_MESSAGES) as consumer:
            ends = {queue: consumer.max_offset(queue) for queue in self._queues}
            consumer.assign(self._queues)
            consumer.seek_to_beginning()
            began_cpu, began_ns = process_time(), perf_counter_ns()
            last_ns = began_ns
            while not is_enough(messages, last_ns - began_ns) and self._is_behind(consumer, ends):
                polled = consumer.poll(_POLL_MS)
                now_ns = perf_counter_ns()
                if polled:
                    messages += len(polled)
                    body_bytes += sum([len(message.body) for message in polled])
                    polls_ns.append(now_ns - last_ns)
                last_ns = perf_counter_ns()
            cpu_seconds = process_time() - began_cpu
        return LoadResult(messages, (last_ns - began_ns) / 1e9, polls_ns, cpu_seconds, body_bytes=body_bytes)

    @staticmethod
    def _is_behind(consumer: PullConsumer, ends: dict[MessageQueue, int]) -> bool:
        return any(consumer.position(queue) < end for queue, end in ends.items())

    # --- from end to end

    def end_to_end(self) -> StageFigures:
        """Sends at a steady rate and reads at the same time: how long from when a message is due to be sent until
        `poll` has it."""
        plan, topic = self._plan, self._queues[0].topic
        latencies_ns = array("q")
        run = f"{self._clock.now_ms():X}"
        sender = SteadySender(self._namesrv, self._access, topic, plan.rate, plan.body_bytes, run, group=GROUP)
        with PullConsumer(self._namesrv, access=self._access) as consumer:
            consumer.assign(self._queues)
            consumer.seek_to_end()
            used, began_ns = self._cpu.seconds(), perf_counter_ns()
            with sender:
                while not self._is_enough(len(latencies_ns), perf_counter_ns() - began_ns) and not sender.has_failed:
                    polled = consumer.poll(_POLL_MS)
                    latencies_ns.extend(sender.times_ns(polled, perf_counter_ns()))
                seconds = (perf_counter_ns() - began_ns) / 1e9
                server_us = _per_message(used, self._cpu.seconds(), len(latencies_ns))
        sender.check()
        return StageFigures(
            "end-to-end",
            len(latencies_ns),
            seconds,
            plan.body_bytes,
            Latencies.of(latencies_ns),
            server_us,
            settings={"rate": plan.rate},
        )


def fill_plan(plan: Plan, missing: int) -> Plan:
    """How so many messages are sent quickly: in batches, and few enough at once that neither memory nor disk get much
    more than was asked for, as large as bodies may be."""
    batch = max(1, min(_FILL_BATCH, _FILL_BYTES // plan.body_bytes, missing))
    at_once = max(1, min(_FILL_BYTES_UNDER_WAY // (batch * plan.body_bytes), missing // batch))
    depth = min(_FILL_DEPTH, at_once)
    return plan._replace(connections=min(plan.connections, at_once // depth), depth=depth, batch=batch)


def _check_some_are_stored(result: LoadResult) -> None:
    if result.refusal is not None and not result.messages:
        raise result.refusal


def _per_message(before: float | None, after: float | None, messages: int) -> float | None:
    """Microseconds of a processor for each message."""
    if before is None or after is None or not messages:
        return None
    return round((after - before) * 1e6 / messages, 3)
