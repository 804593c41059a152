"""Slaves as rows of a table, and in documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.words import size

if TYPE_CHECKING:
    from rmqspark.client.administration.replicas import SlaveStatus

SLAVE_COLUMNS = ("slave of", "id", "address", "role", "behind", "in sync", "state")


def slave_row(slave: SlaveStatus) -> tuple[Any, ...]:
    """Of the table with SLAVE_COLUMNS."""
    behind = None if slave.behind_bytes is None else size(slave.behind_bytes)
    in_sync = None if slave.is_in_sync is None else "yes" if slave.is_in_sync else "no"
    return (
        *(slave.broker_name, slave.broker_id, slave.address, slave.role),
        *(behind, in_sync, slave.problem or "ok"),
    )


def slave_document(slave: SlaveStatus) -> dict[str, Any]:
    """null where it is unknown."""
    return {
        "brokerId": slave.broker_id,
        "address": slave.address,
        "role": slave.role,
        "connected": slave.is_connected,
        "behindBytes": slave.behind_bytes,
        "inSync": slave.is_in_sync,
        "state": slave.problem or "ok",
    }
