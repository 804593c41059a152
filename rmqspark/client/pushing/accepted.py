"""What a push consumer accepts of whoever makes it. Pure."""

from __future__ import annotations

from typing import Final

from rmqspark.errors import InvalidArgument
from rmqspark.rebalance.strategies import NAMES, Strategy, read_strategy

MOST_THREADS: Final = 1_000  # RocketMQ's bounds, as those of batches
MOST_IN_A_BATCH: Final = 1_024
_RETRIES: Final = 16  # RocketMQ's for -1, where messages are consumed in any order
_WITHOUT_END: Final = (1 << 31) - 1  # and in order


def between(name: str, value: int, lowest: int, highest: int) -> int:
    if not lowest <= value <= highest:
        raise InvalidArgument(f"{name} is {lowest} to {highest}, not {value}.")
    return value


def checked_times(times: int, *, ordered: bool) -> int:
    """How often a message that fails comes again; -1 is as RocketMQ has it."""
    if times == -1:
        return _WITHOUT_END if ordered else _RETRIES
    return between("max_reconsume_times", times, -1, _WITHOUT_END)


def checked_strategy(strategy: str | Strategy) -> Strategy:
    try:
        chosen = read_strategy(strategy) if isinstance(strategy, str) else strategy
    except ValueError as error:
        raise InvalidArgument(f"allocate_strategy cannot be {strategy!r}: {error}") from None
    if chosen.name not in NAMES:
        raise InvalidArgument(f"allocate_strategy is {chosen.name!r}, but must be one of: {', '.join(NAMES)}.")
    if chosen.name == "machine-room-nearby" and chosen.rooms:
        raise InvalidArgument(
            f"allocate_strategy cannot be {strategy!r}: the room of a push consumer is what its client id begins with.",
            hint="It begins with this machine's address, so the consumer is in none: machine-room-nearby.",
        )
    return chosen
