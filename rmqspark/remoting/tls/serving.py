"""The certificate a server shows, read again when its files change (RocketMQ's FileWatchService)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from rmqspark.errors import InvalidArgument
from rmqspark.remoting.tls.contexts import server_context, server_files, stamps
from rmqspark.remoting.tls.session import TlsSession

if TYPE_CHECKING:
    from rmqspark.remoting.tls.settings import TlsServing

log = structlog.get_logger("rmqspark.remoting")


class ServerTls:
    """What a server has of TLS between its connections. Raises InvalidArgument for files that cannot be used."""

    def __init__(self, serving: TlsServing) -> None:
        self._serving = serving
        self._stamps = stamps(server_files(serving))
        self._context = server_context(serving)
        self._trouble = ""

    @property
    def enforcing(self) -> bool:
        """Whoever speaks no TLS is sent away."""
        return self._serving.enforcing

    def session(self) -> TlsSession:
        """The server's end of a new connection."""
        return TlsSession(self._context, server_side=True)

    def look(self) -> None:
        """Shows new connections what the files have become, as soon as that can be used: a key may come a moment
        later, or be given to this server's user, by which the file itself does not change."""
        found = stamps(server_files(self._serving))
        if found == self._stamps:
            return
        try:
            self._context = server_context(self._serving)
        except InvalidArgument as error:
            if str(error) != self._trouble:
                log.warning("the new certificate cannot be used, going on with the old one", reason=str(error))
            self._trouble = str(error)
        else:
            self._stamps, self._trouble = found, ""
            log.info("certificate read again", path=self._serving.cert_path)
