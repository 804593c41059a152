"""What a push consumer asks of several brokers: all are asked before the first has answered, so that those which hang
take no longer than one of them."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from rmqspark.client.cluster.futures import at_hand
from rmqspark.client.pushing.membership import Membership
from rmqspark.client.pushing.subscription import ConsumeFrom
from rmqspark.errors import Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.codes import ResponseCode
from rmqspark.remoting.response import Response

HANGS, AWAY, SLAVE, SERVES = "broker-a", "broker-b", "broker-c", "broker-d"
QUEUES = [MessageQueue("orders", name, 0) for name in (HANGS, AWAY, SLAVE, SERVES)]
NOBODY = Unreachable("Nobody is there.", address="nowhere")
BUSY = Response(ResponseCode.SYSTEM_BUSY, 0, "too many", 0, {}, b"")


class Late(Future[Any]):
    """Whoever waits for it before the last broker was asked waits in vain."""

    def result(self, timeout: float | None = None) -> Any:
        return super().result(timeout or 5)


class Brokers:
    """One that answers when the last has been asked, one that is not there, and the last."""

    client_id = "me"

    def __init__(self, late: object) -> None:
        self._late = late
        self._waiting = Late()

    def is_headless(self, name: str) -> bool:
        return name == SLAVE

    def broker(self, name: str) -> SimpleNamespace:
        if name == AWAY:
            raise NOBODY
        return SimpleNamespace(
            submit_heartbeat=lambda _: self._ask(name, Response(0, 0, None, 0, {}, b"")),
            submit_lock=lambda group, client_id, queues: self._ask(name, set(queues)),
        )

    def _ask(self, name: str, answer: object) -> Future[Any]:
        if name == HANGS:
            return self._waiting
        self._waiting.set_result(self._late)
        return at_hand(answer)


def member_at(brokers: Any) -> Membership:
    return Membership(brokers, "billing", ConsumeFrom.parse("latest"))


def test_heartbeats() -> None:
    """By broker what kept it from hearing that the member is there."""
    told = member_at(Brokers(BUSY)).announce([HANGS, AWAY, SERVES], [])
    assert {name: type(error).__name__ for name, error in told.items()} == {
        HANGS: "Busy",
        AWAY: "Unreachable",
        SERVES: "NoneType",
    }


def test_locks() -> None:
    """Those that are held now, and those of which no broker told."""
    assert member_at(Brokers(set())).lock(QUEUES) == ({QUEUES[3]}, {QUEUES[1], QUEUES[2]})
