"""Types that any thread may decode.

msgspec looks at a type when it is first decoded, and what it knows of it by then is there for all threads: one that
decodes the same type meanwhile, or one that has it as a part, ends the process with a segmentation fault (0.22; two
brokers that answer at the same time are enough). So types are looked at one at a time, ahead, and no process is forked
meanwhile.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Final, TypeVar

import msgspec

_T = TypeVar("_T")

_looking: Final = threading.RLock()
_known: Final[set[Any]] = set()

os.register_at_fork(before=_looking.acquire, after_in_parent=_looking.release, after_in_child=_looking.release)


def learned(kind: _T) -> _T:
    """The same type, which msgspec knows in all its parts."""
    if kind not in _known:
        with _looking:
            msgspec.json.Decoder(kind)
            _known.add(kind)
    return kind
