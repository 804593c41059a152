"""What a batch has read, as its read tasks told the broker: recorded in the same decision as what it has written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rmqspark.client.patience import patiently
from rmqspark.client.txn import input_keeper, reported_inputs
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.protocol.bodies_txn import InputRange
    from rmqspark.sink.attempt import Attempt

_PAUSES_MS = (100, 200, 400)

_log = logging.getLogger(__name__)


def inputs_of(client: ClusterClient, attempt: Attempt) -> list[InputRange]:
    """The ranges that the batch of `attempt` has read, each queue's in as few pieces as there are.

    A batch is not held up by what is only told about it: where they cannot be had, that is a warning.
    """
    if not attempt.query_id:
        return []
    try:
        reported = patiently(
            lambda: reported_inputs(input_keeper(client, attempt.query_id), attempt.query_id, attempt.batch_id),
            _PAUSES_MS,
            client.clock.sleep_ms,
        )
    except RmqError as error:
        _log.warning("What batch %d of query %s has read is not recorded: %s",
                     attempt.batch_id, attempt.query_id, error)  # fmt: skip
        return []
    return joined(reported)


def joined(ranges: Iterable[InputRange]) -> list[InputRange]:
    """Ranges without overlaps: tasks that ran twice, or were cut otherwise the second time, reported twice."""
    whole: list[InputRange] = []
    for piece in sorted(ranges, key=lambda r: (r.group, r.topic, r.brokerName, r.queueId, r.fromOffset)):
        last = whole[-1] if whole else None
        if last is not None and _queue(last) == _queue(piece) and piece.fromOffset <= last.toOffset:
            last.toOffset = max(last.toOffset, piece.toOffset)
        else:
            whole.append(piece)
    return whole


def _queue(piece: InputRange) -> tuple[str, str, str, int]:
    return piece.group, piece.topic, piece.brokerName, piece.queueId
