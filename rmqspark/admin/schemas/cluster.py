"""Name servers and brokers as they are shown."""

from __future__ import annotations

from rmqspark.admin.values import Document, Time
from rmqspark.client.administration.cluster_problems import Problem, state_of, worst
from rmqspark.client.administration.cluster_status import BrokerStatus, ClusterStatus, NameServerStatus
from rmqspark.client.administration.replicas import SlaveStatus


class NameServerView(Document):
    """`problem` says why it does not answer."""

    address: str
    brokers: list[str]
    problem: str | None

    @classmethod
    def of(cls, server: NameServerStatus) -> NameServerView:
        return cls(address=server.address, brokers=sorted(server.brokers), problem=server.silence or None)


class ProblemView(Document):
    """`severity` is warning or critical."""

    severity: str
    subject: str
    problem: str

    @classmethod
    def of(cls, problem: Problem) -> ProblemView:
        return cls(severity=problem.severity, subject=problem.subject, problem=problem.story)


class SlaveView(Document):
    """`behindBytes` is what it lacks of its master's log; null of what is unknown. `state` is ok or what is wrong."""

    broker_id: int
    address: str
    role: str
    connected: bool | None
    behind_bytes: int | None
    in_sync: bool | None
    state: str

    @classmethod
    def of(cls, slave: SlaveStatus) -> SlaveView:
        return cls(
            broker_id=slave.broker_id,
            address=slave.address,
            role=slave.role,
            connected=slave.is_connected,
            behind_bytes=slave.behind_bytes,
            in_sync=slave.is_in_sync,
            state=slave.problem or "ok",
        )


class BrokerView(Document):
    """Rates are those of the last ten seconds; `messagesIn` and `messagesOut` count since its start. `state` is ok or
    what is wrong. A send waits for `slavesWanted` slaves; `slavesInSync` keep up."""

    broker_name: str
    cluster: str
    addresses: dict[str, str]
    role: str | None
    slaves: list[SlaveView]
    slaves_in_sync: int | None
    slaves_wanted: int
    version: str | None
    in_per_second: float | None
    out_per_second: float | None
    messages_in: int | None
    messages_out: int | None
    disk_used: float | None
    disk_free_bytes: int | None
    topics: int
    queues: int
    flush_disk_type: str | None
    started_at: Time | None
    state: str

    @classmethod
    def of(cls, broker: BrokerStatus, problems: list[Problem]) -> BrokerView:
        return cls(
            broker_name=broker.name,
            cluster=broker.cluster,
            addresses={str(number): address for number, address in sorted(broker.addresses.items())},
            role=broker.role,
            slaves=[SlaveView.of(slave) for slave in broker.replicas.slaves],
            slaves_in_sync=broker.replicas.in_sync,
            slaves_wanted=broker.slaves_wanted,
            version=broker.version,
            in_per_second=broker.stored_per_second,
            out_per_second=broker.read_per_second,
            messages_in=broker.stored,
            messages_out=broker.read,
            disk_used=broker.disk_used,
            disk_free_bytes=broker.disk_free_bytes,
            topics=broker.topics,
            queues=broker.queues,
            flush_disk_type=broker.flush_mode,
            started_at=broker.started_ms,
            state=state_of(broker, problems),
        )


class ClusterView(Document):
    """`state` is ok, warning or critical."""

    state: str
    name_servers: list[NameServerView]
    brokers: list[BrokerView]
    problems: list[ProblemView]

    @classmethod
    def of(cls, status: ClusterStatus, problems: list[Problem]) -> ClusterView:
        return cls(
            state=worst(problems),
            name_servers=[NameServerView.of(server) for server in status.name_servers],
            brokers=[BrokerView.of(broker, problems) for broker in status.brokers],
            problems=[ProblemView.of(problem) for problem in problems],
        )


class SettingView(Document):
    """One setting of a broker. `live`: it can be changed while the broker runs; null of settings that are not ours."""

    setting: str
    rocketmq_name: str
    value: str
    default: str | None
    unit: str | None
    live: bool | None
    meaning: str | None


class SettingsChange(Document):
    """What to set, in either spelling."""

    settings: dict[str, str]
