"""Messages as files: JSONL as REST has them, and CSV whose cells no spreadsheet takes for formulas. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Final

from rmqspark.admin.schemas.messages import MessageView
from rmqspark.admin.values import time_of

_FORMULAS: Final = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # as wide as kanji, too
_COLUMNS: Final = (
    "topic",
    "brokerName",
    "queueId",
    "queueOffset",
    "msgId",
    "tags",
    "keys",
    "storeTimestamp",
    "bornTimestamp",
    "reconsumeTimes",
    "body",
    "bodyBase64",
)


def jsonl(messages: Sequence[MessageView]) -> bytes:
    """One a line."""
    return "".join(f"{each.model_dump_json()}\n" for each in messages).encode("utf-8", "surrogatepass")


def as_csv(messages: Sequence[MessageView]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_COLUMNS)
    for each in messages:
        writer.writerow([guarded(cell) for cell in _cells(each)])
    return out.getvalue().encode("utf-8", "surrogatepass")


def guarded(cell: str) -> str:
    """A quote in front of what would be a formula."""
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULAS) else cell


def _cells(message: MessageView) -> list[str]:
    return [
        message.topic,
        message.broker_name,
        str(message.queue_id),
        str(message.queue_offset),
        message.msg_id,
        message.tags or "",
        " ".join(message.keys),
        time_of(message.store_timestamp),
        time_of(message.born_timestamp),
        str(message.reconsume_times),
        message.body or "",
        message.body_base64 or "",
    ]
