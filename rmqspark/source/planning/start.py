"""From what the user asked for ("earliest", a time, a group's offsets, JSON) to an offset for each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rmqspark.errors import InvalidArgument
from rmqspark.source.positions import (
    EARLIEST_MARK,
    LATEST_MARK,
    AtOffsets,
    AtTime,
    AtTimes,
    BeforeEnd,
    Committed,
    Earliest,
    Latest,
    Position,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rmqspark.message_queue import MessageQueue
    from rmqspark.options import Moment
    from rmqspark.source.planning.planner import Snapshot


class View(Protocol):
    """Who knows where queues begin, and when their messages were stored: a cluster, or the files of its stores."""

    def begins(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The lowest offset of each of these queues."""

    def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """The first message of each queue stored at or after that time, or the end where there is none."""

    def ends_of(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Where each of these queues ends now."""

    def committed(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """What a group has committed; None where that is nothing."""


def resolve(position: Position, snapshot: Snapshot, view: View, now_ms: int) -> dict[MessageQueue, int]:
    """The offset of each queue of `snapshot`. Raises InvalidArgument where the request does not fit the cluster."""
    match position:
        case Latest():
            return dict(snapshot.ends)
        case Earliest():
            return view.begins(snapshot.ends)
        case BeforeEnd():
            begins = view.begins(snapshot.ends)
            return {queue: max(begins[queue], end - position.messages) for queue, end in snapshot.ends.items()}
        case AtTime():
            moments = dict.fromkeys(snapshot.ends, position.moment)
            return _at_times(moments, snapshot, view, now_ms, else_latest=position.else_latest)
        case AtTimes():
            _check_topics_read(position, snapshot)
            _check_read(position.queues, snapshot, position.option)
            moments = {queue: position.of(queue) for queue in sorted(snapshot.ends)}
            return _at_times(moments, snapshot, view, now_ms, else_latest=position.else_latest)
        case AtOffsets():
            return _given(position, snapshot, view)
        case Committed():
            return _committed(position, snapshot, view)


def is_repeatable(position: Position) -> bool:
    """Whether resolving it again later gives the same offsets, as long as nothing expires."""
    match position:
        case Latest() | BeforeEnd() | Committed():
            return False
        case AtTime():
            return position.moment.at_ms is not None and not position.else_latest
        case AtTimes():
            moments = (*position.topics.values(), *position.queues.values())
            return all(moment.at_ms is not None for moment in moments) and not position.else_latest
        case AtOffsets():
            return LATEST_MARK not in position.offsets.values()
        case Earliest():
            return True


def _at_times(
    moments: Mapping[MessageQueue, Moment], snapshot: Snapshot, view: View, now_ms: int, *, else_latest: bool
) -> dict[MessageQueue, int]:
    """The first message of each queue at or after its moment. One question for all queues of the same moment."""
    found: dict[MessageQueue, int] = {}
    for moment in dict.fromkeys(moments.values()):
        timestamp_ms = moment.resolve(now_ms)
        found |= view.offsets_at([queue for queue in moments if moments[queue] == moment], timestamp_ms)
        if not else_latest:
            at_end = [q for q in sorted(moments) if moments[q] == moment and found[q] >= snapshot.ends[q]]
            # A queue that holds nothing has nothing before that time either, unless the time is yet to come.
            empty = _empty(at_end, snapshot, view) if timestamp_ms <= now_ms else set()
            _check_reached([queue for queue in at_end if queue not in empty], timestamp_ms)
    return found


def _empty(queues: Sequence[MessageQueue], snapshot: Snapshot, view: View) -> set[MessageQueue]:
    """Those of the queues that hold no message: none was ever sent to them, or all have expired."""
    begins = view.begins(queues) if queues else {}
    return {queue for queue, begin in begins.items() if begin >= snapshot.ends[queue]}


def _check_reached(too_old: Sequence[MessageQueue], timestamp_ms: int) -> None:
    if too_old:
        from rmqspark.display import time_text

        raise InvalidArgument(
            f"Queue {too_old[0]} has no message stored at or after {timestamp_ms} ms ({time_text(timestamp_ms)}).",
            hint="startingOffsetsByTimestampStrategy=latest starts such queues at their end.",
        )


def _committed(position: Committed, snapshot: Snapshot, view: View) -> dict[MessageQueue, int]:
    committed = view.committed(position.group, snapshot.ends)
    unknown = sorted(queue for queue, offset in committed.items() if offset is None)
    begins = {} if position.else_latest else view.begins(unknown)
    # Members of the group read on since the snapshot was taken.
    ahead = [queue for queue, end in snapshot.ends.items() if (committed[queue] or 0) > end]
    resolved = {}
    for queue, end in {**snapshot.ends, **view.ends_of(ahead)}.items():
        offset = committed[queue]
        if offset is not None and offset > end:
            raise InvalidArgument(
                f"Group {position.group!r} has committed offset {offset} of queue {queue}, which ends at {end}: "
                "the topic was made anew, or the broker lost its tail.",
                hint="Say where to start instead: startingOffsets=earliest, or JSON with an offset for each queue.",
            )
        resolved[queue] = begins.get(queue, end) if offset is None else offset
    return resolved


def _check_topics_read(position: AtTimes, snapshot: Snapshot) -> None:
    read = {queue.topic for queue in snapshot.ends}
    for topic in sorted(position.topics):
        if topic not in read:
            raise InvalidArgument(
                f"{position.option} names {topic!r}, which is not read.",
                hint=f"Read are: {', '.join(sorted(read)) or 'no topics'}.",
            )


def _check_read(named: Iterable[MessageQueue], snapshot: Snapshot, option: str) -> None:
    for queue in sorted(named):
        if queue not in snapshot.ends:
            known = ", ".join(str(queue) for queue in sorted(snapshot.ends))
            raise InvalidArgument(
                f"{option} names queue {queue}, which is not read.",
                hint=f"Read are: {known}.",
            )


def _given(position: AtOffsets, snapshot: Snapshot, view: View) -> dict[MessageQueue, int]:
    _check_read(position.offsets, snapshot, position.option)
    wanted = {queue: position.of(queue) for queue in sorted(snapshot.ends)}
    begins = view.begins([queue for queue, offset in wanted.items() if offset == EARLIEST_MARK])
    resolved = {
        queue: begins[queue] if offset == EARLIEST_MARK else snapshot.ends[queue] if offset == LATEST_MARK else offset
        for queue, offset in wanted.items()
    }
    for queue, offset in resolved.items():
        if offset > snapshot.ends[queue]:
            raise InvalidArgument(
                f"{position.option} names offset {offset} of queue {queue}, which ends at {snapshot.ends[queue]}.",
                hint=f"{LATEST_MARK} stands for its end.",
            )
    return resolved
