"""Runs of the decoders: so many inputs from a seed, and the input at fault when something escapes."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from rmqspark.protocol.codes import RequestCode
from rmqspark.testing.fuzz import decoders, hostile
from rmqspark.testing.fuzz.bodies import bulk_records, written
from rmqspark.testing.fuzz.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUND: Final = 1_000
"""Inputs that follow from one seed and round: what has to be repeated to see a failure again."""


class Escaped(AssertionError):
    """Something other than a typed error came out of a decoder."""


def run_decoders(seed: int, count: int, seeds: Sequence[bytes], *, first_round: int = 0) -> Counter[str]:
    """Feeds `count` inputs to the decoders; how many each kind of input had. Raises Escaped with what to repeat."""
    counts: Counter[str] = Counter()
    rounds = -(-count // ROUND)
    for number in range(first_round, first_round + rounds):
        _run_round(seed, number, seeds, counts)
    return counts


def _run_round(seed: int, number: int, seeds: Sequence[bytes], counts: Counter[str]) -> None:
    rng = Random(f"{seed}/decoders/{number}")
    requests = Requests(rng, tuple(RequestCode), seeds=seeds)
    for _ in range(ROUND):
        kind, take, data = _draw(rng, requests, seeds)
        counts[kind] += 1
        try:
            take(data)
        except Exception as error:  # what is looked for: anything that a decoder lets out
            raise Escaped(
                f"{type(error).__name__} from {kind}: {error}\ninput: {data.hex()}\n"
                f"repeat: python -m rmqspark.testing.fuzz decoders --seed {seed} --round {number} --count {ROUND}"
            ) from error


def _draw(rng: Random, requests: Requests, seeds: Sequence[bytes]) -> tuple[str, Callable[[bytes], object], bytes]:
    draw = rng.random()
    if draw < 0.8:
        return "request", decoders.receive, requests.next().wire
    if draw < 0.85 and seeds:
        return "answer", decoders.receive_answer, hostile.mutated(rng, rng.choice(seeds))
    if draw < 0.95:
        records = b"".join(bulk_records(rng, "fuzz-a", rng.randrange(4), equal=rng.random() < 0.5))
        return "records", decoders.read_records, hostile.mutated(rng, records) if rng.random() < 0.9 else records
    text = written(rng, hostile.junk(rng)) if rng.random() < 0.5 else hostile.text(rng).encode("utf-8", "replace")
    return "text", decoders.read_text, hostile.mutated(rng, text)
