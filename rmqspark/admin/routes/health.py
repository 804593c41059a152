"""/healthz and /readyz, at the root, for whoever watches processes: no token is asked for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from rmqspark.admin.routes.given import TheDesk
from rmqspark.errors import Busy, NoPermission

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, Any]:
    """This process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(desk: TheDesk) -> dict[str, Any]:
    """A name server answers, and knows a broker; 503 otherwise."""
    try:
        brokers = sorted(desk.cluster.cluster_info().brokerAddrTable)
    except NoPermission as error:  # it is not whoever asks for this that lacks a right: this process has no keys
        raise Busy(error.message, hint=error.hint) from error
    if not brokers:
        raise Busy("No broker is registered.", hint="Start one with: rmq broker")
    return {"status": "ok", "brokers": brokers}
