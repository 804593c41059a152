"""`rmq cluster`: the name servers and brokers there are, what they do, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from rmqspark.cli.slaves import SLAVE_COLUMNS, slave_document, slave_row
from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Expect, Json, Namesrv
from rmqspark.cli.terminal.output import print_json, print_table, safe
from rmqspark.cli.thresholds import EXIT_CODES
from rmqspark.errors import Unreachable
from rmqspark.words import counted, duration, size

if TYPE_CHECKING:
    from rmqspark.client.administration.cluster_problems import Problem
    from rmqspark.client.administration.cluster_status import BrokerStatus, ClusterStatus

app = VerbGroup(help="Name servers and brokers: what they do, and what is wrong. Example: rmq cluster health")


@app.command("info")
def info(namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Shows brokers and slaves: version, traffic, disk, queues. Example: rmq cluster info --json"""
    from rmqspark.client.admin import AdminClient
    from rmqspark.client.administration.cluster_problems import problems, state_of

    with AdminClient(namesrv) as admin:
        status = admin.cluster_status()
    found = problems(status)
    if as_json:
        print_json(_document(status, found))
        return
    for server in status.name_servers:
        print(safe(f"Name server {server.address}: {server.silence or counted(len(server.brokers), 'broker')}"))
    print()
    columns = (
        "broker",
        "cluster",
        "address",
        "role",
        "version",
        "in/s",
        "out/s",
        "in",
        "out",
        "disk",
        "queues",
        "flush",
    )
    rows = [
        (
            *(broker.name, broker.cluster, broker.address, broker.role, broker.version),
            *(_rate(broker.stored_per_second), _rate(broker.read_per_second), broker.stored, broker.read),
            *(_disk(broker), broker.queues, broker.flush_mode, _uptime(broker), state_of(broker, found)),
        )
        for broker in status.brokers
    ]
    print_table((*columns, "up for", "state"), rows, empty="No broker is registered. Start one with: rmq broker")
    slaves = [slave_row(slave) for broker in status.brokers for slave in broker.replicas.slaves]
    if slaves:
        print()
        print_table(SLAVE_COLUMNS, slaves, empty="")


@app.command("health")
def health(expect: Expect = None, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Says what is wrong: exit code 0 nothing, 1 a warning, 2 critical. Example: rmq cluster health --json

    A broker whose process has ended is not registered any more, and nothing is wrong without it unless you --expect it.
    """
    from rmqspark.client.administration.cluster_problems import worst

    found, summary = look(namesrv, expect)
    if as_json:
        print_json({"state": worst(found), "problems": problem_documents(found)})
    elif not found:
        print(f"Nothing is wrong: {summary}.")
    for problem in () if as_json else found:
        print(safe(f"{problem.severity:<8}  {problem.subject}: {problem.story}"))
    raise typer.Exit(EXIT_CODES[worst(found)])


def look(namesrv: str | None, expected: list[str] | None) -> tuple[list[Problem], str]:
    """What is wrong, the worst first, and what servers there are; that no name server answers is a problem, too."""
    from rmqspark.client.admin import AdminClient
    from rmqspark.client.administration.cluster_problems import CRITICAL, Problem, problems

    with AdminClient(namesrv) as admin:
        try:
            status = admin.cluster_status()
        except Unreachable as error:
            return [Problem(CRITICAL, "name servers", error.message)], ""
    return problems(status, expected or ()), _summary(status)


def problem_documents(found: list[Problem]) -> list[dict[str, str]]:
    return [{"severity": each.severity, "subject": each.subject, "problem": each.story} for each in found]


def _summary(status: ClusterStatus) -> str:
    servers = counted(len(status.name_servers), "name server")
    queues = sum(broker.queues for broker in status.brokers)
    slaves = sum(len(broker.replicas.slaves) for broker in status.brokers)
    brokers = counted(len(status.brokers), "broker") + (f", {counted(slaves, 'slave')}" if slaves else "")
    return f"{servers}, {brokers}, {counted(queues, 'queue')}"


def _rate(per_second: float | None) -> str | None:
    return None if per_second is None else f"{per_second:,.1f}"


def _disk(broker: BrokerStatus) -> str | None:
    if broker.disk_used is None:
        return None
    free = f", {size(broker.disk_free_bytes)} free" if broker.disk_free_bytes is not None else ""
    return f"{broker.disk_used:.0%}{free}"


def _uptime(broker: BrokerStatus) -> str | None:
    return None if broker.uptime_s is None else duration(broker.uptime_s * 1000)


def _document(status: ClusterStatus, found: list[Problem]) -> dict[str, Any]:
    from rmqspark.client.administration.cluster_problems import state_of, worst

    return {
        "nameServers": [
            {"address": each.address, "brokers": sorted(each.brokers), "problem": each.silence or None}
            for each in status.name_servers
        ],
        "brokers": [
            {
                "brokerName": each.name,
                "cluster": each.cluster,
                "addresses": {str(number): address for number, address in sorted(each.addresses.items())},
                "role": each.role,
                "slaves": [slave_document(slave) for slave in each.replicas.slaves],
                "slavesInSync": each.replicas.in_sync,
                "slavesWanted": each.slaves_wanted,
                "version": each.version,
                "inPerSecond": each.stored_per_second,
                "outPerSecond": each.read_per_second,
                "in": each.stored,
                "out": each.read,
                "diskUsed": each.disk_used,
                "diskFreeBytes": each.disk_free_bytes,
                "topics": each.topics,
                "queues": each.queues,
                "flushDiskType": each.flush_mode,
                "uptimeSeconds": each.uptime_s,
                "state": state_of(each, found),
            }
            for each in status.brokers
        ],
        "state": worst(found),
        "problems": problem_documents(found),
    }
