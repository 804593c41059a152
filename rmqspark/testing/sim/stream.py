"""One of the two streams of bytes of a simulated connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.testing.sim.network import SimNetwork
    from rmqspark.testing.sim.transport import SimTransport


class Stream:
    """Bytes on their way from one host to another, in their order, and how it ends: EOF, or a reset."""

    def __init__(self, network: SimNetwork, source: str, target: str) -> None:
        self.waiting = bytearray()
        self.has_ended = False
        self.was_reset = False
        self._takes_no_more = False
        self.is_lost = False  # its sender's host is gone: nothing of it arrives any more
        self.sender: SimTransport | None = None
        self.receiver: SimTransport | None = None
        self._network = network
        self._source = source
        self._target = target
        self._is_due = False

    def write(self, data: bytes) -> None:
        """Behind the end it goes nowhere."""
        if not self._takes_no_more:
            self.waiting += data
            self.poke()

    def end(self) -> None:
        self.has_ended = self._takes_no_more = True
        self.poke()

    def reset(self, *, keeps: int) -> None:
        """The sender takes back all but the first bytes, and hangs up."""
        del self.waiting[keeps:]
        self.was_reset = True
        self.poke()

    def poke(self) -> None:
        """Has the next delivery happen soon, where one may."""
        receiver = self.receiver
        if self._is_due or receiver is None or self.is_lost or self._network.is_cut(self._source, self._target):
            return
        if not (self.was_reset or receiver.reads) or not (self.waiting or self.has_ended or self.was_reset):
            return
        self._is_due = True
        self._network.loop.call_later(self._network.delay_s(), self._arrive, context=receiver.life.context)

    def _arrive(self) -> None:
        self._is_due = False
        receiver = self.receiver
        if receiver is None or self.is_lost or self._network.is_cut(self._source, self._target):
            return
        if self.waiting and receiver.reads:
            size = self._network.piece_bytes(len(self.waiting))
            piece = bytes(self.waiting[:size])
            del self.waiting[:size]
            receiver.take(piece)
            if self.sender is not None:
                self.sender.has_room()
        elif self.was_reset and not self.waiting:
            receiver.lose(ConnectionResetError("Connection reset by peer"))
            return
        elif self.has_ended and not self.waiting:
            receiver.take_end()
            return
        elif self.was_reset:  # of what is left it does not want to hear
            self.waiting.clear()
        self.poke()
