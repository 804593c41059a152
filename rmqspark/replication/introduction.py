"""A slave's connection to its master, up to where the stream begins: TLS, and who is who, where that is asked for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import FrameError
from rmqspark.remoting.registered_brokers import LONGEST_MS
from rmqspark.remoting.stream import Stream, open_stream
from rmqspark.replication.hello import CHALLENGE, GREETING, Acquaintance, Hello, challenged_with
from rmqspark.replication.proof import NONCE_BYTES, PROOF_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.remoting.access import Credentials, Tls

_CONNECT_TIMEOUT_S: Final = 3.0 + LONGEST_MS / 1000  # a master asks its name servers before it shakes hands
_READ_BYTES: Final = 1 << 20


class Introduction(NamedTuple):
    """Who a slave is. `new_nonce` gives random bytes as many as it is told.
    A master that has not answered after `patience_s` is none that asks."""

    broker_name: str
    broker_id: int
    credentials: Credentials
    new_nonce: Callable[[int], bytes]
    patience_s: float = 10.0

    async def meet(self, stream: Stream) -> None:
        """Returns when both have proven who they are. Raises FrameError for a master that does not, EOFError for one
        that hangs up."""
        stream.write(GREETING)
        try:
            async with asyncio.timeout(self.patience_s):
                await self._prove(stream)
        except TimeoutError as error:
            raise FrameError(
                "The master does not ask who this is.",
                hint="RocketMQ's cannot: set ha_authentication_enabled = false.",
            ) from error
        except EOFError as error:
            raise EOFError("the master hung up when it was told who this is: its log says why") from error

    async def _prove(self, stream: Stream) -> None:
        master_nonce = challenged_with(await stream.read_exactly(CHALLENGE.size))
        who = self.credentials
        hello = Hello(self.broker_name, self.broker_id, who.access_key, self.new_nonce(NONCE_BYTES))
        acquaintance = Acquaintance(master_nonce, hello)
        stream.write(hello.encode() + acquaintance.slave_proof(who.secret_key))
        if not acquaintance.is_master(await stream.read_exactly(PROOF_BYTES), who.secret_key):
            raise FrameError("What answers as the master does not prove that it is: its log is not taken.")


class WayToMaster(NamedTuple):
    """How a slave connects; `introduction` is None where nobody is asked who he is."""

    tls: Tls | None = None
    introduction: Introduction | None = None

    async def open(self, address: str) -> Stream:
        """To whoever listens for slaves at this address. Raises what `open_stream` and `meet` do."""
        stream = await open_stream(address, self.tls, timeout_s=_CONNECT_TIMEOUT_S, limit=_READ_BYTES)
        if self.introduction is not None:
            try:
                await self.introduction.meet(stream)
            except BaseException:
                stream.close()
                raise
        return stream
