"""What a push consumer accepts of whoever makes it. Pure."""

from __future__ import annotations

import inspect
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Final, TypeAlias

from rmqspark.errors import InvalidArgument
from rmqspark.rebalance.strategies import NAMES, Strategy, read_strategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.model import ReceivedMessage

    Call: TypeAlias = Callable[[list[ReceivedMessage]], object]

MOST_THREADS: Final = 1_000  # RocketMQ's bounds, as those of batches
MOST_IN_A_BATCH: Final = 1_024
_RETRIES: Final = 16  # RocketMQ's for -1, where messages are consumed in any order
_WITHOUT_END: Final = (1 << 31) - 1  # and in order
_NOT_BEGUN: Final = (CoroutineType, AsyncGeneratorType)
_MAKERS: Final = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
_HAVE_IT_RUN: Final = (
    "Have it run to its end: listener=lambda message: asyncio.run_coroutine_threadsafe(handle(message), loop).result()."
)
_HAVE_IT_GONE_THROUGH: Final = "Have it run to its end: listener=lambda message: list(handle(message))."


def checked_listener(listener: Callable[..., object], *, takes_list: bool) -> Call:
    """What calls it with a batch. InvalidArgument for an `async def`, or one with `yield`: a call of it returns with
    nothing done, and that would be taken for consumed. A coroutine from behind another function fails when called; a
    generator is run to its end: that of `Executor.map` stands for work which is under way, and raises what went wrong
    there."""
    called = listener, getattr(listener, "__call__", None)  # noqa: B004
    if any(makes(each) for makes in _MAKERS for each in called):
        hint = _HAVE_IT_GONE_THROUGH if any(map(inspect.isgeneratorfunction, called)) else _HAVE_IT_RUN
        raise InvalidArgument(f"listener is {listener!r:.80}, whose calls do nothing by themselves.", hint=hint)
    take: Call = listener if takes_list else lambda messages: listener(messages[0])

    def call(messages: list[ReceivedMessage]) -> None:
        outcome = take(messages)
        if isinstance(outcome, GeneratorType) and inspect.getgeneratorstate(outcome) == inspect.GEN_CREATED:
            for _ in outcome:
                pass
        if isinstance(outcome, _NOT_BEGUN):
            if isinstance(outcome, CoroutineType):
                outcome.close()  # or Python warns that nobody has awaited it
            raise InvalidArgument(f"The listener has done nothing: it returned {outcome!r:.80}.", hint=_HAVE_IT_RUN)

    return call


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
