"""Whatever bytes come, they are decoded or refused with an error that says so."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.testing.fuzz import decoders
from rmqspark.testing.fuzz.decoding import ROUND, Escaped, run_decoders
from rmqspark.testing.fuzz.golden import golden_frames
from rmqspark.testing.fuzz.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = golden_frames(Path(__file__).parents[2] / "golden")
INPUTS = 8_000
INPUTS_OF_A_SOAK = 4_600_000


@pytest.mark.property
@pytest.mark.timeout(1_700)
def test_decoders_answer_everything_with_a_value_or_a_typed_error(
    amount: Callable[[int, int], int], seed: int, tell: Callable[[str], None]
) -> None:
    """Frames, headers, bodies, records and expressions, broken on every level, never surprise a decoder."""
    counts = run_decoders(seed, amount(INPUTS, INPUTS_OF_A_SOAK), GOLDEN)
    tell(f"{counts.total():,} inputs, seed {seed}: {dict(counts)}")


def test_a_run_follows_from_its_seed() -> None:
    """A failure found by chance can be seen again: the same seed gives the same bytes."""

    def frames(seed: int) -> list[bytes]:
        requests = Requests(Random(seed), tuple(RequestCode), seeds=GOLDEN)
        return [requests.next().wire for _ in range(200)]

    assert frames(7) == frames(7)
    assert frames(7) != frames(8)


def test_requests_called_readable_are() -> None:
    """Most inputs are wrong only in their values, so that they reach the code behind the header."""
    requests = Requests(Random(1), tuple(RequestCode), seeds=GOLDEN)
    frames = [requests.next() for _ in range(2_000)]
    readable = [frame.wire for frame in frames if frame.readable]
    assert len(readable) > 1_600
    for wire in readable:
        assert int.from_bytes(wire[:4], "big") == len(wire) - 4
        decode_command(split_frame(wire[4:]))


def test_what_escapes_is_told_with_the_way_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that no caller expects fails the run, and the failure is a command to repeat."""

    def careless(data: bytes) -> None:
        if b"\x00\x00\x80" in data:
            raise IndexError("planted")

    monkeypatch.setattr(decoders, "receive", careless)
    with pytest.raises(Escaped, match=r"IndexError from request: planted") as caught:
        run_decoders(3, 20 * ROUND, GOLDEN)
    command = str(caught.value).splitlines()[-1]
    number = int(command.split("--round ")[1].split()[0])
    with pytest.raises(Escaped):
        run_decoders(3, ROUND, GOLDEN, first_round=number)
