"""Which ports the brokers of `rmq up --brokers N` are given."""

from __future__ import annotations

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.servers.making import BrokerSettings
from rmqspark.cli.up.verb import _numbered
from rmqspark.errors import InvalidArgument
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import StoreConfig


def ports(count: int, **settings: int) -> list[tuple[str, int, int]]:
    numbered = _numbered(BrokerSettings(BrokerConfig(**settings), StoreConfig(), Limits()), count)
    return [
        (each.broker.broker_name, each.broker.listen_port, each.broker.metrics_prom_exporter_port) for each in numbered
    ]


def test_no_two_brokers_are_given_the_same() -> None:
    """For clients ten apart, for Prometheus side by side; 0 is any free one for each."""
    assert ports(2) == [("broker-a", 10911, 5557), ("broker-b", 10921, 5558)]
    assert ports(2, listen_port=0, metrics_prom_exporter_port=0) == [("broker-a", 0, 0), ("broker-b", 0, 0)]


@pytest.mark.parametrize("setting", ["listen_port", "metrics_prom_exporter_port"])
def test_there_must_be_room_for_all(setting: str) -> None:
    """And it is said where there is none, before anything starts."""
    with pytest.raises(InvalidArgument, match="65535 on there is no room"):
        ports(2, **{setting: 65_535})
