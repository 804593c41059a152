"""Typed calls to the broker that owns a transactional id (docs/exactly-once.md; `protocol/headers/txn.py`).

Everybody finds it in the same way: by rendezvous over the names of all master brokers. Where another broker has owned
the id for longer, the answer names that one. Whoever answered is asked first the next time, by all of a process: a task
or a batch that is made anew need not look for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from rmqspark.client.cluster.routes import no_broker, registered_masters
from rmqspark.errors import BrokerNotRegistered, NotFound, NotSupported, ServerFault, Unreachable
from rmqspark.protocol.bodies.txn import TxnDecision
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import (
    NO_EPOCH,
    TxnAbortRequestHeader,
    TxnAbortResponseHeader,
    TxnDecideRequestHeader,
    TxnDecideResponseHeader,
    TxnOutcome,
    TxnPrepareRequestHeader,
    TxnPrepareResponseHeader,
    TxnResolveRequestHeader,
    TxnResolveResponseHeader,
    TxnStatusRequestHeader,
    TxnStatusResponseHeader,
)
from rmqspark.protocol.rendezvous import chosen

if TYPE_CHECKING:
    import msgspec

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.remoting.response import Response

PREPARE_TIMEOUT_MS = 10_000  # brokers may have to ask each other whose the id is
DECIDE_TIMEOUT_MS = 60_000  # the answer comes when the batch is readable, and a large one takes seconds to copy
STATUS_TIMEOUT_MS = 60_000
_MOST_REDIRECTS = 3

A = TypeVar("A", bound="_Answer")


class _Answer(Protocol):
    @property
    def outcome(self) -> str: ...
    @property
    def coordinator(self) -> str | None: ...


class Run(NamedTuple):
    """Who speaks: one start of a query (`run`), under the number its coordinator gave it, about one version."""

    run: str
    epoch: int
    version: int


class Decided(NamedTuple):
    """What became of a version. `decision` is the recorded one, where there is one; `remark` the broker's words;
    `newest_epoch` where nothing is decided, and the broker says it: whose turn it is now."""

    outcome: str
    last_version: int = -1
    decision: TxnDecision | None = None
    incomplete: int = 0  # brokers on which the rows are not readable yet
    remark: str = ""
    newest_epoch: int = NO_EPOCH


class Coordinator:
    """The owner of `transactional_id`, wherever it is. Made for one batch, or one task of it."""

    def __init__(self, client: ClusterClient, transactional_id: str) -> None:
        self._client = client
        self._id = transactional_id

    def prepare(
        self, run: str, version: int, partition: int, attempt: str, query_id: str | None
    ) -> TxnPrepareResponseHeader:
        """Asks whether an attempt is to write: WRITE, with the epoch to write under, ALREADY_COMMITTED, FENCED, STALE.

        NotSupported from a broker that keeps no transactions of batches.
        """
        header = TxnPrepareRequestHeader(self._id, run, version, partition, attempt, query_id)
        answer, _ = self._ask(RequestCode.RMQ_TXN_PREPARE, header, TxnPrepareResponseHeader, PREPARE_TIMEOUT_MS)
        return answer

    def decide(self, run: Run, decision: TxnDecision) -> Decided:
        """Has the version committed: COMMITTED, ALREADY_COMMITTED, FENCED, STALE, REFUSED. Safe to repeat.

        Returns when the rows are readable on every broker that can be reached.
        """
        header = TxnDecideRequestHeader(self._id, run.run, run.epoch, run.version)
        answer, response = self._ask(
            RequestCode.RMQ_TXN_DECIDE, header, TxnDecideResponseHeader, DECIDE_TIMEOUT_MS, decision.encode()
        )
        decided = _decision(response)
        return Decided(answer.outcome, answer.lastVersion, decided, answer.incomplete, response.remark or "")

    def status(self, run: Run) -> Decided:
        """What became of a version: COMMITTED, or FENCED: it was undecided and is closed now, for good."""
        header = TxnStatusRequestHeader(self._id, run.epoch, run.version, fence=True, run=run.run)
        answer, response = self._ask(RequestCode.RMQ_TXN_STATUS, header, TxnStatusResponseHeader, STATUS_TIMEOUT_MS)
        decision, remark = _decision(response), response.remark or ""
        newest_epoch = answer.epoch if decision is None else NO_EPOCH
        return Decided(answer.outcome, answer.lastVersion, decision, remark=remark, newest_epoch=newest_epoch)

    def abort(self, run: Run) -> str:
        """Closes the version: FENCED, or COMMITTED where it was decided before and nothing is done."""
        header = TxnAbortRequestHeader(self._id, run.run, run.epoch, run.version)
        answer, _ = self._ask(RequestCode.RMQ_TXN_ABORT, header, TxnAbortResponseHeader, STATUS_TIMEOUT_MS)
        return answer.outcome

    def resolve(self, version: int, decision: TxnOutcome, who: str) -> Decided:
        """An operator's COMMIT or ROLLBACK of an open version: COMMITTED, FENCED (rolled back), REFUSED."""
        header = TxnResolveRequestHeader(self._id, version, decision, who)
        answer, response = self._ask(RequestCode.RMQ_TXN_RESOLVE, header, TxnResolveResponseHeader, DECIDE_TIMEOUT_MS)
        return Decided(answer.outcome, remark=response.remark or "")

    def _ask(
        self, code: RequestCode, header: msgspec.Struct, kind: type[A], timeout_ms: int, body: bytes = b""
    ) -> tuple[A, Response]:
        """One request to whoever owns the id. A broker that is away is looked for anew by the next request."""
        for _ in range(1 + _MOST_REDIRECTS):
            try:
                broker = self._broker()
                response = broker.call(code, header, body, timeout_ms=timeout_ms)
            except (Unreachable, NotFound):
                self._client.coordinators.forget(self._id)
                raise
            answer = response.header(kind)  # type: ignore[type-var]
            if answer.outcome != TxnOutcome.REDIRECT or answer.coordinator is None:
                return answer, response
            self._client.coordinators.note(self._id, answer.coordinator)
        self._client.coordinators.forget(self._id)
        raise ServerFault(f"The brokers do not agree on who coordinates transactional id {self._id!r}.")

    def _broker(self) -> BrokerClient:
        owner = self._client.coordinators.of(self._id)
        if owner is None:
            owner = chosen_broker(self._client, self._id)
            self._client.coordinators.note(self._id, owner)
        broker = self._client.broker(owner)
        try:
            require_transactions(broker)
        except BrokerNotRegistered as error:  # another broker says that there is one
            raise Unreachable(
                f"Broker {owner!r}, which coordinates transactional id {self._id!r}, is not registered.",
                address=owner,
                hint="Is it running? The batch goes on when it is back.",
            ) from error
        return broker


def chosen_broker(client: ClusterClient, key: str) -> str:
    """The broker that is first asked about `key`: one that is known where no name server answers, for each finds the
    owner of an id that there is. Unreachable while none is."""
    try:
        return chosen(key, masters(client))
    except Unreachable:
        known = sorted(client.known_masters())
        if not known:
            raise
        return chosen(key, known)


def masters(client: ClusterClient) -> list[str]:
    """The names of the brokers that may be written to. Unreachable while none is registered."""
    names = registered_masters(client.cluster_info())
    if not names:
        raise no_broker(client.namesrv)
    return names


def require_transactions(broker: BrokerClient) -> None:
    """Raises NotSupported, with the way out, unless the broker keeps transactions of batches."""
    able = broker.capabilities()
    if not able.transactions:
        raise NotSupported(
            f"Broker {broker.name!r} is {able.product}, which knows no transactions of whole batches: a batch that is "
            "run again would be written again.",
            hint="Write with deliveryGuarantee=at-least-once, or to a cluster of rmqspark brokers only.",
        )


def _decision(response: Response) -> TxnDecision | None:
    return TxnDecision.decode(response.body) if len(response.body) else None
