"""Topic attributes: `+message.type=FIFO,-reserve.time` (RocketMQ's AttributeUtil, TopicAttributes).

Of RocketMQ's attributes, those that ask for another kind of queue (BatchCQ, COMPACTION) are refused: stored and not
honoured they would promise what is not kept. Spec: requests, section 1.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import ServerFault
from rmqspark.whole_numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MESSAGE_TYPE: Final = "message.type"
MESSAGE_TYPES: Final = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda text: text in values


def _is_long(text: str) -> bool:
    size = whole_number(text.removeprefix("-"))
    return size is not None and size < 2**63 + text.startswith("-")


_CHANGEABLE: Final[Mapping[str, Callable[[str], bool]]] = {
    MESSAGE_TYPE: _one_of(*MESSAGE_TYPES),
    "reserve.time": _is_long,
}
_FIXED: Final[Mapping[str, Callable[[str], bool]]] = {
    "queue.type": _one_of("SimpleCQ"),
    "cleanup.policy": _one_of("DELETE"),
}


def change_attributes(current: Mapping[str, str], changes: str | None, *, creating: bool) -> dict[str, str]:
    """The attributes after `changes`, a list of `+name=value` and `-name`. Raises ServerFault, as RocketMQ's 1."""
    changed = dict(current)
    seen: set[str] = set()
    for change in filter(None, map(str.strip, (changes or "").split(","))):
        name, _, value = change[1:].partition("=")
        if name in seen:
            raise ServerFault(f"Attribute {name!r} is changed twice.")
        seen.add(name)
        if name in _FIXED and not creating:
            raise ServerFault(f"Attribute {name!r} can be set only when a topic is created.")
        match change[0]:
            case "+":
                _check(name, value)
                changed[name] = value
            case "-" if not creating:
                if changed.pop(name, None) is None:
                    raise ServerFault(f"Attribute {name!r} is not set, so it cannot be taken away.")
            case _:
                raise ServerFault(
                    f"{change!r} changes no attribute.", hint="Write +name=value, or -name on a topic that exists."
                )
    return changed


def plainly(attributes: Mapping[str, str]) -> dict[str, str]:
    """Attributes by their names, where a tool has written `+name` into a whole configuration."""
    return {name.removeprefix("+"): value for name, value in attributes.items()}


def check_attributes(attributes: Mapping[str, str]) -> None:
    """Raises ServerFault unless a topic may have all of these."""
    for name, value in attributes.items():
        _check(name, value)


def _check(name: str, value: str) -> None:
    accepts = _CHANGEABLE.get(name) or _FIXED.get(name)
    if accepts is None:
        raise ServerFault(f"There is no attribute {name!r}.", hint=f"There are: {', '.join((*_CHANGEABLE, *_FIXED))}.")
    if not accepts(value):
        raise ServerFault(f"Attribute {name!r} cannot be {value!r}.")
