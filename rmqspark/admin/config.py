"""What the process of REST and console can be told; all of it is ours, RocketMQ has no such settings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rmqspark.errors import InvalidArgument
from rmqspark.remoting.address import is_loopback
from rmqspark.settings import check_bounds, setting

_BASE_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_SHORTEST_TOKEN = 16
USUAL_PORT = 8088


@dataclass(frozen=True)
class AdminConfig:
    """Where REST and console listen, and who may do what. Without tokens whoever is on this machine may do all."""

    bind_address: str = setting("127.0.0.1", "Address that REST and console listen on.")
    admin_port: int | None = setting(
        None,
        "(ours) Port of REST and console, 0 for any free one. Not set: 8088; beside rmq up any if that is taken.",
        at_least=0,
        at_most=65_535,
    )
    insecure: bool = setting(False, "(ours) Listen beyond loopback although there is no authentication.")
    admin_token: str = setting(
        "", "(ours) Bearer token that may do everything; best given as RMQ_ADMIN_TOKEN.", secret=True
    )
    read_token: str = setting(
        "", "(ours) Bearer token that may look at everything; best given as RMQ_READ_TOKEN.", secret=True
    )
    admin_hosts: str = setting(
        "", "(ours) Further host names under which it is asked for, separated by commas; loopback's are allowed."
    )
    base_path: str = setting("", "(ours) Path that a proxy in front has it under, such as /rmq.")
    console: bool = setting(True, "(ours) Serve the console, the pages at /, too; REST alone starts faster.")
    action_log: str = setting(
        "", "(ours) File that records what was changed, by whom. Empty: rmq-admin-actions.jsonl, or in rmq up's store."
    )

    def __post_init__(self) -> None:
        check_bounds(self)
        if not _BASE_PATH.fullmatch(self.base_path):
            raise InvalidArgument(f"base_path {self.base_path!r} is no path.", hint="It is like /rmq: no slash behind.")
        for name in ("admin_token", "read_token"):
            token = getattr(self, name)
            if token and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
                raise InvalidArgument(  # which is not shown
                    f"{name} is no safe token.", hint=f"Make one: openssl rand -hex {_SHORTEST_TOKEN}"
                )
        if self.read_token and not self.admin_token:
            raise InvalidArgument("read_token without admin_token: nobody could change anything.", hint="Set both.")
        if self.admin_token and self.admin_token == self.read_token:
            raise InvalidArgument("admin_token and read_token are the same: one is to do less than the other.")
        if not (is_loopback(self.bind_address) or self.admin_token or self.insecure):
            raise InvalidArgument(
                f"REST and console would let everybody in from the network: {self.bind_address} is not loopback.",
                hint="Set RMQ_ADMIN_TOKEN (and RMQ_READ_TOKEN), or say --insecure if the network keeps others out.",
            )

    @property
    def port(self) -> int:
        return USUAL_PORT if self.admin_port is None else self.admin_port

    @property
    def asks_for_tokens(self) -> bool:
        return bool(self.admin_token)

    @property
    def hosts(self) -> frozenset[str]:
        """The host names, without ports, that requests may name."""
        own = () if self.bind_address in ("0.0.0.0", "::") else (self.bind_address.lower(),)
        return frozenset({"127.0.0.1", "localhost", "::1", *own}) | self.named_hosts

    @property
    def named_hosts(self) -> frozenset[str]:
        """Those of `admin_hosts`, as which a proxy in front may have it on any port."""
        return frozenset(filter(None, (host.strip().lower() for host in self.admin_hosts.split(","))))
