"""What is done on several brokers, one after the other."""

from __future__ import annotations

import pytest

from rmqspark.client.administration.in_turn import in_turn
from rmqspark.errors import Busy


@pytest.mark.parametrize(
    ("refuses", "done", "message"),
    [
        (0, [], "busy"),
        (1, [0], "busy. It is done for b0, and for nothing behind."),
        (6, [0, 1, 2, 3, 4, 5], "busy. It is done for b0, b1, b2, b3 and 2 more, and for nothing behind."),
    ],
)
def test_an_error_says_what_is_done(refuses: int, done: list[int], message: str) -> None:
    """Who reads it knows what is half done; the rest is left alone. In the message: that is what is recorded of it."""
    told: list[int] = []

    def do(number: int) -> None:
        if number == refuses:
            raise Busy("busy", hint="Ask again.")
        told.append(number)

    with pytest.raises(Busy) as error:
        in_turn(range(9), do, "b{}".format)
    assert (told, error.value.message, error.value.hint) == (done, message, "Ask again.")
