"""Room that all clients have together, of which those at one address take half at most: whoever comes from elsewhere
finds some. Pure.

An address stands for a client: it can have as many connections, client ids and groups as it likes, but not addresses.
Behind a load balancer all share one; there the room has to be twice as large.
"""

from __future__ import annotations


class Shares:
    """So many places. One too many is its owner's to refuse."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._share = (limit + 1) // 2
        self._taken = 0
        self._of: dict[str, int] = {}  # by address; none that has no place

    def shortage(self, address: str, places: int = 1) -> str:
        """Why that address gets no more so many places, in words; "" where it does."""
        if self._taken + places > self._limit:
            return f"it has room for {self._limit}"
        if self._of.get(address, 0) + places > self._share:
            return f"clients at {address} get {self._share} of {self._limit} places"
        return ""

    def take(self, address: str, places: int = 1) -> None:
        self._taken += places
        self._of[address] = self._of.get(address, 0) + places

    def give_back(self, address: str, places: int = 1) -> None:
        self._taken -= places
        self._of[address] -= places
        if not self._of[address]:
            del self._of[address]
