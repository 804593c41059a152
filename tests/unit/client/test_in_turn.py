"""What is done on several brokers, one after the other."""

from __future__ import annotations

import pytest

from rmqspark.client.in_turn import in_turn
from rmqspark.errors import Busy


@pytest.mark.parametrize(
    ("refuses", "done", "hint"),
    [
        (0, [], "Ask again."),
        (1, [0], "It is done for b0, and for nothing behind. Ask again."),
        (6, [0, 1, 2, 3, 4, 5], "It is done for b0, b1, b2, b3 and 2 more, and for nothing behind. Ask again."),
    ],
)
def test_an_error_says_what_is_done(refuses: int, done: list[int], hint: str) -> None:
    """Who reads it knows what is half done; the rest is left alone."""
    told: list[int] = []

    def do(number: int) -> None:
        if number == refuses:
            raise Busy("It is busy.", hint="Ask again.")
        told.append(number)

    with pytest.raises(Busy) as error:
        in_turn(range(9), do, "b{}".format)
    assert (told, error.value.hint) == (done, hint)
