"""Many who want little, and one who takes nothing: memory is bounded, and others are served as before.

How long others wait is told. What is judged, where enough was sent, is the processor time that serving them takes.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader
from rmqspark.protocol.headers.consume import PullFlag, PullMessageRequestHeader
from rmqspark.testing.fuzz.canary import TOPIC, Canary
from rmqspark.testing.fuzz.victim import Victim

from .crowd import Crowd, Pace, request, room_for_sockets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

CROWD: Final = 1_000
CROWD_OF_A_SOAK: Final = 5_000
PARKED: Final = 2_000
PARKED_OF_A_SOAK: Final = 10_000
OWN_MS: Final = 100
MOST_SENDS_A_SKIP: Final = 6
"""So much more than a send it may take to tell a pull to skip; it would if each looked at all the others."""
MAX_CONNECTION_BYTES: Final = 8 * 1024
"""Memory of one idle or slow connection; what is required is 64 KiB."""
SLACK_BYTES: Final = 24 << 20
PATIENT: Final = ("--first-frame-timeout-ms", "900000", "--frame-timeout-ms", "900000", "--idle-timeout-ms", "900000")
"""However long the test takes, nobody is to be closed for being slow."""
CAPABILITIES: Final = request(RequestCode.RMQ_CAPABILITIES)


@pytest.fixture
def notes(amount: Callable[[int, int], int]) -> int:
    """Sends of the canary to measure with."""
    return amount(500, 5_000)


def judge(before: Pace, during: Pace, notes: int) -> None:
    """To serve others does not take more than twice as much, beside what the crowd's own bytes take."""
    assert during.server_ms * notes <= 2 * before.server_ms * notes + OWN_MS


def test_thousands_of_idle_and_slow_connections(
    tmp_path: Path, amount: Callable[[int, int], int], notes: int, tell: Callable[[str], None]
) -> None:
    """5,000 clients that say nothing and 5,000 that send a byte now and then cost kilobytes each, and all of them are
    answered when they do ask."""
    count = min(amount(CROWD, CROWD_OF_A_SOAK), room_for_sockets() // 2)
    flags = ("--max-connections-per-address", str(3 * count), *PATIENT)
    with Victim(tmp_path, *flags) as victim, Canary(victim.namesrv) as canary:
        before, empty_bytes = Pace.of(canary, victim, notes=notes), victim.resident_bytes()
        with Crowd(victim.broker, count) as idle, Crowd(victim.broker, count) as slow:
            idle.send(CAPABILITIES)
            assert set(idle.answers()) == {0}
            sent = 3
            for at in range(sent):
                slow.send(CAPABILITIES[at : at + 1])
                canary.sing()
            during, growth = Pace.of(canary, victim, notes=notes), victim.resident_bytes() - empty_bytes
            slow.send(CAPABILITIES[sent:])
            idle.send(CAPABILITIES)
            assert set(slow.answers()) == set(idle.answers()) == {0}
        assert growth <= 2 * count * MAX_CONNECTION_BYTES + SLACK_BYTES
        canary.check()
        assert victim.complaints() == []
    tell(f"{count} idle and {count} slow: {growth >> 20} MiB; a send took {before}, with them {during}")
    judge(before, during, notes)


def test_thousands_of_waiting_pulls(
    tmp_path: Path, amount: Callable[[int, int], int], notes: int, tell: Callable[[str], None]
) -> None:
    """10,000 pulls that wait for tags nobody sends, at the very queues that others send to, slow nobody down, and go
    on waiting."""
    count = amount(PARKED, PARKED_OF_A_SOAK)
    with Victim(tmp_path, *PATIENT) as victim, Canary(victim.namesrv) as canary:
        before, empty_bytes = Pace.of(canary, victim, notes=notes), victim.resident_bytes()
        with AdminClient(victim.namesrv) as admin:
            ends = {queue.queue.queue_id: queue.max_offset for queue in admin.topic(TOPIC).queues}
        flags = PullFlag.SUSPEND | PullFlag.SUBSCRIPTION
        with Crowd(victim.broker, 10) as crowd:
            for number in range(count):
                tags = f"a{number} || b{number} || c{number}"
                queue_id = number % len(ends)
                header = PullMessageRequestHeader(
                    "waiting", TOPIC, queue_id, ends[queue_id], 32, int(flags), 0, 600_000, 0, tags
                )
                pull = request(RequestCode.PULL_MESSAGE, header, number)
                crowd.sockets[number % len(crowd)].sendall(pull)
            crowd.send(CAPABILITIES)
            assert set(crowd.answers()) == {0}  # and nothing before it: the pulls wait
            during, growth = Pace.of(canary, victim, notes=notes), victim.resident_bytes() - empty_bytes
            while not crowd.is_answered():
                canary.sing()
            begin_s = victim.cpu_seconds()
            told = Pace.of(canary, victim, notes=notes)
            skipping = ResponseCode.PULL_RETRY_IMMEDIATELY
            assert set(crowd.answers(count // len(crowd))) == {skipping}  # in some seconds all are told to skip
            cpu_ms = 1000 * (victim.cpu_seconds() - begin_s)
        assert growth <= count * MAX_CONNECTION_BYTES + SLACK_BYTES
        canary.check()
        assert victim.complaints() == []
    tell(f"{count} waiting pulls: {growth >> 20} MiB; a send took {before}, with them {during}, told to skip {told}")
    judge(before, during, notes)
    # Half of what a send does, on a quiet machine, for none of them reads (shown in test_broker_pulls.py). But it is
    # done in thousands of short turns with pauses between, and on a busy machine that makes it three times as much.
    assert cpu_ms <= MOST_SENDS_A_SKIP * before.server_ms * (notes + count)


def test_a_consumer_that_never_reads(
    tmp_path: Path, amount: Callable[[int, int], int], notes: int, tell: Callable[[str], None]
) -> None:
    """Who asks for everything and takes nothing holds a few megabytes, and nobody else up."""
    with Victim(tmp_path, *PATIENT) as victim, Canary(victim.namesrv) as canary, Producer(victim.namesrv) as producer:
        with AdminClient(victim.namesrv) as admin:
            admin.create_topic("large", 1)
        for _ in range(10):
            producer.send(Message("large", bytes(range(256)) * 4096))
        most = 2**31 - 1
        read = request(RequestCode.RMQ_BULK_READ, BulkReadRequestHeader("large", 0, 0, 2**62, most, most))
        before, empty_bytes = Pace.of(canary, victim, notes=notes), victim.resident_bytes()
        with Crowd(victim.broker, 1, receive_buffer=4096) as crowd:
            crowd.sockets[0].settimeout(0.5)
            with suppress(TimeoutError):
                crowd.send(read * 10_000)  # 2 MB of requests for 80 GB of answers: they are not even all read
            during, growth = Pace.of(canary, victim, notes=notes), victim.resident_bytes() - empty_bytes
        assert growth <= 32 << 20
        canary.check()
        assert victim.complaints() == []
    tell(f"one that never reads: {growth >> 20} MiB; a send took {before}, beside it {during}")
    judge(before, during, notes)
