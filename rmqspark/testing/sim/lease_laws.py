"""Law 12: a queue that queries share is leased to one of them at a time, and who gets it begins where the last one was.

What a member hears of a lease, and of what was committed under it, outlives any crash of the broker. A request of which
nobody heard may still be carried out, but not once a later term has begun. Pure; times in seconds.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

NEVER_COMMITTED: Final = -1
_ROUNDED_S: Final = 0.002
"""Brokers count in milliseconds: so much sooner than its owner may one see the end of a lease."""


class Term(NamedTuple):
    """A lease, and the run of the member that has it. A later one ends it."""

    lease: int
    run: int


class Heard(NamedTuple):
    """Who asked for something, and was answered: when, and how long a lease lasts from then on."""

    member: str
    sent_s: float
    answered_s: float
    lease_s: float


class LeasedQueue:
    """What a broker may say of one queue. Who is told an answer returns what is wrong with it. `excused` are offsets
    that a broker may have come to by itself."""

    def __init__(self) -> None:
        self._term = Term(0, 0)  # the latest that anybody has heard of
        self._begun_s = inf  # when its owner heard of it
        self._owner = ""
        self._sure_s = (inf, -inf)  # from when on, up to when, nobody else can have got the queue
        self._given_up: set[Term] = set()
        self._committed = {NEVER_COMMITTED}
        self._ever = {NEVER_COMMITTED}
        self._on_the_way: Counter[tuple[Term, int]] = Counter()  # each may be carried out once more

    @property
    def values(self) -> set[int]:
        """What may be committed."""
        on_the_way = {offset for (term, offset) in +self._on_the_way if term == self._term}
        return self._committed | on_the_way

    def committing(self, term: Term, offset: int) -> None:
        """It is asked for: from now on it may be there."""
        self._on_the_way[term, offset] += 1
        self._ever.add(offset)

    def committed(self, term: Term, offset: int, told: int, excused: Collection[int]) -> list[str]:
        """That was answered, and where the group is said to be now."""
        self._on_the_way[term, offset] -= 1
        if term != self._term:
            return []
        may_be = {*self.values, offset, *excused}
        self._committed = {told}
        return [] if told in may_be else [f"is at {told} after a commit of {offset}, where {sorted(may_be)} may be"]

    def not_committed(self, term: Term, offset: int) -> None:
        """That was answered: the lease is another one."""
        self._on_the_way[term, offset] -= 1

    def refused(self, term: Term, heard: Heard) -> list[str]:
        """The lease was not renewed: it is another one."""
        if term != self._term or not self._was_sure(heard):
            return []
        return [f"was refused to {heard.member}, who had it until {self._sure_s[1]:.3f} s"]

    def giving_up(self, term: Term) -> None:
        """It is asked for: from now on somebody else may get the queue, however late the request arrives."""
        self._given_up.add(term)
        if term == self._term:
            self._sure_s = (inf, -inf)

    def kept(self, term: Term, heard: Heard) -> list[str]:
        """The lease was renewed."""
        if term < self._term and heard.sent_s >= self._begun_s:
            return [f"was kept for {heard.member} under {term}, though {self._term} of {self._owner} had begun"]
        if term == self._term and term not in self._given_up:
            since_s, until_s = self._sure_s
            renewed_until_s = heard.sent_s + heard.lease_s - _ROUNDED_S
            self._sure_s = min(since_s, heard.answered_s), max(until_s, renewed_until_s)
        return []

    def granted(self, term: Term, heard: Heard, told: int, excused: Collection[int]) -> list[str]:
        """Somebody was given the queue, and told where its group is."""
        if term < self._term:
            return []  # over before its owner heard of it
        wrong = list(self._wrong_with(term, heard, told, excused))
        if term != self._term:
            self._sure_s, self._begun_s = (inf, -inf), heard.answered_s
        self._term, self._owner, self._committed = term, heard.member, {told}
        self.kept(term, heard)
        return wrong

    def _wrong_with(self, term: Term, heard: Heard, told: int, excused: Collection[int]) -> Iterator[str]:
        if heard.member != self._owner:
            if self._was_sure(heard):
                yield f"was given to {heard.member}, while {self._owner} had it until {self._sure_s[1]:.3f} s"
            if term.lease == self._term.lease:
                yield f"was given to {heard.member} under lease {term.lease}, which was {self._owner}'s"
        may_be = {*self.values, *excused}
        if told not in may_be:
            yield f"was given to {heard.member} at {told}, where {sorted(may_be)} may be committed"

    def _was_sure(self, heard: Heard) -> bool:
        """Whether nobody else can have got the queue by when the broker answered."""
        since_s, until_s = self._sure_s
        return since_s <= heard.sent_s and heard.answered_s < until_s

    def forgot(self) -> None:
        """The broker may be back at whatever was ever committed."""
        self._committed |= self._ever

    def succeeded(self) -> None:
        """Another broker is the master: leases of the one before are nobody's."""
        self.forgot()
        self._sure_s = (inf, -inf)
