"""/healthz and /readyz, at the root, for whoever watches processes: no token is asked for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from rmqspark.admin.routes.given import TheDesk
from rmqspark.errors import Busy

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, Any]:
    """This process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(desk: TheDesk) -> dict[str, Any]:
    """A name server answers, and knows a broker; 503 otherwise."""
    brokers = sorted(desk.cluster.cluster_info().brokerAddrTable)
    if not brokers:
        raise Busy("No broker is registered.", hint="Start one with: rmq broker")
    return {"status": "ok", "brokers": brokers}
