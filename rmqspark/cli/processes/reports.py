"""What `rmq up` and the processes it starts say to each other, a line of JSON each way.

What to run goes to the process's standard input, which stays open as long as `rmq up` lives: its end is the word to
stop, and comes also when `rmq up` was killed. Standard output has a report when the process serves, and one with the
reason when it cannot, or no longer.
"""

from __future__ import annotations

import json
from typing import NamedTuple, Self


class Report(NamedTuple):
    """The address at which it is found; or else what is wrong, and what to do about it."""

    address: str = ""
    problem: str = ""
    hint: str = ""

    def encode(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def decode(cls, line: bytes) -> Self:
        return cls(**json.loads(line))
