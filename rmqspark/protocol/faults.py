"""Errors and response codes: the one table, both ways.

A server raises what went wrong and `to_response` says under which code it travels; a client turns a code back with
`from_response`. An error class that is not in the table travels as its nearest ancestor that is. Codes and texts that
clients look at are RocketMQ's (spec: remoting, section 4).

What does not fit in a code and a remark travels in the response header and is the caller's to fill in: the offset to
go on from, with PULL_OFFSET_MOVED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark import errors
from rmqspark.errors import RmqError
from rmqspark.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCER_RETRY_CODES: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""After these a producer tries another broker (RocketMQ's DefaultMQProducer.retryResponseCodes)."""

SQL_UNSUPPORTED: Final = "The broker does not support consumer to filter message by SQL92"
"""RocketMQ's words, under SYSTEM_ERROR, where property filters are off."""

_KNOWN_CODES: Final = frozenset(ResponseCode)
_GO_AWAY_REMARK: Final = "please go away"
_KEYS: Final = (
    "RMQ_ACCESS_KEY and RMQ_SECRET_KEY, rmq --credentials, the options accessKey and secretKey of Spark, or "
    "access=Access(Credentials(…))"
)
_ADVICE: Final = (
    ("username cannot be null", f"It wants to know who asks. Say it with {_KEYS}."),
    ("check signature failed", f"The secret key is not this user's. It comes from {_KEYS}."),
    (
        "has no permission to access",
        "This user has not been given that right: rmq acl create or mqadmin createAcl gives it.",
    ),
    ("User:", f"The access key names no user who may come in. It comes from {_KEYS}."),
)
"""What to do about refusals, by RocketMQ's words for them."""
_BUSY_REMARK: Final = "[OVERLOAD]system busy, start flow control for a while"

_CODES: Final[dict[type[RmqError], ResponseCode]] = {
    RmqError: ResponseCode.SYSTEM_ERROR,
    errors.RecordError: ResponseCode.MESSAGE_ILLEGAL,
    errors.InvalidArgument: ResponseCode.INVALID_PARAMETER,
    errors.InvalidMessage: ResponseCode.MESSAGE_ILLEGAL,
    errors.InvalidFilter: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    errors.NotSupported: ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    errors.NotFound: ResponseCode.QUERY_NOT_FOUND,
    errors.TopicNotFound: ResponseCode.TOPIC_NOT_EXIST,
    errors.GroupNotFound: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    errors.OffsetNotFound: ResponseCode.QUERY_NOT_FOUND,
    errors.MessageNotFound: ResponseCode.SYSTEM_ERROR,  # as VIEW_MESSAGE_BY_ID answers
    errors.SubscriptionNotFound: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    errors.FilterNotFound: ResponseCode.FILTER_DATA_NOT_EXIST,
    errors.SubscriptionOutdated: ResponseCode.SUBSCRIPTION_NOT_LATEST,
    errors.OffsetMoved: ResponseCode.PULL_OFFSET_MOVED,
    errors.NotRecallable: ResponseCode.ILLEGAL_OPERATION,
    errors.TransactionError: ResponseCode.TRANSACTION_FAILED,
    errors.Fenced: ResponseCode.RMQ_TXN_FENCED,
    errors.NoPermission: ResponseCode.NO_PERMISSION,
    errors.Busy: ResponseCode.SYSTEM_BUSY,
    errors.NotWritable: ResponseCode.SERVICE_NOT_AVAILABLE,
    errors.FlushTimeout: ResponseCode.FLUSH_DISK_TIMEOUT,
    errors.SlaveNotAvailable: ResponseCode.SLAVE_NOT_AVAILABLE,
    errors.FlushSlaveTimeout: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    errors.GoingAway: ResponseCode.GO_AWAY,
    errors.LeaseLost: ResponseCode.RMQ_LEASE_LOST,
    errors.TopicRemade: ResponseCode.RMQ_TOPIC_REMADE,
}


class _Context(NamedTuple):
    """What `from_response` knows about an answer."""

    code: int
    remark: str
    topic: str
    group: str
    next_offset: int


def _topic_not_found(answer: _Context) -> RmqError:
    return errors.TopicNotFound(answer.topic) if answer.topic else _with_remark(errors.TopicNotFound(""), answer)


def _group_not_found(answer: _Context) -> RmqError:
    return errors.GroupNotFound(answer.group) if answer.group else _with_remark(errors.GroupNotFound(""), answer)


