"""RMQ_ACCOUNTS (30060): all users and rights of a master, for a slave of it. It has the passwords.

rmqspark's own: RocketMQ's slaves take no users from their masters. It is answered to super users alone, whatever the
settings say of rights, over TLS or from this machine, and only to who has just proven to know a super user's password:
once without a proof, which gives the master's random bytes, then with it (`account_copies.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from rmqspark.broker.replica.account_copies import Exchange, from_hex
from rmqspark.errors import NoPermission
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.access_control import AccountsRequestHeader, AccountsResponseHeader
from rmqspark.protocol.signature import ACCESS_KEY
from rmqspark.remoting.address import is_loopback
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes
from rmqspark.replication.proof import NONCE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.auth.accounts import Accounts
    from rmqspark.remoting.request import Connection, Request

_PURPOSE: Final = "Users are told to slaves alone"


class AccountCopyHandlers:
    """`new_nonce` gives random bytes as many as it is told."""

    def __init__(self, accounts: Accounts, new_nonce: Callable[[int], bytes]) -> None:
        self._accounts = accounts
        self._new_nonce = new_nonce
        self._begun: WeakKeyDictionary[Connection, Exchange] = WeakKeyDictionary()

    def routes(self) -> Routes:
        return {RequestCode.RMQ_ACCOUNTS: Route(AccountsRequestHeader, self.copy)}

    def copy(self, request: Request[AccountsRequestHeader]) -> Reply:
        """Each exchange is good for one answer."""
        secret = self._secret(request)
        if request.header.proof is None:
            exchange = Exchange(from_hex(request.header.nonce), self._new_nonce(NONCE_BYTES))
            self._begun[request.connection] = exchange
            return Reply(AccountsResponseHeader(nonce=exchange.master_nonce.hex()))
        begun = self._begun.pop(request.connection, None)
        if begun is None or not begun.is_slave(from_hex(request.header.proof), secret):
            raise NoPermission(f"{_PURPOSE}, and this one has not proven that it is.")
        body = self._accounts.copy()
        return Reply(AccountsResponseHeader(proof=begun.master_proof(secret, body).hex()), body)

    def _secret(self, request: Request[Any]) -> str:
        """Of who asks."""
        connection = request.connection
        if not (connection.encrypted or is_loopback(connection.peer[0])):
            raise NoPermission(f"{_PURPOSE}, over TLS.", hint="Set tls_enable there.")
        secret = self._accounts.password_of_super(request.fields.get(ACCESS_KEY, ""))
        if secret is None:
            raise NoPermission(f"{_PURPOSE}, which sign as super users.")
        return secret
