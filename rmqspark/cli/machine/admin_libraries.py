"""What REST and console are made with: an extra of the package brings it."""

from __future__ import annotations

from importlib.util import find_spec

from rmqspark.errors import MissingExtra


def check_installed() -> None:
    """MissingExtra where some of it is not there."""
    for library in ("fastapi", "uvicorn", "nicegui"):
        if find_spec(library) is None:
            raise MissingExtra(library, "admin")
