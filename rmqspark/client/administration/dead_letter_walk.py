"""Dead letters of a group, the newest first, as far back as somebody wants to go: no more is read than is shown, none
is left out and none comes twice while others die.

Each queue is read from its end in small portions, and of several queues the newer letter comes first.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.administration.admin_topics import readable
from rmqspark.client.administration.dead_letters import CHUNK, RETRIES, dead_letter, queues_of, read_chunks, retries_of
from rmqspark.client.administration.key_walk import within_bytes
from rmqspark.client.cluster.silence import RollCall
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqspark.client.administration.dead_letters import DeadLetter, DeadLetterQueue
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.message_queue import MessageQueue


class DeadLetterPage(NamedTuple):
    """`letters` are the newest first. `older` says, by queue (`broker-a/0`), before which offset the others lie; empty:
    there are none."""

    letters: list[DeadLetter]
    older: dict[str, int]


def newest_dead_letters(
    cluster: ClusterClient, group: str, max_count: int, *, on_silent: OnSilent | None = None
) -> list[DeadLetter]:
    """The newest dead letters of a group, oldest first. GroupNotFound where there is neither a group nor a letter.
    `on_silent` as in `count_dead_letters`; where all brokers are silent that have any it is an error, too."""
    return dead_letter_page(cluster, group, max_count, on_silent=on_silent).letters[::-1]


def dead_letter_page(
    cluster: ClusterClient,
    group: str,
    limit: int,
    before: Mapping[str, int] | None = None,
    most_bytes: int | None = None,
    *,
    on_silent: OnSilent | None = None,
) -> DeadLetterPage:
    """The newest `limit`; with the `older` of the page before, those behind them. Fewer, once their bodies have come to
    `most_bytes`. Errors, and `on_silent`, as for `newest_dead_letters`."""
    if limit < 1:
        raise InvalidArgument(f"max_count is 1 or more, not {limit}.")
    roll = RollCall(cluster, on_silent)
    queues = queues_of(cluster, roll, group)
    retries = retries_of(roll, readable(cluster), group) if queues else RETRIES
    places = dict(before or {})
    walks = {held.queue: _Walk(cluster, roll, held, retries, places.get(_name(held.queue))) for held in queues}
    in_order = merge(*walks.values(), key=_age, reverse=True)
    letters = list(within_bytes(islice(in_order, limit), most_bytes))
    for letter in letters:
        walks[letter.message.queue].place = letter.message.queue_offset
    if next(in_order, None) is None:
        return DeadLetterPage(letters, {})
    return DeadLetterPage(letters, places | {_name(queue): walk.place for queue, walk in walks.items()})


def _age(letter: DeadLetter) -> tuple[int, MessageQueue, int]:
    message = letter.message
    return message.store_timestamp_ms, message.queue, message.queue_offset


def _name(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


class _Walk:
    """Back through one queue. `place` is behind all that was not shown yet."""

    def __init__(
        self, cluster: ClusterClient, roll: RollCall, held: DeadLetterQueue, retries: int, before: int | None
    ) -> None:
        self._cluster = cluster
        self._roll = roll
        self._held = held
        self._retries = retries
        end = held.bounds.max_offset
        self.place = end if before is None else min(before, end)

    def __iter__(self) -> Iterator[DeadLetter]:
        """Up to the oldest, or to where the broker is silent."""
        first, at = self._held.bounds.min_offset, self.place
        while at > first and not self._roll.is_silent(self._held.queue.broker_name):
            start = max(first, at - CHUNK)
            yield from reversed(self._between(start, at))
            at = start

    def _between(self, start: int, end: int) -> list[DeadLetter]:
        """All of them, or none."""
        queue, settled = self._held.queue, self._held.settled
        with self._roll.hears(queue.broker_name):
            return [
                dead_letter(record, queue.broker_name, self._retries, is_resent=record.queue_offset < settled)
                for records in read_chunks(self._cluster, queue, start, end)
                for record in records
            ]
        return []
