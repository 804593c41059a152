"""Tag expressions: `paid || shipped`.

RocketMQ's FilterAPI (spec: semantics, section 8.7). A broker goes by the hash codes in its queue entries, where two
tags may share one; whoever hands messages to a user tests the tags themselves as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rmqspark.errors import InvalidFilter
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.names import trimmed_tag

MATCH_ALL: Final = "*"
MAX_EXPRESSION_BYTES: Final = 4096
MAX_SQL_BYTES: Final = 4096  # of a SQL92 expression (`sql/`)
_SEPARATOR: Final = "||"
_SEEMS_SEVERAL: Final = re.compile(r"[\s|&,*]")


@dataclass(frozen=True, slots=True)
class TagFilter:
    """Some tags, and their hash codes. Where everything matches there is no filter: None."""

    tags: frozenset[str]
    codes: frozenset[int]

    @classmethod
    def of(cls, *tags: str) -> TagFilter:
        return cls(frozenset(tags), frozenset(map(tags_code, tags)))

    @classmethod
    def parse(cls, expression: str | None) -> TagFilter | None:
        """Tags joined by `||`; None, empty and `*` match everything and give None. Raises InvalidFilter."""
        if expression is None or trimmed_tag(expression) in ("", MATCH_ALL):
            return None
        if len(expression.encode("utf-8", "surrogatepass")) > MAX_EXPRESSION_BYTES:
            raise InvalidFilter(
                f"A tag expression of {len(expression)} characters is over the limit of {MAX_EXPRESSION_BYTES} bytes."
            )
        tags = [tag for part in expression.split(_SEPARATOR) if (tag := trimmed_tag(part))]
        if not tags:
            raise InvalidFilter(f"The tag expression {expression!r} names no tag.", hint="Write: paid || shipped")
        return cls.of(*tags)

    @property
    def doubt(self) -> str | None:
        """What to tell whoever typed the expression, where one of its tags looks like several. It is one to RocketMQ,
        and messages may have it: nothing but `||` joins tags, and `*` within one is a character like others."""
        seeming = sorted(filter(_SEEMS_SEVERAL.search, self.tags))
        if not seeming:
            return None
        return (
            f"The tag expression asks for messages with exactly the tag {seeming[0]!r}. If others are meant, write: "
            "paid || shipped. There are no wildcards; with sql there is TAGS STARTSWITH 'pai'."
        )

    def matches(self, tags: str | None) -> bool:
        """Whether a message with this TAGS property is wanted; one without never is."""
        return tags in self.tags

    def __str__(self) -> str:
        return f" {_SEPARATOR} ".join(sorted(self.tags))
