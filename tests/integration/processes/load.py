"""Clients of all kinds that send and read until their broker dies, each telling a history what it does."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.errors import ConnectionLost, RmqError, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.testing.history import content_to_send

from .messages import bulk_of, messages
from .readers import read_by_bulk, read_by_pull
from .servers import BROKER, broker_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future
    from typing import Self

    from rmqspark.client.cluster.bulk import BulkReceipt
    from rmqspark.model import Message, SendReceipt
    from rmqspark.testing.history import History

    from .servers import UpProcess

TOPIC = "orders"
QUEUES = [MessageQueue(TOPIC, BROKER, queue_id) for queue_id in range(4)]
_PATIENCE_S, _PATIENCE_MS = 60, 60_000
ONE_TRY = SendConfig(retry_times_when_send_failed=0, send_msg_timeout=_PATIENCE_MS)  # a disk may stall
_MOST_SINGLES = 64  # under way on one connection
_MOST_BULKS = 3
_MOST_OF_A_BATCH = 40
_BULK_ROWS = (1, 30, 300, 1000)
KINDS = (
    "singles",
    "singles",
    "singles",
    "singles",
    "batches",
    "bulks",
    "reads",
)  # what each of the clients of a load sends


def kind_of(client: str) -> str:
    """What a client sends, by its name."""
    return KINDS[int(client.rpartition("-")[2])]


class Doubt(NamedTuple):
    """A send of which nobody heard, and that an application would repeat."""

    number: int
    message: Message
    queue: MessageQueue


class Load:
    """Seven clients at work while it is entered; what they send follows from `seed`, and from when they are answered.

    The first failure of one ends all, is kept in `failure`, and has to be one of `expected`; `doubtful` are failures of
    sends that may be stored although they were refused. No failure is a name server that only takes its time. `name`
    begins the names of its messages; `durable` says that the broker runs in SYNC_FLUSH. The sends in `doubts` are not
    over: `settle` ends them.
    """

    def __init__(
        self,
        history: History,
        server: UpProcess,
        name: str,
        seed: int,
        *,
        durable: bool,
        expected: type[RmqError] | tuple[type[RmqError], ...] = Unreachable,
        doubtful: tuple[type[RmqError], ...] = (),
    ) -> None:
        self.doubts: list[Doubt] = []
        self.failure: RmqError | None = None
        self._history = history
        self._server = server
        self._namesrv = server.namesrv
        self._name = name
        self._seed = seed
        self._durable = durable
        self._expected = expected
        self._doubtful = doubtful
        self._ended = threading.Event()
        kinds = (self._singles, self._singles, self._pipelined, self._pipelined, self._batches, self._bulks, self._tail)
        self._clients = [partial(kind, f"{name}-{number}") for number, kind in enumerate(kinds)]
        self._threads = ThreadPoolExecutor(len(kinds), thread_name_prefix="load")
        self._running: list[Future[None]] = []
        self._surprises: list[RmqError] = []

    def __enter__(self) -> Self:
        self._running = [self._threads.submit(client) for client in self._clients]
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when every client has heard of, or given up, all it began. Raises what a client stumbled over."""
        self._ended.set()
        self._threads.shutdown()
        for client in self._running:
            client.result()
        assert not self._surprises, self._surprises

    def settle(self, doubts: Iterable[Doubt]) -> None:
        """Sends once more what an earlier load was left in doubt about."""
        with Producer(self._namesrv, config=ONE_TRY) as producer:
            for number, message, queue in doubts:
                try:
                    receipt = producer.send(message, queue=queue)
                except RmqError as error:
                    self._history.not_sent(number, error, unknown_tries=1)
                else:
                    self._history.sent(number, receipt, durable=self._durable, unknown_tries=1)

    # --- clients -----------------------------------------------------------------------------------------------------

    def _singles(self, name: str) -> None:
        rng, source = self._draw(name)
        queue = rng.choice(QUEUES)
        with Producer(self._namesrv, config=ONE_TRY) as producer:
            while not self._ended.is_set():
                message = next(source)
                number = self._history.sending(name, [content_to_send(message)])
                try:
                    receipt = producer.send(message, queue=queue)
                except ConnectionLost as error:
                    self.doubts.append(Doubt(number, message, queue))
                    self._end(error)
                except RmqError as error:
                    self._failed(number, error)
                else:
                    self._history.sent(number, receipt, durable=self._durable)

    def _pipelined(self, name: str) -> None:
        rng, source = self._draw(name)
        queue, window = rng.choice(QUEUES), _Window(_MOST_SINGLES)
        with Producer(self._namesrv, config=ONE_TRY) as producer, window:
            while window.enter(self._ended):
                message = next(source)
                number = self._history.sending(name, [content_to_send(message)])
                self._submit(number, partial(producer.send_async, message, queue=queue), window, self._sent)

    def _batches(self, name: str) -> None:
        rng, source = self._draw(name)
        with Producer(self._namesrv, config=ONE_TRY) as producer:
            while not self._ended.is_set():
                batch = [next(source) for _ in range(rng.randint(1, _MOST_OF_A_BATCH))]
                number = self._history.sending(name, list(map(content_to_send, batch)))
                try:
                    receipts = producer.send_batch(batch, queue=rng.choice(QUEUES))
                except RmqError as error:
                    self._failed(number, error)
                else:
                    self._history.sent(number, receipts[0], durable=self._durable)

    def _bulks(self, name: str) -> None:
        rng, source = self._draw(name)
        window = _Window(_MOST_BULKS)
        with ClusterClient(self._namesrv, timeout_ms=_PATIENCE_MS) as cluster, window:
            while window.enter(self._ended):
                rows = [next(source) for _ in range(rng.choice(_BULK_ROWS))]
                queue = rng.choice(QUEUES)
                bulk = bulk_of(rows, queue, f"{rng.getrandbits(80):020X}", cluster.clock.now_ms())
                number = self._history.sending(name, list(map(content_to_send, rows)))
                submit = partial(bulk.submit, broker_of(cluster))
                self._submit(number, submit, window, partial(self._stored, queue))

    def _tail(self, name: str) -> None:
        """Reads what is new in all queues, by bulk reads and by pulls that wait in the broker."""
        with ClusterClient(self._namesrv, timeout_ms=_PATIENCE_MS) as cluster:
            try:
                broker = broker_of(cluster)
                positions = {queue: broker.max_offset(TOPIC, queue.queue_id) for queue in QUEUES}
                for turn in count():
                    read = read_by_bulk if turn % 2 else read_by_pull
                    for queue, position in positions.items():
                        positions[queue] = read(self._history, name, broker, queue, position)
                    if self._ended.is_set():
                        return
            except Unreachable as error:
                self._end(error)

    # --- what became of it -------------------------------------------------------------------------------------------

    def _submit(
        self, number: int, submit: Callable[[], Future[Any]], window: _Window, note: Callable[[int, Any], None]
    ) -> None:
        """Begins a request; `note` is told of its receipt when it comes."""

        def answered(future: Future[Any]) -> None:
            try:
                receipt = future.result()
            except RmqError as error:
                self._failed(number, error)
            else:
                note(number, receipt)
            window.leave()

        try:
            submit().add_done_callback(answered)
        except RmqError as error:
            self._failed(number, error)
            window.leave()

    def _sent(self, number: int, receipt: SendReceipt) -> None:
        self._history.sent(number, receipt, durable=self._durable)

    def _stored(self, queue: MessageQueue, number: int, receipt: BulkReceipt) -> None:
        self._history.stored(number, queue, receipt.queue_offset, durable=self._durable)

    def _failed(self, number: int, error: RmqError) -> None:
        self._history.not_sent(number, error, unknown_tries=isinstance(error, self._doubtful))
        if self._is_only_slow(error):
            return
        self._end(error)
        if not isinstance(error, self._expected):
            self._surprises.append(error)

    def _is_only_slow(self, error: RmqError) -> bool:
        """Producers ask name servers for three seconds, which may be too short for a busy machine."""
        of_name_server = isinstance(error, Unreachable) and error.address == self._namesrv
        return of_name_server and self._server.is_alive

    def _end(self, error: RmqError) -> None:
        self.failure = self.failure or error
        self._ended.set()

    def _draw(self, name: str) -> tuple[Random, Iterator[Message]]:
        rng = Random(f"{self._seed}/{name}")
        return rng, messages(TOPIC, name, rng)


class _Window:
    """So many requests under way at a time; leaving the block waits for all of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._room = threading.Semaphore(size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert all(self._room.acquire(timeout=_PATIENCE_S) for _ in range(self._size)), "a request was never answered"

    def enter(self, ended: threading.Event) -> bool:
        """Whether there is room for one more, which it has to wait for, and it is not over."""
        assert self._room.acquire(timeout=_PATIENCE_S), "requests are not answered"
        if ended.is_set():
            self._room.release()
        return not ended.is_set()

    def leave(self) -> None:
        self._room.release()
