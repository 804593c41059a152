"""What the process that commits a micro-batch has to import: it is a new one for every batch."""

from __future__ import annotations

import subprocess
import sys

_ASK = """
import sys, rmqspark.sink.writer, rmqspark.sink.transactions.commit
print([name for name in ("numpy", "pyarrow") if name in sys.modules])
"""


def test_committing_needs_neither_numpy_nor_arrow() -> None:
    """They take longer to import than a small batch takes to be decided."""
    done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
