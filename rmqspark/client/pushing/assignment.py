"""Which queues are a member's to read, by what it has seen of its topics. Pure; spec: semantics, section 8.1.

Every member computes its own share from the same queues and the same client ids, so nobody has to tell it. What could
not be seen changes nothing: a queue is given up for what is known, never for what is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rmqspark.message_queue import MessageQueue
    from rmqspark.rebalance.strategies import Strategy


class View(NamedTuple):
    """A topic as it was seen: its queues, and the client ids of its group's members, None where no broker told."""

    queues: Sequence[MessageQueue]
    members: Collection[str] | None


class Change(NamedTuple):
    """What to give up, and what to begin with."""

    drop: list[MessageQueue]
    take: list[MessageQueue]


def wanted(
    views: Mapping[str, View | None], held: Collection[MessageQueue], member: str, strategy: Strategy | None
) -> set[MessageQueue]:
    """The queues of all topics that are `member`'s, who holds `held`; None for a topic that could not be looked at.

    Without a strategy nobody shares: every member reads all (broadcasting). What is held of a topic stays where its
    members are not known, or do not name this one: it is not alone in the dark.
    """
    shares: set[MessageQueue] = set()
    for topic, view in views.items():
        if view is not None and (strategy is None or not view.queues):
            shares.update(view.queues)
        elif view is None or not view.members or member not in view.members:
            shares.update(queue for queue in held if queue.topic == topic)
        elif strategy is not None:
            shares.update(strategy.allocate(member, view.queues, list(view.members)))
    return shares


def change(held: Collection[MessageQueue], wanted: Collection[MessageQueue]) -> Change:
    """From what is held to what is wanted."""
    return Change(sorted(set(held) - set(wanted)), sorted(set(wanted) - set(held)))


def is_settled(views: Mapping[str, View | None], member: str, strategy: Strategy | None) -> bool:
    """Whether everything was seen that `wanted` goes by; else it is worth another look soon."""
    return all(
        view is not None and (strategy is None or not view.queues or (view.members and member in view.members))
        for view in views.values()
    )
