"""What a slave does not do: it decides nothing that its master has to know of, and takes nothing for lost.

Its tables are its master's, so what is changed here would be gone with the next look at the master. Its ledger of
transactions is as old as its start: an answer from it could be wrong. Messages are refused by the store itself.
RocketMQ's slaves take changes of topics and groups, and lose them.

It may have begun later than its master, and lag behind. So of an offset that it does not have it never says that it has
moved: its master may have it (RocketMQ's `offsetCheckInSlave`, which is false).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import Busy, NotWritable
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from typing import NoReturn

    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields, Routes
    from rmqspark.store.message_store import MessageStore

MASTERS_ONLY: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.END_TRANSACTION,
        RequestCode.RESUME_CHECK_HALF_MESSAGE,
        *(code for code in RequestCode if code.name.startswith("RMQ_TXN_")),
    }
)


TO_THE_END: Final = (1 << 63) - 1
"""The end of a range that has none."""


def require_copied(store: MessageStore, topic: str, queue_id: int, start: int, end: int) -> None:
    """Raises Busy where a slave's copy of a queue does not have what such a range begins with, or may have what its
    master has not."""
    require_proven(store)
    low, high = store.queues.bounds(topic, queue_id)
    if start < low or start > high or start == high < end < TO_THE_END:
        raise Busy(
            f"Offset {start} of queue {queue_id} of {topic} is not on this slave, which has {low} to {high}: "
            "its master may have it.",
            hint="It is read once the master is back, or this slave is made the master.",
        )


def require_proven(store: MessageStore) -> None:
    """Raises Busy where this may have been the master, and its successor may have other messages."""
    if store.replica.is_doubtful:
        raise Busy(
            "This slave's store was not a slave's before, and has not been compared with its master's yet.",
            hint="It is read once that was done.",
        )


def require_whole(store: MessageStore, topic: str, queue_id: int) -> None:
    """Raises Busy where it may be the master alone that knows where a queue begins."""
    require_proven(store)
    low = store.queues.bounds(topic, queue_id)[0]
    if low and not store.replica.is_whole:
        raise Busy(
            f"Queue {queue_id} of {topic} begins at {low} on this slave, which may have begun later than its master.",
            hint="It is known once the master is back, or this slave is made the master.",
        )


def refusing_on_slaves(routes: Routes) -> Routes:
    """The same family, as a slave answers it."""
    return {
        code: route._replace(handle=_refuse, take=None) if code in MASTERS_ONLY else route
        for code, route in routes.items()
    }


def _refuse(request: Request[NoFields]) -> NoReturn:
    raise NotWritable("This broker is a slave, it decides nothing.", hint="Its master does, once it is back.")
