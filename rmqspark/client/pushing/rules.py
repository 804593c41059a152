"""How a push consumer hands messages out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from rmqspark.client.pushing.config import PushConfig
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage


class Rules(NamedTuple):
    """How messages are handed out."""

    config: PushConfig
    threads: int = 20
    batch_size: int = 1
    unlock: Callable[[MessageQueue], Future[Any]] | None = None  # of consumers that read in order
    give_back: Callable[[ReceivedMessage], None] | None = None  # what takes too long, of those that do not

    @property
    def is_ordered(self) -> bool:
        return self.unlock is not None
