"""From what the user asked for ("earliest", a time, JSON) to an offset for each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument
from rmqspark.source.positions import EARLIEST_MARK, LATEST_MARK, AtOffsets, AtTime, Earliest, Latest, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.model import MessageQueue
    from rmqspark.source.cluster_view import ClusterView
    from rmqspark.source.planner import Snapshot


def resolve(position: Position, snapshot: Snapshot, view: ClusterView, now_ms: int) -> dict[MessageQueue, int]:
    """The offset of each queue of `snapshot`. Raises InvalidArgument where the request does not fit the cluster."""
    match position:
        case Latest():
            return dict(snapshot.ends)
        case Earliest():
            return view.begins(snapshot.ends)
        case AtTime():
            timestamp_ms = position.moment.resolve(now_ms)
            found = view.offsets_at(snapshot.ends, timestamp_ms)
            if not position.else_latest:
                _check_reached(found, snapshot, timestamp_ms)
            return found
        case AtOffsets():
            return _given(position, snapshot, view)


def is_repeatable(position: Position) -> bool:
    """Whether resolving it again later gives the same offsets, as long as nothing expires."""
    match position:
        case Latest():
            return False
        case AtTime():
            return position.moment.at_ms is not None and not position.else_latest
        case AtOffsets():
            return LATEST_MARK not in position.offsets.values()
        case Earliest():
            return True


def _check_reached(found: Mapping[MessageQueue, int], snapshot: Snapshot, timestamp_ms: int) -> None:
    for queue, offset in sorted(found.items()):
        if offset >= snapshot.ends[queue]:
            raise InvalidArgument(
                f"Queue {queue} has no message stored at or after {timestamp_ms} (ms).",
                hint="startingOffsetsByTimestampStrategy=latest starts such queues at their end.",
            )


def _given(position: AtOffsets, snapshot: Snapshot, view: ClusterView) -> dict[MessageQueue, int]:
    for queue in sorted(position.offsets):
        if queue not in snapshot.ends:
            known = ", ".join(str(queue) for queue in sorted(snapshot.ends))
            raise InvalidArgument(
                f"The offsets given name queue {queue}, which is not read.", hint=f"Read are: {known}."
            )
    wanted = {queue: position.of(queue) for queue in sorted(snapshot.ends)}
    begins = view.begins([queue for queue, offset in wanted.items() if offset == EARLIEST_MARK])
    resolved = {
        queue: begins[queue] if offset == EARLIEST_MARK else snapshot.ends[queue] if offset == LATEST_MARK else offset
        for queue, offset in wanted.items()
    }
    for queue, offset in resolved.items():
        if offset > snapshot.ends[queue]:
            raise InvalidArgument(
                f"Offset {offset} lies behind the end of queue {queue}, which is {snapshot.ends[queue]}."
            )
    return resolved
