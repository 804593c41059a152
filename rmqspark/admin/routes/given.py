"""What every route is given: the desk, and who asks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from rmqspark.admin.access import Role, administrator
from rmqspark.admin.desk import Desk


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def _asker(request: Request, role: Annotated[Role, Depends(administrator)]) -> str:
    """As it is recorded: `admin@10.0.0.7`. A proxy's word for where it comes from is not taken."""
    return f"{role.name.lower()}@{request.client.host if request.client else 'unknown'}"


TheDesk = Annotated[Desk, Depends(_desk)]
Who = Annotated[str, Depends(_asker)]
