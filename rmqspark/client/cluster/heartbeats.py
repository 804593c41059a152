"""Tells the brokers that this client is there, so that RocketMQ's tools list it.

One daemon thread for a whole client, started with the first producer: every 30 seconds, and at once when a broker is
new, it sends HEART_BEAT to each broker the client uses (spec: requests, sections 5 and 8). A broker that does not
answer is tried again the next time, for ten minutes. Who is to be known to all brokers has them looked for each time,
too. A process that was forked has a thread of its own from its first send on.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import wait
from functools import partial
from typing import TYPE_CHECKING, Final

from rmqspark.client.cluster.futures import asked
from rmqspark.errors import RmqError
from rmqspark.protocol.bodies.client import HeartbeatData, ProducerData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqspark.client.cluster.broker_client import BrokerClient

INTERVAL_S = 30.0
JOIN_S = 1.0
GOOD_BYE_S = 3.0  # for brokers to hear of it; they also notice when the connection ends
_MOST_MISSED: Final = 20  # heartbeats in a row, ten minutes of them
_log = logging.getLogger(__name__)


class Heartbeats:
    """The producer groups of one client, announced to the brokers it uses. Safe to share between threads."""

    def __init__(self, client_id: str) -> None:
        self._groups: set[str] = set()
        self._brokers: dict[str, BrokerClient] = {}
        self._missed: dict[str, int] = {}  # by broker: heartbeats in a row that had no answer
        self._look: Callable[[], Iterable[BrokerClient]] | None = None
        self._has_looked = True  # the last time with success
        self._stopped = False
        self.begin_anew(client_id)

    def begin_anew(self, client_id: str) -> None:
        """In a process that is forked: the thread is its parent's, and so is the id under which brokers know that."""
        self._client_id = client_id
        self._changed = threading.Condition()
        self._due = False
        self._thread: threading.Thread | None = None

    def add_producer(self, group: str) -> None:
        with self._changed:
            self._groups.add(group)
            self._wake()

    def remove_producer(self, group: str) -> None:
        """Takes back the registration (UNREGISTER_CLIENT) at every broker that knows of it: at all of them before the
        first answer is awaited, so several that have stopped cost no more time than one."""
        with self._changed:
            self._groups.discard(group)
            brokers = list(self._brokers.values())
        under_way = []
        for broker in brokers:
            try:
                under_way.append(broker.submit_unregister(self._client_id, group))
            except RmqError as error:
                _log.debug("%s was not told that producer group %s left: %s", broker.name, group, error)
        wait(under_way, GOOD_BYE_S)

    def reach(self, broker: BrokerClient) -> None:
        """Announces this client to `broker` from now on. Cheap where it is known already."""
        if broker.name in self._brokers and (self._thread is not None or not self._groups):
            return
        with self._changed:
            self._brokers[broker.name] = broker
            if self._groups:
                self._wake()

    def reach_all(self, look: Callable[[], Iterable[BrokerClient]]) -> None:
        """The same to all that `look` finds, before every beat: also to those that come later. It may raise RmqError,
        and is called on the thread of the heartbeats."""
        with self._changed:
            self._look = look
            if self._groups:
                self._wake()

    def stop(self) -> None:
        """No heartbeat is begun any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def join(self) -> None:
        """Waits a moment for a heartbeat under way; with its connection closed it ends at once."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(JOIN_S)

    def _wake(self) -> None:
        self._due = True
        self._changed.notify_all()
        if self._thread is None and not self._stopped:
            self._thread = threading.Thread(target=self._run, name="rmqspark-heartbeats", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._stopped, INTERVAL_S)
                if self._stopped:
                    return
                self._due = False
            self._look_for_brokers()
            with self._changed:
                brokers = list(self._brokers.values()) if self._groups else []
                heartbeat = HeartbeatData(
                    clientID=self._client_id, producerDataSet=[ProducerData(group) for group in sorted(self._groups)]
                )
            self._beat(brokers, heartbeat)

    def _look_for_brokers(self) -> None:
        if self._look is None:
            return
        try:
            found = {broker.name: broker for broker in self._look()}
        except RmqError as error:
            level = logging.WARNING if self._has_looked and not self._stopped else logging.DEBUG
            _log.log(level, "Which brokers there are is not known, and asked again every %d s: %s", INTERVAL_S, error)
            self._has_looked = False
            return
        self._has_looked = True
        with self._changed:
            self._brokers = found | self._brokers

    def _beat(self, brokers: Iterable[BrokerClient], heartbeat: HeartbeatData) -> None:
        """At all of them before the first answer is awaited: one that hangs keeps no other from hearing of it."""
        answers = {broker.name: asked(partial(broker.submit_heartbeat, heartbeat)) for broker in brokers}
        wait(answers.values())
        for name, answer in answers.items():
            self._note(name, is_answered=answer.exception() is None)
            try:
                answer.result().raise_for_code()
            except RmqError as error:
                _log.debug("%s takes no heartbeat: %s", name, error)

    def _note(self, broker_name: str, *, is_answered: bool) -> None:
        """One that has been away for long is told nothing more until it is used once more, or found: brokers may come
        under a new name each time."""
        with self._changed:
            missed = 0 if is_answered else self._missed.get(broker_name, 0) + 1
            if missed >= _MOST_MISSED:
                self._brokers.pop(broker_name, None)
            if 0 < missed < _MOST_MISSED:
                self._missed[broker_name] = missed
            else:
                self._missed.pop(broker_name, None)
