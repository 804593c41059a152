"""Leases on queues of a shared group, and resets for those who do not pull, over the wire and a restart."""

from __future__ import annotations

import copy

import pytest
from structlog.testing import capture_logs

from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable, ResetOffsetBody
from rmqspark.protocol.bodies.client import (
    ConsumerData,
    GroupLeasesAnswerBody,
    GroupLeasesBody,
    HeartbeatData,
    LeasedQueue,
    QueueLeaseTable,
)
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    ResetOffsetRequestHeader,
    TopicRequestHeader,
)
from rmqspark.protocol.headers.consume import (
    ConsumerGroupRequestHeader,
    GroupLeasesRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.integration


def queue(queue_id: int, lease: int = 0, offset: int = -1) -> LeasedQueue:
    return LeasedQueue("orders", "broker-a", queue_id, lease, offset)


async def ask(client, member: str, **body) -> list[LeasedQueue]:
    header = GroupLeasesRequestHeader("g", member)
    answer = await client.ask(RequestCode.RMQ_GROUP_LEASES, header, GroupLeasesBody(**body).encode())
    assert answer.code == 0, answer.remark
    told = GroupLeasesAnswerBody.decode(answer.body)
    assert told.leaseMs == 60_000
    return told.held


async def resets(client, **settled: int) -> dict[MessageQueue, int]:
    table = {MessageQueue("orders", "broker-a", int(key[1:])): offset for key, offset in settled.items()}
    answer = await client.ask(
        RequestCode.RMQ_GROUP_RESETS, ConsumerGroupRequestHeader("g"), ResetOffsetBody(table).encode()
    )
    return ResetOffsetBody.decode(answer.body).offsetTable


def test_a_queue_is_handed_over_in_one_request(on_broker) -> None:
    """Who releases commits first, no farther than the queue goes; who takes it learns of that offset; queues that are
    not here are left out."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 2)
        for queue_id, count in ((0, 9), (1, 3)):
            for _ in range(count):
                await client.send("orders", e=queue_id)
        held = await ask(client, "first", take=[queue(0), queue(1), queue(2), LeasedQueue("orders", "broker-b", 0)])
        assert [(each.queueId, each.offset) for each in held] == [(0, -1), (1, -1)]
        zero, one = (each.lease for each in held)
        assert await ask(client, "second", take=[queue(0)]) == []
        kept = await ask(client, "first", keep=[queue(0, zero, 7), queue(1, one, 99)], release=[queue(0, zero)])
        assert [(each.queueId, each.offset) for each in kept] == [(0, 7), (1, 3)]
        (taken,) = await ask(client, "second", take=[queue(0), queue(1)])
        assert (taken.queueId, taken.offset) == (0, 7)
        assert taken.lease not in (zero, one)
        assert await ask(client, "first", keep=[queue(0, zero, 99)]) == []
        assert [each.offset for each in await ask(client, "second", keep=[queue(0, taken.lease)])] == [7]

    on_broker(talk)


async def reset_among_three(client, offset: int) -> None:
    """Three messages are sent to a new queue, and a group that has not been there is reset to one of them."""
    await client.create_topic("orders", 1)
    for _ in range(3):
        await client.send("orders")
    assert await resets(client) == {}
    reset = ResetOffsetRequestHeader("orders", "g", timestamp=0, isForce=True, queueId=0, offset=offset)
    assert (await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)).code == 0


def test_members_that_divide_differently_are_told(on_broker) -> None:
    """In each answer, and once in the log. Who says nothing, as earlier versions, is answered as before."""

    async def talk(bench) -> None:
        clients = {name: await bench.connect() for name in ("first", "second", "third")}
        for name, client in clients.items():
            await client.heartbeat(HeartbeatData(name, [], [ConsumerData("g")]))

        async def strategies(name: str, strategy: str | None) -> list[str] | None:
            header = GroupLeasesRequestHeader("g", name, strategy=strategy)
            answer = await clients[name].ask(RequestCode.RMQ_GROUP_LEASES, header, GroupLeasesBody().encode())
            return GroupLeasesAnswerBody.decode(answer.body).strategies

        with capture_logs() as logs:
            assert await strategies("first", "circle") is None
            assert await strategies("second", "circle") is None
            for name in ("second", "third"):
                assert await strategies(name, "averagely") == ["averagely", "circle"]
            assert await strategies("first", None) is None
            assert await strategies("first", "averagely") is None
        told = [(each["group"], each["strategies"]) for each in logs if "divide its queues" in each["event"]]
        assert told == [("g", ["averagely", "circle"])]

    on_broker(talk)


def test_a_reset_is_there_until_its_reader_has_carried_it_out(on_broker) -> None:
    """Asked for by who does not pull; a commit in between does not undo it; what another reset changed stays."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await reset_among_three(client, 1)
        place = MessageQueue("orders", "broker-a", 0)
        assert await resets(client) == {place: 1}
        assert await resets(client, q0=2) == {place: 1}
        assert await resets(client, q0=1) == {}

    on_broker(talk)


def test_a_reset_is_on_disk_when_it_is_answered(on_broker) -> None:
    """A broker that is killed right behind the answer has not forgotten it."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        client = await bench.connect()
        await reset_among_three(client, 2)
        for name in ("offsetResets", "consumerOffset"):
            saved = files.within("store").open(f"config/{name}.json").pread(1 << 20, 0)
            assert ConsumerOffsetTable.decode(saved).offsetTable == {"orders@g": {0: 2}}

    on_broker(talk, files=files)


def test_what_a_reader_has_carried_out_is_settled_on_disk(on_broker) -> None:
    """It reads on behind the answer: a broker that is killed there must not send it back once more when it starts. Nor
    is who asks again after an error of the disk answered before that."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        client = await bench.connect()
        await reset_among_three(client, 1)
        place = MessageQueue("orders", "broker-a", 0)
        files.fail_next("rename")
        header, body = ConsumerGroupRequestHeader("g"), ResetOffsetBody({place: 1}).encode()
        assert "cannot be written" in (await client.ask(RequestCode.RMQ_GROUP_RESETS, header, body)).remark
        assert await resets(client, q0=1) == {}
        saved = files.within("store").open("config/offsetResets.json").pread(1 << 20, 0)
        assert ConsumerOffsetTable.decode(saved).offsetTable == {}

    on_broker(talk, files=files)


def test_a_lease_that_could_not_be_saved_is_saved_before_it_is_told(on_broker) -> None:
    """Who asks once more after an error of the disk is answered when the lease is there to stay, and not before."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 16)
        for number in range(16):  # until the failure is met by this file, and by no other
            files.fail_next("rename")
            body = GroupLeasesBody(take=[queue(number)]).encode()
            answer = await client.ask(RequestCode.RMQ_GROUP_LEASES, GroupLeasesRequestHeader("g", "m"), body)
            if answer.code != 0:
                break
        assert "cannot be written" in answer.remark
        (lease,) = await ask(client, "m", take=[queue(number)])
        saved = QueueLeaseTable.decode(files.within("store").open("config/queueLeases.json").pread(1 << 20, 0))
        assert (number, lease.lease) in [(each.queueId, each.number) for each in saved.leases]

    on_broker(talk, files=files)


def test_a_hand_over_that_was_answered_outlives_a_kill_with_its_offset(on_broker) -> None:
    """Whoever takes the queue goes on where its last owner was, who may not commit again."""
    files = MemoryFileSystem()

    async def release(bench) -> MemoryFileSystem:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        for _ in range(9):
            await client.send("orders")
        (held,) = await ask(client, "first", take=[queue(0)])
        await ask(client, "first", keep=[queue(0, held.lease, 7)], release=[queue(0, held.lease)])
        return copy.deepcopy(files)

    async def take(bench) -> None:
        (held,) = await ask(await bench.connect(), "second", take=[queue(0)])
        assert held.offset == 7

    left = on_broker(release, files=files)
    left.kill()
    on_broker(take, files=left)


def test_a_lease_ends_with_its_topic(on_broker) -> None:
    """Its owner commits nothing to the next topic of the name, neither at once nor after a kill."""
    files = MemoryFileSystem()

    async def remake(bench) -> tuple[int, MemoryFileSystem]:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        (held,) = await ask(client, "m", take=[queue(0)])
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))).code == 0
        left = copy.deepcopy(files)
        await client.create_topic("orders", 1)
        assert await ask(client, "m", keep=[queue(0, held.lease, 99)]) == []
        return held.lease, left

    async def take_again(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        assert await ask(client, "m", keep=[queue(0, lease, 99)]) == []
        (held,) = await ask(client, "m", take=[queue(0)])
        assert held.lease > lease
        assert held.offset == -1

    lease, left = on_broker(remake, files=files)
    left.kill()
    on_broker(take_again, files=left)


def test_a_lease_ends_with_its_group(on_broker) -> None:
    """Its owner commits nothing to the next group of the name, neither at once nor after a kill."""
    files = MemoryFileSystem()

    async def remake(bench) -> tuple[int, MemoryFileSystem]:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        (held,) = await ask(client, "m", take=[queue(0)])
        await ask(client, "m", keep=[queue(0, held.lease, 7)])
        header = DeleteSubscriptionGroupRequestHeader("g", cleanOffset=True)
        assert (await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)).code == 0
        left = copy.deepcopy(files)
        assert await ask(client, "m", keep=[queue(0, held.lease, 99)]) == []
        return held.lease, left

    async def take_again(bench) -> None:
        client = await bench.connect()
        assert await ask(client, "m", keep=[queue(0, lease, 99)]) == []
        (held,) = await ask(client, "another", take=[queue(0)])
        assert (held.lease > lease, held.offset) == (True, -1)

    lease, left = on_broker(remake, files=files)
    left.kill()
    on_broker(take_again, files=left)


def test_hostile_lease_requests(on_broker) -> None:
    """Nothing is granted to a client without a name, and numbers nobody gave out are nobody's."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        header = GroupLeasesRequestHeader("g", "")
        body = GroupLeasesBody(take=[queue(0)]).encode()
        assert (await client.ask(RequestCode.RMQ_GROUP_LEASES, header, body)).code != 0
        assert await ask(client, "m", keep=[queue(0, 5), queue(-1, 0)], release=[queue(0, 5)]) == []
        assert (await client.ask(RequestCode.RMQ_GROUP_LEASES, GroupLeasesRequestHeader("g", "m"), b"{")).code != 0

    on_broker(talk)


@pytest.mark.parametrize("has_lost_power", [False, True], ids=["a kill", "a power loss"])
def test_what_a_coordinator_says_late_outlives_a_crash_and_takes_no_group_back(on_broker, has_lost_power: bool) -> None:
    """Nobody has the lease any more that it was read under, and whoever comes next begins there."""
    files = MemoryFileSystem()

    async def say(bench) -> MemoryFileSystem:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        for _ in range(9):
            await client.send("orders")
        await ask(client, "first", take=[queue(0)])
        for offset in (7, 5):
            decided = UpdateConsumerOffsetRequestHeader("g", "orders", 0, offset, decided=True)
            assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, decided)).code == 0
        return copy.deepcopy(files)

    async def look(bench) -> None:
        asked = QueryConsumerOffsetRequestHeader("g", "orders", 0, setZeroIfNotFound=False)
        answer = await (await bench.connect()).ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)
        assert answer.header(OffsetResponseHeader).offset == 7

    left = on_broker(say, files=files)
    left.crash() if has_lost_power else left.kill()
    on_broker(look, files=left)


def test_a_coordinator_hears_that_the_topic_is_gone(on_broker) -> None:
    """It would say for a day where a group goes on in it, and keep what it has decided as long."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        await client.send("orders")
        await ask(client, "first", take=[queue(0)])
        decided = UpdateConsumerOffsetRequestHeader("g", "orders", 0, 1, topicDeleted=0, decided=True)
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, decided)).code == 0
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, decided)
        assert answer.code == ResponseCode.RMQ_TOPIC_REMADE

    on_broker(talk)
