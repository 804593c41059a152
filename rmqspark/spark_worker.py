"""The Python process that Spark runs tasks in.

After every task PySpark has all garbage looked for (`pyspark/daemon.py`), and with it what pandas and PyArrow brought
with their modules, which never is any: 25 ms of a core per task, on each side of a query. A small task takes no longer
for anything else.
"""

from __future__ import annotations

import gc
import os
from typing import Final

_SETTLING_TASKS: Final = 4  # of a process; modules are imported by the first that needs them, reading or writing
_tasks: dict[int, int] = {}  # by process: forked workers begin anew


def settle() -> None:
    """To be called as a task begins: puts what the process holds then where nobody looks for garbage.

    Only its first tasks do so. What later ones make is collected as ever, and what nobody holds any more is freed as
    ever.
    """
    begun = _tasks.get(os.getpid(), 0)
    if begun < _SETTLING_TASKS:
        _tasks[os.getpid()] = begun + 1
        gc.freeze()
