"""Messages that are to come later, by level or at a time, some of them recalled; sent by this project's own producer.

What was acknowledged comes once, over any crash, as it was sent, and not before its time; what was recalled in time
never comes. The time that counts is the broker's: where clocks are set nothing is said about when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.producer import Producer
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.errors import NotWritable, RmqError
from rmqspark.model import Message, SendStatus
from rmqspark.remoting.access import OPEN
from rmqspark.testing.history import content_to_send, outcome_of
from rmqspark.testing.sim.places import send_each
from rmqspark.testing.sim.plots import PlacesAndReaders, names_in
from rmqspark.testing.sim.readers import QueueReader

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import SendReceipt
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.processes import SimProcess
    from rmqspark.testing.sim.world import World

GROUP: Final = "reminders-app"
LEVELS_S: Final = (1, 5, 10, 30)
"""Of the levels that are used, from the first on."""
_LONGEST_S: Final = 40.0
_PRECISION_S: Final = 1.0
_IN_TIME_S: Final = 2.0
"""So long before its time a message can be recalled for sure, and so late nobody may find it missing."""


class DelayPlan(NamedTuple):
    """What producers of delayed messages do."""

    producers: int
    sends: int
    """Of each."""
    recalls: float
    """How often a message that has a time is recalled."""
    longest_pause_s: float
    timeout_ms: int


class Reminders:
    """Which were sent, and what may become of them."""

    def __init__(self, world: World, *, holds_time: bool) -> None:
        """`holds_time`: whether no clock is set."""
        self._world = world
        self._holds_time = holds_time
        self._not_before_s: dict[str, float] = {}
        self._stored: dict[str, str] = {}
        self._recalled: set[str] = set()
        self._perhaps_recalled: set[str] = set()

    def sending(self, message: Message, delay_s: float) -> int:
        name = message.keys[0]
        self._not_before_s[name] = self._world.loop.time() + delay_s
        return self._world.history.sending(name, [content_to_send(message)])

    def stored(self, name: str, broker_name: str) -> None:
        self._stored[name] = broker_name

    def recalling(self, name: str) -> None:
        """It is asked for: from now on it may not come."""
        self._perhaps_recalled.add(name)

    def recalled(self, name: str) -> None:
        """The broker says so."""
        if self._not_before_s[name] - self._world.loop.time() > _IN_TIME_S:
            self._world.trace.reached("message recalled")
            self._recalled.add(name)

    def seen(self, name: str) -> None:
        """A reader has it, now."""
        early_s = self._not_before_s[name] - self._world.loop.time()
        self._world.trace.reached("delayed message came")
        if self._holds_time and early_s > 0:
            self._world.violated(f"{name} came {early_s:.3f} s before its time")

    def to_come(self, found: Counter[str], is_whole: Callable[[str], bool]) -> str:
        """Those that have not been found yet."""
        return ", ".join(name for name, where in self._stored.items() if self._misses(name, found) and is_whole(where))

    def _misses(self, name: str, found: Counter[str]) -> bool:
        return not found[name] and name not in self._perhaps_recalled

    def judge(self, found: Counter[str], is_whole: Callable[[str], bool]) -> list[str]:
        """`found` is how often each is there in the end."""
        late = self.to_come(found, is_whole) if self._holds_time else ""
        wrong = [f"{late} never came"] if late else []
        wrong += [f"{name} came {found[name]} times" for name in self._not_before_s if found[name] > 1]
        if self._holds_time:  # else it may have been due when it was recalled
            wrong += [
                f"{name} came, though it was recalled"
                for name in sorted(self._recalled)
                if found[name] and is_whole(self._stored[name])
            ]
        return wrong


class DelayPlot(PlacesAndReaders):
    """Producers of delayed messages, and readers of their topic."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        plan: DelayPlan,
        queues: Sequence[MessageQueue],
        reader: SimClient,
        *,
        holds_time: bool,
    ) -> None:
        self._cluster = cluster
        self._holds_time = holds_time
        self._reminders = reminders = Reminders(world, holds_time=holds_time)
        topic = queues[0].topic
        super().__init__(world, reader.namesrvs)
        self.topics = [topic]
        self.readers = [QueueReader(reader, queue, on_seen=reminders.seen) for queue in queues]
        for number in range(plan.producers):
            self.add_place(
                f"{GROUP}-{number}",
                f"127.0.5.{number + 1}",
                lambda process: DelaySender(process, plan, reminders, topic),
            )

    def unsettled(self) -> str:
        if not self._holds_time:  # they may have to wait for an hour
            return ""
        to_come = self._reminders.to_come(self.names_seen(self._cluster), self._world.has_kept)
        return f"delayed messages have not come: {to_come}" if to_come else ""

    async def judge(self, operator: SimClient) -> None:
        found = await names_in(operator, [reader.queue for reader in self.readers])
        for wrong in self._reminders.judge(found, self._world.has_kept):
            self._world.violated(f"Law 14: {wrong}")


class DelaySender:
    """What a process does."""

    def __init__(self, process: SimProcess, plan: DelayPlan, reminders: Reminders, topic: str) -> None:
        self.is_to_stop = self.is_done = False
        self._process = process
        self._plan = plan
        self._reminders = reminders
        self._topic = topic

    def run(self) -> None:
        process, plan = self._process, self._plan
        producer = Producer(
            process.namesrv,
            GROUP,
            config=SendConfig(send_msg_timeout=plan.timeout_ms, retry_times_when_send_failed=0),
            clock=process.clock,
            entropy=process.entropy,
            access=OPEN,
        )
        send_each(self, process, plan.sends, plan.longest_pause_s, lambda name: self._send(producer, name))
        producer.close()
        self.is_done = not self.is_to_stop

    def _send(self, producer: Producer, name: str) -> None:
        process, history = self._process, self._process.world.history
        message, delay_s = self._message(name)
        number = self._reminders.sending(message, delay_s)
        try:
            receipt = producer.send(message)
        except RmqError as error:
            process.world.trace.reached(f"delayed {type(error).__name__}")
            if outcome_of(error) == "fail" and not isinstance(error, NotWritable):
                history.not_sent(number, error)
            else:
                history.in_doubt(number)
            return
        history.in_doubt(number)
        if receipt.status is SendStatus.OK:
            self._reminders.stored(name, receipt.queue.broker_name)
            self._recall_perhaps(producer, name, receipt)

    def _message(self, name: str) -> tuple[Message, float]:
        """And how long it is to wait, at least."""
        random, process = self._process.random, self._process
        body, tags = random.randbytes(random.randint(1, 300)), random.choice((None, "a"))
        if random.random() < 0.5:
            level = random.randint(1, len(LEVELS_S))
            return Message(self._topic, body, tags, [name], {"n": name}, delay_level=level), LEVELS_S[level - 1]
        delay_s = random.random() * _LONGEST_S
        at_ms = process.clock.now_ms() + int(delay_s * 1000)
        return Message(self._topic, body, tags, [name], {"n": name}, deliver_time_ms=at_ms), delay_s - _PRECISION_S

    def _recall_perhaps(self, producer: Producer, name: str, receipt: SendReceipt) -> None:
        if receipt.recall_handle and self._process.random.random() < self._plan.recalls:
            self._reminders.recalling(name)
            try:
                producer.recall(self._topic, receipt.recall_handle)
            except RmqError as error:
                self._process.world.trace.reached(f"recall {type(error).__name__}")
            else:
                self._reminders.recalled(name)
