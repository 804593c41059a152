"""What a broker does by the clock, beside the requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from rmqspark.broker.replica.replicating import SlaveRole
from rmqspark.clock import Punctuality
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from rmqspark.broker.given import Given
    from rmqspark.broker.metrics.broker_metrics import BrokerMetrics
    from rmqspark.broker.parts import Parts

log = structlog.get_logger("rmqspark.broker")

_CLEANING_INTERVAL_MS: Final = 10_000
_CHECK_BACK_INTERVAL_MS: Final = 200
_DELAY_INTERVAL_MS: Final = 100
_TRANSACTION_INTERVAL_MS: Final = 1_000


def rounds(given: Given, parts: Parts, metrics: BrokerMetrics) -> list[Coroutine[Any, Any, None]]:
    """Each goes on until it is cancelled."""
    return [
        *_of_any(given, parts, metrics),
        *(_of_slave(parts, parts.role) if isinstance(parts.role, SlaveRole) else _of_master(parts)),
    ]


def _of_any(given: Given, parts: Parts, metrics: BrokerMetrics) -> list[Coroutine[Any, Any, None]]:
    clock, tables = given.clock, parts.tables
    cleaning = Punctuality(clock, _CLEANING_INTERVAL_MS)
    return [
        _every(lambda: parts.pulls.scan_interval_ms, parts.pulls.held.scan),
        _every(_CLEANING_INTERVAL_MS, lambda: parts.heartbeats.expire(cleaning.late_ms())),
        _every(_CLEANING_INTERVAL_MS, lambda: tables.locks.expire(clock.monotonic_ms())),
        _every(_CLEANING_INTERVAL_MS, lambda: parts.queries.expire(given.steady.now_ms())),
        _every(_CLEANING_INTERVAL_MS, partial(count, given, parts, metrics)),
        _every(_CLEANING_INTERVAL_MS, parts.expiry.run),
        _every(given.config.flush_consumer_offset_interval, tables.save),
    ]


def _of_master(parts: Parts) -> list[Coroutine[Any, Any, None]]:
    """What appends to the log, or asks others to."""
    return [
        _every(_CHECK_BACK_INTERVAL_MS, parts.check_back.run_round),
        _every(_DELAY_INTERVAL_MS, parts.delays.run_round),
        _every(_DELAY_INTERVAL_MS, parts.timed.run_round),
        _every(_TRANSACTION_INTERVAL_MS, parts.resolver.check_back),
        _every(_TRANSACTION_INTERVAL_MS, parts.coordination.tick),
        _every(_TRANSACTION_INTERVAL_MS, parts.orphaned_leases.run_round),
    ]


def _of_slave(parts: Parts, role: SlaveRole) -> list[Coroutine[Any, Any, None]]:
    return [
        role.slave.run(),
        role.seek(parts.registrar.hurry),
        _every(lambda: role.look_interval_ms, role.tables.run_round),
    ]


async def count(given: Given, parts: Parts, metrics: BrokerMetrics) -> None:
    """What rates are made of, by clocks that nobody sets."""
    monotonic_ms = given.clock.monotonic_ms()
    parts.stats.sample(given.steady.now_ms())
    parts.rates.sample(monotonic_ms)
    await metrics.count()
    await parts.statistics.sample(monotonic_ms)


async def _every(interval_ms: int | Callable[[], int], action: Callable[[], Awaitable[None] | object]) -> None:
    """A round that fails because of the disk, or for want of memory, is logged, once for as long as they fail alike;
    the next one tries again. An interval that goes by a setting that is `live` is asked for each time."""
    trouble = ""
    while True:
        await asyncio.sleep((interval_ms if isinstance(interval_ms, int) else interval_ms()) / 1000)
        try:
            outcome = action()
            if isinstance(outcome, Awaitable):
                await outcome
        except (OSError, RmqError, MemoryError) as error:
            before, trouble = trouble, f"{type(error).__name__}: {error}"
            if trouble != before:
                log.error("a round of the broker's clock failed", error=str(error))
        else:
            trouble = ""
