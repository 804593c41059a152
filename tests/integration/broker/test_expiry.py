"""What operators ask of what has expired."""

from __future__ import annotations

from typing import Any

import pytest

from rmqspark.protocol.codes import RequestCode
from rmqspark.store.message_store import MessageStore

pytestmark = pytest.mark.integration


def test_an_operator_has_expiry_ignore_the_hour(on_broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the next round on, what `delete_when` says counts no more for a while."""
    seen, expire = [], MessageStore.expire

    def watched(store: MessageStore, now_ms: int, **how: Any) -> Any:
        seen.append(how["at_any_hour"])
        return expire(store, now_ms, **how)

    monkeypatch.setattr(MessageStore, "expire", watched)

    async def talk(bench) -> None:
        client = await bench.connect()
        await bench.broker._parts.expiry.run()
        (await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).raise_for_code()
        for _ in range(21):
            await bench.broker._parts.expiry.run()

    on_broker(talk)
    assert seen == [False, *([True] * 20), False]


@pytest.mark.parametrize("code", [RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, RequestCode.CLEAN_UNUSED_TOPIC])
def test_of_queues_nothing_is_left_to_do(on_broker, code: RequestCode) -> None:
    """It is done in each round, and where a topic is deleted."""

    async def talk(bench) -> None:
        client = await bench.connect()
        (await client.ask(code)).raise_for_code()

    on_broker(talk)
