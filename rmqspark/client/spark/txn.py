"""Transactions of batches, besides what is asked of their coordinator: halves, input ranges, listings.

Layouts: `protocol/headers/txn.py`, `protocol/bodies/txn.py`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.cluster.futures import then
from rmqspark.client.cluster.silence import RollCall
from rmqspark.client.spark.coordinator import masters
from rmqspark.errors import RmqError
from rmqspark.protocol.bodies.txn import AuditedBatches, InputRanges, TxnState, TxnStates
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import (
    TxnAuditRequestHeader,
    TxnHalfRequestHeader,
    TxnHalfResponseHeader,
    TxnInputsRequestHeader,
    TxnListRequestHeader,
    TxnReportInputRequestHeader,
)
from rmqspark.protocol.names import stream_transactional_id
from rmqspark.protocol.rendezvous import chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.protocol.bodies.txn import AuditedBatch, HeldVersion, InputRange
    from rmqspark.remoting.reply import Body
    from rmqspark.remoting.response import Response

HALF_TIMEOUT_MS = 30_000
INPUTS_TIMEOUT_MS = 3_000
LIST_TIMEOUT_MS = 10_000
_PAGE = 500

P = TypeVar("P", TxnStates, AuditedBatches)


def submit_half(broker: BrokerClient, header: TxnHalfRequestHeader, body: Body) -> Future[int]:
    """RMQ_TXN_HALF: rows to be held until their transaction is decided; where the half is held.

    `body` as for `bulk_send`. The same half (by transaction, attempt and sequence) again is stored once.
    """
    future = broker.submit(RequestCode.RMQ_TXN_HALF, header, body, timeout_ms=HALF_TIMEOUT_MS)
    return then(future, lambda response: response.raise_for_code().header(TxnHalfResponseHeader).physicalOffset)


def input_keeper(client: ClusterClient, query_id: str) -> BrokerClient:
    """The broker that keeps what is reported of a query, whatever is read of whom. While that is silent it is another:
    whoever lists queries asks all of them."""
    names = masters(client)
    silent = client.outages.among(names)
    return client.broker(
        chosen(stream_transactional_id(query_id), [name for name in names if name not in silent] or names)
    )


def input_keepers(client: ClusterClient, query_id: str, owner: str) -> list[BrokerClient]:
    """Those that keep what a query reads of broker `owner`: itself, and another one if there is any.

    So either may be away when the batch is committed. Where no name server says who there is, it is `owner` alone.
    """
    try:
        others = [name for name in masters(client) if name != owner]
    except RmqError:
        others = []
    names = [owner, chosen(stream_transactional_id(query_id), others)] if others else [owner]
    return [client.broker(name) for name in names]


def report_input(keeper: BrokerClient, query_id: str, batch_id: int, ranges: list[InputRange]) -> Future[Response]:
    """RMQ_TXN_REPORT_INPUT: what a task of the batch reads. The answer as it comes."""
    header = TxnReportInputRequestHeader(query_id, batch_id)
    body = InputRanges(ranges).encode()
    return keeper.submit(RequestCode.RMQ_TXN_REPORT_INPUT, header, body, timeout_ms=INPUTS_TIMEOUT_MS)


def reported_inputs(keeper: BrokerClient, query_id: str, batch_id: int) -> list[InputRange]:
    """RMQ_TXN_INPUTS: everything the tasks of the batch reported, some of it perhaps more than once."""
    header = TxnInputsRequestHeader(query_id, batch_id)
    response = keeper.call(RequestCode.RMQ_TXN_INPUTS, header, timeout_ms=INPUTS_TIMEOUT_MS)
    return InputRanges.decode(response.body).inputs


def transactions(
    client: ClusterClient, transactional_id: str | None = None, *, on_silent: OnSilent | None = None
) -> list[TxnState]:
    """Every transactional id its coordinator keeps, over all brokers that can keep any; or one of them. Besides, those
    of which brokers hold something, and no broker that answers says that it coordinates them: with no `coordinator`.

    Of a version that is open, `brokers`, `rows` and `bytes` are what is held of it, whichever attempts will count. A
    broker that does not answer is told to `on_silent` and left out, unless none does; without that it is an error.
    """
    header = TxnListRequestHeader(_PAGE, transactional_id)
    states: list[TxnState] = []
    held: defaultdict[tuple[str, int, int], list[tuple[str, HeldVersion]]] = defaultdict(list)
    for broker_name, page in _pages(client, RequestCode.RMQ_TXN_LIST, header, TxnStates, on_silent):
        states += page.transactions
        for each in page.held:
            held[each.transactionalId, each.epoch, each.version].append((broker_name, each))
    states += _of_none({state.transactionalId for state in states}, held)
    for state in states:
        if state.version > state.lastVersion:
            for broker_name, each in held[state.transactionalId, state.epoch, state.version]:
                state.brokers.append(broker_name)
                state.rows += each.rows
                state.bytes += each.bytes
    return sorted(states, key=lambda state: state.transactionalId)


def _of_none(coordinated: Collection[str], held: Iterable[tuple[str, int, int]]) -> list[TxnState]:
    """Transactional ids that nobody coordinates, with the newest version of each that is held."""
    newest: dict[str, tuple[int, int]] = {}
    for transactional_id, epoch, version in held:
        if transactional_id not in coordinated:
            newest[transactional_id] = max((epoch, version), newest.get(transactional_id, (0, 0)))
    return [_unheard(transactional_id, *each) for transactional_id, each in newest.items()]


def _unheard(transactional_id: str, epoch: int, version: int) -> TxnState:
    state = f"version {version} is held, no broker that answers coordinates it"
    return TxnState(transactional_id, epoch=epoch, version=version, state=state)


def audited_batches(
    client: ClusterClient, *, transactional_id: str | None = None, query_id: str | None = None
) -> list[AuditedBatch]:
    """The decided versions of a transactional id, or of a query in all its sinks, in their order.

    A coordinator that lost power may tell of a version twice; what it says last counts. Where two have decided a
    version, both are told.
    """
    return _audited(client, TxnAuditRequestHeader(_PAGE, transactional_id, query_id))


def batches_that(
    client: ClusterClient, are_wanted: Callable[[AuditedBatch], bool], *, on_silent: OnSilent | None = None
) -> list[AuditedBatch]:
    """Of all decided versions those that are wanted, in the order of `audited_batches`. Goes through everything that
    the coordinators remember, and keeps no more of it. `on_silent` as for `transactions`."""
    return _audited(client, TxnAuditRequestHeader(_PAGE), are_wanted, on_silent)


def _audited(
    client: ClusterClient,
    header: TxnAuditRequestHeader,
    are_wanted: Callable[[AuditedBatch], bool] = lambda _: True,
    on_silent: OnSilent | None = None,
) -> list[AuditedBatch]:
    pages = _pages(client, RequestCode.RMQ_TXN_AUDIT, header, AuditedBatches, on_silent)
    batches: dict[tuple[str, int], dict[str, AuditedBatch]] = defaultdict(dict)
    for broker_name, page in pages:
        for each in page.batches:
            if are_wanted(each):
                batches[each.transactionalId, each.version][broker_name] = each
    return [each for key in sorted(batches) for each in _decided_apart(batches[key])]


def _decided_apart(told: Mapping[str, AuditedBatch]) -> list[AuditedBatch]:
    """What coordinators say of one version, each decision once: a copy of a ledger has the same."""
    return [*{each.decidedAtMs: each for _, each in sorted(told.items())}.values()]


def audited_batch(client: ClusterClient, transactional_id: str, version: int) -> AuditedBatch | None:
    """This version of a transactional id; None where no broker remembers it, or it was not decided."""
    header = TxnAuditRequestHeader(_PAGE, transactional_id)
    found = None
    for _, page in _pages(client, RequestCode.RMQ_TXN_AUDIT, header, AuditedBatches):
        found = next((batch for batch in page.batches if batch.version == version), found)
    return found


def _pages(
    client: ClusterClient,
    code: RequestCode,
    header: TxnListRequestHeader | TxnAuditRequestHeader,
    kind: type[P],
    on_silent: OnSilent | None = None,
) -> Iterator[tuple[str, P]]:
    """The whole listing of every broker that keeps transactions, and the broker's name with each page."""
    roll = RollCall(client, on_silent)
    for broker in able_brokers(client, roll):
        with roll.hears(broker.name):
            yield from _pages_of(broker, code, header, kind)


def _pages_of(
    broker: BrokerClient, code: RequestCode, header: TxnListRequestHeader | TxnAuditRequestHeader, kind: type[P]
) -> Iterator[tuple[str, P]]:
    header.cursor = None
    while True:
        page = kind.decode(broker.call(code, header, timeout_ms=LIST_TIMEOUT_MS).body)
        yield broker.name, page
        if page.cursor is None:
            return
        header.cursor = page.cursor


def able_brokers(client: ClusterClient, roll: RollCall) -> Iterator[BrokerClient]:
    """Those that keep transactions, and what is known of queries: all of ours. Those that are silent are left out; it
    ends with an error where all are."""
    names = sorted(client.cluster_info().brokerAddrTable)
    for name in names:
        if not roll.is_silent(name):
            with roll.hears(name):
                if client.broker(name).capabilities().transactions > 0:
                    yield client.broker(name)
    roll.insist_on_one(names)
