"""Whether a message is still the one that a client means, who names it by its place in the log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.protocol.records.properties import Property

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Record

_ID: Final = re.compile("[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")


def is_called(record: Record, msg_id: str | None) -> bool:
    """Whether that is one of its ids; also of what is no id of a message at all: RocketMQ does not look. In its place
    may have been another one, which went with the end of the log, or with another store."""
    if msg_id is None or not _ID.fullmatch(msg_id):
        return True
    ids = record.property_map().get(Property.UNIQ_KEY, ""), offset_msg_id(record.store_host, record.physical_offset)
    return msg_id.upper() in [each.upper() for each in ids]
