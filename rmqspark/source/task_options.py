"""What tasks go by of what the user asked for, and of what the driver has seen.

It travels in every partition, apart from the options that planning needs, so that a task imports none of what reads
and checks options: that took a cold task as long as all else it imports of the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.remoting.access import OPEN, Access
from rmqspark.source.retry import RetryPolicy

if TYPE_CHECKING:
    from rmqspark.source.values.value_options import ValueOptions


class TaskOptions(NamedTuple):
    """Plain data. `namesrv` and `access` are what the driver goes by: a task on another machine does not see its
    environment."""

    namesrv: str | None = None
    tags: str | None = None
    sql: str | None = None
    group: str | None = None
    fail_on_data_loss: bool = True
    retry: RetryPolicy = RetryPolicy()
    values: ValueOptions | None = None  # None: bodies as they are
    reads_for: str | None = None  # the group that brokers count the messages for
    silent: frozenset[str] = frozenset()  # brokers that answered the driver nothing (`client.cluster.outages`)
    access: Access = OPEN
