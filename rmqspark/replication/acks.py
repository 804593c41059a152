"""How far each slave has come, and what follows for those who wait for them. Pure.

RocketMQ: DefaultHAService, GroupTransferService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOTHING: Final = -1


class SlaveProgress:
    """One slave's connection: what it was sent, what it has confirmed.

    `identity` is what several connections of one slave have in common, and `alike` how many slaves may have the same.
    `is_known` says whether what it was let in for still holds.
    """

    def __init__(
        self, address: str, identity: str, *, alike: int = 1, is_known: Callable[[], bool] = lambda: True
    ) -> None:
        self.address = address
        self.identity = identity
        self.alike = alike
        self.is_known = is_known
        self.next_offset = NOTHING  # of what is sent next; until it has reported once nobody knows
        self.acked_offset = NOTHING  # confirmed here, with this connection

    @property
    def has_begun(self) -> bool:
        return self.next_offset != NOTHING

    def begin(self, offset: int) -> None:
        """What is sent begins here."""
        self.next_offset = offset

    def sent(self, size: int) -> None:
        self.next_offset += size

    def ack(self, offset: int) -> None:
        """It has everything below `offset`. Raises FrameError for more than it was ever sent: that counts for
        nothing (reliability, G9)."""
        if offset > self.next_offset:
            raise FrameError(
                f"The slave {self.address} confirms {offset}, and was sent no more than {self.next_offset}."
            )
        self.acked_offset = max(self.acked_offset, offset)


class Slaves:
    """All slaves that are connected. A slave whose connection broke unnoticed has two for a while, and counts once."""

    def __init__(self) -> None:
        self._slaves: dict[SlaveProgress, None] = {}  # in the order in which they came

    def __iter__(self) -> Iterator[SlaveProgress]:
        return iter(self._slaves)

    def __len__(self) -> int:
        return len(self._slaves)

    def add(self, slave: SlaveProgress) -> None:
        self._slaves[slave] = None

    def remove(self, slave: SlaveProgress) -> None:
        self._slaves.pop(slave, None)

    def in_step(self, end_offset: int, most_behind_bytes: int) -> int:
        """How many have come so far that `end_offset` may be waited for."""
        return sum(end_offset - slave.acked_offset < most_behind_bytes for slave in self._that_count())

    def confirmed_by(self, count: int) -> int:
        """What at least so many of them have; NOTHING where there are not so many."""
        acked = sorted((slave.acked_offset for slave in self._that_count()), reverse=True)
        return acked[count - 1] if len(acked) >= count else NOTHING

    def _that_count(self) -> Iterator[SlaveProgress]:
        """Of each slave the newest connection by which it has confirmed anything."""
        left: dict[str, int] = {}  # by identity; how many are alike the newest connection knows best
        for slave in reversed(self._slaves):
            left.setdefault(slave.identity, slave.alike)
            if slave.acked_offset != NOTHING and left[slave.identity]:
                left[slave.identity] -= 1
                yield slave
