"""What the calls of a client take stands in their signatures; this holds callers to it.

A slip is told at the call by the name of the argument, before anything is done, and not from deep inside as an
AttributeError of ours. The kinds are read off the annotations as they are written, so that none is said twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from itertools import chain, repeat
from operator import index
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar

from rmqspark.errors import InvalidArgument
from rmqspark.message_queue import MessageQueue
from rmqspark.remoting.access import Access

_Class = TypeVar("_Class", bound=type)
_Call = TypeVar("_Call", bound=Callable[..., Any])
_TOLD_BY_THE_CALL: Final = frozenset(  # parameters and annotations: in better words, or anything goes
    {
        *("self", "namesrv", "Any", "Message", "Sequence[Message]", "Iterable[MessageQueue]", "Sequence[QueueReset]"),
        "Literal['earliest', 'latest']",
    }
)


class _Kind(NamedTuple):
    """`words` say it in an error. Values of exactly the types `sure` are of it, others where `fits` says so."""

    words: str
    sure: frozenset[type] = frozenset()
    fits: Callable[[Any], bool] = lambda value: False
    name: str = ""  # the parameter's
    is_secret: bool = False  # then no error shows a value, wrong as it is

    def refusal(self, value: object) -> InvalidArgument:
        if self.is_secret:
            story = f"{self.name} is <{type(value).__name__} object>, but must be {self.words}."
            return InvalidArgument(story, hint='Write access=Access(Credentials("access key", "secret key")).')
        hint = f'Write it as text: {self.name}="{value}".' if is_whole(value) and str in self.sure else ""
        return InvalidArgument(f"{self.name} is {value!r:.80}, but must be {self.words}.", hint=hint)


def takes_what_it_says(owner: _Class) -> _Class:
    """The public methods of a class raise InvalidArgument for what their annotations do not accept.

    That takes a microsecond a call: for calls about a message or many, not for loops over messages.
    """
    for name, member in list(vars(owner).items()):
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(owner, name, takes_what_its_signature_says(member))
    return owner


def takes_what_its_signature_says(call: _Call) -> _Call:
    """The same for one function."""
    parameters = inspect.signature(call).parameters.values()
    kinds = {each.name: _kind(call, each) for each in parameters}
    in_order = [kinds[each.name] for each in parameters if each.kind is not each.KEYWORD_ONLY]
    is_open = any(each.kind is each.VAR_POSITIONAL for each in parameters)

    @wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for kind, value in zip(chain(in_order, repeat(in_order[-1])) if is_open else in_order, args, strict=False):
            if kind is not None and type(value) not in kind.sure and not kind.fits(value):
                raise kind.refusal(value)
        for name, value in kwargs.items():
            kind = kinds.get(name)
            if kind is not None and type(value) not in kind.sure and not kind.fits(value):
                raise kind.refusal(value)
        return call(*args, **kwargs)

    return checked if any(kinds.values()) else call  # type: ignore[return-value]


def is_whole(value: Any, bits: int = 64) -> bool:
    """Whether it is a whole number of so many bits: NumPy's count, True does not."""
    if type(value) is bool:
        return False
    try:
        number = index(value)
    except TypeError:
        return False
    return (number if number >= 0 else ~number).bit_length() < bits


def _kind(call: Callable[..., Any], parameter: inspect.Parameter) -> _Kind | None:
    """The kind that its annotation means; None where the call itself says what is wrong."""
    if not _TOLD_BY_THE_CALL.isdisjoint((parameter.name, parameter.annotation)):
        return None
    first, *others = [
        _KINDS.get(part) or _instance(call.__globals__[part]) for part in parameter.annotation.split(" | ")
    ]
    for other in others:
        first = _either(first, other)
    return first._replace(name=parameter.name)


def _either(one: _Kind, other: _Kind) -> _Kind:
    return _Kind(
        f"{one.words} or {other.words}",
        one.sure | other.sure,
        lambda value: one.fits(value) or other.fits(value),
        is_secret=one.is_secret or other.is_secret,
    )


def _instance(of: type) -> _Kind:
    return _Kind(f"a {of.__name__}", frozenset({of}), lambda value: isinstance(value, of))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_queue(value: object) -> bool:
    return (
        isinstance(value, MessageQueue)
        and isinstance(value.topic, str)
        and isinstance(value.broker_name, str)
        and is_whole(value.queue_id)
    )


def _each(container: Any, fits: Callable[[object], bool]) -> Callable[[Any], bool]:
    """Texts are containers too, of letters: never what is meant."""
    return lambda value: isinstance(value, container) and not isinstance(value, str | bytes) and all(map(fits, value))


def _is_commit(value: object) -> bool:
    return isinstance(value, Mapping) and all(_is_queue(queue) and is_whole(offset) for queue, offset in value.items())


def _has(*methods: str) -> Callable[[object], bool]:
    return lambda value: all(callable(getattr(value, name, None)) for name in methods)


_KINDS: Final = {
    "None": _Kind("None", frozenset({NoneType})),
    "bool": _Kind("True or False", frozenset({bool})),
    "str": _Kind("text", frozenset({str}), _is_text),
    "int": _Kind("a whole number of 64 bits", fits=is_whole),
    "Sequence[str]": _Kind("a list of texts", fits=_each(Sequence, _is_text)),
    "Collection[int]": _Kind("a list of whole numbers", fits=_each(Collection, is_whole)),
    "MessageQueue": _Kind("a MessageQueue(topic, broker name, queue id)", fits=_is_queue),
    "Mapping[MessageQueue, int]": _Kind("a mapping of MessageQueue to offset", fits=_is_commit),
    "Callable[..., object]": _Kind("a function", fits=callable),
    "OnSilent": _Kind("a function of a broker's name and an error", fits=callable),
    "Access": _Kind("an Access(credentials, tls)", frozenset({Access}), is_secret=True),
    "Clock": _Kind("a Clock", fits=_has("now_ms", "monotonic_ms")),
    "Entropy": _Kind("an Entropy", fits=_has("below", "token")),
}
