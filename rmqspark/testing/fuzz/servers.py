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
    """Messages of the canary, all of them there after a restart."""
    growth_bytes: int
    """The most memory that any server gained."""


def run_servers(directory: Path, frames: int, seeds: Sequence[bytes], *, seed: int, first: int = 0) -> Verdict:
    """Sends `frames` bad frames, half of them to brokers, half to name servers.

    Raises AssertionError with the seed where a server dies, logs what it should not, keeps a client waiting, grows, or
    loses or changes a message of the canary.
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
    answers: Counter[str] = Counter()
    with Victim(directory) as victim, Canary(victim.namesrv) as canary:
        canary.sing()
        before = victim.resident_bytes()
        roles = [(role, at, served_codes(at)) for role, at in (("broker", victim.broker), ("namesrv", victim.namesrv))]
        while answers["frames"] < frames:
            start = next(numbers)
            connections = range(start, start + 1)
            for role, address, codes in roles:
                answers += run_attack(address, role, codes, seeds, seed=seed, connections=connections)
            if start % _CONNECTIONS_BETWEEN_NOTES == 0:
                canary.sing()
                _require_health(victim, f"seed {seed}, up to connection {start}")
        growth = victim.resident_bytes() - before
        canary.check()
        if victim.stop() != 0:
            raise AssertionError(f"The servers did not stop in order (seed {seed}).")
        _require_health(victim, f"seed {seed}", stopped=True)
    if growth > MAX_GROWTH_BYTES:
        raise AssertionError(f"The servers grew by {growth >> 20} MiB (seed {seed}).")
    with Victim(directory) as again:  # the store recovers, and holds what it held
        check_song(again.namesrv, canary.song)
    return Verdict(answers["frames"], answers, len(canary.song), growth)


def _require_health(victim: Victim, where: str, *, stopped: bool = False) -> None:
    complaints = victim.complaints()
    if complaints:
        raise AssertionError(f"The log complains ({where}):\n" + "\n".join(complaints[:5]))
    if not stopped and not victim.alive:
        raise AssertionError(f"The servers died ({where}).")
