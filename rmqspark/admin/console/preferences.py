"""How somebody wants to see the console: which theme, and times in UTC or in their zone. Kept in two cookies, so that
the first thing that is painted is right. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

THEMES: Final = ("system", "light", "dark")
THEME_COOKIE: Final = "rmq_theme"
ZONE_COOKIE: Final = "rmq_zone"


@dataclass(frozen=True, slots=True)
class Preferences:
    """`zone_name` is "UTC", or the IANA name of the browser's zone."""

    theme: str = "system"
    zone_name: str = "UTC"

    @classmethod
    def of(cls, cookies: Mapping[str, str]) -> Preferences:
        """What is not one of ours is left out."""
        theme, zone_name = cookies.get(THEME_COOKIE, ""), cookies.get(ZONE_COOKIE, "").replace("%2F", "/")
        return cls(theme if theme in THEMES else "system", zone_name if zone(zone_name) is not None else "UTC")

    @property
    def zone(self) -> tzinfo:
        return zone(self.zone_name) or UTC


def zone(name: str) -> tzinfo | None:
    """A zone by its IANA name; None for what is none, or not known on this machine."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, ZoneInfoNotFoundError, OSError):
        return None


def cookie_script(name: str, value: str, path: str) -> str:
    """The line that has a browser remember it for a year. `value` is one of ours, never a visitor's text."""
    return f"document.cookie = '{name}={value}; path={path or '/'}; max-age=31536000; samesite=strict'"
