"""What the sample's topics and groups are called, for those who send, those who read, and those who are told."""

from __future__ import annotations

from typing import Final

TOPIC: Final = "demo"
LARGE: Final = "demo-large"
GROUP: Final = "demo-readers"
QUERY: Final = "demo"
QUERY_GROUP: Final = "demo-spark"
LARGE_AMOUNT: Final = 900
A_SECOND: Final = 10
