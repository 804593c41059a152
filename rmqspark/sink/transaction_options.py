"""What a write that shall be there exactly once is told: the name of its transactions, and what to do in odd cases.

A stream is named by its query and numbers its batches by itself. A batch write (in `foreachBatch`, or a job that may
be run again) is one of many only by what the user says: an id, and a version that grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqspark.errors import InvalidArgument
from rmqspark.options import Option, choice, integer
from rmqspark.protocol.names import check_transactional

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDS = ("transactionalId", "transactionVersion")


def transactional_id(value: str) -> str:
    return check_transactional("transactional id", value)


TRANSACTION_OPTIONS = (
    Option(
        "deliveryGuarantee",
        "`exactly-once` (stream), `at-least-once` (batch)",
        "what becomes of a batch that is run again: nothing is added, or its rows are written again",
        choice("at-least-once", "exactly-once"),
    ),
    Option(
        "transactionalId",
        "`spark-<query id>`",
        "who writes; on a batch write it means exactly-once",
        transactional_id,
        aliases=("txnAppId",),
    ),
    Option(
        "transactionVersion",
        "the batch id",
        "batch: which of its writes this is, a number that grows; a version at or below the last adds nothing",
        integer(at_least=0),
        aliases=("txnVersion",),
    ),
    Option(
        "onStaleVersion",
        "`fail`",
        "a version below the last one (the checkpoint was deleted or restored): `fail`, or `skip` what it writes",
        choice("fail", "skip"),
    ),
    Option(
        "onReplayMismatch",
        "`warn`",
        "a batch run again has other rows than were committed, which stay: `warn` or `fail`",
        choice("warn", "fail"),
    ),
)


@dataclass(frozen=True)
class TransactionOptions:
    """How an exactly-once write takes part in its transactions. No id: the query's; no version: the batch id."""

    transactional_id: str | None = None
    version: int | None = None
    skip_stale: bool = False
    fail_on_mismatch: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any], *, streaming: bool) -> TransactionOptions | None:
        """None for at-least-once. Raises InvalidArgument for options that contradict each other."""
        default = "exactly-once" if streaming or "transactionalId" in values else "at-least-once"
        if values.get("deliveryGuarantee", default) == "at-least-once":
            _refuse_leftovers(values)
            return None
        _check_version(values, streaming)
        return cls(
            values.get("transactionalId"),
            values.get("transactionVersion"),
            skip_stale=values.get("onStaleVersion") == "skip",
            fail_on_mismatch=values.get("onReplayMismatch") == "fail",
        )


def _refuse_leftovers(values: Mapping[str, Any]) -> None:
    for name in (*_IDS, "onStaleVersion", "onReplayMismatch"):
        if name in values:
            raise InvalidArgument(
                f"Option {name!r} has no meaning for an at-least-once write.",
                hint="Leave it out, or write exactly-once: transactionalId and transactionVersion, on a batch write.",
            )


def _check_version(values: Mapping[str, Any], streaming: bool) -> None:
    if streaming:
        if "transactionVersion" in values:
            raise InvalidArgument(
                "Option 'transactionVersion' has no meaning for a stream, whose versions are its batch ids.",
                hint="Leave it out, or write in foreachBatch.",
            )
        return
    for name in _IDS:
        if name not in values:
            raise InvalidArgument(
                f"An exactly-once batch write needs {name!r}.",
                hint='.option("transactionalId", "nightly-orders").option("transactionVersion", run_number): '
                "a version at or below the last one adds nothing.",
            )
