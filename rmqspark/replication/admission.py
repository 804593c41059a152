"""Whether a connection to the port for slaves is sent the log: asked before anything else.

In this order: is a slave of this broker registered at that address, does it speak TLS where that is demanded, does it
prove who it is where that is. Who does not is told nothing, the log says why, and it is counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from rmqspark.errors import RmqError
from rmqspark.remoting.address import format_address
from rmqspark.remoting.tls.session import TLS_HANDSHAKE
from rmqspark.remoting.tls.words import told
from rmqspark.replication.acks import NOTHING, SlaveProgress
from rmqspark.replication.hello import (
    GREETING,
    HELLO_HEAD_BYTES,
    Acquaintance,
    Hello,
    challenge,
)
from rmqspark.replication.proof import NONCE_BYTES, PROOF_BYTES
from rmqspark.replication.stream import TLS_IS_OFF
from rmqspark.told_once import ToldOnce

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rmqspark.remoting.stream import Stream
    from rmqspark.remoting.tls.serving import ServerTls

_PATIENCE_S: Final = 10.0  # as for the first frame of a client (security, S11)
_NOBODYS: Final = "there is no such user"
STRANGER, NO_TLS, NO_PROOF, PROTOCOL = REASONS = ("stranger", "no_tls", "no_proof", "protocol")
"""Why connections are ended. `protocol`: it said what no slave says, as that it has what it was never sent."""

log = structlog.get_logger("rmqspark.replication")


class Refused(RmqError):
    """It is not sent the log. `reason` is one of REASONS."""

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class PeerCheck(NamedTuple):
    """Asks slaves of this broker name to prove who they are. `secret_of`: the password of a user that servers may come
    as, by name; None where there is no such user. `new_nonce` gives random bytes as many as it is told."""

    broker_name: str
    secret_of: Callable[[str], str | None]
    new_nonce: Callable[[int], bytes]

    async def met(self, stream: Stream, address: str) -> SlaveProgress:
        """Whoever has proven it, and is known as long as that user has that password. Raises Refused, EOFError,
        FrameError."""
        first = await stream.peek()
        if first == TLS_HANDSHAKE:
            raise Refused(NO_TLS, TLS_IS_OFF)
        if first != GREETING[0] or await stream.read_exactly(len(GREETING)) != GREETING:
            raise Refused(
                NO_PROOF, "It does not say who it is.", hint="RocketMQ's slaves cannot: ha_authentication_enabled."
            )
        nonce = self.new_nonce(NONCE_BYTES)
        stream.write(challenge(nonce))
        head = await stream.read_exactly(HELLO_HEAD_BYTES)
        hello = Hello.decode(head, await stream.read_exactly(Hello.bytes_behind(head)))
        acquaintance, secret = Acquaintance(nonce, hello), self.secret_of(hello.access_key)
        given = await stream.read_exactly(PROOF_BYTES)
        if not acquaintance.is_slave(given, secret or _NOBODYS) or secret is None:
            raise Refused(
                NO_PROOF,
                "It does not prove who it is: no super user of that name is here, or the password is another.",
                hint="Give both brokers the same innerClientAuthenticationCredentials.",
            )
        if hello.broker_name != self.broker_name:
            raise Refused(STRANGER, f"It is a slave of {hello.broker_name!r}.", hint="It follows the wrong master.")
        stream.write(acquaintance.master_proof(secret))
        return SlaveProgress(
            address,
            f"broker id {hello.broker_id}",
            is_known=lambda: self.secret_of(hello.access_key) == secret,
        )


class Admission:
    """`slaves_at` says how many slaves are registered at an IP address. `tls` and `check` are None where neither is
    asked for. `refused` counts, by REASONS."""

    def __init__(
        self,
        slaves_at: Callable[[str], Awaitable[int]],
        *,
        tls: ServerTls | None = None,
        check: PeerCheck | None = None,
    ) -> None:
        self._slaves_at = slaves_at
        self._tls = tls
        self._check = check
        self.refused = Counter(dict.fromkeys(REASONS, 0))
        self._told: ToldOnce[tuple[str, str]] = ToldOnce(log, "refused slaves")  # hosts, and why

    async def admit(self, stream: Stream, host: str, port: int) -> SlaveProgress:
        """Who it is. Raises Refused, FrameError, and what a broken connection does."""
        slave = await self._known(stream, host, port)
        self._told.forget((host, reason) for reason in (STRANGER, NO_TLS, NO_PROOF))
        return slave

    def refuse(self, host: str, refusal: Refused) -> None:
        """Notes it. The log hears of each kind and host once, until one of there is admitted: who is refused does not
        stop trying."""
        self.refused[refusal.reason] += 1
        if self._told.is_news((host, refusal.reason)):
            log.warning("refused to send the log", host=host, reason=str(refusal))

    def hang_up(self, slave: SlaveProgress, host: str, refusal: Refused) -> None:
        """Notes it of one that was admitted, which does not stop trying either: the log hears of it again where it had
        followed in between."""
        if slave.acked_offset != NOTHING:
            self._told.forget([(host, refusal.reason)])
        self.refused[refusal.reason] += 1
        if self._told.is_news((host, refusal.reason)):
            log.warning("hung up on a slave", slave=slave.address, reason=str(refusal))

    async def _known(self, stream: Stream, host: str, port: int) -> SlaveProgress:
        address = format_address(host, port)
        alike = await self._slaves_at(host)
        if not alike:
            raise Refused(STRANGER, "No slave of this broker is registered there.", hint="It registers, then connects.")
        async with asyncio.timeout(_PATIENCE_S):
            if self._tls is not None:
                await self._encrypt(stream, self._tls)
            if self._check is None:
                return SlaveProgress(address, host, alike=alike)
            return await self._check.met(stream, address)

    async def _encrypt(self, stream: Stream, tls: ServerTls) -> None:
        """Where it begins so. Raises Refused where it does not, and has to."""
        tls.look()
        if await stream.peek() == TLS_HANDSHAKE:
            try:
                await stream.secure(tls.session())
            except OSError as error:
                raise Refused(NO_TLS, f"TLS: {told(error)}.") from error
        elif tls.enforcing:
            raise Refused(
                NO_TLS, "It does without TLS, which is demanded here (tls_server_mode).", hint="Set its tls_enable."
            )
