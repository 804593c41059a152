"""Sees that just those queues are held that are this member's.

One thread that asks and waits, so that reading and consuming need not: now and then, and at once when a broker tells
that the group has changed or something is amiss, it goes round. A round is a look, what follows from it (`assignment`),
and the hand-over: what is not its own any more is released; what is its own now is locked, where queues are read in
order, and begun where the group has come to. RocketMQ: RebalanceService, RebalanceImpl; spec: semantics, sections 8.1,
8.4 and 8.8.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.pushing.assignment import change, is_settled, wanted
from rmqspark.client.pushing.instant import Instant
from rmqspark.client.pushing.process_queue import LOCK_LIVE_MS, ProcessQueue
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.capabilities import StoreLife
    from rmqspark.client.pulling.received import Read
    from rmqspark.client.pushing.lookout import Lookout
    from rmqspark.client.pushing.membership import Membership
    from rmqspark.client.pushing.pump import Pump
    from rmqspark.client.pushing.starts import Starts
    from rmqspark.client.pushing.subscription import Subscription
    from rmqspark.clock import Clock
    from rmqspark.message_queue import MessageQueue
    from rmqspark.rebalance.strategies import Strategy

SOON_S = 1.0  # after a round that left something open
PAUSE_S = 0.1  # between two rounds, however often brokers say that something has changed

_log = logging.getLogger(__name__)


class Division(NamedTuple):
    """How a group divides its queues. Without a strategy it does not: every member reads all."""

    strategy: Strategy | None
    is_ordered: bool
    interval_ms: int


class Origin(NamedTuple):
    """What the offsets of a queue that was left are of: its broker's store, and the topic made after a deletion, None
    where they are not known; and what was read last, before that offset."""

    life: StoreLife | None
    topic_deleted_ms: int | None
    next_offset: int
    read_last: Read | None

    @classmethod
    def of(cls, held: ProcessQueue) -> Origin:
        return cls(held.life, held.topic_deleted_ms, held.next_offset, held.read_last)


class Leaving(NamedTuple):
    """A queue that was released. The future is done when it is committed, and unlocked; of one that `is_lost`, when
    no listener is at work on it any more."""

    held: ProcessQueue
    gone: Future[None]
    is_lost: bool

    @property
    def needs_lock(self) -> bool:
        return self.held.is_at_work and not self.is_lost


class Rebalancer:
    """Of one member. `subscriptions` are those of the moment, by topic."""

    def __init__(
        self,
        lookout: Lookout,
        membership: Membership,
        subscriptions: Mapping[str, Subscription],
        starts: Starts,
        pump: Pump,
        division: Division,
        clock: Clock,
    ) -> None:
        self._lookout = lookout
        self._membership = membership
        self._subscriptions = subscriptions
        self._starts = starts
        self._pump = pump
        self._division = division
        self._clock = clock
        self._held: dict[MessageQueue, ProcessQueue] = {}
        self._leaving: dict[MessageQueue, Leaving] = {}
        self._begun: set[MessageQueue] = set()  # all that were ever held
        self._left: dict[MessageQueue, Origin] = {}  # of who broadcasts, whose offsets say not whose they are
        self._refused: set[MessageQueue] = set()  # could not be begun with
        self._taking: list[MessageQueue] = []  # locked, and not with the pump yet
        self._changed = threading.Condition()
        self._lost: set[MessageQueue] = set()  # of topics that are gone
        self._asked = 0  # rounds that somebody wants, of which `_done` are done
        self._done = 0
        self._failure: RmqError | None = None  # of the last round
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="rmqspark-rebalance", daemon=True)

    @property
    def assignment(self) -> list[MessageQueue]:
        return sorted(self._held.copy())

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Has it look at once."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def lose(self, queue: MessageQueue) -> None:
        """Has it look at once: the topic is gone, or another one of its name is there by now. Nothing of the queue is
        committed, and it is begun with anew where it is there."""
        with self._changed:
            self._lost.add(queue)
        self.wake()

    def look(self, timeout_s: float) -> None:
        """The same, and waits until it has. Raises Unreachable and the like where nothing could be seen."""
        with self._changed:
            self._asked += 1
            ticket = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= ticket or self._stopped, timeout_s)
            if self._failure is not None:
                raise self._failure

    def let_go(self) -> None:
        """Unlocks what it is about to begin with: a round may be under way still when all is over."""
        for queue in self._taking:
            self._membership.unlock(queue)

    def stop(self) -> None:
        """Begins no more rounds."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        interval_s = pause_s = self._division.interval_ms / 1000
        while True:
            with self._changed:
                is_called = self._changed.wait_for(lambda: self._stopped or self._asked > self._done, pause_s)
                ticket = self._asked
                if self._stopped:
                    return
            failure, is_done = self._try_round(fresh=not is_called)
            with self._changed:
                self._done, self._failure = ticket, failure
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._stopped, PAUSE_S)
            pause_s = interval_s if is_done else min(SOON_S, interval_s)

    def _try_round(self, *, fresh: bool) -> tuple[RmqError | None, bool]:
        try:
            return None, self._round(fresh=fresh)
        except RmqError as error:
            if self._failure is None and not self._stopped:
                _log.warning("The queues of group %s cannot be seen: %s", self._membership.group, error)
            return error, False
        except Exception:  # noqa: BLE001 - a bug: told, and the next round may do better
            _log.exception("The queues of group %s could not be divided", self._membership.group)
            return None, False

    def _round(self, *, fresh: bool) -> bool:
        """Returns whether nothing was left open."""
        self._forget_gone()
        lost = self._give_up_lost()
        views = self._lookout.look(dict(self._subscriptions), fresh=fresh)
        strategy, member = self._division.strategy, self._membership.cluster.client_id
        share = wanted(views, self._held, member, strategy)
        drop, take = change(self._held, share)
        for queue in drop:
            self._release(queue)
        self._begin([queue for queue in take if queue not in lost and self._has_left(queue)])
        return is_settled(views, member, strategy) and share == self._held.keys()

    def _give_up_lost(self) -> Collection[MessageQueue]:
        """Returns those that are not begun with in this round: a broker that lacks a topic which name servers tell of
        would be asked without a pause."""
        with self._changed:
            lost, self._lost = self._lost, set()
        for queue in lost:
            self._lookout.forget(queue.topic)
            if queue in self._held:
                self._release(queue, is_lost=True)
        return lost

    def _release(self, queue: MessageQueue, *, is_lost: bool = False) -> None:
        held = self._held.pop(queue)
        self._leaving[queue] = Leaving(held, self._pump.release(held, is_lost=is_lost), is_lost)

    def _has_left(self, queue: MessageQueue) -> bool:
        """Whether it may be taken again: what was consumed of it is committed, and nobody is at work on it in order."""
        leaving = self._leaving.get(queue)
        return leaving is None or leaving.gone.done()

    def _forget_gone(self) -> None:
        """They still hold what was read of them; of who broadcasts it is kept what that was of."""
        for queue, each in [*self._leaving.items()]:
            if each.gone.done():
                del self._leaving[queue]
                if self._division.strategy is None and not each.is_lost:
                    self._left[queue] = Origin.of(each.held)

    def _begin(self, take: Collection[MessageQueue]) -> None:
        locked_until = Instant.now(self._clock).later(LOCK_LIVE_MS)
        if self._division.is_ordered:
            take = self._taking = self._lock(take, locked_until)
        for queue, start in self._starts.of(take, self._subscriptions, self._is_later).items():
            if isinstance(start, int):
                held = self._held[queue] = self._begun_at(queue, start)
                held.locked_until = locked_until
                self._begun.add(queue)
                self._pump.hold(held)
            elif self._division.is_ordered:
                self._membership.unlock(queue)  # or nobody had it for a minute, should another round not come to it
            self._note_start(queue, start)
        self._taking = []

    def _begun_at(self, queue: MessageQueue, start: int) -> ProcessQueue:
        """A broker takes no commit of another store, or topic, than its own; a file of this machine does: such an
        offset is of the store, and the topic, that it was of when the queue was left."""
        held = ProcessQueue(queue, start, self._clock.monotonic_ms())
        self._forget_gone()  # of what has gone in this very round, too, that is known then
        if (before := self._left.pop(queue, None)) is not None:
            held.life, held.topic_deleted_ms = before.life, before.topic_deleted_ms
            if before.next_offset == start:  # all that was read is consumed
                held.read_last = before.read_last
        return held

    def _is_later(self, queue: MessageQueue) -> bool:
        """Whether all of it is new to the group. So it is where this member has held the queue and no broker knows how
        far: its topic was deleted since, or is in another store, and came back before anything told so."""
        return queue in self._begun or self._lookout.is_later(queue)

    def _note_start(self, queue: MessageQueue, start: int | RmqError) -> None:
        """One that cannot be begun with is told once, and tried again with every round."""
        if isinstance(start, int):
            self._refused.discard(queue)
        elif queue not in self._refused:
            self._refused.add(queue)
            _log.warning("Queue %s cannot be begun with, and is tried again: %s", queue, start)

    def _lock(self, take: Iterable[MessageQueue], until: Instant) -> list[MessageQueue]:
        """Renews the locks of what is held; returns what of `take` is this member's alone.

        A lock that could not be renewed since its broker is away lasts until it ends by itself: then nothing is
        consumed. One that is another's is lost, and with it what was not committed. Locks of queues that are released
        are renewed as long as a listener is at work on them; not of lost ones, as nobody would give them back.
        """
        at_work = [queue for queue, leaving in self._leaving.items() if leaving.needs_lock]
        locked, unknown = self._membership.lock([*self._held, *at_work, *take])
        for queue in at_work:
            if self._leaving[queue].gone.done():  # the lock may have come after the unlocking
                self._membership.unlock(queue)
        for queue, held in list(self._held.items()):
            if queue in locked:
                self._pump.renewed(held, until)
            elif queue not in unknown:
                _log.warning("Queue %s is locked by another member of group %s", queue, self._membership.group)
                self._release(queue, is_lost=True)
        return [queue for queue in take if queue in locked]
