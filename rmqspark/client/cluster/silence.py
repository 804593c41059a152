"""Questions to several brokers of which one may be silent: it hangs, or is gone and its registration has not ended.

Whoever looks at a cluster then looks because of that broker, so what the others know is given, and who was silent is
told. A broker that hangs costs one timeout, however many questions a look has: it is not asked again.

What changes something does not go by this: a thing that is not done on one broker is not done.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rmqspark.client.cluster.futures import failing
from rmqspark.errors import BrokerNotRegistered, GoingAway, RequestTimeout, RmqError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient

K = TypeVar("K")
T = TypeVar("T")

OnSilent: TypeAlias = "Callable[[str, RmqError], None]"
"""Hears of each broker that does not answer, and why, once in a question. Without one it is an error."""

_UNDER_WAY: Final = 256  # questions, before an answer is awaited
_SILENCES: Final = (Unreachable, RequestTimeout, BrokerNotRegistered, GoingAway)


def is_silence(error: BaseException) -> bool:
    """Whether nobody answered, rather than that somebody answered no."""
    return isinstance(error, _SILENCES)


def story(broker_name: str, why: str) -> str:
    """How it is told that something is left out."""
    return f"Partial: {broker_name} does not answer, so what it knows is left out: {why}"


class Silence:
    """Who was silent in one look at a cluster, and why: an OnSilent for several questions, none of which asks again who
    was silent in one before. `tell` hears of each once."""

    def __init__(self, tell: OnSilent | None = None) -> None:
        self.errors: dict[str, RmqError] = {}
        self._tell = tell

    def __call__(self, broker_name: str, error: RmqError) -> None:
        if broker_name not in self.errors:
            self.errors[broker_name] = error
            if self._tell is not None:
                self._tell(broker_name, error)

    @property
    def reasons(self) -> dict[str, str]:
        """Why, by broker name."""
        return {name: error.message for name, error in list(self.errors.items())}  # another thread may add to them

    def insist(self) -> None:
        """Raises why the first of them was silent, where one was: it may know what nobody else does."""
        for broker_name, error in self.errors.items():
            raise _asking_again(broker_name, error)


def remembered(on_silent: OnSilent | None) -> Silence | None:
    """The same, for several questions in a row."""
    return on_silent if on_silent is None or isinstance(on_silent, Silence) else Silence(on_silent)


class RollCall:
    """One question to the brokers of a cluster, in as many requests as it takes. For one thread."""

    def __init__(self, cluster: ClusterClient, on_silent: OnSilent | None = None) -> None:
        self._cluster = cluster
        self._is_strict = on_silent is None
        self._silence = remembered(on_silent) or Silence()

    @property
    def on_silent(self) -> Silence | None:
        """For a question that is part of this one."""
        return None if self._is_strict else self._silence

    @property
    def silent(self) -> dict[str, str]:
        """Who has been silent so far, and why."""
        return self._silence.reasons

    def is_silent(self, broker_name: str) -> bool:
        return broker_name in self._silence.errors

    @contextmanager
    def hears(self, broker_name: str) -> Iterator[None]:
        """Around what is asked of one broker: where it is silent the rest of the block is left out."""
        try:
            yield
        except _SILENCES as error:
            self._note(broker_name, error)

    def ask(
        self, pairs: Iterable[tuple[str, K]], submit: Callable[[BrokerClient, K], Future[T]]
    ) -> dict[tuple[str, K], T]:
        """What is answered to each pair of a broker's name and a thing to ask about, in their order; nothing of those
        who are silent. Many are under way at a time. Raises what an answer stands for."""
        found: dict[tuple[str, K], T] = {}
        rest = iter(pairs)
        while some := list(islice(rest, _UNDER_WAY)):
            asked = [(pair, self._submit(pair, submit)) for pair in some if not self.is_silent(pair[0])]
            for pair, answer in asked:
                with self.hears(pair[0]):
                    found[pair] = answer.result()
        return found

    def insist(self) -> None:
        """As `Silence.insist`."""
        self._silence.insist()

    def insist_on_one(self, broker_names: Iterable[str]) -> None:
        """The same where all of these were: that they know nothing is not known."""
        if all(map(self.is_silent, broker_names)):
            self.insist()

    def insist_on_any(self) -> None:
        """The same where all brokers were that are registered; others may not have been asked."""
        if self._silence.errors:
            self.insist_on_one(self._cluster.cluster_info().brokerAddrTable)

    def _submit(self, pair: tuple[str, K], submit: Callable[[BrokerClient, K], Future[T]]) -> Future[Any]:
        broker_name, about = pair
        try:
            return submit(self._cluster.broker(broker_name), about)
        except _SILENCES as error:
            return failing(error)

    def _note(self, broker_name: str, error: RmqError) -> None:
        if self._is_strict:
            raise _asking_again(broker_name, error)
        self._silence(broker_name, error)


def _asking_again(broker_name: str, error: RmqError) -> RmqError:
    error.hint = error.hint or f"Broker {broker_name!r} may know more: start it, and ask again."
    return error
