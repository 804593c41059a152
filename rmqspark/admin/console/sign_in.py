"""Signing in and out: plain forms, answered here, for only an answer can set a cookie that no script can read."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import RedirectResponse

from rmqspark.admin.console.addresses import own, with_query
from rmqspark.admin.console.sessions import COOKIE, LONGEST_MS, Sessions

if TYPE_CHECKING:
    from fastapi import FastAPI

_MOST_FIELDS: Final = 4


def add_sign_in(app: FastAPI, sessions: Sessions) -> None:
    """POST /login and GET /logout. The page of the form is `pages.login`."""

    @app.post("/login", include_in_schema=False)
    async def sign_in(request: Request) -> RedirectResponse:
        said = said_in(await request.body())
        token, target = said.get("token", ""), own(said.get("next"))
        prefix = request.scope.get("root_path", "")
        cookie = sessions.begin(token.strip())
        if cookie is None:
            return _to(prefix + with_query("/login", {"next": target, "failed": 1}))
        answer = _to(prefix + target)
        answer.set_cookie(
            COOKIE,
            cookie,
            max_age=LONGEST_MS // 1000,
            path=prefix or "/",
            secure=_is_encrypted(request),
            httponly=True,
            samesite="strict",
        )
        return answer

    @app.get("/logout", include_in_schema=False)
    async def sign_out(request: Request) -> RedirectResponse:
        prefix = request.scope.get("root_path", "")
        answer = _to(f"{prefix}/login")
        if COOKIE in request.cookies:  # not so where a page of another site leads here
            sessions.end(request.cookies[COOKIE])
            answer.delete_cookie(COOKIE, path=prefix or "/")
        return answer


def said_in(body: bytes) -> dict[str, str]:
    """The fields of the form. Nothing where there are more than it has: to read a mebibyte of them takes a third of a
    second, of everybody's, and no token."""
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=_MOST_FIELDS))
    except ValueError:
        return {}


def _is_encrypted(request: Request) -> bool:
    """For who signs in: by a proxy in front, of which the browser tells, if nobody else does."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")


def _to(address: str) -> RedirectResponse:
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)
