"""What a user is told of a batch that comes again: every way in which it may not be the one that was committed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rmqspark.errors import ReplayMismatch, StaleVersion
from rmqspark.protocol.bodies.txn import InputRange, TxnDecision
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.sink.transactions.attempt import Attempt
from rmqspark.sink.transactions.replays import Replay, verdict

RUN, EARLIER = "6f1b8a4e-0a51-4a53-9a3e-2f0a5c8b7d11", "0c1b8a4e-0a51-4a53-9a3e-2f0a5c8b7d11"
BATCH = TxnDecision("q", rows=10, checksum="1000", run=RUN, batchId=7)
OWN = msgspec.structs.replace(BATCH, ownVersion=True)
ATTEMPT = Attempt("T", RUN, 7, 0, "x", query_id="q", batch_id=7)
STREAM, SKIPS, FAILS = (
    TransactionOptions(),
    TransactionOptions(skip_stale=True),
    TransactionOptions("", None, False, True),
)
USERS = TransactionOptions("T", 1_000)


def queue(number: int, up_to: int, **fields: Any) -> InputRange:
    return InputRange("g", "t", "a", number, 0, up_to, **fields)


THEN = [queue(0, 5), queue(1, 5)]


@pytest.mark.parametrize(
    ("options", "now", "recorded", "told", "story"),
    [
        (STREAM, {}, {}, None, ""),
        (STREAM, {"topic": "t"}, {"topic": "t"}, None, ""),
        (STREAM, {"topic": "t"}, {}, None, ""),  # its topics were a column's
        (STREAM, {"run": EARLIER}, {}, None, ""),
        (STREAM, {"rows": 9}, {}, str, "committed with 10 rows .checksum 1000.; run again, it has 9 rows"),
        (STREAM, {"checksum": "7"}, {}, str, "run again, it has 10 rows .checksum 7."),
        (FAILS, {"rows": 9}, {}, ReplayMismatch, "nothing was added.*set onReplayMismatch=warn"),
        # another query
        (STREAM, {}, {"queryId": ""}, None, ""),  # by a client of an earlier version
        (STREAM, {}, {"queryId": "old"}, StaleVersion, "committed by another query, old: the checkpoint was deleted"),
        (SKIPS, {}, {"queryId": "old"}, str, "Version 7 of T is another query's and skipped."),
        (USERS, {}, {"queryId": "old"}, None, ""),
        # another topic
        (STREAM, {"topic": "u"}, {"topic": "t"}, str, "committed to topic 't', so nothing was written to 'u'"),
        (FAILS, {"topic": "u"}, {"topic": "t"}, ReplayMismatch, "nothing was written to 'u'"),
        (USERS, {"topic": "u"}, {"topic": "t"}, ReplayMismatch, "nothing was written to 'u'"),
        # another place of its input
        (STREAM, {"inputs": THEN}, {"inputs": THEN}, None, ""),
        (STREAM, {"inputs": THEN, "rows": 9}, {"inputs": THEN}, str, "it has 9 rows"),
        (STREAM, {"inputs": THEN, "rows": 9}, {}, str, "it has 9 rows"),  # nothing is known of then
        (STREAM, {"inputs": THEN[:1], "rows": 9}, {"inputs": THEN}, str, "it has 9 rows"),  # the other's topic is gone
        (STREAM, {"inputs": [queue(0, 5), queue(1, 9)], "rows": 9}, {"inputs": THEN}, StaleVersion, "to offset 9 now"),
        (STREAM, {"inputs": [queue(0, 9, topicEpoch=1)], "rows": 9}, {"inputs": THEN}, str, "it has 9 rows"),
        (STREAM, {"inputs": [*THEN, queue(2, 1)], "rows": 9}, {"inputs": THEN}, StaleVersion, "was not at all then"),
        (STREAM, {"inputs": [*THEN, queue(2, 1, lease=4)], "rows": 9}, {"inputs": THEN}, str, "it has 9 rows"),
        (SKIPS, {"inputs": [queue(0, 9)], "rows": 9}, {"inputs": THEN}, str, "was another batch and is skipped: t/a/0"),
        # other queues of a shared group
        (FAILS, {"leasedQueues": "x", "rows": 9}, {}, str, "9 rows .* of other queues of its shared group"),
        (FAILS, {"leasedQueues": "x", "rows": 9}, {"leasedQueues": "x"}, ReplayMismatch, "it has 9 rows"),
    ],
)  # fmt: skip
def test_what_comes_again(
    options: TransactionOptions, now: dict, recorded: dict, told: type | None, story: str
) -> None:
    """Equal rows for the same topic are the same batch; else a warning, or an error where rows would be lost unseen."""
    replace = msgspec.structs.replace
    check(verdict(Replay(ATTEMPT, options, replace(BATCH, **now), replace(BATCH, **recorded))), told, story)


@pytest.mark.parametrize(
    ("run", "recorded", "is_second"),
    [
        (RUN, {}, True),
        (RUN, {"batchId": 6}, False),  # a version that many batches share, the first of which was to write
        (RUN, {"run": EARLIER}, False),  # before the query was started again
        (RUN, {"run": "", "batchId": -1}, False),  # by a client of an earlier version
        ("nightly", {"run": "nightly"}, False),  # the user's own name, which may be the same after every start
    ],
)
def test_a_second_write_of_one_batch(run: str, recorded: dict, is_second: bool) -> None:
    """Other rows under the id and version that this very batch has written under are an error, not a warning: nobody
    else would ever write them."""
    now = msgspec.structs.replace(OWN, run=run, rows=3)
    told = verdict(Replay(ATTEMPT._replace(version=1_000), USERS, now, msgspec.structs.replace(OWN, **recorded)))
    story = "before in this very batch, 7, .* 3 rows .* give each other write one of its own"
    check(told, ReplayMismatch if is_second else str, story if is_second else "it has 3 rows")


def check(told: object, kind: type | None, story: str) -> None:
    if kind is None:
        assert told is None
        return
    assert isinstance(told, kind), told
    with pytest.raises(Exception, match=story):
        raise told if isinstance(told, Exception) else Exception(told)
