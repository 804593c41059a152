"""Transactions of single messages, by this project's own producer of them: half, decision, check-back.

What was decided is in a database that outlives the producers; some is never decided. A message that was committed is
there once, or is set aside after too many questions, never both; of what was rolled back, or never decided, nothing is
ever readable.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.pulling.received import received_all
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.client.transaction_producer import TransactionProducer
from rmqspark.errors import RmqError
from rmqspark.message_queue import MessageQueue
from rmqspark.model import Message, SendStatus, TransactionState
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC
from rmqspark.remoting.access import OPEN
from rmqspark.testing.history import content_to_send
from rmqspark.testing.sim.expired import begin_of
from rmqspark.testing.sim.places import send_each
from rmqspark.testing.sim.plots import PlacesAndReaders, names_in
from rmqspark.testing.sim.readers import QueueReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from rmqspark.model import PreparedMessage, ReceivedMessage
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.node import Node
    from rmqspark.testing.sim.processes import SimProcess
    from rmqspark.testing.sim.world import World

GROUP: Final = "payments-app"


class TransactionPlan(NamedTuple):
    """What producers of transactions do."""

    producers: int
    sends: int
    """Of each."""
    undecided: float
    """How often nobody ever decides."""
    unknown: float
    """How often `execute` does not say."""
    longest_pause_s: float
    timeout_ms: int
    asked_after_ms: int
    """Of its age, and from then on as often."""


class Database:
    """What became of each transaction, and which messages belong to them."""

    def __init__(self, world: World, plan: TransactionPlan) -> None:
        self._world = world
        self._random = world.random("transactions")
        self._plan = plan
        self._sends: dict[str, int] = {}
        self._decided: dict[str, TransactionState] = {}
        self._undecided: set[str] = set()
        self._stored: dict[str, str | None] = {}
        self.names: list[str] = []

    def sending(self, message: Message) -> None:
        name = message.keys[0]
        self.names.append(name)
        self._sends[name] = self._world.history.sending(name, [content_to_send(message)])
        if self._random.random() < self._plan.undecided:
            self._undecided.add(name)

    def execute(self, name: str) -> TransactionState:
        """Its transaction is carried out, or is not."""
        self._world.trace.reached("transaction executed")
        self._stored.setdefault(name, None)
        state = self._decide(name, self._random.random() < 0.7)
        return TransactionState.UNKNOWN if self._random.random() < self._plan.unknown else state

    def check(self, name: str) -> TransactionState:
        """One that was not carried out by now never is."""
        self._world.trace.reached("transaction asked about")
        if name not in self._decided and self._random.random() < 0.3:
            return TransactionState.UNKNOWN
        return self._decide(name, False)

    def _decide(self, name: str, commits: bool) -> TransactionState:
        if name in self._undecided:
            return TransactionState.UNKNOWN
        state = TransactionState.COMMIT if commits else TransactionState.ROLLBACK
        return self._decided.setdefault(name, state)

    def stored(self, name: str, broker_name: str) -> None:
        """Its sender was told where the half message is."""
        self._stored[name] = broker_name

    def is_committed(self, name: str) -> bool:
        return self._decided.get(name) is TransactionState.COMMIT

    def close(self) -> None:
        """Nobody decides anything any more; the history is told what may be there."""
        for name, number in self._sends.items():
            if self.is_committed(name):
                self._world.history.in_doubt(number)
            else:
                self._world.history.not_sent(number, _NotCommitted("nobody committed it"))

    def judge(self, readable: Counter[str], set_aside: Counter[str], whole: Collection[str], brokers: int) -> list[str]:
        """`readable` and `set_aside` are how often each name was found; `whole` the brokers that have lost nothing."""
        wrong = []
        for name in self.names:
            there, aside = readable[name], set_aside[name]
            if there and not self.is_committed(name):
                wrong.append(f"{name} is readable, and nobody committed it")
            if there + aside > 1:
                wrong.append(f"{name} is readable {there} times, and set aside {aside} times")
            if not self._is_kept(name, whole, brokers):
                continue
            if self.is_committed(name) and not there + aside:
                wrong.append(f"{name} was committed, and is not there")
            if name in self._undecided and not aside:
                wrong.append(f"{name} was not decided by anybody, and is not set aside")
        return wrong

    def _is_kept(self, name: str, whole: Collection[str], brokers: int) -> bool:
        """Whether its half message was stored by a broker that has lost nothing."""
        if name not in self._stored:
            return False
        return self._stored[name] in whole or len(whole) == brokers


class TransactionPlot(PlacesAndReaders):
    """Producers of transactions, and readers of what they send."""

    def __init__(
        self, world: World, cluster: Cluster, plan: TransactionPlan, queues: Sequence[MessageQueue], reader: SimClient
    ) -> None:
        super().__init__(world, reader.namesrvs)
        self._cluster = cluster
        self._database = database = Database(world, plan)
        topic = queues[0].topic
        self.topics = [topic]
        self.readers = [QueueReader(reader, queue) for queue in queues]
        for number in range(plan.producers):
            self.add_place(
                f"{GROUP}-{number}",
                f"127.0.6.{number + 1}",
                lambda process: TransactionSender(process, plan, database, topic),
            )

    def unsettled(self) -> str:
        is_open = {name: len(node.server._parts.halves) for name, node in self._cluster.brokers.items()}
        return f"half messages are open: {is_open}" if any(is_open.values()) else ""

    async def judge(self, operator: SimClient) -> None:
        self._database.close()
        readable = await names_in(operator, [reader.queue for reader in self.readers])
        set_aside = Counter(name for node in self._cluster.brokers.values() for name in _set_aside(node))
        set_aside += self._world.expired.names(map(set_aside_queue, self._cluster.brokers))
        whole = list(filter(self._world.has_kept, self._cluster.brokers))
        for wrong in self._database.judge(readable, set_aside, whole, len(self._cluster.brokers)):
            self._world.violated(f"Law 8: {wrong}")


def set_aside_queue(broker_name: str) -> MessageQueue:
    """Where a broker puts what it has asked about too often."""
    return MessageQueue(CHECK_MAX_TIME_TOPIC, broker_name, 0)


def _set_aside(node: Node) -> Iterator[str]:
    store = node.server.store
    begin = begin_of(store, set_aside_queue(node.name))
    found = store.read(CHECK_MAX_TIME_TOPIC, 0, begin, max_count=10_000, max_bytes=1 << 30)
    for message in received_all(bytes(found.body), node.name) if found.count else []:
        yield message.keys[0]


class TransactionSender:
    """What a process does: sends, and answers for all that were sent by those before it."""

    def __init__(self, process: SimProcess, plan: TransactionPlan, database: Database, topic: str) -> None:
        self.is_to_stop = self.is_done = False
        self._process = process
        self._plan = plan
        self._database = database
        self._topic = topic

    def run(self) -> None:
        process, plan = self._process, self._plan
        producer = TransactionProducer(
            process.namesrv,
            GROUP,
            listener=self,
            config=SendConfig(send_msg_timeout=plan.timeout_ms),
            clock=process.clock,
            entropy=process.entropy,
            access=OPEN,
        )
        send_each(self, process, plan.sends, plan.longest_pause_s, lambda name: self._send(producer, name))
        while not self.is_to_stop:
            process.pause(0.2)
        producer.close()

    def _send(self, producer: TransactionProducer, name: str) -> None:
        message = Message(self._topic, self._process.random.randbytes(20), None, [name])
        self._database.sending(message)
        try:
            receipt = producer.send(message).receipt
            if receipt.status is SendStatus.OK:
                self._database.stored(name, receipt.queue.broker_name)
        except RmqError as error:
            self._process.world.trace.reached(f"transaction {type(error).__name__}")

    def execute(self, message: PreparedMessage, _arg: Any) -> TransactionState:
        self._process.pause(0.5)
        return self._database.execute(message.keys[0])

    def check(self, message: ReceivedMessage) -> TransactionState:
        self._process.pause(0.5)
        return self._database.check(message.keys[0])


class _NotCommitted(RmqError):
    """Nobody asked for it."""
