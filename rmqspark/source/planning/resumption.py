"""A checkpoint's places under what the user asks for now: another group, other topics. Nothing of it needs a cluster.

What the checkpoint is of is looked at before a batch is run again, too, that an earlier run had planned. Run as another
query it would be finished with other rows, or none, and nobody would read its messages any more.

What is read no longer keeps its places, apart, and goes on from there when it is subscribed to again.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.offsets import Offsets
    from rmqspark.source.options import SourceOptions

_log = logging.getLogger(__name__)


class Resumption:
    """Of one run of a query, which is warned once of what it reads no longer."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._told_left = False

    def of(self, start: Offsets) -> Offsets:
        """`start` under the group that is named now, with places for what is read now. A shared group keeps places
        itself: it is given back what is read no longer. Raises what `check` does."""
        self.check(start)
        if self._options.sharing is not None:
            return start
        wanted = start.reading(self._options.subscription.includes)
        self._tell_left(start, wanted)
        return replace(wanted, group=self._options.group or start.group)

    def check(self, known: Offsets) -> None:
        """Raises InvalidArgument for a checkpoint that this query cannot go on from, nor carry out what is planned in
        it: that of one which shares its group and is to read alone, or the other way round, of another shared group, or
        of other topics."""
        if self._options.sharing is None:
            self._check_alone(known)
        else:
            self._check_shared(known, self._options.group or known.group)

    def _check_alone(self, known: Offsets) -> None:
        if known.member:
            raise InvalidArgument(
                f"The checkpoint is that of a member of the shared group {known.group!r}, which has only some queues.",
                hint="Add groupMode=shared, or start with a new checkpoint.",
            )
        if known.positions and not any(map(self._options.subscription.includes, _known(known))):
            raise InvalidArgument(
                f"The checkpoint is of a query that reads other topics or queues: {_topics(known.positions)}.",
                hint="Use another checkpointLocation, or subscribe to them again.",
            )

    def _check_shared(self, known: Offsets, group: str) -> None:
        """What a query has read alone is not what its group has committed; and each shared group has its own places."""
        if known.positions and not known.member:
            raise InvalidArgument(
                "The checkpoint is of a query that had its group to itself (groupMode=exclusive).",
                hint=f"Use another checkpointLocation: queues begin where group {known.group!r} has come.",
            )
        if group != known.group:
            raise InvalidArgument(
                f"The checkpoint is of the shared group {known.group!r}; option 'group' says {group!r}.",
                hint="Use another checkpointLocation: queues begin where their group has come.",
            )

    def _tell_left(self, start: Offsets, wanted: Offsets) -> None:
        """Warns of what has been taken out of the subscription, and of what is forgotten of it."""
        leaving = start.positions.keys() - wanted.positions.keys()
        if leaving and not self._told_left:
            self._told_left = True
            _log.warning(
                "The checkpoint has places in queues that are read no longer, of: %s. What comes there is not read "
                "until they are subscribed to again; then it goes on from those places.",
                _topics(leaving),
            )
            forgotten = _known(start) - _known(wanted)
            if forgotten:
                _log.warning(
                    "%d places are forgotten, of: %s. Where these are subscribed to again, they are read from the "
                    "first message.",
                    len(forgotten),
                    _topics(forgotten),
                )


def _topics(queues: Iterable[MessageQueue]) -> str:
    return ", ".join(sorted({queue.topic for queue in queues}))


def _known(offsets: Offsets) -> set[MessageQueue]:
    """The queues that these have places of, read or not."""
    return {*offsets.positions, *(offsets.left.positions if offsets.left is not None else ())}
