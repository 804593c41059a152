"""What a request says in its query: nothing that its route does not know, which would be left aside in silence."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from fastapi import Request
from fastapi.routing import APIRoute

from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant


def known_parameters(request: Request) -> None:
    """Dependency of every route under /api/v1. InvalidArgument that names the nearest parameter there is."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = sorted(_names(route.dependant))
    for name in request.query_params:
        if name not in known:
            raise InvalidArgument(f"There is no parameter {name[:80]!r} here.", hint=_hint(name, known))


def _names(dependant: Dependant) -> set[str]:
    """Of the route's own function, and of all that it is given."""
    return {field.alias for field in dependant.query_params}.union(*map(_names, dependant.dependencies))


def _hint(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1)
    if nearest:
        return f"Did you mean {nearest[0]!r}?"
    return f"It takes: {', '.join(known)}." if known else "It takes none."
