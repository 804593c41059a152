"""pytest fixtures, registered by the package: `rmq`, `rmq_spark`, `rmq_clock`.

pytest imports this module whenever it starts, so it imports nothing but pytest itself before a fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from rmqspark.testing.manual_clock import ManualClock
    from rmqspark.testing.rmq import Rmq


@pytest.fixture
def rmq(request: pytest.FixtureRequest) -> Iterator[Rmq]:
    """A fresh cluster of one broker with the verbs of tests: `rmq.send("orders", b"1")`, `rmq.messages("orders")`.

    In a test that takes `rmq_clock`, too, its servers go by that clock.
    """
    from rmqspark.testing.in_process import cluster
    from rmqspark.testing.rmq import Rmq

    clock = request.getfixturevalue("rmq_clock") if "rmq_clock" in request.fixturenames else None
    with cluster(clock=clock) as local, Rmq(local) as connected:
        yield connected


@pytest.fixture(scope="session")
def rmq_spark() -> Iterator[SparkSession]:
    """A quiet SparkSession on two cores, whose Python workers are this interpreter."""
    from rmqspark.testing.spark import local_session

    session = local_session()
    yield session
    session.stop()


@pytest.fixture
def rmq_clock() -> ManualClock:
    """A clock that stands still until the test moves it; the servers of `rmq` go by it."""
    from rmqspark.testing.manual_clock import ManualClock

    return ManualClock()
