"""What a slave does not do: it decides nothing that its master has to know of.

Its tables are its master's, so what is changed here would be gone with the next look at the master. Its ledger of
transactions is as old as its start: an answer from it could be wrong. A queue that it leased its master would lease to
somebody else. Messages are refused by the store itself.
RocketMQ's slaves take changes of topics and groups, and lose them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rmqspark.errors import NotWritable
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from typing import Any, NoReturn

    from rmqspark.protocol.headers.admin import GroupForbiddenRequestHeader
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import Answer, Handle, Route, Routes

MASTERS_ONLY: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.CLONE_GROUP_OFFSET,
        RequestCode.END_TRANSACTION,
        RequestCode.RESUME_CHECK_HALF_MESSAGE,
        RequestCode.RMQ_GROUP_LEASES,
        *(code for code in RequestCode if code.name.startswith("RMQ_TXN_")),
    }
)


def refusing_on_slaves(routes: Routes) -> Routes:
    """The same family, as a slave answers it."""
    return {code: _on_slave(code, route) for code, route in routes.items()}


def _on_slave(code: int, route: Route) -> Route:
    if code in MASTERS_ONLY:
        return route._replace(handle=_refuse, take=None)
    if code == RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN:
        return route._replace(handle=partial(_tell_only, route.handle))
    return route


def _tell_only(handle: Handle, request: Request[GroupForbiddenRequestHeader]) -> Answer:
    return handle(request) if request.header.readable is None else _refuse(request)


def _refuse(request: Request[Any]) -> NoReturn:
    raise NotWritable("This broker is a slave, it decides nothing.", hint="Its master does, once it is back.")
