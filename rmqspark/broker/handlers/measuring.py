"""RMQ_MEASURE (30003): how far budgets of bytes reach into queues.

rmqspark's own; a stock broker answers REQUEST_CODE_NOT_SUPPORTED. It is what exact byte limits of micro-batches need:
nothing but queue entries is looked at, a bounded number of them for each request. A queue that is not there is answered
like one that is empty, as where its ends are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.bulk import MAX_MEASURED_QUEUES, QueueBudgets, QueueExtent, QueueExtents
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields
    from rmqspark.store.message_store import MessageStore

_MOST_ENTRIES: Final = 1 << 18  # a few milliseconds of the event loop


class MeasuringHandlers:
    """Answers from the store's queues."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def routes(self) -> Routes:
        return {RequestCode.RMQ_MEASURE: Route(None, self.measure)}

    def measure(self, request: Request[NoFields]) -> Reply:
        asked = QueueBudgets.decode_request(request.body).queues
        if len(asked) > MAX_MEASURED_QUEUES:
            raise InvalidArgument(f"{len(asked)} queues in one request; {MAX_MEASURED_QUEUES} are allowed.")
        entries_left = _MOST_ENTRIES
        extents = []
        for budget in asked:
            start = max(0, budget.fromOffset)
            extent = self._store.queues.measure(
                budget.topic,
                budget.queueId,
                start,
                budget.toOffset,
                max_bytes=max(0, budget.maxBytes),
                max_entries=entries_left,
            )
            entries_left = max(0, entries_left - (extent.next_offset - start))
            extents.append(QueueExtent(extent.next_offset, extent.size_bytes, extent.next_bytes))
        return Reply(body=QueueExtents(extents).encode(standard=True))
