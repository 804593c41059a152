"""The sender's side of a transaction, and what is made of what it says."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from rmqspark.model import TransactionState
from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.model import PreparedMessage, ReceivedMessage

DECISIONS: Final = {TransactionState.COMMIT: SysFlag.COMMITTED, TransactionState.ROLLBACK: SysFlag.ROLLED_BACK}
"""How a broker is told of a state; of UNKNOWN it is not told."""

log = logging.getLogger(__name__)


@runtime_checkable
class TransactionListener(Protocol):
    """The sender's side of a transaction. Both methods may be called on any thread, `check` also for messages that an
    earlier process of the same group sent. What either raises counts as UNKNOWN and is logged."""

    def execute(self, message: PreparedMessage, arg: Any) -> TransactionState:
        """Carries the transaction out, now that the message waits for it. `arg` is what `send` was given."""

    def check(self, message: ReceivedMessage) -> TransactionState:
        """What became of the transaction of this message; UNKNOWN while it is under way."""


def heard(method: str, msg_id: str, call: Callable[[], object]) -> TransactionState:
    """What the listener says; UNKNOWN, and a line in the log, where it says nothing that makes sense."""
    try:
        state = call()
    except Exception:  # a user's code, on a thread of ours: logged, and the broker asks again
        log.exception("the transaction listener failed to %s %s", method, msg_id)
        return TransactionState.UNKNOWN
    if isinstance(state, TransactionState):
        return state
    log.error("the transaction listener's %s returned %r for %s, not a TransactionState", method, state, msg_id)
    return TransactionState.UNKNOWN
