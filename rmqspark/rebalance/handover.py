"""What a member of a group does with its queues between two micro-batches. Pure: membership and leases in, steps out.

A member asks the brokers four things in one breath, in this order, and each broker does its part at once:

    keep      what it reads, with how far it has come: renewed, and committed, if the lease is still the same
    release   what belongs to somebody else now, after its commit: whoever takes it starts exactly there
    take      what belongs to it now: granted if it is free, at the group's committed offset

A lease has a number that no other lease of the broker has. Whoever finds that its number counts no more has lost the
queue, whatever the reason and whoever has it now: it leaves the offset, uncommitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rmqspark.message_queue import MessageQueue


class Held(NamedTuple):
    """A queue that a member reads: under which lease, and how far."""

    lease: int
    position: int


NOT_COMMITTED: Final = -1
"""The position of what is renewed only: the group's offset stays where it is."""


class Grant(NamedTuple):
    """What a broker answers for a queue: the lease, and the group's committed offset, None if there is none."""

    lease: int
    committed: int | None = None


class Steps(NamedTuple):
    """What to ask of the brokers. What is released is kept, that is committed, first."""

    keep: dict[MessageQueue, Held]
    release: dict[MessageQueue, int]
    take: list[MessageQueue]


class Standing(NamedTuple):
    """What came of it: queues to read on, queues to enter, and those that somebody else has been given meanwhile."""

    kept: dict[MessageQueue, int]
    entering: dict[MessageQueue, Grant]
    lost: list[MessageQueue]


def steps(held: Mapping[MessageQueue, Held], wanted: Collection[MessageQueue]) -> Steps:
    """From what a member reads to what it should read."""
    return Steps(
        keep=dict(held),
        release={queue: each.lease for queue, each in held.items() if queue not in wanted},
        take=sorted(set(wanted) - held.keys()),
    )


def renewal(leases: Mapping[MessageQueue, int]) -> Steps:
    """To hold on to what is held, and no more."""
    return Steps({queue: Held(lease, NOT_COMMITTED) for queue, lease in leases.items()}, {}, [])


def standing(asked: Steps, granted: Mapping[MessageQueue, Grant]) -> Standing:
    """What the answers to `asked` mean: `granted` is everything that the brokers say is held now, or was until it
    was released."""
    return Standing(
        kept={
            queue: each.lease for queue, each in asked.keep.items() if queue in granted and queue not in asked.release
        },
        entering={queue: granted[queue] for queue in asked.take if queue in granted},
        lost=sorted(queue for queue in asked.keep if queue not in granted),
    )
