"""Brokers that name servers name and that answer nothing: they hang, or the network loses what they are sent.

Their connections stay open, so it takes the name servers two minutes to take them off (semantics, section 1), and a
query that asked them each time would stand still for as long. It leaves them out of sight instead, as it does brokers
that are not registered, and has one question on its way to each, which nobody waits for: the answer brings it back.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.errors import RmqError
from rmqspark.protocol.codes import RequestCode
from rmqspark.source.asking import ask

if TYPE_CHECKING:
    from collections.abc import Collection
    from concurrent.futures import Future

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.remoting.response import Response

ANSWER_TIMEOUT_MS = 3_000
LOOK_MS = 1_000  # one that refuses connections is asked no more often

_log = logging.getLogger(__name__)


class _Question(NamedTuple):
    answer: Future[Response]
    asked_ms: int


class Outages:
    """Which brokers one query leaves out until they answer. `client` is used, never closed."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._questions: dict[str, _Question] = {}

    def among(self, names: Collection[str]) -> frozenset[str]:
        """Those of these brokers that are out of sight and have not answered yet. Others are forgotten: whoever is not
        registered any more is out of sight for that."""
        self._questions = {
            name: question
            for name, known in self._questions.items()
            if name in names and (question := self._keep(known, name))
        }
        return frozenset(self._questions)

    def begin(self, names: Collection[str]) -> bool:
        """Asks those of these brokers that are in sight, and takes those out of it that do not answer. False where all
        of them do, or none: then there is nothing to leave out, or nothing to read."""
        asked = {name: self._ask(name) for name in names if name not in self._questions}
        silent = {name: question for name, question in asked.items() if not _is_answered(question)}
        if not silent or len(silent) == len(asked):
            return False
        for name in sorted(silent):
            _log.warning(
                "Broker %s is registered and answers nothing: what it holds waits, and the others are read on.", name
            )
        self._questions |= silent
        return True

    def _keep(self, question: _Question, name: str) -> _Question | None:
        """The question as it stands, or the next one; None where it is answered."""
        if not question.answer.done():
            return question
        if _is_answered(question):
            _log.warning("Broker %s answers again, and is read on.", name)
            return None
        is_due = self._client.clock.monotonic_ms() - question.asked_ms >= LOOK_MS
        return self._ask(name) if is_due else question

    def _ask(self, name: str) -> _Question:
        """Any answer will do, also that this request is not known."""
        broker = self._client.broker(name)
        answer = ask(lambda: broker.submit(RequestCode.RMQ_CAPABILITIES, timeout_ms=ANSWER_TIMEOUT_MS))
        return _Question(answer, self._client.clock.monotonic_ms())


def _is_answered(question: _Question) -> bool:
    """Waits for it."""
    try:
        question.answer.result()
    except RmqError:
        return False
    return True
