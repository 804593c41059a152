"""A real cluster of one broker for each file of tests that asks for one.

Files that need another cluster say so by an `mq` of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.testing import LocalCluster, cluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    with cluster(brokers=1) as local:
        yield local
