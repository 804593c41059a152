"""Brokers that name servers name and that answer nothing: they hang, or the network loses what they are sent.

Their connections stay open, so it takes the name servers two minutes to take them off (semantics, section 1), and
whoever asked them each time would stand still for as long. Who can do with other brokers leaves them out instead, as it
does those that are not registered. One question is on its way to each, which nobody waits for: its answer brings it
back.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.futures import asked
from rmqspark.errors import RmqError
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.clock import Clock
    from rmqspark.remoting.response import Response

ANSWER_TIMEOUT_MS = 3_000
LOOK_MS = 1_000  # one that refuses connections is asked no more often

_log = logging.getLogger(__name__)


class _Question(NamedTuple):
    answer: Future[Response]
    asked_ms: int


class Outages:
    """Which brokers have fallen silent and not answered since, for all threads of a client. `broker` gives one by its
    name."""

    def __init__(self, clock: Clock, broker: Callable[[str], BrokerClient]) -> None:
        self._clock = clock
        self._broker = broker
        self._questions: dict[str, _Question] = {}

    def among(self, names: Collection[str]) -> frozenset[str]:
        """Those of these brokers that are silent. Never waits."""
        return frozenset(name for name in sorted(names) if self._is_silent(name))

    def look(self, names: Collection[str]) -> bool:
        """Waits for an answer of each of these brokers that is not known to be silent. Whether some have fallen silent
        and others have not: where all answer, what failed was something else, and where none does nothing can be left
        out."""
        questions = {name: self._ask(name) for name in sorted(names) if name not in self._questions}
        silent = {name: question for name, question in questions.items() if not _is_answered(question)}
        if not silent or len(silent) == len(questions):
            return False
        self._keep(silent)
        return True

    def add(self, name: str) -> None:
        """This broker was waited for in vain."""
        if name not in self._questions:
            self._keep({name: self._ask(name)})

    def _keep(self, silent: dict[str, _Question]) -> None:
        for name in sorted(silent):
            _log.warning("Broker %s answers nothing. Where others can do instead, it is left out until it does.", name)
        self._questions |= silent

    def _is_silent(self, name: str) -> bool:
        question = self._questions.get(name)  # once: another thread may hear of its answer meanwhile
        if question is None:
            return False
        if not question.answer.done():
            return True
        if _is_answered(question):
            self._questions.pop(name, None)
            _log.warning("Broker %s answers again.", name)
            return False
        if self._clock.monotonic_ms() - question.asked_ms >= LOOK_MS:
            self._questions[name] = self._ask(name)
        return True

    def _ask(self, name: str) -> _Question:
        """Any answer will do, also that this request is not known."""
        broker = self._broker(name)
        answer = asked(lambda: broker.submit(RequestCode.RMQ_CAPABILITIES, timeout_ms=ANSWER_TIMEOUT_MS))
        return _Question(answer, self._clock.monotonic_ms())


def _is_answered(question: _Question) -> bool:
    """Waits for it."""
    try:
        question.answer.result()
    except RmqError:
        return False
    return True
