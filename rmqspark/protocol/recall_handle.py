"""The handle by which a message that waits for its time is recalled, as its sender is given it.

`v1 topic broker time id`, with single blanks in between, as URL-safe Base64 with padding (spec: requests, TV-6;
RocketMQ's RecallMessageHandle).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import NotRecallable

if TYPE_CHECKING:
    from typing import Self

_VERSION: Final = "v1"
_BASE64: Final = re.compile(r"(?:[\w-]{4})*(?:[\w-]{2}(?:==)?|[\w-]{3}=?)?", re.ASCII)  # the padding may be missing
_WORDS: Final = 5


class RecallHandle(NamedTuple):
    """Which message: `time_ms`, a number, is in the second that it waits for; `msg_id` is its sender's id."""

    topic: str
    broker_name: str
    time_ms: str
    msg_id: str

    def encode(self) -> str:
        return urlsafe_b64encode(" ".join((_VERSION, *self)).encode()).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """Raises NotRecallable, in RocketMQ's words, for what is no handle. As there, words behind the fifth count for
        nothing, and the words may be any."""
        if not text or not _BASE64.fullmatch(text):
            raise NotRecallable("recall handle is invalid")
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        words = raw.decode("utf-8", "replace").rstrip(" ").split(" ")
        if words[0] != _VERSION or len(words) < _WORDS:
            raise NotRecallable("recall handle is invalid")
        return cls(*words[1:_WORDS])
