"""Who may do what: bearer tokens with a role each. Without any, which only loopback allows, everybody is admin."""

from __future__ import annotations

import hmac
from enum import IntEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from rmqspark.admin.config import AdminConfig

_bearer = HTTPBearer(auto_error=False, description="The read or the admin token.")


class Role(IntEnum):
    """What a token allows; the greater includes the lesser."""

    READ = 1
    ADMIN = 2


def role_of(config: AdminConfig, token: str | None) -> Role | None:
    """The role of a token; None for one that is wrong. All are compared, whichever fits, in the same time."""
    if not config.asks_for_tokens:
        return Role.ADMIN
    given = (token or "").encode()
    is_admin = hmac.compare_digest(given, config.admin_token.encode())
    is_reader = hmac.compare_digest(given, (config.read_token or config.admin_token).encode())
    return Role.ADMIN if is_admin else Role.READ if is_reader else None


def _require(request: Request, credentials: HTTPAuthorizationCredentials | None, wanted: Role) -> Role:
    config: AdminConfig = request.app.state.config
    role = role_of(config, credentials.credentials if credentials else None)
    if role is None:
        raise HTTPException(
            HTTPStatus.UNAUTHORIZED,
            "A bearer token is needed: Authorization: Bearer …",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if role < wanted:
        raise HTTPException(HTTPStatus.FORBIDDEN, "This token may look, and change nothing.")
    return role


def reader(request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Role:
    """Dependency of whatever only shows."""
    return _require(request, credentials, Role.READ)


def administrator(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Role:
    """Dependency of whatever changes something."""
    return _require(request, credentials, Role.ADMIN)
