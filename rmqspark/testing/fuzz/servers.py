"""A whole run against real servers: bad bytes on many connections, a canary between them, the verdict at the end."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.testing.fuzz.attack import run_attack, served_codes
from rmqspark.testing.fuzz.canary import Canary, check_song
from rmqspark.testing.fuzz.victim import Victim

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FRAMES_PER_SERVER: Final = 200_000
"""After so many a fresh one takes over, so that tables and log do not grow for the length of a soak."""
MAX_GROWTH_BYTES: Final = 128 << 20
"""Memory that a server may gain by being fuzzed: what bad requests may legally store, and its caches."""
_CONNECTIONS_BETWEEN_NOTES: Final = 10


class Verdict(NamedTuple):
    """How a run went; that it ended says that nothing was wrong."""

    frames: int
    answers: Counter[str]
    notes: int
    """Messages of the canary, all of them there after a kill and a restart."""
    growth_bytes: int
    """The most memory that any server gained."""


def run_servers(directory: Path, frames: int, seeds: Sequence[bytes], *, seed: int, first: int = 0) -> Verdict:
    """Sends `frames` bad frames, half of them to brokers, half to name servers.

    Raises AssertionError with the seed where a server dies, logs what it should not, keeps a client waiting, grows,
    loses or changes a message of the canary, or leaves a store behind, killed or stopped, that is not sound.
    """
    answers: Counter[str] = Counter()
    notes = growth = 0
    numbers = count(first)
    for number in count():
        wanted = min(frames - answers["frames"], FRAMES_PER_SERVER)
        if wanted <= 0:
            break
        one = _run_one(directory / str(number), wanted, seeds, seed, numbers)
        answers += one.answers
        notes, growth = notes + one.notes, max(growth, one.growth_bytes)
    return Verdict(answers["frames"], answers, notes, growth)


def _run_one(directory: Path, frames: int, seeds: Sequence[bytes], seed: int, numbers: count[int]) -> Verdict:
    """One store, fuzzed twice: after the first half its servers are killed, after the second they stop in order."""
    answers: Counter[str] = Counter()
    song: list[bytes] = []
    growth = 0
    for wanted, end in (((frames + 1) // 2, Victim.kill), (frames, _stop_in_order)):
        with Victim(directory) as victim, Canary(victim.namesrv, song) as canary:
            canary.check()  # what was there before is there again
            canary.sing()
            before = victim.resident_bytes()
            attack = _Attack(victim, canary, seeds, seed)
            while answers["frames"] < wanted:
                answers += attack.connection(next(numbers))
            growth = max(growth, victim.resident_bytes() - before)
            canary.check()
            end(victim)
            _require_health(victim, f"seed {seed}", stopped=True)
        try:
            victim.check_store()
        except AssertionError as broken:
            raise AssertionError(f"The store is not sound (seed {seed}): {broken}") from broken
        song = canary.song
    if growth > MAX_GROWTH_BYTES:
        raise AssertionError(f"The servers grew by {growth >> 20} MiB (seed {seed}).")
    with Victim(directory) as again:
        check_song(again.namesrv, song)
    return Verdict(answers["frames"], answers, len(song), growth)


class _Attack:
    """Bad frames for both servers of a victim, and a canary that sings between them."""

    def __init__(self, victim: Victim, canary: Canary, seeds: Sequence[bytes], seed: int) -> None:
        self._victim, self._canary, self._seeds, self._seed = victim, canary, seeds, seed
        servers = (("broker", victim.broker), ("namesrv", victim.namesrv))
        self._roles = [(role, address, served_codes(address)) for role, address in servers]

    def connection(self, number: int) -> Counter[str]:
        """What was answered to the frames of one connection to each."""
        answers: Counter[str] = Counter()
        for role, address, codes in self._roles:
            these = range(number, number + 1)
            answers += run_attack(address, role, codes, self._seeds, seed=self._seed, connections=these)
        if number % _CONNECTIONS_BETWEEN_NOTES == 0:
            self._canary.sing()
            _require_health(self._victim, f"seed {self._seed}, up to connection {number}")
        return answers


def _stop_in_order(victim: Victim) -> None:
    if victim.stop() != 0:
        raise AssertionError("The servers did not stop in order.")


def _require_health(victim: Victim, where: str, *, stopped: bool = False) -> None:
    complaints = victim.complaints()
    if complaints:
        raise AssertionError(f"The log complains ({where}):\n" + "\n".join(complaints[:5]))
    if not stopped and not victim.alive:
        raise AssertionError(f"The servers died ({where}).")
