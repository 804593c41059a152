"""What a write that shall be there exactly once is told: the name of its transactions, and what to do in odd cases.

A stream is named by its query and numbers its batches by itself. A batch write (in `foreachBatch`, or a job that may
be run again) is one of many only by what the user says: an id, and a version that grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDS = ("transactionalId", "transactionVersion")


class TransactionOptions(NamedTuple):
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
    if "deliveryGuarantee" in values:
        why, instead = "deliveryGuarantee=at-least-once", "Leave one of the two out."
    else:
        why = "an at-least-once write, as a batch is by default"
        instead = "Leave it out, or write exactly-once: transactionalId and transactionVersion."
    for name in (*_IDS, "onStaleVersion", "onReplayMismatch"):
        if name in values:
            raise InvalidArgument(
                f"Option {name!r} has no meaning for {why}.",
                hint=instead,
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
