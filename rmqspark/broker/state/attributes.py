"""Attributes of topics, `+message.type=FIFO,-reserve.time`, and of groups (RocketMQ's AttributeUtil, TopicAttributes,
SubscriptionGroupAttributes).

Of RocketMQ's topics, those that ask for another kind of queue (BatchCQ, COMPACTION) or delivery (LITE, PRIORITY) are
refused: stored and not honoured they would promise what is not kept. Spec: requests, section 1.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import ServerFault
from rmqspark.whole_numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MESSAGE_TYPE: Final = "message.type"
MESSAGE_TYPES: Final = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda text: text in values


def _from(lowest: int, highest: int = 2**63 - 1) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        size = whole_number(text.removeprefix("-"))
        return size is not None and lowest <= (-size if text.startswith("-") else size) <= highest

    return accepts


class _Known(NamedTuple):
    """Which attributes there are, and which values each takes. Those that are `fixed` stay as they were made."""

    changeable: Mapping[str, Callable[[str], bool]]
    fixed: Mapping[str, Callable[[str], bool]]

    def check(self, name: str, value: str) -> None:
        accepts = self.changeable.get(name) or self.fixed.get(name)
        if accepts is None:
            names = ", ".join((*self.changeable, *self.fixed))
            raise ServerFault(f"There is no attribute {name!r}.", hint=f"There are: {names}.")
        if not accepts(value):
            raise ServerFault(f"Attribute {name!r} cannot be {value!r}.")


_OF_TOPICS: Final = _Known(
    {MESSAGE_TYPE: _one_of(*MESSAGE_TYPES), "reserve.time": _from(-1)},
    {"queue.type": _one_of("SimpleCQ"), "cleanup.policy": _one_of("DELETE")},
)
_OF_GROUPS: Final = _Known(
    {
        "priority.factor": _from(0, 100),
        "lite.bind.topic": bool,
        "lite.sub.model": _one_of("Shared", "Exclusive"),
        "lite.sub.reset.offset.exclusive": _one_of("true", "false"),
        "lite.sub.reset.offset.unsubscribe": _one_of("true", "false"),
        "lite.sub.client.quota": _from(-1),
        "lite.sub.client.max.event.cnt": _from(10),
        "lite.sub.wildcard": bool,
    },
    {},
)


def change_attributes(current: Mapping[str, str], changes: str | None, *, creating: bool) -> dict[str, str]:
    """A topic's attributes after `changes`, a list of `+name=value` and `-name`. Raises ServerFault, RocketMQ's 1."""
    parts = (change.partition("=") for change in filter(None, map(str.strip, (changes or "").split(","))))
    return _changed(current, ((name, value) for name, _, value in parts), _OF_TOPICS, creating=creating)


def change_group_attributes(
    current: Mapping[str, str], changes: Mapping[str, str], *, creating: bool
) -> dict[str, str]:
    """The same of a group: values by `+name`, and anything by `-name`. They are kept, and nothing here goes by them:
    they are about POP consumers and lite topics."""
    return _changed(current, changes.items(), _OF_GROUPS, creating=creating)


def _changed(
    current: Mapping[str, str], changes: Iterable[tuple[str, str]], known: _Known, *, creating: bool
) -> dict[str, str]:
    changed = dict(current)
    seen: set[str] = set()
    for signed, value in changes:
        name = signed[1:]
        if name in seen:
            raise ServerFault(f"Attribute {name!r} is changed twice.")
        seen.add(name)
        if name in known.fixed and not creating:
            raise ServerFault(f"Attribute {name!r} can be set only when a topic is created.")
        match signed[:1]:
            case "+":
                known.check(name, value)
                changed[name] = value
            case "-" if not creating:
                if changed.pop(name, None) is None:
                    raise ServerFault(f"Attribute {name!r} is not set, so it cannot be taken away.")
            case _:
                raise ServerFault(
                    f"{signed!r} changes no attribute.", hint="Write +name=value, or -name on what exists."
                )
    return changed


def plainly(attributes: Mapping[str, str]) -> dict[str, str]:
    """Attributes by their names, where a tool has written `+name` into a whole configuration."""
    return {name.removeprefix("+"): value for name, value in attributes.items()}


def check_attributes(attributes: Mapping[str, str]) -> None:
    """Raises ServerFault unless a topic may have all of these."""
    for name, value in attributes.items():
        _OF_TOPICS.check(name, value)
