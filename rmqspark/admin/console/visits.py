"""One page in one browser: who looks, at which address, how they want to see it, and what they may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import to_thread

from rmqspark.admin.access import Role
from rmqspark.admin.console.addresses import with_query
from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.preferences import Preferences
from rmqspark.admin.console.sessions import Sessions
from rmqspark.admin.console.snippets import Whereabouts
from rmqspark.admin.console.watch import Watch
from rmqspark.admin.console.words import moment
from rmqspark.admin.desk import Desk
from rmqspark.errors import NoPermission

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient

_T = TypeVar("_T")


@dataclass(slots=True)
class Visit:
    """What every page is given. `params` are the names in its path, `given` the filters behind it."""

    desk: Desk
    watch: Watch
    sessions: Sessions
    cookie: str | None
    address: str
    origin: str
    prefix: str
    path: str
    params: Mapping[str, str]
    given: Mapping[str, str]
    preferences: Preferences
    redraws: list[Callable[[], None]] = field(default_factory=list)

    @property
    def cluster(self) -> ClusterClient:
        return self.desk.cluster

    @property
    def zone(self) -> tzinfo:
        return self.preferences.zone

    @property
    def role(self) -> Role | None:
        """As it is at this moment: None once the session has ended."""
        return self.sessions.role(self.cookie)

    @property
    def has_signed_out(self) -> bool:
        """Here, or in another tab."""
        return self.sessions.is_ended(self.cookie)

    @property
    def may_change(self) -> bool:
        return self.role == Role.ADMIN

    @property
    def where(self) -> Whereabouts:
        """What snippets name."""
        return Whereabouts(self.cluster.namesrv, self.origin + self.prefix, self.desk.config.asks_for_tokens)

    def meet(self, environ: Mapping[str, Any] | None) -> None:
        """With what a browser said as it connected. It alone knows its address: a proxy in front may encrypt, and code
        that it copies must not send a token in the clear."""
        self.origin = (environ or {}).get("HTTP_ORIGIN") or self.origin

    async def look(self, read: Callable[[], _T]) -> _T:
        """Reads something for the visitor, on a thread. NoPermission for who is not signed in, or no longer: a page
        stays open in a browser, and asks for more, as long as that likes."""
        if self.role is None:
            raise NoPermission("You are not signed in.", hint="Sign in, then look again.")
        return await to_thread.run_sync(read, abandon_on_cancel=True)

    async def act(self, do: Callable[[str], _T]) -> _T:
        """Changes something in the visitor's name, on a thread. NoPermission where they may not."""
        if not self.may_change:
            raise NoPermission("You may look, and change nothing.", hint="Sign in with the admin token.")
        who = f"admin@{self.address}"
        return await to_thread.run_sync(lambda: do(who))

    def href(self, path: str, /, **filters: str | int | None) -> str:
        return self.prefix + with_query(path, filters)

    def link(self, text: Child, path: str, /, **filters: str | int | None) -> Node:
        return h("a", text, href=self.href(path, **filters))

    def time(self, timestamp_ms: int | None, *, exact: bool = False) -> Node:
        """A time in the visitor's zone."""
        return h("time", moment(timestamp_ms, self.zone, exact=exact), class_="nowrap")
