"""What a store says of its half messages when it is opened. Pure: given the half queue's messages in their order.

An Apache broker that asks for a half puts a copy of it back, and remembers only in the queue's committed offset that
the original is no longer to be looked at. Killed before that was saved, it leaves both. The copy stands for the
original then, and where one of them ended, both have: no transaction is asked for, or delivered, twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Set

    from rmqspark.txn.half_messages.half_message import HalfMessage, Identity


class Replayed(NamedTuple):
    """The open halves in the order of the queue, and queue offsets of those that ended with no op record to say so."""

    open: list[HalfMessage]
    unmarked: list[int]


class HalfReplay:
    """Takes in every half message from the committed offset on. `marked` are the queue offsets that op records name."""

    def __init__(self, marked: Set[int]) -> None:
        self._marked = marked
        self._chains: list[list[HalfMessage]] = []  # a half and its copies
        self._latest: dict[Identity, list[HalfMessage]] = {}

    def see(self, half: HalfMessage) -> None:
        chain = self._latest.get(half.identity)
        if chain is not None and half.is_copy:
            chain.append(half)
        else:
            self._latest[half.identity] = chain = [half]
            self._chains.append(chain)

    @property
    def first_unmarked(self) -> HalfMessage | None:
        """The oldest half without an op record: committed messages of such halves lie behind it."""
        unmarked = (half for chain in self._chains for half in chain if half.queue_offset not in self._marked)
        return min(unmarked, key=lambda half: half.physical_offset, default=None)

    def settle(self, committed: Set[int]) -> Replayed:
        """`committed` are physical offsets of halves whose messages are in the log."""
        replayed = Replayed([], [])
        for chain in self._chains:
            unmarked = [half for half in chain if half.queue_offset not in self._marked]
            has_ended = len(unmarked) < len(chain) or any(half.physical_offset in committed for half in chain)
            if has_ended:
                replayed.unmarked.extend(half.queue_offset for half in unmarked)
            else:
                replayed.open.append(chain[-1])
        replayed.open.sort(key=lambda half: half.queue_offset)
        return replayed
