"""The grammar of SQL92 is loaded by those who filter, and by nobody else."""

from __future__ import annotations

import subprocess
import sys

_ASK = """
import sys
import rmqspark.broker.broker, rmqspark.client.pull_consumer, rmqspark.source.tasks.fetch, rmqspark.source.options
print([name for name in sys.modules if name.startswith(("lark", "rmqspark.protocol.sql"))])
"""


def test_brokers_and_tasks_start_without_the_grammar() -> None:
    """It takes longer to load than a task of a small micro-batch has."""
    done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
