"""What no honest client asks of transactions is refused, and the log hears of it: once of each kind, by transactional
id."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from rmqspark.errors import Fenced, RecordError, TransactionError
from rmqspark.told_once import ToldOnce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.errors import RmqError

log = structlog.get_logger("rmqspark.txn")


class Refusals:
    """Those of one side, coordinator or participant."""

    def __init__(self) -> None:
        self._told: ToldOnce[tuple[str, str]] = ToldOnce(log, "refusals in transactions")

    @contextmanager
    def telling(self, transactional_id: str) -> Iterator[None]:
        """Tells of what its block raises, if that says that a request contradicts itself or what was decided. To be
        fenced happens to honest clients, too."""
        try:
            yield
        except (RecordError, TransactionError) as error:
            if not isinstance(error, Fenced):
                self.tell(transactional_id, error)
            raise

    def tell(self, transactional_id: str, error: RmqError) -> None:
        """Of a refusal that somebody has caused just now."""
        kind = type(error).__name__
        if self._told.is_news((transactional_id, kind)):
            log.warning("refused", transactional_id=transactional_id, error=kind, reason=str(error))
