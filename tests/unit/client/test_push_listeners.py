"""What a push consumer makes of what its listener returns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.pushing.accepted import checked_listener

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("goes_by_pool", [True, False])
def test_a_generator_from_behind_another_function_is_run_to_its_end(goes_by_pool: bool) -> None:
    """`Executor.map` returns one, and has begun: its messages failed though all went well, and came again 16 times."""
    done: list[Any] = []
    with ThreadPoolExecutor(1) as pool:

        def listen(messages: list[Any], work: Callable[[Any], object]) -> object:
            return pool.map(work, messages) if goes_by_pool else (work(message) for message in messages)

        messages: Any = ["paid", "sent"]
        checked_listener(lambda them: listen(them, done.append), takes_list=True)(messages)
        assert done == messages
        with pytest.raises(ValueError, match="paid"):
            checked_listener(lambda them: listen(them, int), takes_list=True)(messages)
