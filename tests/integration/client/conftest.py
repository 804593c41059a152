"""A real cluster for each file of tests here; topics are fresh for each test."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Producer
from rmqspark.testing.rmq import Rmq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.testing import LocalCluster

_numbers = count()


@pytest.fixture(scope="module")
def rmq(mq: LocalCluster) -> Iterator[Rmq]:
    """What tests look at the cluster with."""
    with Rmq(mq) as connected:
        yield connected


@pytest.fixture(scope="module")
def admin(mq: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(mq.namesrv) as client:
        yield client


@pytest.fixture
def topic(admin: AdminClient) -> str:
    """The name of a new topic with four queues."""
    name = f"topic-{next(_numbers)}"
    admin.create_topic(name, queues=4)
    return name


@pytest.fixture
def producer(mq: LocalCluster) -> Iterator[Producer]:
    with Producer(mq.namesrv) as sending:
        yield sending
