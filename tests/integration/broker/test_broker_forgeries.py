"""What is said to a participant of transactions in a coordinator's name, or under an epoch that nobody was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rmqspark.protocol.bodies.txn import BrokersSeen, HeldAttempt
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.txn import TxnFindRequestHeader

from .half_batch_talk import T, bodies, close, complete, decide, half, hand_out, held, hold, ready, vote

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.integration

FORGED = [
    pytest.param({"transactionalId": "spark-0"}, id="an id nobody prepared"),
    pytest.param({"epoch": 2}, id="the next epoch"),
    pytest.param({"epoch": 1 << 60}, id="a very high epoch"),
]


@pytest.mark.parametrize("fields", FORGED)
def test_half_batches_under_a_forged_epoch_are_refused(on_broker, fields) -> None:
    """An epoch that was never handed out is refused by name, logged once, and shuts the real driver out at no time."""

    async def talk(bench) -> None:
        client = await ready(bench)
        forged = half(b"forged", **fields)
        for _ in range(2):  # before and after the real driver has written
            with capture_logs() as logs:
                for _ in range(2):
                    answer = await client.ask(RequestCode.RMQ_TXN_HALF, *forged)
                    assert (answer.code, "never handed out" in answer.remark) == (ResponseCode.TRANSACTION_FAILED, True)
            refused = [each["error"] for each in logs if each["event"] == "refused"]
            assert refused.count("ForgedEpoch") == (0 if "real" in seen else 1)
            seen.append("real")
            await hold(client, half(b"1"))
        assert not await vote(client, held(half(b"1")))
        assert (await complete(client, held(half(b"1")))).code == 0
        assert await bodies(bench, client) == [b"1"]

    seen: list[str] = []
    on_broker(talk)


DECIDED_OTHERWISE: list[Any] = [
    pytest.param({"attempts": []}, id="nothing of a version"),
    pytest.param({"attempts": [], "version": 1 << 60}, id="nothing of all there will ever be"),
    pytest.param({"attempts": [], "epoch": 1 << 60, "version": 1 << 60}, id="nothing, for ever"),
    pytest.param({"attempts": ["a"]}, id="what is undecided"),
    pytest.param({"attempts": ["a"], "epoch": 2}, id="it under the next epoch"),
    pytest.param({"attempts": ["b"]}, id="another attempt"),
    pytest.param({"outcome": "DROP"}, id="drop what is open"),
    pytest.param({"outcome": "DROP", "epoch": 2}, id="drop under the next epoch"),
    pytest.param({"outcome": "DROP", "epoch": 1 << 60, "version": 1 << 60}, id="drop for ever"),
    pytest.param({"outcome": "DROP", "transactionalId": "spark-0"}, id="drop what nobody prepared"),
]


@pytest.mark.parametrize("fields", DECIDED_OTHERWISE)
def test_decisions_that_nobody_made_are_refused(on_broker: Callable[..., Any], fields: dict[str, Any]) -> None:
    """COMPLETE from somebody who is no coordinator is refused by name, logged once, and loses, shows and shuts out
    nothing."""
    fields = dict(fields)
    attempts = [HeldAttempt(0, name) for name in fields.pop("attempts", ())]

    async def talk(bench: Any) -> None:
        client = await ready(bench)
        request = half(b"1")
        await hold(client, request)
        with capture_logs() as logs:
            for _ in range(2):
                answer = await complete(client, *attempts, **fields)
                assert (answer.code, "has not decided this" in answer.remark) == (ResponseCode.TRANSACTION_FAILED, True)
        assert [each["error"] for each in logs if each["event"] == "refused"].count("ForgedDecision") == 1
        assert await bodies(bench, client) == []
        assert not await vote(client, held(request))
        assert (await complete(client, held(request))).code == 0
        assert await bodies(bench, client) == [b"1"]

    on_broker(talk)


def test_a_drop_of_what_was_voted_for_is_the_coordinators(on_broker: Callable[..., Any]) -> None:
    """What was voted for stays, whoever says that it is to go, until its coordinator has closed it."""

    async def talk(bench: Any) -> None:
        client = await ready(bench)
        request = half(b"1")
        await hold(client, request)
        assert not await vote(client, held(request))
        assert (await complete(client, outcome="DROP")).code == ResponseCode.TRANSACTION_FAILED
        assert not await vote(client, held(request))
        close(bench)
        assert (await complete(client, outcome="DROP")).code == 0
        assert await vote(client, held(request))

    on_broker(talk)


def test_what_was_decided_needs_no_vote(on_broker: Callable[..., Any]) -> None:
    """A broker that does not remember its vote asks the coordinator, and completes what that has decided."""

    async def talk(bench: Any) -> None:
        client = await ready(bench)
        request, twin = half(b"1"), half(b"2", attempt="b")
        await hold(client, request)
        await hold(client, twin)
        decide(bench, held(request))
        assert (await complete(client, held(twin))).code == ResponseCode.TRANSACTION_FAILED
        assert (await complete(client)).code == ResponseCode.TRANSACTION_FAILED
        assert await bodies(bench, client) == []
        for _ in range(2):
            assert (await complete(client, held(request))).code == 0
        assert await bodies(bench, client) == [b"1"]

    on_broker(talk)


def test_who_asks_for_an_owner_has_to_be_a_broker(on_broker: Callable[..., Any]) -> None:
    """A name that no name server knows is not remembered, and told nothing: it would own the id from the answer on."""

    async def talk(bench: Any) -> None:
        client = await ready(bench)
        refused = await client.ask(RequestCode.RMQ_TXN_FIND, TxnFindRequestHeader(T, "ghost"))
        assert "'ghost' is not one of this cluster" in refused.remark
        told = await client.ask(RequestCode.RMQ_TXN_FIND, TxnFindRequestHeader(T))
        assert BrokersSeen.decode(told.body).brokers == []

    on_broker(talk)


VOTES: list[Any] = [
    pytest.param({"epoch": 1 << 60}, id="a very high epoch"),
    pytest.param({"version": 1 << 60}, id="a version from the future"),
    pytest.param({}, id="what is open"),
]


@pytest.mark.parametrize("fields", VOTES)
def test_votes_for_nothing_are_refused(on_broker: Callable[..., Any], fields: dict[str, Any]) -> None:
    """Who describes attempts that have sent nothing gets no yes: it would hold up all later versions."""

    async def talk(bench: Any) -> None:
        client = await ready(bench)
        assert "sent nothing" in await vote(client, HeldAttempt(0, "a"), coordinator="ghost", **fields)
        told = await client.ask(RequestCode.RMQ_TXN_FIND, TxnFindRequestHeader(T))
        assert BrokersSeen.decode(told.body).brokers == []
        request = half(b"1", version=1)
        await hold(client, request)
        assert not await vote(client, held(request), version=1)
        assert (await complete(client, held(request), version=1)).code == 0
        hand_out(bench, epoch=2)
        await hold(client, half(b"2", epoch=2, version=2))
        assert await bodies(bench, client) == [b"1"]

    on_broker(talk)
