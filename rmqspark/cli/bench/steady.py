"""Sends at a steady rate, each message with the time that its reader measures from."""

from __future__ import annotations

import threading
from struct import Struct
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from rmqspark.client.producer import Producer
from rmqspark.model import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from rmqspark.model import ReceivedMessage
    from rmqspark.remoting.access import Access

SENT_AT: Final = Struct(">q")


class SteadySender:
    """A context manager: sends one message after the other, on a thread of its own, while the block runs.

    One that is due while another is still under way waits from then on: what holds up one holds up those behind it,
    and a broker that stands still for a second has delayed all that would have come in that second.
    """

    def __init__(
        self, namesrv: str, access: Access, topic: str, rate: int, body_bytes: int, run: str, *, group: str
    ) -> None:
        """`rate` in messages a second; `run` becomes the tag of each, for others may send to the topic, too."""
        self._namesrv, self._access, self._group = namesrv, access, group
        self._topic, self._run = topic, run
        self._pause_ns = 1_000_000_000 // rate
        self._padding = bytes(max(0, body_bytes - SENT_AT.size))
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._send_or_say, name="rmq bench")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    def check(self) -> None:
        """Raises what went wrong with a send."""
        if self._error is not None:
            raise self._error

    def times_ns(self, polled: Iterable[ReceivedMessage], now_ns: int) -> Iterator[int]:
        """How long each of its messages took until it was read, now."""
        return (now_ns - SENT_AT.unpack_from(each.body)[0] for each in polled if each.tags == self._run)

    def _send_or_say(self) -> None:
        try:
            with Producer(self._namesrv, group=self._group, access=self._access) as producer:
                self._send(producer)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for messages that do not come
            self._error = error

    def _send(self, producer: Producer) -> None:
        due_ns = perf_counter_ns()
        while not self._ended.wait(max(0.0, (early_ns := due_ns - perf_counter_ns()) / 1e9)):
            sent_ns = due_ns if early_ns < 0 else perf_counter_ns()
            producer.send(Message(self._topic, SENT_AT.pack(sent_ns) + self._padding, tags=self._run))
            due_ns += self._pause_ns
