"""What is wrong with a cluster, by how it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rmqspark.client.administration.cluster_status import whole
from rmqspark.protocol.names import MASTER_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rmqspark.client.administration.cluster_status import BrokerStatus, ClusterStatus
    from rmqspark.client.administration.replicas import SlaveStatus

OK: Final = "ok"
WARNING: Final = "warning"
CRITICAL: Final = "critical"

_DISPATCH_BEHIND_BYTES: Final = 64 << 20
_WAIT_MS: Final = 1_000  # of the oldest send in a queue of RocketMQ's; it refuses sends that have waited 200 ms
_FULL_PERCENT: Final = 90  # RocketMQ's system property diskSpaceWarningLevelRatio
_NEARLY_FULL_PERCENT: Final = 85
_ROOM_LEFT: Final = 1.25  # of what is to stay free: nearly full


@dataclass(frozen=True, slots=True)
class Problem:
    """`severity` is warning or critical; `subject` names a server or topic."""

    severity: str
    subject: str
    story: str


def problems(status: ClusterStatus, expected: Iterable[str] = ()) -> list[Problem]:
    """What is wrong, the worst first. `expected` are brokers that have to be registered: name servers forget the others
    with all that they had."""
    found = [*_about_name_servers(status), *_about_routes(status)]
    there = {broker.name for broker in status.brokers}
    found += (Problem(CRITICAL, name, "is not registered") for name in dict.fromkeys(expected) if name not in there)
    if not status.brokers:
        found.append(Problem(CRITICAL, "brokers", "none is registered"))
    for broker in status.brokers:
        found += (Problem(severity, broker.name, story) for severity, story in _about_broker(broker))
        found += (
            Problem(WARNING, slave_name(slave), slave.problem) for slave in broker.replicas.slaves if slave.problem
        )
    return sorted(found, key=lambda problem: problem.severity != CRITICAL)


def worst(found: Sequence[Problem]) -> str:
    """ok, or the severity of the worst of `problems`."""
    return found[0].severity if found else OK


def state_of(broker: BrokerStatus, found: Sequence[Problem]) -> str:
    """ok, or the worst that there is to say of it."""
    return next((problem.story for problem in found if problem.subject == broker.name), OK)


def slave_name(slave: SlaveStatus) -> str:
    """The subject of problems with it."""
    return f"slave {slave.broker_id} of {slave.broker_name}"


def _about_name_servers(status: ClusterStatus) -> Iterator[Problem]:
    everybody = {broker.name for broker in status.brokers}.union(*(each.brokers for each in status.name_servers))
    led = frozenset[str]().union(*(each.masters for each in status.name_servers))
    for each in status.name_servers:
        if each.silence:
            yield Problem(WARNING, f"name server {each.address}", f"does not answer: {each.silence}")
        elif missing := sorted(everybody - each.brokers):
            yield Problem(WARNING, f"name server {each.address}", f"does not know {', '.join(missing)}")
        if without := sorted(led & each.brokers - each.masters):
            story = f"does not know the master of {', '.join(without)}: who asks it can send nothing there"
            yield Problem(WARNING, f"name server {each.address}", story)


def _about_routes(status: ClusterStatus) -> Iterator[Problem]:
    for topic, gone in sorted(status.lost_routes.items()):
        where = f"on {', '.join(gone)}, not registered now" if gone else "on no broker that is registered now"
        yield Problem(WARNING, f"topic {topic}", f"has queues {where}")


def _about_broker(broker: BrokerStatus) -> Iterator[tuple[str, str]]:
    if broker.silence:
        yield CRITICAL, f"is registered and does not answer: {broker.silence}"
        return
    if MASTER_ID not in broker.addresses:
        yield CRITICAL, "has no master and takes no messages"
    if refusal := broker.runtime.get("refusesMessages"):
        yield CRITICAL, f"takes no messages: {refusal}"
    else:
        yield from _about_disk(broker)
    if broker.runtime.get("brokerActive", "true") != "true":
        yield WARNING, "is not active: it delivers no delayed messages, nor asks about transactions"
    if (behind := whole(broker.runtime.get("dispatchBehindBytes")) or 0) > _DISPATCH_BEHIND_BYTES:
        yield WARNING, f"its queues are {behind >> 20:,} MiB behind its log"
    if (waiting := whole(broker.runtime.get("sendThreadPoolQueueHeadWaitTimeMills")) or 0) > _WAIT_MS:
        yield WARNING, f"a send has been waiting for {waiting:,} ms"
    yield from _about_replicas(broker)


def _about_replicas(broker: BrokerStatus) -> Iterator[tuple[str, str]]:
    there, wanted = broker.replicas.in_sync, broker.slaves_wanted
    if there is not None and there < wanted:
        yield WARNING, f"a send waits for {wanted} slave{'s' * (wanted > 1)} in sync, and there {_is(there)}"


def _is(count: int) -> str:
    return {0: "is none", 1: "is one"}.get(count, f"are {count}")


def _about_disk(broker: BrokerStatus) -> Iterator[tuple[str, str]]:
    least, free = whole(broker.settings.get("minFreeBytes")) or 0, broker.disk_free_bytes
    if least:
        if free is not None and free < least * _ROOM_LEFT:
            yield WARNING, f"its disk is nearly full: {free >> 20:,} MiB are free, {least >> 20:,} MiB are to stay so"
        return
    if broker.disk_used is None:
        return
    used = round(broker.disk_used * 100)
    if used >= _percent(broker.settings, "diskSpaceWarningLevelRatio", _FULL_PERCENT):
        yield CRITICAL, f"its disk is full: {used} percent are used, and it takes no messages"
    elif used >= _percent(broker.settings, "diskSpaceCleanForciblyRatio", _NEARLY_FULL_PERCENT):
        yield (
            WARNING,
            f"its disk is nearly full: {used} percent are used, and messages that have not expired are deleted",
        )


def _percent(settings: Mapping[str, str], name: str, default: int) -> int:
    return whole(settings.get(name)) or default