def _offset_moved(answer: _Context) -> RmqError:
    return errors.OffsetMoved(answer.remark, next_offset=answer.next_offset)


def _no_permission(answer: _Context) -> RmqError:
    return errors.NoPermission(
        answer.remark, hint=next((hint for words, hint in _ADVICE if words in answer.remark), "")
    )


def _simple(kind: type[RmqError]) -> Callable[[_Context], RmqError]:
    return lambda answer: kind(answer.remark)


_ERRORS: Final[dict[int, Callable[[_Context], RmqError]]] = {
    ResponseCode.SYSTEM_BUSY: _simple(errors.Busy),
    ResponseCode.FLOW_CONTROL: _simple(errors.Busy),
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: _simple(errors.NotSupported),
    ResponseCode.TRANSACTION_FAILED: _simple(errors.TransactionError),
    ResponseCode.RMQ_TXN_FENCED: _simple(errors.Fenced),
    ResponseCode.VERSION_NOT_SUPPORTED: _simple(errors.NotSupported),
    ResponseCode.FLUSH_DISK_TIMEOUT: _simple(errors.FlushTimeout),
    ResponseCode.FLUSH_SLAVE_TIMEOUT: _simple(errors.FlushSlaveTimeout),
    ResponseCode.SLAVE_NOT_AVAILABLE: _simple(errors.SlaveNotAvailable),
    ResponseCode.MESSAGE_ILLEGAL: _simple(errors.InvalidMessage),
    ResponseCode.SERVICE_NOT_AVAILABLE: _simple(errors.NotWritable),
    ResponseCode.NO_PERMISSION: _no_permission,
    ResponseCode.TOPIC_NOT_EXIST: _topic_not_found,
    ResponseCode.PULL_OFFSET_MOVED: _offset_moved,
    ResponseCode.QUERY_NOT_FOUND: _simple(errors.OffsetNotFound),
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: _simple(errors.InvalidFilter),
    ResponseCode.SUBSCRIPTION_NOT_EXIST: _simple(errors.SubscriptionNotFound),
    ResponseCode.SUBSCRIPTION_NOT_LATEST: _simple(errors.SubscriptionOutdated),
    ResponseCode.FILTER_DATA_NOT_EXIST: _simple(errors.FilterNotFound),
    ResponseCode.FILTER_DATA_NOT_LATEST: _simple(errors.SubscriptionOutdated),
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: _group_not_found,
    ResponseCode.ILLEGAL_OPERATION: _simple(errors.NotRecallable),
    ResponseCode.INVALID_PARAMETER: _simple(errors.InvalidArgument),
    ResponseCode.CONSUMER_NOT_ONLINE: _simple(errors.NotFound),
    ResponseCode.GO_AWAY: _simple(errors.GoingAway),
    ResponseCode.RMQ_LEASE_LOST: _simple(errors.LeaseLost),
    ResponseCode.RMQ_TOPIC_REMADE: _simple(errors.TopicRemade),
}


def to_response(error: RmqError) -> tuple[int, str]:
    """The response code and remark under which `error` travels."""
    if isinstance(error, errors.ServerFault):
        return error.code, str(error)
    code = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    match code:
        case ResponseCode.GO_AWAY:
            return code, _GO_AWAY_REMARK
        case ResponseCode.SYSTEM_BUSY if not error.message.startswith("["):
            return code, f"{_BUSY_REMARK}: {error}"
        case _:
            return code, str(error)


def from_response(
    code: int, remark: str | None, *, topic: str = "", group: str = "", next_offset: int = -1
) -> RmqError:
    """The error that an answer other than SUCCESS stands for; a code without one of its own is a ServerFault.

    `topic`, `group` and `next_offset` are what the caller knows of the request, or of the answer's header.
    """
    if code == ResponseCode.SYSTEM_ERROR and (remark or "").endswith(SQL_UNSUPPORTED):
        return errors.NotSupported(SQL_UNSUPPORTED + ".", hint="Set enablePropertyFilter=true in its configuration.")
    answer = _Context(code, remark or f"The server answered {_name(code)}.", topic, group, next_offset)
    make = _ERRORS.get(code)
    return make(answer) if make else errors.ServerFault(answer.remark, code=code)


def _with_remark(error: RmqError, answer: _Context) -> RmqError:
    """The server knows the name that we do not: its words stand for ours."""
    error.retell(answer.remark, hint="")
    return error


def _name(code: int) -> str:
    return ResponseCode(code).name if code in _KNOWN_CODES else f"code {code}"
