"""Runs pulls that are held once more: when messages come, when they have waited long enough, and at the shutdown.

Whom what wakes `long_poll.py` knows. It may be thousands at once: a few are run at a time, and others have their turn
in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from rmqspark.broker.pulling.long_poll import ParkedPulls
from rmqspark.errors import TopicNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    from rmqspark.broker.pulling.long_poll import ParkedPull
    from rmqspark.clock import Clock
    from rmqspark.protocol.headers.consume import PullMessageRequestHeader
    from rmqspark.remoting.reply import Reply
    from rmqspark.remoting.request import Request
    from rmqspark.store.dispatcher import Readable
    from rmqspark.store.message_store import MessageStore

    HeldPull: TypeAlias = ParkedPull[Request[PullMessageRequestHeader]]

_WOKEN_A_TURN: Final = 16
_OVERDUE_A_TURN: Final = 2  # some 0.4 ms; more where there are more than what takes this many turns:
_OVERDUE_TURNS: Final = 2_500
_OVERDUE_PAUSE_S: Final = 0.001


class HeldPulls:
    """The pulls that wait. Belongs to the loop; its `messages_arrived` is the store's `on_readable`."""

    def __init__(
        self, run: Callable[[HeldPull], Reply | None], store: MessageStore, clock: Clock, *, limit: int
    ) -> None:
        """`run` gives the answer to a pull, None where it goes on waiting; what it raises is the answer, too."""
        self.is_open = True
        """Whether more may be held."""
        self._run = run
        self._store = store
        self._clock = clock
        self._parked: ParkedPulls[Request[PullMessageRequestHeader]] = ParkedPulls(limit=limit)
        self._woken: deque[HeldPull] = deque()
        self._overdue: deque[HeldPull] = deque()

    def __len__(self) -> int:
        """How many pulls wait for messages."""
        return len(self._parked)

    def hold(self, pull: HeldPull) -> None:
        """Raises Busy where there is no room."""
        self._parked.park(pull)

    def messages_arrived(self, readable: Iterable[Readable]) -> None:
        """Wakes the pulls that were waiting for these; they are answered in the next turn of the loop."""
        if len(self._parked):
            for topic, queue_id, new_max_offset, tags_codes in readable:
                self._wake(self._parked.arrived(topic, queue_id, new_max_offset, _as_ints(tags_codes)))

    def topic_deleted(self, topic: str) -> None:
        """Tells those who wait at its queues, and those who were just woken: in the next topic of the name their
        offsets would mean other messages."""
        ended = self._parked.take_topic(topic)
        for pulls in (self._woken, self._overdue):
            ended += [pull for pull in pulls if pull.topic == topic]
            staying = [pull for pull in pulls if pull.topic != topic]
            pulls.clear()
            pulls.extend(staying)
        for pull in ended:
            pull.request.fail(TopicNotFound(topic))

    def scan(self) -> None:
        """Wakes what waited long enough, or missed something. To be called every `scan_interval_ms`.

        That may be thousands, and none of them is in a hurry: they are run a few at a time, with pauses between.
        """
        self._store.tell_readers()  # or some would be sent on over messages that they have not been held against
        now_ms = self._clock.monotonic_ms()
        due = self._parked.due(now_ms, self._store.queues.max_offset, lambda request: request.connection.closed)
        for pull in due:
            pull.waited_enough = True
        if due and not self._overdue:
            asyncio.get_running_loop().call_soon(self._run_overdue)
        self._overdue += due

    def stop(self) -> None:
        """Answers all, and holds none from now on."""
        self.is_open = False
        for pulls in (self._woken, self._overdue, deque(self._parked.take_all())):
            while pulls:
                self._answer(pulls.popleft())

    def _wake(self, pulls: list[HeldPull]) -> None:
        """Runs them in the next turn: the store that tells of messages is in the middle of an append."""
        if pulls and not self._woken:
            asyncio.get_running_loop().call_soon(self._run_woken)
        self._woken += pulls

    def _run_woken(self) -> None:
        """Answers some of them; others have their turn before the rest, for thousands may be woken at once."""
        for _ in range(min(_WOKEN_A_TURN, len(self._woken))):
            self._answer(self._woken.popleft())
        if self._woken:
            asyncio.get_running_loop().call_soon(self._run_woken)

    def _run_overdue(self) -> None:
        for _ in range(min(max(_OVERDUE_A_TURN, len(self._overdue) // _OVERDUE_TURNS), len(self._overdue))):
            self._answer(self._overdue.popleft())
        if self._overdue:
            asyncio.get_running_loop().call_later(_OVERDUE_PAUSE_S, self._run_overdue)

    def _answer(self, pull: HeldPull) -> None:
        if pull.request.connection.closed:  # as in a scan
            return
        try:
            reply = self._run(pull)
            if reply is not None:
                pull.request.answer(reply)
        except Exception as error:  # noqa: BLE001 - answered and logged as by the router: the other pulls wait on
            pull.request.fail(error)


def _as_ints(tags_codes: Sequence[int] | NDArray[np.int64]) -> Callable[[], list[int]]:
    """What filters compare with; NumPy's integers are made plain only if somebody filters."""
    return lambda: list(map(int, tags_codes))
