"""`rmq` that ends with who started it, as test_cli_bench kills one; or sooner."""

from __future__ import annotations

import subprocess
import sys

COMMAND = (sys.executable, "-m", "rmqspark.cli.tied")


def test_it_may_end_sooner_than_who_started_it() -> None:
    """What waits for the end of standard input is no hindrance."""
    with subprocess.Popen([*COMMAND, "topic", "--help"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"rmq topic" in process.stdout.read()
        assert process.wait(60) == 0
