"""`--warn 30s --crit 5m`, or `--warn 1000 --crit 10000`: from where on a figure is bad, and how bad. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from rmqspark.errors import InvalidArgument
from rmqspark.options import duration_ms

OK, WARNING, CRITICAL, UNKNOWN = "ok", "warning", "critical", "unknown"
EXIT_CODES = {OK: 0, WARNING: 1, CRITICAL: 2, UNKNOWN: 3}
_WORST_FIRST = (CRITICAL, WARNING, UNKNOWN, OK)


class Thresholds(NamedTuple):
    """Both as milliseconds, or both as counts."""

    warn: int
    crit: int
    are_times: bool

    @classmethod
    def parse(cls, warn: str, crit: str) -> Self:
        """InvalidArgument for what is neither a time nor a number, for one of each, and where crit comes first."""
        warn_is_time, crit_is_time = _is_time("--warn", warn), _is_time("--crit", crit)
        if warn_is_time != crit_is_time:
            hint = "Give two times, as 30s and 5m, or two numbers of messages, as 1000 and 10000."
            raise InvalidArgument(f"--warn {warn} and --crit {crit} do not go together.", hint=hint)
        read = duration_ms if warn_is_time else int
        parsed = cls(read(warn.strip()), read(crit.strip()), warn_is_time)
        if parsed.crit < parsed.warn:
            raise InvalidArgument(f"--crit {crit} is less than --warn {warn}.", hint="It is the worse of the two.")
        return parsed

    def state(self, figure: int | None) -> str:
        """A figure that is as large as a threshold has reached it; None is unknown."""
        if figure is None:
            return UNKNOWN
        return CRITICAL if figure >= self.crit else WARNING if figure >= self.warn else OK


def worst(states: list[str]) -> str:
    """As monitoring takes them together; ok where there are none."""
    return min(states, key=_WORST_FIRST.index, default=OK)


def _is_time(option: str, text: str) -> bool:
    word = text.strip()
    if re.fullmatch(r"[0-9]{1,18}", word):
        return False
    if not re.fullmatch(r"[0-9]{1,9}(ms|s|m|min|h|d)", word):
        raise InvalidArgument(f"{option} {text!r} is neither a time nor a number.", hint="Use 30s, 5m, 2h, or 1000.")
    return True
