"""Times in milliseconds since 1970: how far those of two machines may be apart, and numbers that look like another
unit, none of which would be an error, but a time that nobody means. Pure.
"""

from __future__ import annotations

from typing import Final

CLOCKS_DIFFER_MS: Final = 60_000
"""At most, those of two machines of a cluster and its clients."""
SECONDS: Final = range(10**8, 10**11)
"""Nine to eleven digits, as in `options.moment`: as milliseconds before March 1973."""
MICROSECONDS_FROM: Final = 10**14
"""From fifteen digits on: as milliseconds in the year 5138."""


def other_unit(number: int) -> str | None:
    """Of which unit it looks like a time; None where it may be milliseconds."""
    if number in SECONDS:
        return "seconds"
    return "micro- or nanoseconds" if number >= MICROSECONDS_FROM else None
