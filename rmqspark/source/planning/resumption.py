"""A checkpoint's places under what the user asks for now: another group, other topics. Nothing of it needs a cluster.

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
        """`start` under the group that is named now, with places for what is read now. InvalidArgument."""
        return self._wanted(self._of_group(start))

    def _of_group(self, start: Offsets) -> Offsets:
        """A shared group has places of its own: InvalidArgument where it is another."""
        group = self._options.group
        if group is None or group == start.group:
            return start
        if self._options.sharing is not None:
            raise InvalidArgument(
                f"The checkpoint is of the shared group {start.group!r}; option 'group' says {group!r}.",
                hint="Use another checkpointLocation: queues begin where their group has come.",
            )
        return replace(start, group=group)

    def _wanted(self, start: Offsets) -> Offsets:
        """Places of queues that are read no longer are kept apart. Raises InvalidArgument where nothing of it is read.
        A shared group keeps places itself: it is given them back."""
        if self._options.sharing is not None:
            return start
        wanted = start.reading(self._options.subscription.includes)
        if start.positions and not wanted.positions:
            raise InvalidArgument(
                f"The checkpoint is of a query that reads other topics or queues: {_topics(start.positions)}.",
                hint="Use another checkpointLocation, or subscribe to them again.",
            )
        self._tell_left(start, wanted)
        return wanted

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
