"""Headers of rmqspark's own requests: whole buffers of records in one frame.

Records are in the commit-log layout (`record.py`), version 1, IPv4 hosts. In what is sent, queueOffset,
physicalOffset, storeTimestamp and storeHost are 0, for the broker to fill in; everything else is the sender's, and
sysFlag may hold compression bits only.
"""

from __future__ import annotations

from typing import Final

from rmqspark.protocol.headers.types import Header, Int32, Int64

TO_THE_END: Final = (1 << 63) - 1
"""The `endOffset` of a range that has none."""
MAX_KEYS: Final = 1 << 18
"""Keys of the messages that one request stores: each is two bytes of it at least, and some sixty while it is being
entered."""
MAX_READ_BYTES: Final = 15 << 20
"""Of the records in an answer to a bulk read. Clients take frames of 16 MiB, and the sizes of records are in one, too:
four bytes for 91 or more."""


class BulkSendRequestHeader(Header):
    """RMQ_BULK_SEND: `count` records for one queue, stored all or none.

    recordSize above 0: all records are that long, and the body is the records back to back. recordSize 0: the body is
    `count` int32 sizes, big-endian, then the records. recordSize -1: rows that records are made of (`bulk_rows.py`);
    -2: rows with properties, since version 2 of bulkSend.
    `bodyCrc32` is the CRC-32 (IEEE, unsigned) of the body as sent.
    """

    topic: str
    queueId: Int32
    count: Int32
    recordSize: Int32
    bodyCrc32: Int64
    producerGroup: str | None = None
    bname: str | None = None


class BulkSendResponseHeader(Header):
    """`queueOffset` and `physicalOffset` are the first record's."""

    queueOffset: Int64
    count: Int32
    physicalOffset: Int64
    storeTimestamp: Int64


class TopicsSendRequestHeader(Header):
    """RMQ_TOPICS_SEND: `count` rows for `queues` queues of any topics, stored all or none (`topic_rows.py`).

    `bodyCrc32` is the CRC-32 (IEEE, unsigned) of the body as sent.
    """

    queues: Int32
    count: Int32
    bodyCrc32: Int64
    producerGroup: str | None = None
    bname: str | None = None


class TopicsSendResponseHeader(Header):
    """`physicalOffset` is the first record's; the others follow."""

    count: Int32
    physicalOffset: Int64
    storeTimestamp: Int64


class BulkReadRequestHeader(Header):
    """RMQ_BULK_READ: the records at [queueOffset, endOffset), as far as maxCount and maxBytes allow, at least one.

    `tags` is a tag expression; the broker goes by its hash codes, the reader tests the tags themselves. `sql` is a
    SQL92 expression instead, which needs no second test (since version 2 of bulkRead). Never waits. `topicDeleted` is
    when a topic of this name had last been deleted, ms, as the reader knows: after a later deletion it is refused.
    `group` is whom it is read for: a group that may not consume is refused. `readerChecks`: the reader makes sure that
    each record is what it asked for, so they may go out unread, as they lie in the log; where one is not, it asks again
    without.
    """

    topic: str
    queueId: Int32
    queueOffset: Int64
    endOffset: Int64
    maxCount: Int32
    maxBytes: Int32
    tags: str | None = None
    bname: str | None = None
    sql: str | None = None
    topicDeleted: Int64 | None = None
    group: str | None = None
    readerChecks: bool | None = None


class BulkReadResponseHeader(Header):
    """Body: `count` int32 sizes, big-endian, then the records back to back in queue order.

    With PULL_OFFSET_MOVED (the offset asked for is below minOffset) there is no body and the header is filled, too.
    `topicDeleted` is when a topic of this name was last deleted, ms; 0: never; below 0 of a slave, which does not know.
    """

    nextBeginOffset: Int64
    minOffset: Int64
    maxOffset: Int64
    count: Int32
    topicDeleted: Int64 | None = None


class TopicsReadRequestHeader(Header):
    """RMQ_TOPICS_READ: the records of `ranges` ranges of any queues, as far as maxCount and maxBytes allow, at least
    one (`topic_ranges.py`). `tags`, `group` and `readerChecks` as in RMQ_BULK_READ. Never waits."""

    ranges: Int32
    maxCount: Int32
    maxBytes: Int32
    tags: str | None = None
    bname: str | None = None
    group: str | None = None
    readerChecks: bool | None = None


class TopicsReadResponseHeader(Header):
    """Body: what was found in the first `ranges` of the ranges asked for, `count` records in all."""

    ranges: Int32
    count: Int32
