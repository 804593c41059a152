"""The one thread that owns what is held of all queues of a push consumer.

It asks brokers for messages, hands them to the workers, hears from them what is consumed, and commits that. Others, the
connections' readers above all, put what happened into its inbox; nothing here waits for an answer. So there is one
order of events, and no lock: after each, the queue that it is about goes on as far as it can.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.cluster.futures import then
from rmqspark.client.pushing.agenda import Agenda
from rmqspark.client.pushing.asking import Asking
from rmqspark.client.pushing.commits import Commits
from rmqspark.client.pushing.figures import Figures
from rmqspark.client.pushing.instant import Instant
from rmqspark.client.pushing.listening import Outcome
from rmqspark.client.pushing.overdue import Overdue
from rmqspark.client.pushing.workers import NO_TIME, Took, Workers
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from rmqspark.client.pushing.offsets import Offsets
    from rmqspark.client.pushing.process_queue import Batch, ProcessQueue
    from rmqspark.client.pushing.pulls import Pulls
    from rmqspark.client.pushing.rules import Rules
    from rmqspark.client.pushing.workers import Consumes
    from rmqspark.clock import Clock
    from rmqspark.errors import RmqError
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage

LAST_COMMIT_S = 3.0

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Pump:
    """Holds queues from `hold` to `release`. The methods above the line may be called from any thread."""

    def __init__(
        self,
        pulls: Pulls,
        offsets: Offsets,
        consumes: Consumes,
        rules: Rules,
        clock: Clock,
        *,
        on_trouble: Callable[[MessageQueue, RmqError], None],
        farewell: Callable[[], None],
    ) -> None:
        """On the pump's thread `on_trouble` is told of a queue that cannot be read, and why; one whose topic is gone is
        dropped, and to be released as lost. `farewell` is called at the end, when all is committed."""
        self._rules = rules
        self._clock = clock
        self._farewell = farewell
        self._workers = Workers(rules.threads, consumes, self._report, clock)
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._commits = Commits(offsets, rules.unlock, self._inbox.put)
        self._agenda = Agenda()
        self._figures = Figures()
        self._asking = Asking(
            pulls,
            rules,
            self._commits,
            self._figures,
            self._agenda,
            clock,
            post=self._inbox.put,
            go_on=self._go_on,
            on_trouble=on_trouble,
        )
        self._held: dict[MessageQueue, ProcessQueue] = {}
        self._leaving: dict[ProcessQueue, tuple[bool, Future[None]]] = {}  # released while a listener is at work
        self._out = 0  # batches with the workers
        self._close_at_ms: int | None = None  # the latest
        self._thread = threading.Thread(target=self._run, name="rmqspark-push", daemon=True)

    def start(self) -> None:
        self._workers.start()
        self._thread.start()

    def hold(self, held: ProcessQueue) -> None:
        """Reads and consumes a queue, whose start is committed, from now on."""
        self._inbox.put(partial(self._hold, held))

    def release(self, held: ProcessQueue, *, is_lost: bool = False) -> Future[None]:
        """Commits what is consumed, and reads the queue no more. Of one that `is_lost` nothing is said to anybody.

        The future is done when whoever reads it next may begin.
        """
        gone: Future[None] = Future()
        self._inbox.put(partial(self._release, held, is_lost, gone))
        return gone

    def renewed(self, held: ProcessQueue, locked_until: Instant) -> None:
        """The queue is this consumer's alone until then."""
        self._inbox.put(partial(self._renewed, held, locked_until))

    def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Goes on at these offsets, whatever was read or consumed."""
        self._inbox.put(partial(self._reset, offsets))

    def look(self, see: Callable[[Collection[ProcessQueue], Figures], T]) -> Future[T]:
        """What `see` makes of all that is held, on the pump's thread."""
        turn: Future[None] = Future()
        self._inbox.put(partial(turn.set_result, None))
        return then(turn, lambda _: see(self._held.values(), self._figures))

    def close(self) -> None:
        """Begins nothing more, waits for listeners that are at work, commits, and ends with the farewell."""
        self._inbox.put(self._close)

    def join(self, timeout_s: float) -> bool:
        """Waits for the end, and for listeners that go on after it so long. A listener that calls this does not wait:
        the end waits for it. False then."""
        if self._workers.is_one(threading.current_thread()):
            return False
        self._thread.join()
        self._workers.join(timeout_s)
        return True

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._agenda.add(self._later_ms(self._rules.config.persist_consumer_offset_interval), self._commit_all)
        self._figures.watch(self._agenda, self._clock)
        if self._rules.give_back is not None:
            self._overdue(self._rules.give_back).watch(self._agenda, self._clock)
        while not self._is_over():
            self.turn()
        self._do(self._commit_last)
        self._workers.stop()
        self._farewell()

    def _overdue(self, way: Callable[[ReceivedMessage], None]) -> Overdue:
        def tell(batch: Batch, message: ReceivedMessage) -> None:
            self._inbox.put(partial(self._go_on_without, batch, message))

        return Overdue(self._workers, way, tell, self._rules.config.consume_timeout)

    def _is_over(self) -> bool:
        if self._close_at_ms is None:
            return False
        is_done = not self._out and self._inbox.empty()
        return is_done or self._clock.monotonic_ms() >= self._close_at_ms

    def turn(self) -> None:
        """Waits for what is next, and does it."""
        wait_ms = self._agenda.wait_ms(self._clock.monotonic_ms())
        if self._close_at_ms is not None:
            left_ms = max(self._close_at_ms - self._clock.monotonic_ms(), 0)
            wait_ms = left_ms if wait_ms is None else min(left_ms, wait_ms)
        with suppress(Empty):
            self._do(self._inbox.get(timeout=None if wait_ms is None else wait_ms / 1000))
        for thing in self._agenda.due(self._clock.monotonic_ms()):
            self._do(thing)

    @staticmethod
    def _do(thing: Callable[[], None]) -> None:
        try:
            thing()
        except Exception:  # noqa: BLE001 - a bug: told, and the other queues go on
            _log.exception("A push consumer could not do what it had to")

    def _later_ms(self, delay_ms: int) -> int:
        return self._clock.monotonic_ms() + delay_ms

    # --- queues that come and go -------------------------------------------------------------------------------------

    def _hold(self, held: ProcessQueue) -> None:
        self._held[held.queue] = held
        self._commits.began(held)
        self._go_on(held)

    def _release(self, held: ProcessQueue, is_lost: bool, gone: Future[None]) -> None:
        self._held.pop(held.queue, None)
        held.drop()
        self._asking.forget(held)
        if self._rules.is_ordered and held.is_at_work:  # that must be over before somebody else begins
            self._leaving[held] = is_lost, gone
        else:
            self._give_up(held, is_lost, gone)

    def _give_up(self, held: ProcessQueue, is_lost: bool, gone: Future[None]) -> None:
        if is_lost:
            self._commits.lose(held)
            gone.set_result(None)
        else:
            self._commits.give_up(held).add_done_callback(lambda _: gone.set_result(None))

    def _renewed(self, held: ProcessQueue, locked_until: Instant) -> None:
        held.locked_until = locked_until
        self._go_on(held)

    def _reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        for queue, queue_offset in offsets.items():
            held = self._held.get(queue)
            if held is not None:
                _log.warning("Queue %s is read from offset %d on, as an operator has it", queue, queue_offset)
                held.restart(queue_offset)
                self._commits.commit(held)
                self._go_on(held)

    # --- from broker to listener -------------------------------------------------------------------------------------

    def _go_on(self, held: ProcessQueue) -> None:
        """Asks for more where there is room, and hands out what may be consumed: while listeners are at work, the
        broker is, too."""
        if not held.dropped and self._close_at_ms is None:
            self._asking.ask(held)
            self._hand_out(held)

    def _hand_out(self, held: ProcessQueue) -> None:
        """All that waits; in order, the next batch alone when the one before is over."""
        if self._rules.is_ordered and held.locked_until.is_past(Instant.now(self._clock)):
            return
        while not self._rules.is_ordered or held.is_idle:
            batch = held.take(self._rules.batch_size)
            if batch is None:
                return
            self._out += 1
            self._workers.give(batch)

    # --- from listener to broker -------------------------------------------------------------------------------------

    def _report(self, batch: Batch, outcome: Outcome | None, took: Took = NO_TIME) -> None:
        """On a worker's thread."""
        self._inbox.put(partial(self._reported, batch, outcome, took))

    def _reported(self, batch: Batch, outcome: Outcome | None, took: Took) -> None:
        if outcome is None:
            outcome = Outcome(batch.messages)
        else:
            held, (began_ms, ended_ms) = batch.of, took
            held.consumed_ms = ended_ms
            took_ms, count = ended_ms - began_ms, len(batch.messages)
            self._figures.consumed(held.queue.topic, count, took_ms, failed=outcome.failed)
        self._consumed(batch, outcome)

    def _go_on_without(self, batch: Batch, message: ReceivedMessage) -> None:
        batch.of.given_away(batch, message)
        self._go_on(batch.of)

    def _consumed(self, batch: Batch, outcome: Outcome) -> None:
        self._out -= 1
        held = batch.of
        held.finish(batch, outcome.left)
        if outcome.left and outcome.delay_ms and batch.is_wanted:
            self._agenda.add(self._later_ms(outcome.delay_ms), partial(self._put_back, batch, outcome))
            return
        if outcome.left:
            held.put_back(batch, outcome.left)
        self._over(held)

    def _put_back(self, batch: Batch, outcome: Outcome) -> None:
        batch.of.put_back(batch, outcome.left)
        self._over(batch.of)

    def _over(self, held: ProcessQueue) -> None:
        """A batch of the queue is over."""
        if held in self._leaving and not held.is_at_work:
            self._give_up(held, *self._leaving.pop(held))
        self._go_on(held)

    def _commit_all(self) -> None:
        self._agenda.add(self._later_ms(self._rules.config.persist_consumer_offset_interval), self._commit_all)
        self._commits.catch_up(self._held.values())

    # --- the end -----------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        if self._close_at_ms is None:
            self._close_at_ms = self._later_ms(self._rules.config.await_termination_millis_when_shutdown)
            for batch in self._workers.withdraw():
                self._consumed(batch, Outcome(batch.messages))

    def _commit_last(self) -> None:
        if self._out:
            calls = counted(self._out, "call")
            _log.warning("%s of the listener did not end: the messages are consumed again", calls)
        leaving = [held for held, (is_lost, _) in self._leaving.items() if not is_lost]
        held = [held for held in self._held.values() if not held.dropped]
        ends = [self._commits.give_up(each) for each in (*held, *leaving)]
        done, late = wait(ends, LAST_COMMIT_S)
        failures = [error for end in done if (error := end.exception()) is not None]
        if failures or late:
            why = failures[0] if failures else "no answer in time"
            _log.warning("%d queues were not committed at the end: %s", len(failures) + len(late), why)
