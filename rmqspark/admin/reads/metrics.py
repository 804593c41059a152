"""The metrics of all brokers, asked at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.admin.metrics import exposition
from rmqspark.client.administration.broker_facts import metrics_of
from rmqspark.client.cluster.futures import then
from rmqspark.errors import NotSupported, RmqError
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient

_TIMEOUT_MS: Final = 8_000  # Prometheus itself waits ten seconds


def metrics(client: ClusterClient) -> bytes:
    """In Prometheus' text format. RocketMQ's brokers, which have an exporter of their own, are left out. Unreachable
    where no name server answers."""
    asked = {name: _ask(client, name) for name in sorted(client.cluster_info().brokerAddrTable)}
    return exposition(dict(_answered(asked)))


def _ask(client: ClusterClient, broker_name: str) -> Future[str] | RmqError:
    try:
        answer = client.broker(broker_name).submit(RequestCode.RMQ_METRICS, timeout_ms=_TIMEOUT_MS)
    except RmqError as error:
        return error
    return then(answer, lambda response: metrics_of(response.raise_for_code()))


def _answered(asked: dict[str, Future[str] | RmqError]) -> Iterator[tuple[str, str]]:
    """By broker; "" of one that is away."""
    for name, answer in asked.items():
        try:
            if isinstance(answer, RmqError):
                raise answer
            yield name, answer.result()
        except NotSupported:
            continue
        except RmqError:
            yield name, ""
