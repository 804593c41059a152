"""How queues stand, as their brokers say it now: where they begin and end, in which stores they lie.

Requests for all queues travel together, one for all queues of a broker that can answer so. Whoever asks is told of the
first thing that goes wrong; to try again is `ClusterView`'s business.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from rmqspark.client.cluster.measuring import Budget, submit_measure
from rmqspark.client.cluster.queue_bounds import submit_bounds
from rmqspark.errors import NotSupported
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    MaxOffsetResponseHeader,
    OffsetResponseHeader,
    SearchOffsetRequestHeader,
)
from rmqspark.source.offsets import StoreIdentity
from rmqspark.source.planning.planner import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    import msgspec

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.capabilities import Capabilities
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.measuring import Extent
    from rmqspark.client.cluster.queue_bounds import Bounds
    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.response import Response
    from rmqspark.source.queue_range import QueueRange

OFFSET_TIMEOUT_MS = 6_000


class QueueStates:
    """Of whichever queues are asked about. `client` is used, never closed."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def snapshot(self, queues: Sequence[MessageQueue]) -> Snapshot:
        """Ends and stores of these queues, as of one moment."""
        able = self._able(queues)
        bounds, others = self._bounds(queues, able)
        ends = {queue: each.end for queue, each in bounds.items()}
        deletions_ms = {(q.topic, q.broker_name): each.topic_deleted_ms for q, each in bounds.items()}
        for queue, answer in self._submit(RequestCode.GET_MAX_OFFSET, others, _max_header).items():
            told = answer.result().raise_for_code().header(MaxOffsetResponseHeader)
            ends[queue], deletions_ms[queue.topic, queue.broker_name] = told.offset, told.topicDeleted or 0
        stores = _stores(able)
        if _stores(self._able(queues)) != stores:  # a broker was started again in between: whose ends are these?
            return self.snapshot(queues)
        copied_from = {queue: each.begin for queue, each in bounds.items() if able[queue.broker_name].is_slave}
        return Snapshot(
            {queue: ends[queue] for queue in queues}, stores, deletions_ms=deletions_ms, copied_from=copied_from
        )

    def begins(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The lowest offset of each of these queues."""
        able = self._able(queues)
        bounds, others = self._bounds([queue for queue in queues if not able[queue.broker_name].is_slave], able)
        begins = {queue: each.begin for queue, each in bounds.items()}
        # A slave is asked for just that: it says where it does not know.
        others += [queue for queue in queues if able[queue.broker_name].is_slave]
        return begins | self._offsets(RequestCode.GET_MIN_OFFSET, others, _min_header)

    def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """The first message of each queue stored at or after that time, or the end where there is none."""

        def header(queue: MessageQueue) -> msgspec.Struct:
            return SearchOffsetRequestHeader(queue.topic, queue.queue_id, timestamp_ms, "LOWER", queue.broker_name)

        return self._offsets(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queues, header)

    def measure(self, budgets: Sequence[tuple[QueueRange, int]]) -> list[Extent]:
        """How far so many bytes reach into these ranges. Raises NotSupported for queues of stock brokers."""
        by_broker: dict[str, list[int]] = {}
        for number, (wanted, _) in enumerate(budgets):
            by_broker.setdefault(wanted.queue.broker_name, []).append(number)
        asked = [Budget(each.queue, each.start, each.end, max_bytes) for each, max_bytes in budgets]
        answers = [
            (numbers, submit_measure(self._measuring_broker(name), [asked[number] for number in numbers]))
            for name, numbers in by_broker.items()
        ]
        found = {
            number: extent
            for numbers, pieces in answers
            for number, extent in zip(numbers, chain.from_iterable(piece.result() for piece in pieces), strict=True)
        }
        return [found[number] for number in range(len(asked))]

    def _measuring_broker(self, name: str) -> BrokerClient:
        broker = self._client.broker(name)
        if not broker.capabilities().measure:
            raise NotSupported(
                f"maxBytesPerTrigger needs sizes that broker {name!r} does not tell: it is a stock RocketMQ broker.",
                hint="Use maxOffsetsPerTrigger.",
            )
        return broker

    def _able(self, queues: Iterable[MessageQueue]) -> dict[str, Capabilities]:
        """What the brokers of these queues can do and which stores they serve; asked once per connection."""
        return {name: self._client.broker(name).capabilities() for name in brokers_of(queues)}

    def _bounds(
        self, queues: Iterable[MessageQueue], able: Mapping[str, Capabilities]
    ) -> tuple[dict[MessageQueue, Bounds], list[MessageQueue]]:
        """Where queues begin and end, and those that have to be asked about one by one."""
        together: dict[str, list[MessageQueue]] = {}
        others: list[MessageQueue] = []
        for queue in queues:
            is_able = able[queue.broker_name].queue_bounds
            (together.setdefault(queue.broker_name, []) if is_able else others).append(queue)
        answers = [
            (asked, submit_bounds(self._client.broker(name), asked, OFFSET_TIMEOUT_MS))
            for name, asked in together.items()
        ]
        found: dict[MessageQueue, Bounds] = {}
        for asked, pieces in answers:
            found.update(zip(asked, chain.from_iterable(piece.result() for piece in pieces), strict=True))
        return found, others

    def _offsets(
        self, code: RequestCode, queues: Iterable[MessageQueue], header: Callable[[MessageQueue], msgspec.Struct]
    ) -> dict[MessageQueue, int]:
        """Asks for one offset of each queue."""
        answers = self._submit(code, queues, header)
        return {queue: _offset(answer.result()) for queue, answer in answers.items()}

    def _submit(
        self, code: RequestCode, queues: Iterable[MessageQueue], header: Callable[[MessageQueue], msgspec.Struct]
    ) -> Mapping[MessageQueue, Future[Response]]:
        """One request for each queue, all on the way before the first answer is awaited."""
        return {
            queue: self._client.broker(queue.broker_name).submit(code, header(queue), timeout_ms=OFFSET_TIMEOUT_MS)
            for queue in queues
        }


def brokers_of(queues: Iterable[MessageQueue]) -> list[str]:
    """Each once, in the order of the queues."""
    return list(dict.fromkeys(queue.broker_name for queue in queues))


def _stores(able: Mapping[str, Capabilities]) -> dict[str, StoreIdentity]:
    """Which store each broker serves."""
    return {name: StoreIdentity(said.store_id, said.incarnation) for name, said in able.items()}


def _max_header(queue: MessageQueue) -> msgspec.Struct:
    return GetMaxOffsetRequestHeader(queue.topic, queue.queue_id, bname=queue.broker_name)


def _min_header(queue: MessageQueue) -> msgspec.Struct:
    return GetMinOffsetRequestHeader(queue.topic, queue.queue_id, queue.broker_name)


def _offset(answer: Response) -> int:
    return answer.raise_for_code().header(OffsetResponseHeader).offset
