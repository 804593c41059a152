"""Which broker coordinates a transactional id: whoever has it in its ledger; nobody can be two.

Clients agree on a broker by rendezvous, but brokers come and go, and then it is another one that they agree on. So a
broker that is asked for an id it does not know asks all others before it adopts it, also those it has seen only once:
one that is down may own the id, and has to be started, or declared gone for good (`retired_brokers`), first. It asks
them whom they have seen, too: a broker that has only just joined knows of none that is away, and neither does a name
server that was restarted.

Two that adopt the same id at the same time answer each other "mine"; both give up, and the clients try again.

Two may own an id all the same: one was declared gone for good, and comes back, or a store was copied. Each finds out
from the other, when a run begins and every few seconds while one goes on, and decides nothing more.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from rmqspark.errors import NotSupported, RmqError, TransactionError, TwoCoordinators, Unreachable
from rmqspark.protocol.bodies.txn import BrokersSeen
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import NO_EPOCH, NO_VERSION, TxnFindRequestHeader, TxnFindResponseHeader
from rmqspark.told_once import ToldOnce
from rmqspark.txn.coordinator.ledger import MAX_PEERS
from rmqspark.txn.ports import Remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rmqspark.txn.coordinator.ledger import Ledger
    from rmqspark.txn.coordinator.peers import Peers

_FIND_TIMEOUT_MS: Final = 3_000
_ASKED_AT_ONCE: Final = 500

log = structlog.get_logger("rmqspark.txn")


class _Told(NamedTuple):
    """What a broker says of an id: that it has it in its ledger, or is about to; what it remembers of it as a
    participant; and which brokers it has ever seen."""

    owns: bool = False
    adopts: bool = False
    remembered: Remembered = Remembered()
    seen: tuple[str, ...] = ()


class Past(NamedTuple):
    """What all brokers together remember of an id that a coordinator may know less of: it was forgotten, or decided by
    one that is gone for good, or the ledger was set back. New epochs have to be above `newest_epoch`, and new versions
    above `completed`, which `completed_by` has in its topics."""

    newest_epoch: int = NO_EPOCH
    completed: int = NO_VERSION
    completed_by: str = ""


class Adoption(NamedTuple):
    """The other broker that owns an id. None if it is ours, or about to be, and then what others remember of it."""

    owner: str | None
    past: Past = Past()


class Owners:
    """Finds the coordinator of an id. `remembered_here` says what this broker remembers of an id as a participant."""

    def __init__(self, ledger: Ledger, peers: Peers, remembered_here: Callable[[str], Remembered]) -> None:
        self.own_name: Final = peers.own_name
        self._ledger = ledger
        self._peers = peers
        self.remembered_here: Final = remembered_here
        self._adopting: dict[str, int] = {}  # id -> how many requests are asking around for it
        self._used: dict[str, None] = {}  # ids of ours, in order, that others were not asked for since
        self._others: dict[str, str] = {}  # id of ours -> another broker that said that it is its own
        self._told: ToldOnce[tuple[str, str]] = ToldOnce(log, "ids with two coordinators")  # id and the other one

    def is_mine(self, transactional_id: str) -> bool:
        """What FIND is answered: also yes while this broker is about to adopt the id."""
        return transactional_id in self._ledger or self.is_adopting(transactional_id)

    def is_adopting(self, transactional_id: str) -> bool:
        """Whether it is asking around for an id that it does not own yet."""
        return transactional_id in self._adopting and transactional_id not in self._ledger

    def seen(self) -> list[str]:
        """The brokers that may own something, as far as this one knows."""
        return sorted({*self._ledger.peers, *self._peers.names()} - self._peers.retired)

    async def elsewhere(self, transactional_id: str) -> str | None:
        """The other broker that owns the id; None if it is ours, or nobody's.

        Raises Unreachable naming a broker that cannot be asked.
        """
        if transactional_id in self._ledger:
            return None
        return _owner(transactional_id, *await self._ask_all(transactional_id))

    async def adopt(self, transactional_id: str) -> Adoption:
        """The same, of an id that is about to be ours if it is nobody's. Raises Unreachable."""
        if transactional_id in self._ledger:
            return Adoption(None)
        self._adopting[transactional_id] = self._adopting.get(transactional_id, 0) + 1
        try:
            told, is_listed = await self._ask_all(transactional_id)
            return Adoption(_owner(transactional_id, told, is_listed), self._past(transactional_id, told))
        finally:
            self._adopting[transactional_id] -= 1
            if not self._adopting[transactional_id]:
                del self._adopting[transactional_id]

    async def refuse_second(self, transactional_id: str) -> Past:
        """Raises TwoCoordinators if another broker that can be asked owns what we own. One that is about to adopt it
        is asking us at this moment, and will not. Returns what they remember, and this broker."""
        told, _ = await self._ask_all(transactional_id)
        self._others.pop(transactional_id, None)
        for name, answer in told.items():
            self._note_other(transactional_id, name, answer)
        self.require_sole(transactional_id)
        return self._past(transactional_id, told)

    def require_sole(self, transactional_id: str) -> None:
        """Raises TwoCoordinators if another broker owns what we own, as was found out last. The next look asks anew."""
        self._used[transactional_id] = None
        other = self._others.get(transactional_id)
        if other is None or other in self._peers.retired:
            return
        error = TwoCoordinators(
            f"Brokers {self.own_name!r} and {other!r} both coordinate the transactional id {transactional_id!r}.",
            hint="Stop one of them for good, after a look at what both have committed (rmq txn describe), or go on "
            "with a new transactionalId.",
        )
        if self._told.is_news((transactional_id, other)):
            log.error("two coordinators", transactional_id=transactional_id, other=other)
        raise error

    async def look_for_others(self) -> None:
        """Asks the brokers that name servers list whether they own ids, too, that this one was asked for since it last
        did so: some of them, and the others next time. A broker that is silent is left alone, and one that is not
        listed any more forgotten."""
        if not self._used or not await self._peers.refresh():
            return
        used = list(islice(self._used, _ASKED_AT_ONCE))
        for transactional_id in used:
            del self._used[transactional_id]
        listed = set(self._peers.names()) - self._peers.retired
        others = self._others.items()
        self._others = {each: broker for each, broker in others if broker in listed and each in self._ledger}
        await asyncio.gather(*(self._look_at(broker, used) for broker in listed))

    async def _look_at(self, broker: str, transactional_ids: Iterable[str]) -> None:
        for transactional_id in transactional_ids:
            try:
                told = await self._asked(broker, transactional_id)
            except RmqError:  # said when it is asked for a request's sake; a stock broker owns nothing
                return
            self._note_other(transactional_id, broker, told)

    def _note_other(self, transactional_id: str, broker: str, told: _Told | None) -> None:
        if told is not None and told.owns:
            self._others[transactional_id] = broker
        elif told is not None and self._others.get(transactional_id) == broker:
            del self._others[transactional_id]

    def _past(self, transactional_id: str, told: Mapping[str, _Told | None]) -> Past:
        remembered = {name: answer.remembered for name, answer in told.items() if answer is not None}
        remembered[self.own_name] = self.remembered_here(transactional_id)
        completed_by = max(remembered, key=lambda name: remembered[name].completed)
        newest_epoch = max(each.newest_epoch for each in remembered.values())
        return Past(newest_epoch, remembered[completed_by].completed, completed_by)

    async def _ask_all(self, transactional_id: str) -> tuple[dict[str, _Told | None], bool]:
        """What everybody says, by name (None for those that do not answer), and whether a name server could be asked
        who everybody is. Those are asked, too, whom only others have seen."""
        is_listed = await self._peers.refresh()
        told: dict[str, _Told | None] = {}
        names = {*self._ledger.peers, *self._peers.names()}
        while unasked := sorted(names - told.keys() - self._peers.retired - {self.own_name}):
            answers = await asyncio.gather(*(self._ask(name, transactional_id) for name in unasked))
            told.update(zip(unasked, answers, strict=True))
            names.update(name for answer in answers if answer is not None for name in answer.seen)
        return dict(sorted(told.items())), is_listed

    async def _ask(self, broker: str, transactional_id: str) -> _Told | None:
        """None where there is no telling. A stock broker owns nothing."""
        try:
            return await self._asked(broker, transactional_id)
        except NotSupported:
            return _Told()
        except RmqError as error:
            log.info("a broker cannot be asked", broker=broker, reason=str(error))
            return None

    async def _asked(self, broker: str, transactional_id: str) -> _Told:
        """Raises what the way there raises; NotSupported from a stock broker."""
        header = TxnFindRequestHeader(transactional_id, self.own_name)
        response = await self._peers.call(broker, RequestCode.RMQ_TXN_FIND, header, timeout_ms=_FIND_TIMEOUT_MS)
        answer = response.header(TxnFindResponseHeader)
        if answer.brokerName != broker:
            raise Unreachable(f"Broker {answer.brokerName!r} answers where {broker!r} was.", address=broker)
        seen = BrokersSeen.decode(response.body).brokers
        if len(seen) > 2 * MAX_PEERS:  # those remembered, and those listed now
            raise TransactionError(f"Broker {broker!r} has seen {len(seen)} others, more than there may be.")
        remembered = Remembered(answer.newestEpoch, answer.completed)
        return _Told(answer.found and not answer.adopting, answer.adopting, remembered, tuple(seen))


def _owner(transactional_id: str, told: Mapping[str, _Told | None], is_listed: bool) -> str | None:
    found = next((name for name, answer in told.items() if answer is not None and (answer.owns or answer.adopts)), None)
    silent = next((name for name, answer in told.items() if answer is None), None)
    if found is None and silent is not None:
        raise Unreachable(
            f"Broker {silent!r} may own the transactional id {transactional_id!r}, and cannot be asked.",
            address=silent,
            hint="Start it. If it is gone for good, name it in the setting retired_brokers of the other brokers.",
        )
    if found is None and not is_listed:
        raise Unreachable(
            f"No name server says which brokers there are; one may own the transactional id {transactional_id!r}.",
            address="name servers",
            hint="Is a name server running? Ask rmq doctor.",
        )
    return found
