"""Who is signed in, where tokens are set: a cookie that means nothing elsewhere, and only here has a role."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from rmqspark.admin.access import Role, role_of

if TYPE_CHECKING:
    from rmqspark.admin.config import AdminConfig
    from rmqspark.clock import Clock

COOKIE: Final = "rmq_session"
LONGEST_MS: Final = 12 * 3600 * 1000
_MOST: Final = 10_000


class Sessions:
    """Those of this process, in memory: a restart signs everybody out. Who has signed out is known for as long as the
    session would have been. Safe to be used by several threads."""

    def __init__(self, config: AdminConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        self._roles: OrderedDict[str, tuple[Role | None, int]] = OrderedDict()

    def begin(self, token: str) -> str | None:
        """The cookie of a new session; None where the token is wrong."""
        role = role_of(self._config, token)
        if role is None:
            return None
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._roles[_known_as(cookie)] = (role, self._clock.monotonic_ms() + LONGEST_MS)
            if len(self._roles) > _MOST:
                self._roles.popitem(last=False)
        return cookie

    def end(self, cookie: str | None) -> None:
        known_as = _known_as(cookie or "")
        with self._lock:
            if known_as in self._roles:
                self._roles[known_as] = (None, self._roles[known_as][1])

    def is_ended(self, cookie: str | None) -> bool:
        """Whether somebody has signed out of it, and it has not ended by itself."""
        with self._lock:
            return self._roles.get(_known_as(cookie or ""), (Role.READ, 0))[0] is None

    def role(self, cookie: str | None) -> Role | None:
        """None for who has to sign in. Without tokens everybody is admin."""
        if not self._config.asks_for_tokens:
            return Role.ADMIN
        with self._lock:
            role, until_ms = self._roles.get(_known_as(cookie or ""), (None, 0))
        return role if self._clock.monotonic_ms() < until_ms else None


def _known_as(cookie: str) -> str:
    """A digest, so that looking one up tells nothing by the time it takes."""
    return hashlib.sha256(cookie.encode()).hexdigest()
