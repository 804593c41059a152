"""What to write instead of names that the source has as options, and a frame as columns; as `kafka_names`, which comes
before it where both have one."""

from __future__ import annotations

from typing import Final

_OF_THE_SOURCE: Final = (
    *("subscribe", "subscribepattern", "assign", "sql", "startingoffsets", "groupoffsetreset", "startingtimestamp"),
    *("startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy", "endingoffsets", "endingtimestamp"),
    *("endingoffsetsbytimestamp", "maxoffsetspertrigger", "maxbytespertrigger", "minoffsetspertrigger"),
    *("maxtriggerdelay", "minpartitions", "maxrecordsperpartition", "failondataloss", "groupmode"),
    *("allocatestrategy", "commitoffsets", "valueformat", "mode", "badrecordstopic", "metadatacolumns", "readmode"),
    *("store", "fetchoffset.numretries", "fetchoffset.retryintervalms"),
)
_COLUMNS: Final = ("body", "value", "tags", "keys", "shardingKey", "properties", "queueId", "delayLevel", "deliverTime")

OTHER_NAMES: Final = {
    **dict.fromkeys(_OF_THE_SOURCE, "It is the source's."),
    **{name.lower(): f"Write a column {name}." for name in _COLUMNS},
    "valueformat": "It is the source's. JSON is written as column body: to_json(struct(*)) AS body.",
    "group": "Leave it out: transactionalId names who writes.",
    "key": "Write a column shardingKey, by which a queue is chosen, or keys, by which messages are found.",
}
