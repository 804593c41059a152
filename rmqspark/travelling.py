"""What Spark carries between the processes of a query, which may have different versions of rmqspark installed.

A pickle names classes and members, and says nothing of what they mean. Another version would take it without the
members that it does not know: a task would not heed an option, a commit not that a task has left rows out. So what
travels says first of which version it is, and no other one looks at the rest.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from rmqspark import __version__
from rmqspark.errors import OtherVersion
from rmqspark.spark_worker import acknowledge


class Travelling:
    """Base of what Spark pickles. To unpickle it raises OtherVersion where another version did that."""

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacked, (__version__, pickle.dumps((type(self), self.__getstate__())))


def unpacked(version: str, packed: bytes) -> object:
    """What was pickled. Raises OtherVersion. Its name and arguments are the same in all versions."""
    acknowledge()  # in a task Spark has more to send
    if version != __version__:
        raise OtherVersion(version, __version__, sys.executable)
    kind, members = pickle.loads(packed)  # noqa: S301 - it came in a pickle of Spark's
    made = kind.__new__(kind)
    made.__dict__.update(members or {})
    return made
