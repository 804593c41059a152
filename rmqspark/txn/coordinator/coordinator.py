"""The coordinator: asks the ledger, writes what it decides, flushes, and only then answers (docs/exactly-once.md).

    PREPARE   ledger → events on disk → may this attempt write?
    DECIDE    ledger → votes of all brokers → leases of shared groups → decision on disk → groups → completion → answer
    STATUS    ledger → (asked by a driver: closed on disk) → how it stands
    ABORT     the same, asked by a driver that gives up

Everything about one transactional id happens one after the other, so what the ledger says holds until it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import Busy, InvalidName, RmqError, TransactionError, UnknownTransaction
from rmqspark.fault_points import fault_point
from rmqspark.protocol.headers.txn import NO_VERSION, TxnOutcome
from rmqspark.protocol.names import check_transactional
from rmqspark.txn.coordinator.events import CLOCK, DRIVER, RunOpened
from rmqspark.txn.coordinator.ledger import Answer
from rmqspark.txn.coordinator.proposals import Proposals
from rmqspark.txn.coordinator.turns import Turns
from rmqspark.txn.coordinator.voting import Voting
from rmqspark.txn.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.txn import TxnDecision
    from rmqspark.txn.coordinator.events import Transaction
    from rmqspark.txn.coordinator.following import Following
    from rmqspark.txn.coordinator.journal import Journal
    from rmqspark.txn.coordinator.ledger import Ledger
    from rmqspark.txn.coordinator.owners import Owners, Past
    from rmqspark.txn.coordinator.rollout import Rollout
    from rmqspark.txn.coordinator.uptime import Uptime
    from rmqspark.txn.ports import ParticipantPort

_MAX_PARTICIPANTS: Final = 1_000


class Ruling(NamedTuple):
    """What a client is told. `coordinator` is who to ask instead, with REDIRECT; `unreadable` names the brokers on
    which rows cannot be read yet; `remark` says in words what an outcome alone does not."""

    answer: Answer
    coordinator: str | None = None
    unreadable: frozenset[str] = frozenset()
    remark: str | None = None


class Coordinator:
    """Requests about transactional ids that this broker owns, or may adopt."""

    def __init__(
        self,
        ledger: Ledger,
        journal: Journal,
        owners: Owners,
        rollout: Rollout,
        participant: Callable[[str], ParticipantPort],
        following: Following,
        clock: Clock,
        uptime: Uptime,
    ) -> None:
        self._ledger = ledger
        self._journal = journal
        self._owners = owners
        self._rollout = rollout
        self._voting = Voting(rollout, participant)
        self._following = following
        self._clock = clock
        self._uptime = uptime
        self.turns: Final = Turns()
        """Of requests, by transactional id."""
        self._proposals = Proposals()
        self._refusals = Refusals()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def prepare(self, transactional_id: str, run: str, version: int, query_id: str) -> Ruling:
        """May an attempt of `run` write `version`? WRITE, ALREADY_COMMITTED, FENCED, STALE or REDIRECT.

        Raises TransactionError, with nothing remembered, for a version that a broker has completed and our ledger
        does not know.
        """
        check_transactional("transactional id", transactional_id)
        check_transactional("run", run)
        if query_id:
            check_transactional("query id", query_id)
        if version < 0:
            raise TransactionError(f"{version} is no version; they begin at 0.")
        adoption = await self._owners.adopt(transactional_id)
        if adoption.owner is not None:
            return _redirect(adoption.owner)
        async with self.turns.of(transactional_id):
            answer, past = await self._prepared(transactional_id, run, version, query_id, adoption.past)
            if answer.outcome is TxnOutcome.WRITE:
                self._owners.require_sole(transactional_id)
            if answer.outcome is TxnOutcome.WRITE and version <= past.completed:
                with self._refusals.telling(transactional_id):
                    raise _committed_before(transactional_id, version, past)
            return await self._tell(transactional_id, answer)

    async def decide(self, transactional_id: str, run: str, epoch: int, version: int, decision: TxnDecision) -> Ruling:
        """Commits a version, if every broker has what is said. COMMITTED, ALREADY_COMMITTED, FENCED, STALE, REFUSED.

        Raises Busy, with the version still open, where a broker cannot be asked now: it may be restarting.
        """
        if (other := await self._owners.elsewhere(transactional_id)) is not None:
            return _redirect(other)
        if len(decision.participants) > _MAX_PARTICIPANTS:
            raise TransactionError(f"A decision names {_MAX_PARTICIPANTS} brokers at most.")
        async with self.turns.of(transactional_id):
            with self._refusals.telling(transactional_id):
                answer = self._ledger.decide(transactional_id, run, epoch, version, decision)
            if answer is not None:
                return await self._finish(transactional_id, version, await self._tell(transactional_id, answer))
            return await self._put_to_vote(transactional_id, epoch, version, decision)

    async def status(self, transactional_id: str, epoch: int, version: int, *, fence: bool) -> Ruling:
        """How a version stands. With `fence` it is not open any more when the answer goes out.

        Without, COMMITTED means that this very epoch committed it: who asks has halves of it.
        """
        if fence:
            return await self.abort(transactional_id, epoch, version)
        if transactional_id not in self._ledger:
            return await self._status_of_unknown(transactional_id)
        answer = self._ledger.status(transactional_id, epoch, version)
        if answer.outcome is TxnOutcome.COMMITTED and answer.epoch != epoch:
            newest = self._ledger.require(transactional_id).epoch
            answer = Answer(TxnOutcome.FENCED, newest, answer.last_version)
        return await self._give(answer)

    async def abort(self, transactional_id: str, epoch: int, version: int, by: str = DRIVER) -> Ruling:
        """Closes a version unless it is decided: FENCED, with what earlier ones wait for, or COMMITTED."""
        if (other := await self._owners.elsewhere(transactional_id)) is not None:
            return _redirect(other)
        if transactional_id not in self._ledger:  # nobody's: no epoch was ever handed out, so nothing can be decided
            return Ruling(Answer(TxnOutcome.FENCED))
        async with self.turns.of(transactional_id):
            with self._refusals.telling(transactional_id):
                answer = self._ledger.close(transactional_id, epoch, version, self._clock.now_ms(), by)
            ruling = await self._finish(transactional_id, version, await self._tell(transactional_id, answer))
            if answer.outcome is not TxnOutcome.FENCED or answer.epoch != epoch or ruling.remark:
                return ruling
            return ruling._replace(remark=self._rollout.obstacles(self._ledger.require(transactional_id)) or None)

    async def resolve(self, transactional_id: str, version: int, *, commit: bool, who: str) -> Ruling:
        """An operator's decision for a version that is open. COMMITTED, FENCED, or REFUSED with the reason."""
        if (other := await self._owners.elsewhere(transactional_id)) is not None:
            return _redirect(other)
        if check_transactional("name of who decides", who) in (DRIVER, CLOCK):
            raise InvalidName(f"{who!r} is not who decides by hand.", hint="Give your name: ann@host.")
        async with self.turns.of(transactional_id):
            txn = self._ledger.require(transactional_id)
            if self._ledger.is_decided(txn, version):
                return await self._decided_before(txn, version)
            if not txn.is_open or txn.open_version != version:
                return _closed_before(txn, version, commit=commit)
            if commit:
                return await self._commit_by_hand(txn, version, who)
            answer = self._ledger.close(transactional_id, txn.epoch, version, self._clock.now_ms(), who)
            return await self._give(answer)

    # --- steps -------------------------------------------------------------------------------------------------------

    async def _prepared(
        self, transactional_id: str, run: str, version: int, query_id: str, past: Past
    ) -> tuple[Answer, Past]:
        """What the ledger says, above the epochs that others remember; and what those remember besides, as far as they
        were asked: before the id was adopted, and again for each new run, and after each start."""
        is_known = transactional_id in self._ledger
        # Where nobody can be asked any more who remembers older epochs of the id, the time is above those, too.
        least_epoch = 1 if is_known else max(self._clock.now_ms(), past.newest_epoch + 1)
        asked = transactional_id, run, version, query_id, self._uptime.now_ms()
        answer = self._ledger.prepare(*asked, least_epoch=least_epoch)
        opens_run = any(isinstance(event, RunOpened) for event in answer.events)
        is_first = opens_run or not self._ledger.is_heard_of(transactional_id)
        if is_known and is_first and answer.outcome is TxnOutcome.WRITE:
            past = await self._owners.refuse_second(transactional_id)
            if past.newest_epoch >= answer.epoch:  # this store was set back: what it has handed out since is fenced
                answer = self._ledger.prepare(*asked, least_epoch=past.newest_epoch + 1)
        return answer, past

    async def _put_to_vote(
        self, transactional_id: str, epoch: int, version: int, decision: TxnDecision, by: str = DRIVER
    ) -> Ruling:
        """Votes, leases, decision, completion. Votes may take longer than leases last: they come first."""
        self._owners.require_sole(transactional_id)
        txn = self._ledger.require(transactional_id)
        ballot = await self._voting.ballot(txn, epoch, version, decision)
        confirmed = self._rollout.confirmations(txn, ballot.confirmed)
        if refusals := ballot.refusals:
            self._journal.record(confirmed)
            self._proposals.note(transactional_id, epoch, version, decision)
            if ballot.may_pass:
                raise Busy(f"Version {version} of {transactional_id!r} cannot be decided now. {refusals}")
            return _refused(refusals, txn)
        if lost := await self._following.lost(decision):
            self._journal.record(confirmed)
            return _refused(lost, txn)
        self._owners.require_sole(transactional_id)  # once more: a vote may take long
        now_ms = self._clock.now_ms()
        answer = self._ledger.record(
            transactional_id, epoch, version, decision, now_ms, by, output_bytes=ballot.output_bytes
        )
        return await self._decided(txn, version, decision, answer._replace(events=(*confirmed, *answer.events)))

    async def _decided(self, txn: Transaction, version: int, decision: TxnDecision, answer: Answer) -> Ruling:
        """What follows from a vote of all brokers, whether or not the version was closed while they voted."""
        self._journal.record(answer.events)
        if answer.outcome is TxnOutcome.COMMITTED:
            self._following.note(txn.transactional_id, version, decision)
        ruling = await self._give(answer._replace(events=()))
        self._proposals.forget(txn.transactional_id)
        fault_point("after_decide")
        await self._following.catch_up(txn.transactional_id)
        return await self._finish(txn.transactional_id, version, ruling)

    async def _commit_by_hand(self, txn: Transaction, version: int, who: str) -> Ruling:
        decision = self._proposals.of(txn.transactional_id, txn.epoch, version)
        if decision is None:
            return _refused(
                f"The driver has not said which attempts of version {version} count: it can only be rolled back."
            )
        return await self._put_to_vote(txn.transactional_id, txn.epoch, version, decision, by=who)

    async def _decided_before(self, txn: Transaction, version: int) -> Ruling:
        """What an operator is told who comes too late: REFUSED where it is not remembered, so not for us to say how."""
        answer = self._ledger.status(txn.transactional_id, txn.epoch, version)
        ruling = await self._tell(txn.transactional_id, answer)
        if ruling.answer.outcome is not TxnOutcome.COMMITTED:
            return _refused(
                f"Version {version} is older than {txn.last_version}, which is committed: what became of it stands."
            )
        unreadable = sorted(self._rollout.unreadable(txn, version))
        story = f"readable everywhere but on {', '.join(unreadable)}" if unreadable else "complete"
        return ruling._replace(remark=f"Version {version} is committed and {story}: that stands.")

    async def _give(self, answer: Answer) -> Ruling:
        """Nothing is told that could be forgotten again."""
        self._journal.record(answer.events)
        await self._journal.flushed()
        return Ruling(answer, remark=answer.reason)

    async def _tell(self, transactional_id: str, answer: Answer) -> Ruling:
        """The same in the id's turn. Groups go on behind what is decided before it is told, also where whoever had it
        decided could not be told."""
        ruling = await self._give(answer)
        await self._following.catch_up(transactional_id)
        return ruling

    async def _finish(self, transactional_id: str, version: int, ruling: Ruling) -> Ruling:
        """What is decided is completed before it is told: on the brokers of this version, with what comes first there.
        What others still lack of earlier ones may take long, and no reader of this version waits for it."""
        if ruling.answer.outcome not in (TxnOutcome.COMMITTED, TxnOutcome.ALREADY_COMMITTED):
            return ruling
        txn = self._ledger.require(transactional_id)
        brokers = [broker for pending in txn.pending if pending.version == version for broker in pending.brokers_left()]
        await self._rollout.complete(txn, brokers)
        return ruling._replace(unreadable=frozenset(self._rollout.unreadable(txn, version)))

    async def _status_of_unknown(self, transactional_id: str) -> Ruling:
        """What a participant is told of halves whose id we never heard of."""
        try:
            other = await self._owners.elsewhere(transactional_id)
        except RmqError as error:
            return Ruling(Answer(TxnOutcome.UNKNOWN), remark=str(error))
        if other is not None:
            return _redirect(other)
        self._refusals.tell(transactional_id, UnknownTransaction(f"Nobody knows {transactional_id!r}."))
        return Ruling(Answer(TxnOutcome.FENCED))


