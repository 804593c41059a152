"""Everything a broker needs to take part in transactions, lined up: store → participant → completer → resolver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.protocol.bodies.txn import AttemptName
from rmqspark.protocol.headers.txn import TxnOutcome
from rmqspark.txn.participant.completer import Completer
from rmqspark.txn.participant.half_store import HalfStore
from rmqspark.txn.participant.hearsay import Verdict
from rmqspark.txn.participant.participant import Participant
from rmqspark.txn.participant.resolver import Resolver, ResolverConfig

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rmqspark.broker.given import Given
    from rmqspark.broker.safekeeping.safety import Safety
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.coordinator.coordinator import Ruling
    from rmqspark.txn.participant.half_batch import Batch


_EVENT_BYTES: Final = 4_096  # of an event, beside its output ranges


def participation(
    given: Given,
    store: MessageStore,
    safety: Safety,
    *,
    check_target: Callable[[str, int], None],
    on_appended: Callable[[int, int], None],
    status_of: Callable[[str, int, int], Awaitable[Ruling]],
) -> Resolver:
    """A participant that is yet to `recover`. `status_of` asks a version's coordinator, wherever that is."""
    config, store_config = given.config, given.store_config
    participant = Participant(max_halves=config.max_half_batches, max_bytes=config.max_half_batch_bytes)
    halves = HalfStore(store, given.clock)
    completer = Completer(
        participant, halves, check_target=check_target, broker_name=config.broker_name, on_appended=on_appended
    )

    async def ask(batch: Batch) -> Verdict:
        return verdict(batch, await status_of(*batch), config.broker_name)

    settings = ResolverConfig(
        timeout_ms=config.transaction_time_out,
        check_interval_ms=config.transaction_check_interval,
        reads_unsynced=not store_config.syncs_flush,
        max_output_bytes=store_config.max_message_size - _EVENT_BYTES,
    )
    return Resolver(settings, participant, halves, completer, safety, given.clock, ask=ask)


def verdict(batch: Batch, ruling: Ruling, broker_name: str) -> Verdict:
    """What a coordinator's ruling means for what this broker holds of a batch."""
    answer = ruling.answer
    if answer.outcome is TxnOutcome.FENCED:
        return Verdict(is_open=False, newest_epoch=answer.epoch)
    if answer.outcome is not TxnOutcome.COMMITTED:
        return Verdict(is_open=True, newest_epoch=answer.epoch)
    if answer.decision is None or answer.epoch != batch.epoch:
        return Verdict(is_open=False, newest_epoch=answer.epoch)
    holders = answer.decision.participants
    attempts = [AttemptName(each.partition, each.attempt) for each in holders.get(broker_name, [])]
    was_here = broker_name in holders and not attempts  # no decision names a broker, and no attempt there
    return Verdict(is_open=False, attempts=attempts, newest_epoch=answer.epoch, holders=[*holders], was_here=was_here)
