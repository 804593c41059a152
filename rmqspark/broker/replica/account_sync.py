"""A slave takes over its master's users and their rights, as it does topics and offsets (`table_sync.py`).

RocketMQ's slaves do not: there whoever changes users changes them on each broker (its tools do so, and may here). Asked
is only over TLS, of a master whose certificate was verified, or on this machine: who sits in between could pass on what
both prove, and have the answer. Taken is only what the master has proven to be its own.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rmqspark.broker.replica.account_copies import Exchange, from_hex
from rmqspark.errors import NoPermission
from rmqspark.protocol.bodies.access_control import AccountTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.access_control import AccountsRequestHeader, AccountsResponseHeader
from rmqspark.remoting.address import is_loopback, parse_address
from rmqspark.replication.proof import NONCE_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import msgspec

    from rmqspark.auth.accounts import Accounts
    from rmqspark.remoting.access import Access
    from rmqspark.remoting.response import Response

    Ask = Callable[[RequestCode, msgspec.Struct], Awaitable[Response]]

_TLS_HINT: Final = "Set tls_enable, and a certificate on the master; or make users on both by hand."
_VERIFY_HINT: Final = "Leave tls_client_auth_server on; or make users on both by hand."
_HOST_HINT: Final = "Leave tls_client_check_host on, or name an authority of your own with tls_client_trust_cert_path."


class AccountSync:
    """`new_nonce` gives random bytes as many as it is told."""

    def __init__(self, accounts: Accounts, access: Access, new_nonce: Callable[[int], bytes]) -> None:
        self._accounts = accounts
        self._access = access
        self._new_nonce = new_nonce
        self._taken: tuple[bytes, int] = b"", -1  # digest of the last copy, and the revision here that came of it

    async def take(self, ask: Ask, master: str) -> None:
        """All of them once, where they differ. Raises NoPermission where none may be asked for or taken, and what
        `ask` does."""
        self._check_way(master)
        credentials = self._access.credentials
        assert credentials is not None  # where users are on, servers sign
        secret, mine = credentials.secret_key, self._new_nonce(NONCE_BYTES)
        begun = await ask(RequestCode.RMQ_ACCOUNTS, AccountsRequestHeader(nonce=mine.hex()))
        exchange = Exchange(mine, from_hex(begun.header(AccountsResponseHeader).nonce))
        answer = await ask(RequestCode.RMQ_ACCOUNTS, AccountsRequestHeader(proof=exchange.slave_proof(secret).hex()))
        body = bytes(answer.body)
        if not exchange.is_master(from_hex(answer.header(AccountsResponseHeader).proof), secret, body):
            raise NoPermission("What answers as the master does not prove that it is: its users are not taken.")
        await self._follow(body)

    async def _follow(self, body: bytes) -> None:
        """Unless it is what was taken last, and nobody has changed that here: to look through many users takes long."""
        digest = sha256(body).digest()
        if self._taken != (digest, self._accounts.revision):
            await self._accounts.follow(AccountTable.decode(body))
            self._taken = digest, self._accounts.revision

    def _check_way(self, master: str) -> None:
        tls = self._access.tls
        if is_loopback(parse_address(master)[0]):
            return
        if tls is None:
            raise NoPermission("Users do not follow from the master: their passwords take TLS.", hint=_TLS_HINT)
        if not tls.auth_server:
            raise NoPermission(
                "Users do not follow from the master: its certificate is not verified, and anybody may answer.",
                hint=_VERIFY_HINT,
            )
        if not (tls.check_host or tls.trust_cert_path):
            raise NoPermission(
                "Users do not follow from the master: a certificate that the system trusts is had for any host.",
                hint=_HOST_HINT,
            )
