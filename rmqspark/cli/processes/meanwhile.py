"""What goes on beside a block: begun with it, ended with it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine


@asynccontextmanager
async def meanwhile(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """These run while the block does, and are cancelled at its end. An error of theirs ends the block."""
    running = AsyncExitStack()
    tasks = await running.enter_async_context(asyncio.TaskGroup())
    begun = [tasks.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in begun:
            task.cancel()
        await running.aclose()  # not told of the block's own errors: a TaskGroup would wrap them
