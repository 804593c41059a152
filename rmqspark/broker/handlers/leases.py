"""RMQ_GROUP_LEASES (30031): how queries that share a group own its queues.

rmqspark's own; see `rebalance/handover.py` for what a member does with it, `broker/state/locks.py` for the leases. All
of a request happens at once: what is released is committed before anybody else can take it, and who takes a queue is
told the group's offset of that moment. Nothing happens where a later run of the query has one of the queues. A lease
that was given or given up, and what was committed, is on disk before it is answered, also to who asks again after an
error; renewals alone are not written at all.

Each member computes its own share, so members that divide by different strategies leave queues to nobody. They say by
which they go, and all of them are told where these differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody, GroupLeasesBody
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import GroupLeasesRequestHeader
from rmqspark.protocol.names import check_broker_name, check_client_id
from rmqspark.remoting.reply import Reply, reply_after
from rmqspark.remoting.router import Route, Routes
from rmqspark.told_once import ToldOnce

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rmqspark.broker.shared_groups.group_leases import GroupLeases
    from rmqspark.remoting.request import Request

_LONGEST_STRATEGY: Final = 255  # of what is compared

log = structlog.get_logger("rmqspark.broker")


class LeaseHandlers:
    """Leases queues to the members of known and new groups; a lease that is not renewed lasts `lease_ms`. `meet` raises
    for a coordinator that is no broker of the cluster: nobody could be asked what it has decided. `divided_by` takes
    group, member and its strategy, and gives the strategies of all members."""

    def __init__(
        self,
        leases: GroupLeases,
        lease_ms: int,
        meet: Callable[[str], Awaitable[None]],
        divided_by: Callable[[str, str, str], list[str]],
    ) -> None:
        self._leases = leases
        self._lease_ms = lease_ms
        self._meet = meet
        self._divided_by = divided_by
        self._told: ToldOnce[str] = ToldOnce(log, "groups whose members divide their queues differently")

    def routes(self) -> Routes:
        return {RequestCode.RMQ_GROUP_LEASES: Route(GroupLeasesRequestHeader, self.leases)}

    def leases(self, request: Request[GroupLeasesRequestHeader]) -> Reply | Awaitable[Reply]:
        coordinator = request.header.coordinator
        return self._lease(request) if coordinator is None else self._for_coordinator(request, coordinator)

    async def _for_coordinator(self, request: Request[GroupLeasesRequestHeader], name: str) -> Reply:
        await self._meet(check_broker_name(name))
        reply = self._lease(request, name)
        return reply if isinstance(reply, Reply) else await reply

    def _lease(self, request: Request[GroupLeasesRequestHeader], coordinator: str = "") -> Reply | Awaitable[Reply]:
        header, body, leases = request.header, GroupLeasesBody.decode_request(request.body), self._leases
        group, member = header.consumerGroup, check_client_id(header.clientId)
        run = leases.begin(group, member, header.run, (*body.keep, *body.release, *body.take))
        held = leases.keep(group, member, run, body.keep, coordinator)
        leases.release(group, member, run, body.release)
        held += leases.take(group, member, run, body.take)
        strategies = self._different_strategies(group, member, header.strategy)
        reply = Reply(body=GroupLeasesAnswerBody(self._lease_ms, held, run, strategies).encode())
        return reply if leases.is_safe else reply_after(leases.make_safe, reply)

    def _different_strategies(self, group: str, member: str, strategy: str | None) -> list[str] | None:
        """Those of all members, if they are several; None where this one does not say how it divides the queues."""
        if strategy is None:
            return None
        strategies = self._divided_by(group, member, strategy[:_LONGEST_STRATEGY])
        if len(strategies) < 2:
            return None
        if self._told.is_news(group):
            log.warning(
                "members of a group divide its queues differently: some may be nobody's",
                group=group,
                client=member,
                strategies=strategies,
            )
        return strategies