def _committed_before(transactional_id: str, version: int, past: Past) -> TransactionError:
    """The error for what would be in its topics twice: its halves may all go to brokers that do not know it."""
    return TransactionError(
        f"Version {version} of {transactional_id!r} is not above {past.completed}, which broker "
        f"{past.completed_by!r} has completed, and its coordinator does not know that.",
        hint="Was the coordinator's store set back or lost, is it another broker now, or was the id not used for long? "
        "The batch goes through under a new transactionalId, and then has the rows twice that were committed.",
    )


def _redirect(coordinator: str) -> Ruling:
    return Ruling(Answer(TxnOutcome.REDIRECT), coordinator)


def _closed_before(txn: Transaction, version: int, *, commit: bool) -> Ruling:
    """What an operator is told of a version that is neither decided nor open; to give it up again changes nothing."""
    if version != txn.open_version:
        return _refused(f"Version {version} is not open.")
    if commit:
        return _refused(f"Version {version} was given up by {txn.closed_by}: that stands.")
    remark = f"Version {version} was given up by {txn.closed_by} before."
    return Ruling(Answer(TxnOutcome.FENCED, txn.epoch, txn.last_version), remark=remark)


def _refused(remark: str, txn: Transaction | None = None) -> Ruling:
    return Ruling(Answer(TxnOutcome.REFUSED, last_version=txn.last_version if txn else NO_VERSION), remark=remark)
