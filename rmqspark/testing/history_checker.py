"""Judges a history (`history.py`): the laws that hold whatever happens to brokers, disks and connections.

    for event in read_events(file):
        checker.feed(event)
    checker.finish()
    assert not checker.violations

Queue offsets give the order and names give the identity, so every law is a look-up and the whole takes time linear in
the history. Laws are judged as soon as they can be: after a crash it is enough to read what is new. To a further law
belongs an entry of `Law`, the event that carries its evidence, and a part in `history_laws`.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING, TypeVar

from rmqspark.testing.history import Event, Opened, Read, Scan, Seen, Send, Sent
from rmqspark.testing.history_laws import Law, Messages, ProducerOrder, QueueLaws, Sending, Violation

if TYPE_CHECKING:
    from rmqspark.model import MessageQueue

_Begun = TypeVar("_Begun")


class Checker:
    """Takes events in their order; `violations` is what it has found so far."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._sends: dict[int, Sending] = {}
        self._reads: dict[int, Read] = {}
        self._messages = Messages(self._report)
        self._queues: dict[MessageQueue, QueueLaws] = {}
        self._order: dict[str, ProducerOrder] = {}
        self._incarnations: dict[str, int] = {}

    @singledispatchmethod
    def feed(self, event: Event) -> None:
        """Judges by one event more. Raises ValueError for an event that cannot be, as an outcome without a send."""
        raise ValueError(f"{event!r} is no event of a history")

    def finish(self) -> None:
        """To be called when every queue has been scanned for the last time."""
        for queue in self._queues.values():
            queue.judge_unseen()
        for order in self._order.values():
            order.finish()
        self._messages.finish()

    def _report(self, law: Law, queue: MessageQueue | None, queue_offset: int | None, message: str, story: str) -> None:
        self.violations.append(Violation(law, queue, queue_offset, message, story))

    @feed.register
    def _send(self, event: Send) -> None:
        sending = self._sends[event.id] = Sending(event)
        for name, content in event.messages:
            self._messages.add(name, content, sending)
        if event.producer not in self._order:
            self._order[event.producer] = ProducerOrder(self._report)
        self._order[event.producer].begin(sending)

    @feed.register
    def _sent(self, event: Sent) -> None:
        sending = _known(self._sends, event.id)
        sending.outcome = event
        self._messages.judge_copies(sending)
        if event.outcome == "ok" and event.queue is not None:
            queue = self._queue(event.queue)
            for queue_offset, name in enumerate(sending.names, event.queue_offset):
                queue.promise(queue_offset, name, durable=event.durable)
        self._order[sending.producer].advance()

    @feed.register
    def _read(self, event: Read) -> None:
        self._reads[event.id] = event

    @feed.register
    def _seen(self, event: Seen) -> None:
        read = _known(self._reads, event.id)
        del self._reads[event.id]
        if event.outcome != "ok":
            return
        queue = self._queue(read.queue)
        expected = read.queue_offset
        for queue_offset, name, content in event.messages:
            if queue_offset != expected:
                story = f"{read.reader} was shown it where offset {expected} should be"
                self._report(Law.DENSE, read.queue, queue_offset, name, story)
            if queue.show(queue_offset, name):
                self._messages.count(name, read.queue, queue_offset)
            self._messages.judge_content(name, content, read.queue, queue_offset)
            expected = queue_offset + 1
        if event.next_offset != expected:
            story = f"{read.reader} was told to go on at {event.next_offset}"
            self._report(Law.DENSE, read.queue, expected, "", story)
        queue.cover(read.reader, read.queue_offset, event.next_offset)

    @feed.register
    def _scan(self, event: Scan) -> None:
        self._queue(event.queue).judge_scan(event)

    @feed.register
    def _opened(self, event: Opened) -> None:
        before = self._incarnations.setdefault(event.broker_name, event.incarnation)
        self._incarnations[event.broker_name] = event.incarnation
        if event.incarnation < before:
            story = f"the incarnation of {event.broker_name} went back from {before} to {event.incarnation}"
            self._report(Law.STABLE, None, None, "", story)
        if event.incarnation > before:
            self._begin_incarnation(event.broker_name)

    def _begin_incarnation(self, broker_name: str) -> None:
        for key, queue in self._queues.items():
            if key.broker_name == broker_name:
                self._messages.uncount(queue.begin_incarnation())
        for order in self._order.values():
            order.begin_incarnation(broker_name)

    def _queue(self, key: MessageQueue) -> QueueLaws:
        if key not in self._queues:
            self._queues[key] = QueueLaws(key, self._report)
        return self._queues[key]


def _known(table: dict[int, _Begun], number: int) -> _Begun:
    if number not in table:
        raise ValueError(f"the history has an outcome of {number}, which was never begun")
    return table[number]
