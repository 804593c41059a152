"""Errors as RFC 9457 `application/problem+json`: type, title, status, detail, instance, and our code and hint."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import structlog
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rmqspark import errors
from rmqspark.admin.mishaps import UNFORESEEN
from rmqspark.admin.values import Document

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

log = structlog.get_logger("rmqspark.admin")

MEDIA_TYPE: Final = "application/problem+json"
_RETRY_AFTER_S: Final = "1"
_IN_PATHS: Final = "/:@!$&'()*+,;=~"  # what RFC 3986 allows there, besides letters and digits
LARGER: Final = "Larger messages are sent with rmq send, or by a client."
_HINTS: Final = {  # of what Starlette and our own tokens refuse
    HTTPStatus.NOT_FOUND: "What there is: /docs.",
    HTTPStatus.METHOD_NOT_ALLOWED: "What there is: /docs.",
    HTTPStatus.UNAUTHORIZED: "Tokens are set where rmq admin or rmq up is started: RMQ_ADMIN_TOKEN and RMQ_READ_TOKEN.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: LARGER,
    HTTPStatus.FORBIDDEN: "Ask with the admin token: RMQ_ADMIN_TOKEN, where rmq admin or rmq up is started.",
}
# The first that fits.
_STATUSES: Final = (
    (errors.Conflict, HTTPStatus.CONFLICT),
    (errors.InvalidArgument, HTTPStatus.BAD_REQUEST),
    (errors.NotFound, HTTPStatus.NOT_FOUND),
    (errors.NoPermission, HTTPStatus.FORBIDDEN),
    (errors.InDoubt, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.TransactionError, HTTPStatus.CONFLICT),
    (errors.NotSupported, HTTPStatus.NOT_IMPLEMENTED),
    (errors.MissingExtra, HTTPStatus.NOT_IMPLEMENTED),
    (errors.RequestTimeout, HTTPStatus.GATEWAY_TIMEOUT),
    (errors.Busy, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.NotWritable, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.GoingAway, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.Unreachable, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.UnparsableBody, HTTPStatus.UNPROCESSABLE_ENTITY),
    (errors.RmqError, HTTPStatus.BAD_GATEWAY),
)


class Problem(Document):
    """An error. `code` is for programs, and stable; `hint` says what to do next. `errors` are the places in a request
    that are wrong, each with what is wrong there, where it is those."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None
    code: str
    hint: str | None
    errors: list[dict[str, str]] | None = None


ANY_PROBLEM: Final[dict[int | str, dict[str, Any]]] = {
    "default": {"description": "What went wrong.", "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}
}
"""What every operation may answer with, for its description."""


def status_of(error: errors.RmqError) -> HTTPStatus:
    """The HTTP status that an error of ours travels under."""
    return next(status for kind, status in _STATUSES if isinstance(error, kind))


def code_of(error: errors.RmqError) -> str:
    """`topic_not_found` for TopicNotFound: for programs, and stable."""
    kind = errors.Unreachable if isinstance(error, errors.NoBrokers) else type(error)  # as it was before it had a class
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def problem(
    status: int, code: str, detail: str, *, hint: str = "", instance: str = "", headers: dict[str, str] | None = None
) -> JSONResponse:
    """An error as an answer."""
    return JSONResponse(
        document(status, code, detail, hint=hint, instance=instance),
        status_code=status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )


def document(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str = "",
    instance: str = "",
    errors: list[dict[str, str]] | None = None,
) -> dict[str, Any]:
    """`instance` is the path that was asked for, decoded; what is told is a URI reference, as the RFC has it."""
    return Problem(
        type=f"urn:rmqspark:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=quote(instance, safe=_IN_PATHS) or None,
        code=code,
        hint=hint or None,
        errors=errors,
    ).model_dump(exclude=None if errors else {"errors"})


def tell_problems(app: FastAPI) -> None:
    """Has the application answer with problems, whatever goes wrong in it."""
    app.add_exception_handler(errors.RmqError, _rmq_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


async def _rmq_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.RmqError)
    headers = {"Retry-After": _RETRY_AFTER_S} if error.retriable else None
    return problem(
        status_of(error),
        code_of(error),
        error.message,
        hint=error.hint,
        instance=request.url.path,
        headers=headers,
    )


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """What FastAPI found wrong with a request; each place is named, the values are not repeated."""
    assert isinstance(error, RequestValidationError)
    found = [
        {"where": ".".join(str(step) for step in each["loc"]), "problem": str(each["msg"])} for each in error.errors()
    ]
    told = "; ".join(f"{each['where']}: {each['problem']}" for each in found)
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    hint = "What is accepted is at /docs."
    body = document(status, "invalid_request", told, hint=hint, instance=request.url.path, errors=found)
    return JSONResponse(body, status_code=status, media_type=MEDIA_TYPE)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    code = status.name.lower()
    hint = _HINTS.get(status, "")
    detail = error.detail if error.detail != status.phrase else f"{request.method} {request.url.path}: {status.phrase}."
    return problem(status, code, detail, hint=hint, instance=request.url.path, headers=dict(error.headers or {}))


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    log.error("a request failed", method=request.method, path=request.url.path, exc_info=error)
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal_error",
        UNFORESEEN,
        hint="It is a mistake of ours: report it with what the log says.",
        instance=request.url.path,
    )
